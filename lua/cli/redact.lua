-- What a command says may repeat what it was given, and that may be a connection string in the wrong place: its
-- secrets are left out.

local MARKS = { "accountkey=", "sharedaccesssignature=", "%f[%w]sig=" }

--- The text with *** in place of each secret in it.
---@param text string
---@return string
local function redact(text)
  for _, mark in ipairs(MARKS) do
    local from, to = text:lower():find(mark)
    while from do
      local rest = text:sub(to + 1):gsub("^[^;&%s'\"]+", "***")
      text = text:sub(1, to) .. rest
      from, to = text:lower():find(mark, to + 1)
    end
  end
  return text
end

return redact
