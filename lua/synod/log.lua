-- synod.log: structured log lines on standard error.
--
-- A log call never waits and never fails the script: what cannot be shown is shown as what it is, and lines for which
-- there is no room (nobody reads standard error) are dropped, counted, and reported by the next line that finds room.

local core = require "synod.core"

local log = {}

local DEPTH_MAX = 4    -- of tables in tables
local ENTRIES_MAX = 64 -- of one table
local VALUES_MAX = 1 << 15 -- of all tables of a field: more than a line has room for

local function text_of(value)
  local ok, text = pcall(tostring, value)
  return ok and text or ("a %s that cannot be shown"):format(type(value))
end

local function number_text(value)
  if math.type(value) == "integer" then return ("%d"):format(value), true end
  if value ~= value or value == math.huge or value == -math.huge then return tostring(value), false end
  local text = ("%.14g"):format(value)
  return tonumber(text) == value and text or ("%.17g"):format(value), true
end

--- Names in an order that does not depend on the machine.
local function sorted_names(t)
  local names, by_name = {}, {}
  for key, value in next, t do
    local name = text_of(key)
    names[#names + 1], by_name[name] = name, value
  end
  table.sort(names)
  return names, by_name
end

local json

local function json_list(t, depth, room)
  local parts = {}
  for i = 1, math.min(#t, ENTRIES_MAX) do parts[i] = json(rawget(t, i), depth, room) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function json_object(t, depth, room)
  local parts = {}
  local names, values = sorted_names(t)
  for i = 1, math.min(#names, ENTRIES_MAX) do
    parts[i] = core.log_quote(names[i]) .. ":" .. json(values[names[i]], depth, room)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function has_text(value)
  local meta = getmetatable(value)
  return type(meta) == "table" and meta.__tostring ~= nil
end

--- `room.left` is how many values more are shown: tables may hold each other many times.
function json(value, depth, room)
  room.left = room.left - 1
  if type(value) == "number" then
    local text, plain = number_text(value)
    return plain and text or core.log_quote(text)
  end
  if type(value) == "boolean" or value == nil then return tostring(value) end
  if type(value) ~= "table" or has_text(value) then return core.log_quote(text_of(value)) end
  if depth >= DEPTH_MAX or room.left < 0 then return "\"...\"" end
  return (rawlen(value) > 0 and json_list or json_object)(value, depth + 1, room)
end

--- The fields as core.log_write takes them: name, value, whether the value is shown as it stands.
local function flatten(fields)
  local flat = {}
  local names, values = sorted_names(fields)
  for i = 1, math.min(#names, ENTRIES_MAX) do
    local value = values[names[i]]
    local text, plain
    if type(value) == "string" then
      text, plain = value, false
    elseif type(value) == "number" then
      text, plain = number_text(value)
    elseif type(value) == "table" and has_text(value) then
      text, plain = text_of(value), false
    elseif type(value) == "table" or type(value) == "boolean" then
      text, plain = json(value, 0, { left = VALUES_MAX }), true
    else
      text, plain = text_of(value), false
    end
    table.move({ names[i], text, plain }, 1, 3, #flat + 1, flat)
  end
  return flat
end

local function write(level, message, fields)
  if type(fields) ~= "table" then fields = fields ~= nil and { value = fields } or {} end
  core.log_write(level, text_of(message), flatten(fields))
end

local function at(level)
  return function(message, fields)
    if not core.log_shows(level) then return end
    local ok, problem = pcall(write, level, message, fields)
    if not ok then pcall(core.log_write, "error", "a log call failed: " .. text_of(problem), {}) end
  end
end

---@alias synod.log.Call fun(message: any, fields?: table)

---@type synod.log.Call
log.debug = at("debug")
---@type synod.log.Call
log.info = at("info")
---@type synod.log.Call
log.warn = at("warn")
---@type synod.log.Call
log.error = at("error")

---@class synod.log.Options
---@field format? "text"|"json"
---@field level? "debug"|"info"|"warn"|"error"  what is below it is not shown
---@field instance? string                      who says so

--- For the program's options; what is not named stays as it is.
---@param options synod.log.Options
function log.configure(options)
  core.log_configure(options)
end

return log
