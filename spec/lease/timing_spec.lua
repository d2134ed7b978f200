-- The arithmetic of leases: each row is a ttl and the instants that follow, in seconds after the sending of the last
-- renewal that was confirmed.

local core = require "synod.core"

local function times(...)
  local arguments = table.pack(...)
  return core.main(function() return core.lease_timing(table.unpack(arguments, 1, arguments.n)) end,
    { clock = "virtual", seed = 1 })
end

local CASES = {
  -- ttl, renew, try, soft, hard
  { 15, 5, 3, 11.75, 12.75 }, -- 15 - 1 % - 2 (a request's life) - 0.1 (slice), and 1 s of grace before
  { 30, 10, 3, 26.6, 27.6 },
  { 60, 20, 3, 56.3, 57.3 },
  { 14.9, 14.9 / 3, 2.98, 14.9 * 0.99 - 14.9 / 8 - 0.025 - 1, 14.9 * 0.99 - 14.9 / 8 - 0.025 },
  { 5, 5 / 3, 1, 3.8, 4.3 },
  { 2, 2 / 3, 0.4, 1.505, 1.705 },
  { 1.5, 0.5, 0.3, 1.1225, 1.2725 },
  { 0.5, 0.5 / 3, 0.1, 0.3575, 0.4075 },
}

describe("the instants of a lease", function()
  for _, case in ipairs(CASES) do
    local ttl, renew, try, soft, hard = table.unpack(case)
    it(("of %g s are as the contract says"):format(ttl), function()
      local t = assert(times(ttl))
      for name, expected in next, { renew = renew, try = try, soft = soft, hard = hard } do
        assert.near(expected, t[name], 1e-8, name)
      end
    end)
  end

  it("are in order, with room for an attempt before the stop, whatever the ttl", function()
    for tenths = 5, 149 do
      local t = assert(times(tenths / 10))
      assert.is_true(t.renew + t.try <= t.soft and t.soft < t.hard and t.hard < t.ttl * 0.99, "ttl " .. t.ttl)
    end
    for ttl = 15, 60 do
      local t = assert(times(ttl))
      assert.is_true(t.renew + 2 * t.try <= t.soft and t.hard + 2.1 <= ttl * 0.99 + 1e-9, "ttl " .. ttl)
    end
  end)
end)

describe("settings that do not fit are refused with the arithmetic", function()
  local REFUSED = {
    { "a ttl below the shortest record", { 0.4 }, "0.5 to below 15 s" },
    { "a ttl of nothing", { 0 }, "a ttl of 0 s is not possible" },
    { "a ttl above the service's longest", { 61 }, "15 to 60 whole seconds" },
    { "a lease of the service with a fraction", { 15.5 }, "a ttl of 15.5 s" },
    { "a ttl without end", { math.huge }, "is not possible" },
    { "a renewal that comes after the stop", { 15, 12 }, "12 + 3 = 15" },
    { "the same, with what is taken off", { 15, 12 },
      "15 - 0.15 (clock rates) - 2 (a request's life) - 0.1 (slice) - 1 (grace) = 11.75 s" },
    { "an attempt that outlasts the stop", { 2, 0.5, 1.2 }, "0.5 + 1.2 = 1.7" },
    { "an attempt too short for any answer", { 15, 5, 0.001 }, "an attempt needs 0.01 s at least" },
  }
  for _, case in ipairs(REFUSED) do
    it(case[1], function()
      local t, why = times(table.unpack(case[2]))
      assert.is_nil(t)
      assert.matches(case[3], why, 1, true)
    end)
  end

  it("and such that do are taken", function()
    assert.equal(8.75, assert(times(15, 8.75)).renew) -- 8.75 + 3 = 11.75: just
    assert.is_nil((times(15, 8.76)))
    assert.equal(1, assert(times(15, nil, 1)).try)
  end)
end)
