-- Options of a policy: read where the policy is made, and refused at the line of the script that made it.
--
--   local o = options.read("backoff.new", given, { min = "positive", jitter = "boolean" })
--   if o.max < o.min then options.refuse("backoff.new: max (%g) is below min (%g)", o.max, o.min) end
--
-- Both are called by the function that the script calls, directly: they look for the line two calls up. A refusal is
-- an err table with the code Usage, with which a command ends with exit code 2.

local core = require "synod.core"

local options = {}

local CALLER = 3 -- of the policy's function, seen from a function of this file

local function is_number(value)
  return type(value) == "number" and value == value and value < math.huge
end

--- Kind -> what is right, and how it is called.
local KINDS = {
  string = { function(v) return type(v) == "string" and v ~= "" end, "a string that is not empty" },
  boolean = { function(v) return type(v) == "boolean" end, "true or false" },
  table = { function(v) return type(v) == "table" end, "a table" },
  any = { function() return true end, "anything" },
  callable = { function(v) return type(v) == "function" end, "a function" },
  store = { function(v) return type(v) == "table" or type(v) == "userdata" end, "a store" },
  seconds = { function(v) return is_number(v) and v >= 0 end, "a number of seconds, 0 or more" },
  positive = { function(v) return is_number(v) and v > 0 end, "a number of seconds above 0" },
  factor = { function(v) return is_number(v) and v >= 1 end, "a number from 1 on" },
  count = { function(v) return math.type(v) == "integer" and v >= 1 end, "a whole number from 1 on" },
  label = {
    function(v)
      return math.type(v) == "integer" and v >= 0
        or type(v) == "string" and #v <= 200 and v:find("^[%w_-]+$") ~= nil
    end,
    "letters, digits, '_' and '-', at most 200 (or a whole number)",
  },
}

local function refuse(level, message, ...)
  local at = debug.getinfo(level + 1, "Sl")
  local line = at and at.currentline > 0 and ("%s:%d: "):format(at.short_src, at.currentline) or ""
  error(core.new_error { code = "Usage", message = line .. message:format(...) }, 0)
end

--- Raises a refusal at the line that called the policy's function.
---@param message string  a format
---@param ... any
function options.refuse(message, ...)
  refuse(CALLER, message, ...)
end

--- What a refusal says, to be said in another one.
---@param err any
---@return string
function options.words_of(err)
  return (tostring(err):gsub(" %(Usage%)$", ""))
end

local function shown(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) == "number" then return ("%.14g"):format(value) end
  return type(value)
end

local function names_of(kinds)
  local names = {}
  for name in next, kinds do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

--- A copy of the options given, each of the right kind; raises a refusal else.
---@param call string                  what the script called, for the message
---@param given table|nil
---@param kinds table<string, string>  the options known, and their kinds
---@return table
function options.read(call, given, kinds)
  if given ~= nil and type(given) ~= "table" then
    refuse(CALLER, "%s: a table of options expected, got %s", call, shown(given))
  end
  local read = {}
  for name, value in next, given or {} do
    local kind = KINDS[kinds[name]]
    if not kind then refuse(CALLER, "%s: unknown option %s; it takes %s", call, shown(name), names_of(kinds)) end
    if not kind[1](value) then
      refuse(CALLER, "%s: option '%s' must be %s, got %s", call, name, kind[2], shown(value))
    end
    read[name] = value
  end
  return read
end

--- Raises what is wrong with the options of a call on a blob or container that a module makes for the script, at the
--- script's line: the core would name the module's.
---@param place synod.Blob|synod.Container  of a container: "lease"
---@param kind "put"|"read"|"write"|"copy"|"lease"
---@param call string  the method that the script calls
---@param given any
---@param level? integer  of the script, seen from this function (3)
function options.check_call(place, kind, call, given, level)
  level = level or CALLER
  if given ~= nil and type(given) ~= "table" then
    error(("bad argument to '%s' (a table of options expected, got %s)"):format(call, type(given)), level)
  end
  local ok, problem = pcall(core.call_check, place, kind, given)
  if not ok then error(problem, level) end
end

return options
