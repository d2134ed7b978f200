-- zone: time zones, from the files of the IANA database (TZif, RFC 8536).
--
--   local berlin, err = zone.open "Europe/Berlin"
--   local offset = berlin:offset(t)                    seconds east of Greenwich at an instant
--   local instants = berlin:instants(days, seconds)    of a local time: one, none (skipped) or two (repeated)
--
-- Instants are whole seconds since 1970; a local time is a day since 1970-01-01 and the seconds on its clock. What
-- comes after the last change in the file follows the rule at the file's end, as "CET-1CEST,M3.5.0,M10.5.0/3".

local core = require "synod.core"

local zone = {}

local FOLDERS = { "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo" }
local FILE_MAX = 256 * 1024
local DAY = 24 * 3600

---@class synod.Zone
---@field name string
---@field at integer[]       instants of changes
---@field offsets integer[]  after each of them
---@field first integer      the offset before all of them
---@field rule? table        after the last of them
local Zone = {}
Zone.__index = Zone

---------------------------------------------------------------- days

--- The number of a day since 1970-01-01, by the proleptic Gregorian calendar.
---@param y integer
---@param m integer  1 to 12
---@param d integer
---@return integer
function zone.day(y, m, d)
  y = m <= 2 and y - 1 or y
  local era = y // 400
  local year_of_era = y - era * 400
  local day_of_year = (153 * ((m + 9) % 12) + 2) // 5 + d - 1
  return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468
end

--- Year, month, day, and day of the week (0: Sunday) of a day's number.
---@param day integer
---@return integer year, integer month, integer day, integer weekday
function zone.date(day)
  local z = day + 719468
  local era = z // 146097
  local of_era = z - era * 146097
  local year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
  local of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
  local shifted = (5 * of_year + 2) // 153
  local month = shifted < 10 and shifted + 3 or shifted - 9
  return year_of_era + era * 400 + (month <= 2 and 1 or 0), month, of_year - (153 * shifted + 2) // 5 + 1, (day + 4) % 7
end

---------------------------------------------------------------- the rule at the end

--- A reader that takes what a pattern matches off the front of the text.
local function taker(text)
  local at = 1
  return function(pattern)
    local from, to, first, second, third = text:find("^" .. pattern, at)
    if not from then return nil end
    at = to + 1
    return first or text:sub(from, to), second, third
  end
end

--- [+-]hh[:mm[:ss]] as seconds.
local function read_time(take)
  local sign, hours = take "([+-]?)(%d+)"
  if not hours then return nil end
  local minutes = take ":(%d+)"
  local seconds = minutes and take ":(%d+)"
  local total = tonumber(hours) * 3600 + (tonumber(minutes) or 0) * 60 + (tonumber(seconds) or 0)
  return math.tointeger(sign == "-" and -total or total)
end

--- When a rule changes the clock: Mm.w.d, Jn or n, and the time of the day.
local function read_change(take)
  local change
  local month, week, weekday = take ",M(%d+)%.(%d)%.(%d)"
  if month then
    change = { month = math.tointeger(month), week = math.tointeger(week), weekday = math.tointeger(weekday) }
  else
    local julian, day = take ",(J?)(%d+)"
    if not day then return nil end
    change = { julian = julian == "J", day = math.tointeger(day) }
  end
  change.time = take "/" and read_time(take) or 2 * 3600
  return change
end

--- Nothing for a text that is none.
local function read_rule(text)
  local take = taker(text)
  if not (take "<[^>]+>" or take "%a+") then return nil end
  local west = read_time(take)
  if not west then return nil end
  local rule = { offset = -west }
  if not (take "<[^>]+>" or take "%a+") then return rule end
  local summer = read_time(take)
  rule.summer = summer and -summer or rule.offset + 3600
  rule.from, rule.to = read_change(take), read_change(take)
  return rule.from and rule.to and rule or nil
end

local function is_leap(y)
  return y % 4 == 0 and (y % 100 ~= 0 or y % 400 == 0)
end

--- The seconds of the local clock, since 1970, at which a change of this year comes.
local function change_at(change, y)
  if change.day then
    local day = zone.day(y, 1, 1) + change.day
    if change.julian and not (is_leap(y) and change.day >= 60) then day = day - 1 end
    return day * DAY + change.time
  end
  local first = zone.day(y, change.month, 1)
  local day = first + (change.weekday - (first + 4)) % 7 + (change.week - 1) * 7
  local next_y, next_m = change.month == 12 and y + 1 or y, change.month % 12 + 1
  while day >= zone.day(next_y, next_m, 1) do day = day - 7 end
  return day * DAY + change.time
end

local function offset_by_rule(rule, t)
  if not rule.summer then return rule.offset end
  local y = zone.date((t + rule.offset) // DAY)
  local from, to = change_at(rule.from, y) - rule.offset, change_at(rule.to, y) - rule.summer
  local is_summer
  if from < to then is_summer = t >= from and t < to else is_summer = t >= from or t < to end
  return is_summer and rule.summer or rule.offset
end

---------------------------------------------------------------- the file

local HEADER = ">c4 c1 c15 I4 I4 I4 I4 I4 I4"
local HEADER_BYTES = 44

--- The header at `at`, and where its block ends.
local function read_header(text, at, time_bytes)
  local magic, version, _, utc, std, leaps, times, types, chars = HEADER:unpack(text, at)
  if magic ~= "TZif" then return nil end
  local size = times * (time_bytes + 1) + types * 6 + chars + leaps * (time_bytes + 4) + std + utc
  return { version = version, times = times, types = types, from = at + HEADER_BYTES, to = at + HEADER_BYTES + size }
end

local function parse(text)
  local header = read_header(text, 1, 4)
  if not header then return nil, "it is no file of time zones" end
  local bytes, rule = 4, nil
  if header.version ~= "\0" then
    header, bytes = read_header(text, header.to, 8), 8
    rule = text:match("^\n([^\n]*)\n", header.to)
  end
  local at, offsets, form = {}, {}, bytes == 8 and ">i8" or ">i4"
  local indexes = header.from + header.times * bytes
  local types = indexes + header.times
  local function offset_of(index) return (">i4"):unpack(text, types + index * 6) end
  for i = 1, header.times do
    at[i] = form:unpack(text, header.from + (i - 1) * bytes)
    offsets[i] = offset_of(text:byte(indexes + i - 1))
  end
  return { at = at, offsets = offsets, first = offset_of(0), rule = rule and read_rule(rule) }
end

local function refusal(name, why)
  return core.new_error {
    code = "Usage", operation = "read", target = ("the time zone '%s'"):format(name), message = why,
  }
end

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text, err = file:read(FILE_MAX)
  file:close()
  return text or not err and "" or nil -- a folder cannot be read
end

--- Opens a zone by its name in the IANA database, such as "Europe/Berlin". "UTC" needs no file.
---@param name string
---@return synod.Zone|nil, synod.Error? err
function zone.open(name)
  if type(name) ~= "string" or not name:find("^[%w_+/-]+$") or name:find("^/") then
    return nil, refusal(tostring(name), "a name such as \"Europe/Berlin\" or \"UTC\" is expected")
  end
  if name == "UTC" then return setmetatable({ name = name, at = {}, offsets = {}, first = 0 }, Zone) end
  local own = os.getenv "TZDIR"
  for _, folder in ipairs { own and own ~= "" and own or FOLDERS[1], table.unpack(FOLDERS) } do
    local text = read(folder .. "/" .. name)
    if text then
      local ok, parsed, why = pcall(parse, text)
      if ok and parsed then
        parsed.name = name
        return setmetatable(parsed, Zone)
      end
      return nil, refusal(name, ("%s/%s cannot be read: %s"):format(folder, name, ok and why or "it is damaged"))
    end
  end
  return nil, refusal(name, ("there is no file %s/%s: check the name, or install the time zones (package tzdata), or "
    .. "set TZDIR to their folder"):format(FOLDERS[1], name))
end

---------------------------------------------------------------- instants and local times

--- Seconds east of Greenwich at an instant.
---@param t integer
---@return integer
function Zone:offset(t)
  local at = self.at
  if #at == 0 or t < at[1] then return #at == 0 and self.rule and offset_by_rule(self.rule, t) or self.first end
  if t >= at[#at] and self.rule then return offset_by_rule(self.rule, t) end
  local low, high = 1, #at
  while low < high do
    local middle = (low + high + 1) // 2
    if at[middle] <= t then low = middle else high = middle - 1 end
  end
  return self.offsets[low]
end

--- The day and the seconds on the local clock at an instant.
---@param t integer
---@return integer day, integer seconds
function Zone:clock(t)
  local there = t + self:offset(t)
  return there // DAY, there % DAY
end

--- The instants at which the local clock shows this: none when the clock was put forward over it, two when it was put
--- back; in order.
---@param day integer
---@param seconds integer
---@return integer[]
function Zone:instants(day, seconds)
  local there, found = day * DAY + seconds, {}
  local before, after = self:offset(there - DAY), self:offset(there + DAY)
  for _, offset in ipairs { math.max(before, after), math.min(before, after) } do
    local t = there - offset
    if self:offset(t) == offset and found[#found] ~= t then found[#found + 1] = t end
  end
  return found
end

--- The instant at which the clock was put forward over a local time that it never showed.
---@param day integer
---@param seconds integer
---@return integer
function Zone:jump(day, seconds)
  local there = day * DAY + seconds
  local before = self:offset(there - DAY)
  local low, high = there - self:offset(there + DAY), there - before -- low is before the jump, high is not
  while high - low > 1 do
    local middle = (low + high) // 2
    if self:offset(middle) == before then low = middle else high = middle end
  end
  return high
end

return zone
