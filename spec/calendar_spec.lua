-- Schedules and time zones: when a line is due, across both changes of the clock.

local calendar = require "synod.cron.calendar"
local sh = require "spec.support.sh"
local zone = require "synod.cron.zone"

local berlin = assert(zone.open "Europe/Berlin")
local utc = assert(zone.open "UTC")

local function ms(id) return assert(calendar.instant(id)) end

--- The ids of the slots after one instant up to another.
local function slots(spec, of, from, to)
  local ids = {}
  local found = assert(calendar.parse(spec, of)):between(ms(from), ms(to), 10000)
  for i, at in ipairs(found) do ids[i] = calendar.id(at) end
  return ids
end

--- The next n slots, without year and seconds.
local function next_slots(spec, from, n, of)
  local plan, list, at = assert(calendar.parse(spec, of or utc)), {}, ms(from)
  for i = 1, n do
    at = plan:after(at)
    list[i] = calendar.id(at):match("^%d%d%d%d(%d+T%d%d%d%d)")
  end
  return table.concat(list, " ")
end

describe("a cron line", function()
  for _, case in ipairs {
    { "*/15 * * * *", "0101T0000 0101T0015 0101T0030 0101T0045" },
    { "5,50-52 3 * * *", "0101T0305 0101T0350 0101T0351 0101T0352" },
    { "7/99999999999999999999 * * * *", "0101T0007 0101T0107 0101T0207 0101T0307" },
    { "10-40/15 6 * * *", "0101T0610 0101T0625 0101T0640 0102T0610" },
    { "50/5 6 * * *", "0101T0650 0101T0655 0102T0650 0102T0655" },
    { "0 9 * * mon-wed", "0101T0900 0102T0900 0103T0900 0108T0900" }, -- 2024-01-01 is a Monday
    { "0 9 * * 7", "0107T0900 0114T0900 0121T0900 0128T0900" },
    { "0 9 * * 5-7", "0105T0900 0106T0900 0107T0900 0112T0900" },
    { "0 0 1 jan,Jul *", "0101T0000 0701T0000 0101T0000 0701T0000" },
    { "0 0 29 2 */7", "0229T0000 0229T0000 0229T0000 0229T0000" }, -- Sundays: 28 years apart
    { "0 0 13 * fri", "0105T0000 0112T0000 0113T0000 0119T0000" }, -- either
    { "0 0 31 * *", "0131T0000 0331T0000 0531T0000 0731T0000" },
    { "0 0 29 2 *", "0229T0000 0229T0000 0229T0000 0229T0000" },
    { "@hourly", "0101T0000 0101T0100 0101T0200 0101T0300" },
    { "@daily", "0101T0000 0102T0000 0103T0000 0104T0000" },
    { "@weekly", "0107T0000 0114T0000 0121T0000 0128T0000" },
    { "@monthly", "0101T0000 0201T0000 0301T0000 0401T0000" },
    { "@yearly", "0101T0000 0101T0000 0101T0000 0101T0000" },
  } do
    it(("'%s' is due when it says"):format(case[1]), function()
      assert.equal(case[2], next_slots(case[1], "20231231T235959Z", 4))
    end)
  end

  it("is refused with what is wrong", function()
    for line, why in pairs {
      ["* * * *"] = "five fields are expected", ["60 * * * *"] = "the minute '60' is not 0 to 59",
      ["* 24 * * *"] = "the hour '24' is not 0 to 23", ["* * 0 * *"] = "the day of the month '0' is not 1 to 31",
      ["* * * foo *"] = "the month 'foo' is not 1 to 12, or jan to dec", ["* * * * 8"] = "the day of the week '8'",
      ["*/0 * * * *"] = "the step in '*/0' (minute) is not above 0", ["1,,2 * * * *"] = "has an empty part",
      ["* * * * fri-mon"] = "goes backwards: write it as two", ["@reboot"] = "there is no '@reboot'",
      ["0 0 30 2 *"] = "there is no such day", ["* * L * *"] = "the day of the month 'L'", [""] = "not 0",
    } do
      local plan, err = calendar.parse(line, utc)
      assert.is_nil(plan, line)
      assert.matches(why, err, 1, true)
    end
  end)
end)

describe("seconds", function()
  it("are due at multiples since 1970, whenever one looks", function()
    local plan = assert(calendar.parse(90, utc))
    assert.equal(ms "20240101T000000Z", plan:after(ms "20231231T235959Z"))
    assert.equal(ms "20240101T000130Z", plan:after(ms "20240101T000000Z"))
    assert.equal(ms "20240101T000130Z", plan:after(ms "20240101T000129Z"))
  end)

  it("do not drift, with fractions either", function()
    local plan, at = assert(calendar.parse(1.1, utc)), 0
    for _ = 1, 100000 do at = plan:after(at) end
    assert.equal(110000000, at)
  end)

  it("are refused when they cannot be meant", function()
    for _, seconds in ipairs { 0, -1, 0.5, 1.00001, math.huge, 0 / 0, 1e12 } do
      assert.is_nil((calendar.parse(seconds, utc)))
    end
  end)

  it("say how many were left out, without going through them", function()
    local found, left_out = assert(calendar.parse(1, utc)):between(0, ms "20240101T000000Z", 3)
    assert.equal(3, #found)
    assert.equal(ms "20240101T000000Z", found[3])
    assert.equal(ms "20240101T000000Z" // 1000 - 3, left_out)
  end)
end)

describe("a line after a long absence", function()
  it("gives the last slots, and how many were left out, in a moment", function()
    local plan = assert(calendar.parse("* * * * *", berlin))
    local from, to = ms "20200101T000000Z", ms "20240101T000000Z"
    local began = os.clock()
    local found, left_out = plan:between(from, to, 10000)
    assert.is_true(os.clock() - began < 5, "one by one it is minutes")
    assert.equal(10000, #found)
    assert.equal(ms "20240101T000000Z", found[10000])
    assert.equal((to - from) // 60000, left_out + 10000)
    for i = 2, #found do assert.equal(found[i - 1] + 60000, found[i]) end
    found, left_out = plan:between(to, from, 10)
    assert.same({}, found)
    assert.equal(0, left_out)
  end)

  it("gives the same as one after the other, across changes of the clock", function()
    for _, name in ipairs {
      "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "America/Nuuk", "Asia/Kolkata",
    } do
      for _, line in ipairs { "30 2 * * *", "*/30 * * * *", "0,45 0,1,2,23 * * *", "15 1 29 2 *" } do
        local plan = assert(calendar.parse(line, assert(zone.open(name))))
        local from, to = ms "20230901T001500Z", ms "20240501T001500Z"
        local found, left_out = plan:between(from, to, 1000000)
        assert.equal(0, left_out)
        local at = from
        for _, each in ipairs(found) do
          at = plan:after(at)
          assert.equal(at, each, name .. ": " .. line)
        end
        assert.is_true(plan:after(at) > to)
      end
    end
  end)
end)

describe("where the clock is put forward", function() -- Berlin, 2024-03-31: 02:00 becomes 03:00, at 01:00 UTC
  it("a fixed time that is skipped is due at the change", function()
    assert.same({ "20240330T013000Z", "20240331T010000Z", "20240401T003000Z" },
      slots("30 2 * * *", berlin, "20240330T000000Z", "20240402T000000Z"))
  end)

  it("fixed times that are skipped together are due once", function()
    assert.same({ "20240331T010000Z" }, slots("0,20,40 2 * * *", berlin, "20240331T000000Z", "20240331T120000Z"))
    assert.same({ "20240331T010000Z" }, slots("0 2,3 * * *", berlin, "20240331T000000Z", "20240331T120000Z"))
  end)

  it("a line for every hour leaves the skipped one out", function()
    assert.same({ "20240331T003000Z", "20240331T013000Z" },
      slots("30 * * * *", berlin, "20240331T000000Z", "20240331T020000Z"))
    assert.equal(23, #slots("30 * * * *", berlin, "20240330T230000Z", "20240331T220000Z"))
    assert.equal(23 * 4, #slots("*/15 * * * *", berlin, "20240330T225959Z", "20240331T215959Z"))
  end)
end)

describe("where the clock is put back", function() -- Berlin, 2024-10-27: 03:00 becomes 02:00, at 01:00 UTC
  it("a fixed time that is repeated is due the first time", function()
    assert.same({ "20241026T003000Z", "20241027T003000Z", "20241028T013000Z" },
      slots("30 2 * * *", berlin, "20241026T000000Z", "20241029T000000Z"))
  end)

  it("a line for every hour has both", function()
    assert.same({ "20241027T003000Z", "20241027T013000Z", "20241027T023000Z" },
      slots("30 * * * *", berlin, "20241027T000000Z", "20241027T030000Z"))
    assert.equal(25 * 4, #slots("*/15 * * * *", berlin, "20241026T215959Z", "20241027T225959Z"))
  end)
end)

describe("a time zone", function()
  it("follows the rule at the file's end after its last change", function()
    assert.same({ "20990329T010000Z", "20990330T003000Z" },
      slots("30 2 * * *", berlin, "20990329T000000Z", "20990330T120000Z"))
    local lord_howe = assert(zone.open "Australia/Lord_Howe") -- changes by half an hour
    assert.equal(10.5 * 3600, lord_howe:offset(ms "20980701T000000Z" // 1000))
    assert.equal(11 * 3600, lord_howe:offset(ms "20980101T000000Z" // 1000))
    assert.equal(0, assert(zone.open "Europe/Dublin"):offset(ms "20980101T000000Z" // 1000))
  end)

  it("may leave out a whole day", function()
    local apia = assert(zone.open "Pacific/Apia") -- had no 30th of December 2011
    assert.same({ "20111229T220000Z", "20111230T100000Z", "20111230T220000Z" },
      slots("0 12 * * *", apia, "20111229T120000Z", "20111231T100000Z"))
  end)

  it("has the offsets that the system's own library has", function()
    local dates = {}
    for t = -2000000000, 4000000000, 40000003 do dates[#dates + 1] = "@" .. t end
    for _, name in ipairs { "America/New_York", "Asia/Kolkata", "Africa/Casablanca", "America/Godthab" } do
      local path = os.tmpname()
      local file = assert(io.open(path, "w"))
      file:write(table.concat(dates, "\n"), "\n")
      file:close()
      local of = assert(zone.open(name))
      local pipe <close> = assert(io.popen(("TZ=%s date -f %s '+%%s %%z'"):format(name, path)))
      local count = 0
      for t, sign, hours, minutes in pipe:read("a"):gmatch("(%-?%d+) ([+-])(%d%d)(%d%d)") do
        local expected = (hours * 3600 + minutes * 60) * (sign == "-" and -1 or 1)
        local offset = of:offset(math.tointeger(tonumber(t)))
        assert.is_true(math.abs(expected - offset) < 60, ("%s at %s: %d, not %d"):format(name, t, offset, expected))
        count = count + 1
      end
      assert.equal(#dates, count)
      os.remove(path)
    end
  end)

  it("that is missing is refused with what to do", function()
    for _, name in ipairs { "Europe/Atlantis", "../../etc/passwd", "/etc/passwd", "", "Europe" } do
      local of, err = zone.open(name)
      assert.is_nil(of, name)
      assert.equal("Usage", err.code)
    end
    assert.matches("install the time zones %(package tzdata%)", tostring(select(2, zone.open "Europe/Atlantis")))
  end)

  it("takes a damaged file for what it is", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    for name, text in pairs { Empty = "", Text = "hello", Short = "TZif2" .. ("\0"):rep(15) .. ("\1"):rep(24) } do
      local file = assert(io.open(folder .. "/" .. name, "wb"))
      file:write(text)
      file:close()
      local script = ("print(require('synod.cron.zone').open '%s')"):format(name)
      local output = sh.run(([[printf %%s "%s" > "$DIR/s.lua"; "$SYNOD" "$DIR/s.lua"]]):format(script),
        { dir = folder, env = { TZDIR = folder } })
      assert.matches("cannot be read", output, 1, true)
    end
    os.execute("rm -rf " .. folder)
  end)
end)

describe("an id", function()
  it("is the nominal instant in UTC, and in the order of time", function()
    assert.equal("20240101T000000Z", calendar.id(1704067200000))
    assert.equal("20240101T000000.250Z", calendar.id(1704067200250))
    for _, at in ipairs { 0, 1704067200000, 1704067200001, 4102444799999 } do
      assert.equal(at, calendar.instant(calendar.id(at)))
    end
    assert.is_nil(calendar.instant "yesterday")
  end)

  it("counts days as the calendar does", function()
    local day = zone.day(1999, 12, 28)
    for _, expected in ipairs { "1999-12-28 2", "1999-12-29 3", "1999-12-30 4", "1999-12-31 5", "2000-01-01 6" } do
      assert.equal(expected, ("%04d-%02d-%02d %d"):format(zone.date(day)))
      day = day + 1
    end
    assert.same({ 2000, 2, 29, 2 }, { zone.date(zone.day(2000, 2, 29)) })
    assert.same({ 2100, 3, 1, 1 }, { zone.date(zone.day(2100, 2, 28) + 1) })
  end)
end)
