-- What is said when a run fails: the error, the script's own traceback, and the exit code.

local EXIT_CODES = {
  Usage = 2,
  Unreachable = 3, Unauthorized = 3, AuthenticationFailed = 3, StoreCorrupt = 3, StoreFull = 3, StoreReadOnly = 3,
  StoreForeign = 3, StoreRemote = 3, StoreGone = 3, NewerVersion = 3,
  Timeout = 4,
  LeaseLost = 5, Fenced = 5, FenceRegressed = 5,
}

local FIELDS_SHOWN = 8

--- Some fields of a table that does not say what it is.
local function contents(t)
  local parts = {}
  for key, value in next, t do
    if #parts == FIELDS_SHOWN then
      parts[#parts + 1] = "..."
      break
    end
    if type(value) == "string" then value = ("%q"):format(value) end
    parts[#parts + 1] = ("%s = %s"):format(tostring(key), tostring(value))
  end
  table.sort(parts)
  return "{" .. table.concat(parts, ", ") .. "}"
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
  if type(err.message) == "string" then return err.message end
  return "the error object is a table: " .. contents(err)
end

--- Keeps the frames of scripts and of the policy library; leaves out C and the commands.
local function own_frames(traceback)
  local frames = {}
  for line in (traceback or ""):gmatch("[^\n]+") do
    local frame = line:match("^%s+(.+)$")
    if frame and not frame:find("^%[C%]") and not frame:find("lua/cli/", 1, true) then
      frames[#frames + 1] = "  at " .. frame
    end
  end
  return frames
end

--- What to do, where the error does not say it.
local function advice(text)
  if text:find("not enough memory", 1, true) then
    return "the script used all the memory it may: raise --memory-limit, or look for a table that only grows"
  end
end

---@param err any
---@param traceback string|nil
---@return string text, integer|nil exit_code
local function failure(err, traceback)
  local text = text_of(err)
  local lines = { "synod: " .. text }
  local hint = advice(text)
  if hint then lines[#lines + 1] = "  " .. hint end
  local frames = own_frames(traceback)
  table.move(frames, 1, #frames, #lines + 1, lines)
  local code = type(err) == "table" and EXIT_CODES[err.code] or nil
  return table.concat(lines, "\n") .. "\n", code
end

return failure
