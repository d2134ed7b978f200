-- calendar: when a schedule is due.
--
--   local plan = assert(calendar.parse("30 2 * * mon-fri", berlin))
--   local at = plan:after(now)            the next instant, in milliseconds since 1970
--
-- A plan is a line of five fields (minute, hour, day of the month, month, day of the week), one of the words @hourly,
-- @daily, ..., or a number of seconds. Instants are whole milliseconds, found by integer arithmetic alone, so that any
-- two machines find the same ones.
--
-- Where the clock is put forward or back: a line whose hour is "*" or "*/n" goes by what the clock shows, minute by
-- minute: it leaves out what is skipped and repeats what is repeated. Any other line is due once for each of its times:
-- one that is skipped at the instant of the change, one that is repeated the first time.

local zone = require "synod.cron.zone"

local calendar = {}

local DAYS_MAX = 366 * 41 -- looked ahead: from one 29th of February on a Sunday to the next it can be forty years
local DAY = 24 * 3600

local MONTHS = { "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec" }
local WEEKDAYS = { [0] = "sun", "mon", "tue", "wed", "thu", "fri", "sat" }

local WORDS = {
  ["@yearly"] = "0 0 1 1 *", ["@annually"] = "0 0 1 1 *", ["@monthly"] = "0 0 1 * *", ["@weekly"] = "0 0 * * 0",
  ["@daily"] = "0 0 * * *", ["@midnight"] = "0 0 * * *", ["@hourly"] = "0 * * * *",
}

local FIELDS = {
  { name = "minute", min = 0, max = 59 },
  { name = "hour", min = 0, max = 23 },
  { name = "day of the month", min = 1, max = 31 },
  { name = "month", min = 1, max = 12, names = MONTHS },
  { name = "day of the week", min = 0, max = 7, names = WEEKDAYS },
}

---@class synod.Plan
---@field period? integer  milliseconds, of seconds
---@field zone synod.Zone
local Plan = {}
Plan.__index = Plan

---------------------------------------------------------------- reading

local function number_of(field, text)
  local n = math.tointeger(tonumber(text:match("^%d+$")))
  for i, name in next, field.names or {} do
    if text:lower() == name then n = i end
  end
  if n and n >= field.min and n <= field.max then return n end
  local list = field.names
  local names = list and (", or %s to %s"):format(list[0] or list[1], list[#list]) or ""
  error({ plan = ("the %s '%s' is not %d to %d%s"):format(field.name, text, field.min, field.max, names) }, 0)
end

--- One part of a list: *, n, n-m, each with /step.
local function read_part(field, part, set)
  local range, step = part:match("^([^/]+)/(%d+)$")
  local every = math.tointeger(tonumber(step or 1)) or math.maxinteger
  range = range or part
  if every < 1 then error({ plan = ("the step in '%s' (%s) is not above 0"):format(part, field.name) }, 0) end
  local from, to = range:match("^(%w+)-(%w+)$")
  if range == "*" then
    from, to = field.min, field.max == 7 and 6 or field.max
  elseif from then
    from, to = number_of(field, from), number_of(field, to)
    if from > to then
      error({ plan = ("the range '%s' (%s) goes backwards: write it as two"):format(part, field.name) }, 0)
    end
  else
    from = number_of(field, range)
    to = step and field.max or from
  end
  for n = from, to, every do set[field.max == 7 and n % 7 or n] = true end
end

local function read_field(field, text)
  local set = {}
  for part in (text .. ","):gmatch("([^,]*),") do
    if part == "" then error({ plan = ("the %s '%s' has an empty part"):format(field.name, text) }, 0) end
    read_part(field, part, set)
  end
  return set
end

local function in_order(set)
  local list = {}
  for n in next, set do list[#list + 1] = n end
  table.sort(list)
  return list
end

local function read_line(line)
  if line:find("^@") then
    local meant = WORDS[line:lower()]
    if not meant then
      error({ plan = ("there is no '%s': @hourly, @daily, @weekly, @monthly and @yearly are known"):format(line) }, 0)
    end
    line = meant
  end
  local texts = {}
  for text in line:gmatch("%S+") do texts[#texts + 1] = text end
  if #texts ~= #FIELDS then
    error({ plan = ("five fields are expected (minute, hour, day of the month, month, day of the week), not %d"):format(
      #texts) }, 0)
  end
  local sets = {}
  for i, field in ipairs(FIELDS) do sets[i] = read_field(field, texts[i]) end
  return {
    minutes = in_order(sets[1]), hours = in_order(sets[2]), days = sets[3], months = sets[4], weekdays = sets[5],
    by_clock = texts[2]:find("^%*") ~= nil,
    any_day = texts[3]:find("^%*") ~= nil, any_weekday = texts[5]:find("^%*") ~= nil,
  }
end

local function of_seconds(seconds)
  local period = math.floor(seconds * 1000 + 0.5)
  if not (seconds >= 1) or math.abs(seconds * 1000 - period) > 1e-6 or period > 366 * 24 * 3600 * 1000 then
    return nil, "seconds are a number from 1 to a year, with at most three digits behind the point"
  end
  return setmetatable({ period = period, text = ("%g s"):format(seconds) }, Plan)
end

--- Reads a schedule.
---@param spec string|number  a line of five fields, a word such as "@daily", or seconds
---@param of synod.Zone       where the clock hangs that a line goes by
---@return synod.Plan|nil, string|nil why
function calendar.parse(spec, of)
  if type(spec) == "number" then return of_seconds(spec) end
  if type(spec) ~= "string" then
    return nil, ("a cron line or a number of seconds is expected, not a %s"):format(type(spec))
  end
  local ok, plan = pcall(read_line, spec)
  if not ok then
    if type(plan) == "table" and plan.plan then return nil, ("'%s': %s"):format(spec, plan.plan) end
    error(plan, 0)
  end
  plan.zone, plan.text, plan.kept = of, spec, {}
  setmetatable(plan, Plan)
  if not plan:after(0) then return nil, ("'%s': there is no such day"):format(spec) end
  return plan
end

---------------------------------------------------------------- slots

--- Whether a day has slots at all. Days of the month and of the week, when both are given, are alternatives.
local function is_due_on(plan, day)
  local _, month, of_month, weekday = zone.date(day)
  if not plan.months[month] then return false end
  if plan.any_day or plan.any_weekday then return plan.days[of_month] and plan.weekdays[weekday] or false end
  return plan.days[of_month] or plan.weekdays[weekday] or false
end

--- The instants of one time of a day, in seconds.
local function instants_of(plan, day, seconds)
  local found = plan.zone:instants(day, seconds)
  if plan.by_clock then return found end
  return { found[1] or plan.zone:jump(day, seconds) }
end

--- The slots of a day on which the clock is put forward or back, or may be.
local function slots_of_change(plan, day)
  local slots, seen = {}, {}
  for _, hour in ipairs(plan.hours) do
    for _, minute in ipairs(plan.minutes) do
      for _, t in ipairs(instants_of(plan, day, hour * 3600 + minute * 60)) do
        if not seen[t] then seen[t], slots[#slots + 1] = true, t end
      end
    end
  end
  table.sort(slots)
  return slots
end

--- The slots of any other day.
local function slots_of_plain(plan, start)
  local slots = {}
  for _, hour in ipairs(plan.hours) do
    for _, minute in ipairs(plan.minutes) do slots[#slots + 1] = start + hour * 3600 + minute * 60 end
  end
  return slots
end

--- All slots of a local day, in order, in seconds.
local function slots_of(plan, day)
  local kept = plan.kept[day]
  if kept then return kept end
  local slots = {}
  if is_due_on(plan, day) then
    local offset = plan.zone:offset((day - 1) * DAY)
    local is_plain = offset == plan.zone:offset((day + 2) * DAY) -- there are weeks from one change to the next
    slots = is_plain and slots_of_plain(plan, day * DAY - offset) or slots_of_change(plan, day)
  end
  plan.kept[day], plan.kept[day - 2], plan.kept[day + 2] = slots, nil, nil
  return slots
end

--- The first slot after an instant. Nil: there is none within forty years.
---@param ms integer  milliseconds since 1970
---@return integer|nil ms
function Plan:after(ms)
  if self.period then return (ms // self.period + 1) * self.period end
  local t = ms // 1000
  local first = self.zone:clock(t) - 1 -- a slot moved over a change may fall on the day after
  for day = first, first + DAYS_MAX do
    local slots = slots_of(self, day)
    if slots[1] and slots[#slots] > t then
      for _, slot in ipairs(slots) do
        if slot > t then return slot * 1000 end
      end
    end
  end
end

--- The slots after one instant up to another: the last `limit` of them.
---@param from integer  milliseconds
---@param to integer
---@param limit integer
---@return integer[] slots, integer left_out  how many before them
function Plan:between(from, to, limit)
  if to <= from then return {}, 0 end
  local slots, count = {}, 0
  if self.period then -- not one by one: there may be millions
    local first, last = from // self.period + 1, to // self.period
    count = last - first + 1
    for n = math.max(first, last - limit + 1), last do slots[#slots + 1] = n * self.period end
    return slots, count - #slots
  end
  local ring, last, stop = {}, from // 1000, to // 1000
  for day = self.zone:clock(last) - 1, self.zone:clock(stop) + 1 do
    for _, slot in ipairs(slots_of(self, day)) do
      if slot > last and slot <= stop then
        ring[count % limit], last, count = slot * 1000, slot, count + 1
      end
    end
  end
  for n = math.max(0, count - limit), count - 1 do slots[#slots + 1] = ring[n % limit] end
  return slots, count - #slots
end

--- A slot's id: its nominal instant in UTC, so that ids are in the order of time.
---@param ms integer
---@return string  "20240331T010000Z", with milliseconds where it has any
function calendar.id(ms)
  local seconds = ms // 1000
  local y, m, d = zone.date(seconds // 86400)
  local rest = seconds % 86400
  local fraction = ms % 1000 > 0 and (".%03d"):format(ms % 1000) or ""
  return ("%04d%02d%02dT%02d%02d%02d%sZ"):format(y, m, d, rest // 3600, rest // 60 % 60, rest % 60, fraction)
end

--- The instant of an id; nil for what is none.
---@param id string
---@return integer|nil ms
function calendar.instant(id)
  local y, m, d, hour, minute, second, ms = id:match("^(%d%d%d%d)(%d%d)(%d%d)T(%d%d)(%d%d)(%d%d)%.?(%d*)Z$")
  if not y then return nil end
  local day = zone.day(math.tointeger(y), math.tointeger(m), math.tointeger(d))
  local seconds = day * 86400 + math.tointeger(hour) * 3600 + math.tointeger(minute) * 60 + math.tointeger(second)
  return seconds * 1000 + (math.tointeger(tonumber(ms)) or 0)
end

return calendar
