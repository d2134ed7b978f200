-- sight: whether somebody holds a blob, as far as looking at it shows.
--
--   local seen = sight.new()
--   local held, mark = seen:look(props)        -- as often as one looks; it remembers what it saw
--
-- A service's lease is seen at once. A record (ttl below 15 s) is over when it has not changed for its ttl, by the
-- clock of who looks and from his own first look at it: another machine's clock is never asked.

local core = require "synod.core"
local marks = require "synod.lease.mark"

local sight = {}

---@class synod.Sight
local Sight = {}
Sight.__index = Sight

---@return synod.Sight
function sight.new()
  return setmetatable({}, Sight)
end

---@param props synod.Props  of a head, or an item of a list with its metadata
---@param asked? number  when that was asked for (core.now): an answer that was long on its way is old
---@return boolean|nil held, synod.Mark|synod.Error mark  nil, err: what stands there is not for us to read
function Sight:look(props, asked)
  local mark, err = marks.of(props)
  if not mark then return nil, err end
  if mark.etag ~= self.etag then self.etag, self.since = mark.etag, core.now() end
  if mark.kind ~= "record" then return mark.kind ~= nil, mark end
  return (asked or core.now()) - self.since < mark.ttl, mark
end

return sight
