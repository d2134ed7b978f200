-- What is said when a run fails: the error, the script's own traceback, and the exit code.

local EXIT_CODES = {
  Usage = 2,
  Unreachable = 3, BadAnswer = 3, Unauthorized = 3, AuthenticationFailed = 3,
  StoreCorrupt = 3, StoreFull = 3, StoreReadOnly = 3, StoreForeign = 3, StoreRemote = 3, StoreGone = 3,
  NewerVersion = 3,
  Timeout = 4,
  LeaseLost = 5, Fenced = 5, FenceRegressed = 5,
}

local FIELDS_SHOWN = 8

--- The first fields, by name, of a table that does not say what it is.
local function contents(t)
  local parts = {}
  for key, value in next, t do
    if type(value) == "string" then value = ("%q"):format(value) end
    parts[#parts + 1] = ("%s = %s"):format(tostring(key), tostring(value))
  end
  table.sort(parts)
  local more = #parts > FIELDS_SHOWN and ", ..." or ""
  return "{" .. table.concat(parts, ", ", 1, math.min(#parts, FIELDS_SHOWN)) .. more .. "}"
end

local function text_of(err)
  if type(err) == "string" or type(err) == "number" then return tostring(err) end
  if err == nil then return "the script raised an error without a value: error(nil)" end
  local meta = getmetatable(err)
  if type(meta) == "table" and meta.__tostring then
    local ok, text = pcall(tostring, err)
    if ok then return text end
    return "the error object's __tostring failed: " .. tostring(text)
  end
  if type(err) ~= "table" then return "the error object is a " .. type(err) end
  if type(err.message) == "string" then
    return type(err.code) == "string" and ("%s (%s)"):format(err.message, err.code) or err.message
  end
  return "the error object is a table: " .. contents(err)
end

local NOISE = { "^%[C%]", "^%(%.%.%.tail calls%.%.%.%)", "lua/cli/", "lua/synod/loader.lua" }

local function is_noise(frame)
  for _, pattern in ipairs(NOISE) do
    if frame:find(pattern) then return true end
  end
  return false
end

--- Keeps the frames of scripts and of the policy library; leaves out C, the commands and what called them.
local function own_frames(traceback)
  local frames = {}
  for line in (traceback or ""):gmatch("[^\n]+") do
    if line:find "^while cleaning up after: " or line:find "^and then, in another task: " then
      frames[#frames + 1] = "  " .. line
    end
    local frame = line:match("^%s+(.+)$")
    if frame and not is_noise(frame) then
      frames[#frames + 1] = "  at " .. frame:gsub("in local 'chunk'$", "in the script's main part")
    end
  end
  return frames
end

--- What to do, where the error does not say it.
local function advice(text)
  if text:find("not enough memory", 1, true) then
    return "  the script used all the memory it may: raise --memory-limit, or look for a table that only grows"
  end
end

local function as_text(text, frames)
  local lines = { "synod: " .. text }
  lines[#lines + 1] = advice(text)
  table.move(frames, 1, #frames, #lines + 1, lines)
  return table.concat(lines, "\n") .. "\n"
end

--- The same form as that of a log line.
local function as_json(text, frames, process)
  local core = require "synod.core"
  local quote = core.log_quote
  return ('{"time":"%s","level":"error","instance":%s,"task":"main","message":%s,"fields":{"traceback":%s}}\n'):format(
    core.log_time(), quote(process.instance), quote(text), quote(table.concat(frames, "\n")))
end

---@param err any
---@param traceback string|nil
---@return string text, integer|nil exit_code
local function failure(err, traceback)
  local process = require "cli.process"
  local text, frames = require("cli.redact")(text_of(err)), own_frames(traceback)
  local code = type(err) == "table" and EXIT_CODES[err.code] or nil
  if process.log_format == "json" then return as_json(text, frames, process), code end
  return as_text(text, frames), code
end

return failure
