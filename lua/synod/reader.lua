-- file:read and file:lines of Lua over anything that gives bytes in pieces.
--
--   local r = reader.new(function() return bytes or nil end)     "" asks again, nil is the end
--   r:read("l", 10, "n")

local reader = {}

local NUMBER_MAX = 200 -- characters of a number, as in Lua itself

---@class synod.Reader
---@field more fun(): string|nil
---@field held string  what has come and was not taken
---@field ended boolean
local Reader = {}
Reader.__index = Reader

---@param more fun(): string|nil  waits for some bytes
---@return synod.Reader
function reader.new(more)
  return setmetatable({ more = more, held = "", ended = false }, Reader)
end

--- Reads more; false at the end.
local function fill(self)
  local data = not self.ended and self.more()
  if not data then
    self.ended = true
    return false
  end
  self.held = self.held .. data
  return true
end

local function take(self, n)
  local text = self.held:sub(1, n)
  self.held = self.held:sub(n + 1)
  return text
end

local function read_line(self, keep)
  local from = 1
  while true do
    local at = self.held:find("\n", from, true)
    if at then
      local line = take(self, at)
      return keep and line or line:sub(1, -2)
    end
    from = #self.held + 1
    if not fill(self) then return self.held ~= "" and take(self, #self.held) or nil end
  end
end

local function read_bytes(self, n)
  while #self.held < math.max(n, 1) and fill(self) do end
  if self.held == "" then return nil end
  return take(self, n)
end

local function read_all(self)
  local parts = { take(self, #self.held) }
  while fill(self) do parts[#parts + 1] = take(self, #self.held) end
  return table.concat(parts)
end

local function read_number(self)
  repeat
    self.held = self.held:gsub("^%s+", "")
  until #self.held >= NUMBER_MAX or self.held:find("%s") or not fill(self)
  local word = self.held:match("^%S+") or ""
  local number = #word <= NUMBER_MAX and tonumber(word) or nil
  if number then take(self, #word) end
  return number
end

local by_format = {
  l = read_line,
  L = function(self) return read_line(self, true) end,
  a = read_all,
  n = read_number,
}

local function read_one(self, format)
  if math.type(format) == "integer" then return read_bytes(self, format) end
  local read = type(format) == "string" and by_format[format:match("^%*?(.)")]
  if not read then error("bad argument to 'read' (invalid format)", 4) end
  return read(self)
end

--- As file:read: "l" (the default), "L", "a", "n", a number of bytes.
---@param ... string|integer
---@return string|number|nil ...
function Reader:read(...)
  local formats = table.pack(...)
  if formats.n == 0 then return read_line(self) end
  local results, n = {}, 0
  repeat
    n = n + 1
    results[n] = read_one(self, formats[n])
  until n == formats.n or results[n] == nil
  return table.unpack(results, 1, n)
end

--- As file:lines.
---@param ... string|integer
---@return fun(): string|number|nil ...
function Reader:lines(...)
  local formats = table.pack(...)
  return function() return self:read(table.unpack(formats, 1, formats.n)) end
end

return reader
