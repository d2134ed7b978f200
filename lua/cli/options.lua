-- Options are declared, parsing and help follow from the declaration.
--
--   { name = "store", value = "URL", env = "SYNOD_STORE", meaning = "...", default = "..." }
--
-- `value` names the argument in the help; without it the option is a flag. `kind` says what a value must be
-- (see `kinds`); `choices` lists the words allowed. `default` is only shown: what an absent option means is known
-- where it is used. The result has one field per option, with `_` for `-`, the list `args`, and with `--` among the
-- words the number of those before it, `before_dashes`.

local redact = require "cli.redact"

local options = {}

---@class cli.Option
---@field name string         without the dashes
---@field short? string       one letter
---@field value? string       what the help calls the value; nil: a flag
---@field kind? "count"|"number"|"seconds"|"bytes"|"size"|"address"
---@field choices? string[]
---@field env? string         the environment variable that is read when the option is absent
---@field meaning string
---@field default? string
---@field of? string[]        the actions of the command that take it, where not all do
---@field many? boolean       may be given several times: the field is a list
---@field hidden? boolean     for the program itself, not shown

local SIZE_UNITS = { K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30 }

local function whole(text) return text:match("^%d+$") and math.tointeger(tonumber(text)) end

--- Each takes the text and gives the value, or nil and what was expected.
local kinds = {
  count = function(text)
    local n = whole(text)
    if n and n >= 1 then return n end
    return nil, "a whole number from 1"
  end,
  number = function(text) return whole(text), "a whole number from 0" end,
  seconds = function(text)
    local digits, unit = text:match("^(%d+%.?%d*)([smh]?)$")
    if digits then return tonumber(digits) * ({ s = 1, m = 60, h = 3600 })[unit ~= "" and unit or "s"] end
    return nil, "a time such as 30, 1.5s or 10m"
  end,
  address = function(text)
    local port = text:match("^[^:%[%]%s]*:(%d+)$") or text:match("^%[[%x:.]+%]:(%d+)$")
    if port and tonumber(port) <= 65535 then return text end
    return nil, "an address such as 10.0.0.5:7700, host:7700 or :0"
  end,
  bytes = function(text) return whole(text), "a number of bytes" end,
  size = function(text)
    local digits, unit = text:match("^(%d+)([KMG]?)$")
    local n = digits and tonumber(digits) * SIZE_UNITS[unit ~= "" and unit or "M"]
    if n and n >= 1 and n < 2 ^ 53 then return math.tointeger(n) end
    return nil, "a size such as 64M (a plain number is megabytes)"
  end,
}

--- The number of single-letter changes, insertions, removals and swaps between two words.
local function distance(a, b)
  local before, last = {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    local row = { [0] = i }
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      row[j] = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        row[j] = math.min(row[j], before[j - 2] + 1)
      end
    end
    before, last = last, row
  end
  return last[#b]
end

--- The word that was probably meant.
---@param word string
---@param words string[]
---@return string|nil
function options.nearest(word, words)
  local best, best_distance = nil, math.max(1, #word // 3) + 1
  for _, candidate in ipairs(words) do
    local d = distance(word, candidate)
    if d < best_distance then best, best_distance = candidate, d end
  end
  return best
end

local function find(rows, name, field)
  for _, row in ipairs(rows) do
    if row[field] == name then return row end
  end
end

local function convert(row, text, shown)
  if row.choices then
    for _, choice in ipairs(row.choices) do
      if choice == text then return text end
    end
    return nil, ("%s: '%s' is not one of: %s"):format(shown, text, table.concat(row.choices, ", "))
  end
  if not row.kind then
    if text == "" then return nil, ("%s: its value is empty"):format(shown) end
    return text
  end
  local value, expected = kinds[row.kind](text)
  if value == nil then return nil, ("%s: '%s' is not %s"):format(shown, text, expected) end
  return value
end

local function unknown(rows, word)
  local known = {}
  for _, row in ipairs(rows) do
    if not row.hidden then known[#known + 1] = "--" .. row.name end
  end
  local near = options.nearest(word, known)
  return nil, ("unknown option %s%s"):format(word, near and (", did you mean " .. near .. "?") or "")
end

--- Splits `--name=value`, `--name`, `-n`, `-n3` into the row, how it was written and the value written with it.
local function recognise(rows, word)
  local name, attached = word:match("^%-%-([^=]+)=?(.*)$")
  if name then
    local row = find(rows, name, "name")
    return row, "--" .. name, word:find("=", 1, true) and attached or nil
  end
  local row = find(rows, word:sub(2, 2), "short")
  return row, word:sub(1, 2), #word > 2 and word:sub(3) or nil
end

local function field(row) return (row.name:gsub("%-", "_")) end

local function from_environment(rows, parsed)
  for _, row in ipairs(rows) do
    local text = row.env and parsed[field(row)] == nil and os.getenv(row.env)
    if text and text ~= "" then
      local value, problem = convert(row, text, "the environment variable " .. row.env)
      if value == nil then return nil, problem end
      parsed[field(row)] = value
    end
  end
  return parsed
end

--- Takes the option at args[at] into `parsed`.
---@return integer|nil next, string? problem
local function take(rows, args, at, parsed)
  local row, shown, value = recognise(rows, args[at])
  if not row then return unknown(rows, shown) end
  if not row.value then
    if value then return nil, ("%s takes no value"):format(shown) end
    parsed[field(row)] = true
    return at + 1
  end
  if not value then
    at = at + 1
    value = args[at]
    if not value then return nil, ("%s needs a value: %s %s"):format(shown, shown, row.value) end
  end
  local converted, problem = convert(row, value, shown)
  if converted == nil then return nil, problem end
  if row.many then
    local list = parsed[field(row)] or {}
    list[#list + 1], converted = converted, list
  end
  parsed[field(row)] = converted
  return at + 1
end

--- Whether a word behind a script is for us: it may as well be the script's own, as --help is there, and an option that
--- was given already.
local function is_ours(rows, word, parsed)
  if not word:find "^%-." or word == "--" then return false end
  local row, shown, value = recognise(rows, word)
  if not row or row.name == "help" or parsed[field(row)] ~= nil then return false end
  return not (value and #shown == 2) or (row.value ~= nil and convert(row, value, shown) ~= nil)
end

--- Takes the options directly behind a script.
---@return integer|nil rest, string? problem  where the script's own words begin
local function take_behind(rows, args, at, parsed)
  while args[at] and is_ours(rows, args[at], parsed) do
    local after, problem = take(rows, args, at, parsed)
    if not after then return nil, problem end
    at = after
  end
  return args[at] == "--" and at + 1 or at
end

--- Parses args[first..]. With `stop`, the first word that is no option is a script: more options may stand directly
--- behind it, and what follows these is the script's own. So is all behind it after a `--` before it.
---@param rows cli.Option[]
---@param args string[]
---@param first integer
---@param stop? boolean
---@return table|nil parsed, string? problem
function options.parse(rows, args, first, stop)
  local parsed = { args = {} }
  local at, ended = first, false
  while args[at] do
    local word = args[at]
    if ended or word == "-" or word:sub(1, 1) ~= "-" then
      parsed.args[#parsed.args + 1] = word
      at = at + 1
      if stop and not ended then
        local rest, problem = take_behind(rows, args, at, parsed)
        if not rest then return nil, problem end
        at, ended = rest, true
      end
    elseif word == "--" then
      ended, at = true, at + 1
      parsed.before_dashes = #parsed.args
    else
      local after, problem = take(rows, args, at, parsed)
      if not after then return nil, problem end
      at = after
    end
  end
  return from_environment(rows, parsed)
end

--- Says what is wrong with how the program was called; for `return options.refuse(...)`.
---@param problem string  what, on what, and what to do
---@param command? string whose help to point at
---@return integer exit_code
function options.refuse(problem, command)
  local topic = command and (" " .. command) or ""
  io.stderr:write(("synod: %s\n(see: synod help%s)\n"):format(redact(problem), topic))
  return 2
end

return options
