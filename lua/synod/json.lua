-- json: JSON texts for records and messages.
--
--   local text = json.encode { id = "a", list = json.array {}, n = 1 }      raises what JSON cannot say
--   local value, err = json.decode(text)                                    nil, and what is wrong where
--
-- Objects are written with their names in order, so that the same value gives the same text everywhere. Whole numbers
-- stay integers, others stay floats (1.0 is written "1.0"). `null` is read as json.null inside of lists and objects.

local json = {}

local DEPTH_MAX = 64 -- of lists and objects in each other, written and read

local array_type = { __name = "synod.json.array" }

--- What `null` in a list or object is read as, and what is written as `null`.
json.null = setmetatable({}, { __name = "synod.json.null", __tostring = function() return "null" end })

--- Marks a list, so that it is written as one also when it is empty.
---@generic T
---@param list T[]
---@return T[]
function json.array(list)
  return setmetatable(list, array_type)
end

---------------------------------------------------------------- writing

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escaped(c)
  return ESCAPES[c] or ("\\u%04x"):format(c:byte())
end

local function string_text(s)
  local _, bad = utf8.len(s)
  if bad then error(("the string is no UTF-8 (byte %d): encode bytes as text first"):format(bad), 0) end
  return '"' .. s:gsub('[%c"\\]', escaped) .. '"'
end

local function number_text(n)
  if math.type(n) == "integer" then return ("%d"):format(n) end
  if n ~= n or n == math.huge or n == -math.huge then error("JSON has no " .. tostring(n), 0) end
  local text = ("%.14g"):format(n)
  if tonumber(text) ~= n then text = ("%.17g"):format(n) end
  return text:find("[%.eE]") and text or text .. ".0"
end

local value_text

local function list_text(list, depth)
  local parts = {}
  for i = 1, #list do parts[i] = value_text(list[i], depth) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function object_text(object, depth)
  local names, parts = {}, {}
  for name in next, object do
    if type(name) ~= "string" then
      error(("a table with the key %s is neither a list nor an object"):format(tostring(name)), 0)
    end
    names[#names + 1] = name
  end
  table.sort(names)
  for i, name in ipairs(names) do parts[i] = string_text(name) .. ":" .. value_text(object[name], depth) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function is_list(t)
  if getmetatable(t) == array_type then return true end
  if #t == 0 then return false end
  local count = 0
  for _ in next, t do count = count + 1 end
  return count == #t
end

function value_text(value, depth)
  local kind = type(value)
  if value == json.null or kind == "nil" then return "null" end
  if kind == "string" then return string_text(value) end
  if kind == "number" then return number_text(value) end
  if kind == "boolean" then return tostring(value) end
  if kind ~= "table" then error(("a %s has no JSON text"):format(kind), 0) end
  if depth == DEPTH_MAX then error(("tables are nested more than %d deep"):format(DEPTH_MAX), 0) end
  return (is_list(value) and list_text or object_text)(value, depth + 1)
end

--- The text of a value: nil, booleans, numbers, UTF-8 strings, lists and tables with string keys. Raises what is wrong.
---@param value any
---@return string
function json.encode(value)
  return value_text(value, 0)
end

---------------------------------------------------------------- reading

local function fail(at, what)
  error({ json = ("%s at byte %d"):format(what, at) }, 0)
end

local function skip(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

local UNESCAPED = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

--- The character of \uXXXX at `at` (of its four digits), surrogate pairs together.
local function unicode(text, at)
  local digits = text:match("^%x%x%x%x", at) or fail(at, "four hexadecimal digits expected")
  local code = tonumber(digits, 16)
  if code >= 0xD800 and code <= 0xDBFF then
    local low = tonumber(text:match("^\\u([dD][c-fC-F]%x%x)", at + 4) or fail(at, "half of a surrogate pair"), 16)
    return utf8.char(0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)), at + 10
  end
  if code >= 0xDC00 and code <= 0xDFFF then fail(at, "half of a surrogate pair") end
  return utf8.char(code), at + 4
end

local function read_string(text, at)
  local parts, from = {}, at + 1
  while true do
    local stop = text:find('[%c"\\]', from) or fail(at, "a string without an end")
    parts[#parts + 1] = text:sub(from, stop - 1)
    local c = text:sub(stop, stop)
    if c == '"' then return table.concat(parts), stop + 1 end
    if c ~= "\\" then fail(stop, "a control character in a string") end
    local escape = text:sub(stop + 1, stop + 1)
    if escape == "u" then
      parts[#parts + 1], from = unicode(text, stop + 2)
    else
      parts[#parts + 1] = UNESCAPED[escape] or fail(stop, "an unknown escape")
      from = stop + 2
    end
  end
end

local function read_number(text, at)
  local whole = text:match("^-?%d+", at) or fail(at, "a value expected")
  if whole:find("^-?0%d") then fail(at, "a number with a leading zero") end
  local rest = at + #whole
  local fraction = text:match("^%.%d+", rest) or ""
  local exponent = text:match("^[eE][+-]?%d+", rest + #fraction) or ""
  local number = tonumber(whole .. fraction .. exponent)
  if number == math.huge or number == -math.huge then fail(at, "a number that is too large") end
  return number, rest + #fraction + #exponent
end

local read_value

local function read_list(text, at, depth)
  local list = json.array {}
  at = skip(text, at + 1)
  if text:sub(at, at) == "]" then return list, at + 1 end
  while true do
    list[#list + 1], at = read_value(text, at, depth)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "]" then return list, at + 1 end
    if c ~= "," then fail(at, "',' or ']' expected") end
    at = skip(text, at + 1)
  end
end

local function read_object(text, at, depth)
  local object = {}
  at = skip(text, at + 1)
  if text:sub(at, at) == "}" then return object, at + 1 end
  while true do
    if text:sub(at, at) ~= '"' then fail(at, "a name expected") end
    local name
    name, at = read_string(text, at)
    at = skip(text, at)
    if text:sub(at, at) ~= ":" then fail(at, "':' expected") end
    object[name], at = read_value(text, skip(text, at + 1), depth)
    at = skip(text, at)
    local c = text:sub(at, at)
    if c == "}" then return object, at + 1 end
    if c ~= "," then fail(at, "',' or '}' expected") end
    at = skip(text, at + 1)
  end
end

local WORDS = { ["true"] = true, ["false"] = false, ["null"] = json.null }

function read_value(text, at, depth)
  local c = text:sub(at, at)
  if c == '"' then return read_string(text, at) end
  if c == "{" or c == "[" then
    if depth == DEPTH_MAX then fail(at, ("nested more than %d deep"):format(DEPTH_MAX)) end
    return (c == "{" and read_object or read_list)(text, at, depth + 1)
  end
  local word = text:match("^%a+", at)
  if word and WORDS[word] ~= nil then return WORDS[word], at + #word end
  return read_number(text, at)
end

local function read_all(text)
  local value, at = read_value(text, skip(text, 1), 0)
  at = skip(text, at)
  if at <= #text then fail(at, "more text") end
  return value
end

--- The value of a text. `null` alone gives json.null too, so that nil always means a refusal.
---@param text string
---@return any value, string|nil why  nil and what is wrong, and where
function json.decode(text)
  local _, bad = utf8.len(text)
  if bad then return nil, ("no UTF-8 at byte %d"):format(bad) end
  local ok, value = pcall(read_all, text)
  if ok then return value end
  if type(value) == "table" and value.json then return nil, value.json end
  error(value, 0)
end

return json
