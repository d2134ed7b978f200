-- How commands show what they found: a table for people, JSON lines for programs.

local show = {}

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

--- Text as UTF-8: what is none becomes the replacement character, byte by byte.
local function as_utf8(text)
  local parts, at = {}, 1
  while true do
    local _, bad = utf8.len(text, at)
    if not bad then break end
    parts[#parts + 1] = text:sub(at, bad - 1) .. "\u{FFFD}"
    at = bad + 1
  end
  return table.concat(parts) .. text:sub(at)
end

local function quote(text)
  text = as_utf8(text)
  return '"' .. text:gsub('[%c"\\\127]', function(c)
    return ESCAPES[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

--- A number with all its digits, and no more of them than it takes to read it back.
---@param n number
---@return string
function show.number(n)
  if math.type(n) == "integer" then return tostring(n) end
  if n ~= n then return "NaN" end
  if n == math.huge or n == -math.huge then return n > 0 and "Infinity" or "-Infinity" end
  for digits = 15, 17 do
    local text = ("%." .. digits .. "g"):format(n)
    if tonumber(text) == n then return text:find("[.e]") and text or text .. ".0" end
  end
end

--- A value as JSON, the fields of a table in order of their names; what is no number as a text.
---@param value string|number|boolean|table
---@return string
function show.json(value)
  if type(value) == "number" then
    local text = show.number(value)
    return text:find("^-?%d") and text or quote(text)
  end
  if type(value) == "string" then return quote(value) end
  if type(value) ~= "table" then return tostring(value) end
  local names, parts = {}, {}
  for name in pairs(value) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do parts[i] = quote(name) .. ":" .. show.json(value[name]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

--- A text in which nothing can move the cursor of a terminal or change its colours: names and values come from others.
local function tame(text)
  return (text:gsub("[%c\127]", " "):gsub("\xC2[\x80-\x9F]", " "))
end

--- The width of a text in columns, as far as one character takes one.
local function width(text) return utf8.len(text) or #text end

--- Rows of texts under a heading, in columns; a column named in `right` ends at the same place in each row.
---@param heading string[]
---@param rows string[][]
---@param right? table<string, boolean>
---@return string
function show.columns(heading, rows, right)
  local widths, lines = {}, {}
  for at = 0, #rows do
    for i, text in ipairs(rows[at] or heading) do widths[i] = math.max(widths[i] or 0, width(tame(text))) end
  end
  for at = 0, #rows do
    local cells = {}
    for i, text in ipairs(rows[at] or heading) do
      text = tame(text)
      local pad = (" "):rep(widths[i] - width(text))
      cells[i] = right and right[heading[i]] and pad .. text or text .. pad
    end
    lines[#lines + 1] = (table.concat(cells, "  "):gsub("%s+$", ""))
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Names and values, one a line.
---@param pairs_of { [1]: string, [2]: string }[]
---@return string
function show.fields(pairs_of)
  local widest = 0
  for _, field in ipairs(pairs_of) do widest = math.max(widest, width(field[1])) end
  local lines = {}
  for i, field in ipairs(pairs_of) do
    lines[i] = field[1] .. (" "):rep(widest - width(field[1]) + 2) .. tame(field[2])
  end
  return table.concat(lines, "\n") .. "\n"
end

--- An instant for people: local time is what they have on the wall.
---@param seconds integer since 1970
---@return string
function show.date(seconds) return tostring(os.date("%Y-%m-%d %H:%M:%S", seconds)) end

return show
