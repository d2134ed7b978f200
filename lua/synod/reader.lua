-- file:read and file:lines of Lua over anything that gives bytes in pieces.
--
--   local r = reader.new(function() return bytes or nil end)     "" asks again, nil is the end
--   r:read("l", 10, "n")

local reader = {}

local NUMBER_MAX = 200 -- characters of a number, as in Lua itself

---@class synod.Reader
---@field more fun(): string|nil
---@field held string[]  what has come and was not taken: pieces, as they came
---@field at integer     the first byte of the first piece that was not taken
---@field size integer   bytes that were not taken
---@field ended boolean
local Reader = {}
Reader.__index = Reader

---@param more fun(): string|nil  waits for some bytes
---@return synod.Reader
function reader.new(more)
  return setmetatable({ more = more, held = {}, at = 1, size = 0, ended = false }, Reader)
end

--- Reads more; false at the end.
local function fill(self)
  local data = not self.ended and self.more()
  if not data then
    self.ended = true
    return false
  end
  if data ~= "" then self.held[#self.held + 1] = data end
  self.size = self.size + #data
  return true
end

--- All that is held, as one piece; `at` is in it.
local function joined(self)
  if #self.held ~= 1 then self.held = { table.concat(self.held) } end
  return self.held[1]
end

--- The next n bytes, which are held. What was taken is cut off when it is most of a piece, so that a long piece is not
--- copied for each of its lines.
local function take(self, n)
  local first = self.held[1]
  if not first or self.at + n - 1 > #first then first = joined(self) end
  local text = first:sub(self.at, self.at + n - 1)
  self.at, self.size = self.at + n, self.size - n
  if self.at > #first then
    table.remove(self.held, 1)
    self.at = 1
  elseif self.at > #first // 2 then
    self.held[1], self.at = first:sub(self.at), 1
  end
  return text
end

local function read_line(self, keep)
  local before, i, from = 1 - self.at, 1, self.at -- bytes in the pieces that were searched
  while true do
    for n = i, #self.held do
      local stop = self.held[n]:find("\n", from, true)
      if stop then
        local line = take(self, before + stop)
        return keep and line or line:sub(1, -2)
      end
      before, i, from = before + #self.held[n], n + 1, 1
    end
    if not fill(self) then return self.size > 0 and take(self, self.size) or nil end
  end
end

local function read_bytes(self, n)
  while self.size < math.max(n, 1) and fill(self) do end
  if self.size == 0 then return nil end
  return take(self, math.min(n, self.size))
end

local function read_all(self)
  while fill(self) do end
  return take(self, self.size)
end

local function read_number(self)
  repeat
    take(self, #joined(self):match("^%s*", self.at))
  until self.size >= NUMBER_MAX or joined(self):find("%s", self.at) or not fill(self)
  local word = joined(self):match("^%S+", self.at) or ""
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
