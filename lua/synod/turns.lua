-- turns: a number of places that the tasks of a process share; who came first has the next.
--
--   local slots = turns.new(4)
--   local taken = slots:take(2)        waits; as many as there is room for where others wait too, 0 once it is closed
--   slots:give(taken)

local core = require "synod.core"

local turns = {}

---@class synod.Turns
---@field free integer
---@field closed? boolean
local Turns = {}
Turns.__index = Turns

---@param places integer
---@return synod.Turns
function turns.new(places)
  return setmetatable({ free = places, waiting = {} }, Turns)
end

local function call_next(l)
  if l.waiting[1] then l.waiting[1].event:set() end
end

local function leave_line(l, ticket)
  for i, other in ipairs(l.waiting) do
    if other == ticket then table.remove(l.waiting, i) break end
  end
  call_next(l)
end

--- Waits until `n` places are free, and takes its share of them; nothing once the line is closed.
---@param n integer
---@return integer taken
function Turns:take(n)
  local share = n
  if self.free < n or self.waiting[1] then
    local ticket = { event = core.event() }
    self.waiting[#self.waiting + 1] = ticket
    local _ <close> = setmetatable({}, { __close = function() leave_line(self, ticket) end })
    while not self.closed and (self.free < n or self.waiting[1] ~= ticket) do
      ticket.event:wait()
      ticket.event:clear()
    end
    share = math.max(1, math.min(n, self.free // #self.waiting))
  end
  if self.closed then return 0 end
  self.free = self.free - share
  return share
end

--- Gives places back.
---@param n integer
function Turns:give(n)
  self.free = self.free + n
  call_next(self)
end

--- Whoever waits, or will, gets nothing.
function Turns:close()
  self.closed = true
  for _, ticket in ipairs(self.waiting) do ticket.event:set() end
end

return turns
