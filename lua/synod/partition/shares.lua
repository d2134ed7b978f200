-- shares: who lives, who runs what, and what that makes each one's share. Partition looks, and then does its own part.
--
--   local place = shares.new { container = c, prefix = "partition/shards/", me = "a", members = m, look = 1 }
--   local view, err = place:look { "s1", "s2" }
--   view:free()  view:wanted(2)                  -- what may be taken; what one who runs two is to ask for
--
-- Changes nothing in the store.

local core = require "synod.core"
local sight = require "synod.sight"

local shares = {}

local ITEMS_MAX = 1000
local PATIENCE_LOOKS = 3          -- whose turn it is has so many looks to take what is free, or of one who is going
shares.STALE = 0.45               -- of its ttl: a record unchanged for longer was due to be renewed
local LIST = "list the blobs"     -- what the err of a page that failed says was attempted

---@class synod.Shares
local Shares = {}
Shares.__index = Shares

---@param given { container: synod.Container, prefix: string, me: string, members: synod.Membership, look: number }
---@return synod.Shares
function shares.new(given)
  return setmetatable({
    container = given.container, prefix = given.prefix, me = given.me, members = given.members,
    patience = given.look * PATIENCE_LOOKS, sights = {}, free_since = {}, was_held = {}, going_since = {},
  }, Shares)
end

---@class synod.Shares.View  one look
---@field items table<string, true>
---@field held table<string, synod.Mark>
---@field members table<string, table>    id -> what it says
---@field count table<string, integer>    how many a member runs
---@field asked table<string, string>     item -> which other has asked for it
---@field high integer                    the largest share
local View = {}
View.__index = View

--- The keys in order.
---@param set table<string, any>
---@return string[]
function shares.sorted(set)
  local list = {}
  for name in next, set do list[#list + 1] = name end
  table.sort(list)
  return list
end

---------------------------------------------------------------- looking

local function read_items(items)
  local list, set, count = items, {}, 0
  if type(items) == "function" then list = items() end
  if type(list) ~= "table" or #list > ITEMS_MAX then
    error(("partition:run: a list of at most %d items expected"):format(ITEMS_MAX), 0)
  end
  for _, item in ipairs(list) do
    item = tostring(item)
    count = count + (set[item] and 0 or 1)
    set[item] = true
  end
  return set, count
end

local function sight_of(self, item)
  self.sights[item] = self.sights[item] or sight.new()
  return self.sights[item]
end

--- Who holds what, as far as a list shows; raises what the store refuses.
local function read_holders(self, items)
  local held = {}
  for blob in self.container:list { prefix = self.prefix, metadata = true } do
    local item = blob.name:sub(#self.prefix + 1)
    if items[item] then
      local taken, mark = sight_of(self, item):look(blob)
      if taken ~= false then held[item] = taken and mark or {} end -- what we cannot read is held by somebody
    end
  end
  return held
end

---@return table<string, synod.Mark>|nil held, synod.Error? err
local function holders(self, items)
  local ok, held = pcall(read_holders, self, items)
  if ok then return held end
  if type(held) ~= "table" or held.operation ~= LIST then error(held, 0) end
  if held.code == "ContainerNotFound" then return {} end
  return nil, held
end

--- Those who retire have no share.
local function count_members(self, view, members)
  local active = 0
  for _, member in ipairs(members) do
    local info = member.info or {}
    view.members[member.id], view.count[member.id] = info, 0
    if not info.retiring then active = active + 1 end
    if info.asks and member.id ~= self.me then view.asked[info.asks] = member.id end
  end
  return math.max(1, active)
end

--- Whether a try may find it free. Only a try can find out that a record is dead, and has to see it unchanged for its
--- ttl: it is tried from when it was due to change. What another has asked for is his: it is given back for him.
local function may_be_free(self, view, item)
  if view.asked[item] then return false end
  local mark = view.held[item]
  if not mark then return true end
  if mark.kind ~= "record" then return false end
  local still = core.now() - sight_of(self, item).since
  return mark.holder == self.me or not view.members[mark.holder] or still > mark.ttl * shares.STALE
end

--- Since when each of the keys of `now` has been one.
local function ages(before, now, at)
  local since = {}
  for key in next, now do since[key] = before[key] or at end
  return since
end

--- Remembers since when what is free is free. What was held before, by us too, is nobody's turn: it is overdue at once.
local function note_free(self, view)
  local free, at = {}, core.now()
  for item in next, view.items do free[item] = may_be_free(self, view, item) or nil end
  self.free_since = ages(self.free_since, free, at)
  for item in next, free do
    if self.was_held[item] then self.free_since[item] = -math.huge end
  end
  for item in next, self.was_held do self.was_held[item] = view.items[item] end
  for item in next, view.held do self.was_held[item] = true end
end

local function note_going(self, view)
  local going = {}
  for id, info in next, view.members do going[id] = info.retiring end
  self.going_since = ages(self.going_since, going, core.now())
end

--- One look at everything.
---@param items string[]|fun(): string[]
---@return synod.Shares.View|nil, synod.Error? err
function Shares:look(items)
  local members, err = self.members:members()
  if not members then return nil, err end
  local view = setmetatable({ place = self, members = {}, count = {}, asked = {} }, View)
  local active = count_members(self, view, members)
  local total
  view.items, total = read_items(items)
  view.held, err = holders(self, view.items)
  if not view.held then return nil, err end
  for _, mark in next, view.held do
    if view.count[mark.holder] then view.count[mark.holder] = view.count[mark.holder] + 1 end
  end
  view.high = -(-total // active)
  note_free(self, view)
  note_going(self, view)
  return view
end

---------------------------------------------------------------- judging

--- What may be free, in an order of our own, so that many who come at once do not meet. The second result is how many
--- of them, the first in the list, are to be run by whoever finds them, beyond his share too: they were run before, or
--- nobody has taken them for a while. Their instance is dead, but still has a share.
---@return string[] items, integer overdue
function View:free()
  local list, overdue, now = {}, 0, core.now()
  for _, item in ipairs(shares.sorted(self.place.free_since)) do
    if now - self.place.free_since[item] >= self.place.patience then
      overdue = overdue + 1
      table.insert(list, math.floor(core.random() * overdue) + 1, item)
    else
      table.insert(list, overdue + math.floor(core.random() * (#list - overdue + 1)) + 1, item)
    end
  end
  return list, overdue
end

--- Is there nobody else who could run anything?
---@return boolean
function View:is_alone()
  for id, info in next, self.members do
    if id ~= self.place.me and not info.retiring then return false end
  end
  return true
end

--- Is it overdue for what one who is going has?
local function is_late(self, id)
  return core.now() - self.place.going_since[id] >= self.place.patience
end

--- Whom one with so many is to ask: one who is going, else who has most, and two more than he. What one who is going
--- has left after a while is everybody's: whose turn it was is dead.
local function donor(self, mine)
  local best, most
  for _, id in ipairs(shares.sorted(self.count)) do
    local count, going = self.count[id], self.members[id].retiring
    local enough = id ~= self.place.me and count > 0
      and (mine < self.high and (going or count >= mine + 2) or going and is_late(self, id))
    local weight = count + (going and ITEMS_MAX or 0)
    if enough and (not most or weight > most) then best, most = id, weight end
  end
  return best
end

--- What one with so many is to ask for; nil: nothing. Not what a third has asked for.
---@param mine integer
---@return string|nil item
function View:wanted(mine)
  local from, list = donor(self, mine), {}
  for item, mark in next, self.held do
    if from and mark.holder == from and not self.asked[item] then list[#list + 1] = item end
  end
  table.sort(list)
  return list[math.floor(core.random() * #list) + 1]
end

return shares
