-- percent: text in which some characters stand as %XX, for names and lines that cannot hold them.
--
--   percent.encode("a/b", "[%%/]")      "a%2Fb"; the pattern is of the characters that cannot stand as they are
--   percent.decode "a%2Fb"              "a/b"
--
-- The pattern takes in "%" itself, or what is decoded is not what was encoded.

local percent = {}

---@param text string
---@param pattern string  of one character
---@return string
function percent.encode(text, pattern)
  return (text:gsub(pattern, function(c) return ("%%%02X"):format(c:byte()) end))
end

---@param text string
---@return string
function percent.decode(text)
  return (text:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

return percent
