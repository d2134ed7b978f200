-- partition: many items, each run by one of the instances, in shares that differ by one at most.
--
--   local partition = require "synod.partition"
--   partition.new({ name = "shards" }):run({ "s1", "s2", "s3" }, function(item, share)
--     while true do ... synod.sleep(1) end       -- stopped before anybody else could run it
--   end)
--
-- Each instance looks at who lives and who runs what, and does its own part: it takes items that are free, up to its
-- share; with fewer than its share it asks the one who has most for one of his. Nobody takes what another runs: who has
-- too many hands over, when and because he was asked. docs/reference/partition.md is the manual, job.lua one item.

local core = require "synod.core"
local job = require "synod.job"
local membership = require "synod.membership"
local options = require "synod.options"
local seat = require "synod.seat"
local transfer = require "synod.transfer"

local partition = {}

local ITEMS_MAX = 1000
local MEMBER_TTL_S = 15
local ANSWER_S = 10
local LOOKS = 15 -- in the time of a lease, where nothing tells of changes
local LIST = "list the blobs" -- what the err of a page that failed says was attempted

---@class synod.Partition.Options: synod.Seat.Options
---@field member_ttl? number  seconds after which an instance that says nothing is taken for dead (15)
---@field answer? number      seconds that who asked for an item has to get ready for it (10)
---@field on_leaving? fun(item: string, share: synod.Share)  here, first: go read-only
---@field on_arriving? fun(item: string)                     at the target, second: get ready
---@field on_left? fun(item: string)                         here, last: it has stopped and is another's
---@field on_kept? fun(item: string, share: synod.Share)     here: nobody came for it, all is as before

local NEW = seat.kinds {
  member_ttl = "positive", answer = "positive", on_leaving = "callable", on_arriving = "callable",
  on_left = "callable", on_kept = "callable",
}
local WAIT = { timeout = "seconds" }

---@class synod.Partition
local Partition = {}
Partition.__index = Partition
Partition.__name = "synod.Partition"

--- Makes no request.
---@param given synod.Partition.Options
---@return synod.Partition
function partition.new(given)
  local o, problem = seat.complete(options.read("partition.new", given, NEW), "shards")
  if not problem and not o.instance.id then
    problem = "this instance has no name: run it with -n N, or name it with --instance ID"
  end
  if problem then options.refuse("partition.new: %s", problem) end
  o.purpose = o.purpose or "partition"
  return setmetatable({
    options = o, name = "partition/" .. o.name .. "/", container = o.store:container(o.container),
    owners = {}, jobs = {}, arriving = {}, wake = core.event(),
  }, Partition)
end

local function owner_of(self, item)
  local owner = self.owners[item]
  if not owner then
    owner = {
      options = self.options, seat = seat.new(self.options, self.name .. item),
      title = ("item %s of the partition '%s'"):format(item, self.options.name),
    }
    self.owners[item] = owner
  end
  return owner
end

---------------------------------------------------------------- what is there

local function read_items(items)
  local list, set = type(items) == "function" and items() or items, {}
  if type(list) ~= "table" or #list > ITEMS_MAX then
    error(("partition:run: a list of at most %d items expected"):format(ITEMS_MAX), 0)
  end
  for _, item in ipairs(list) do set[tostring(item)] = true end
  return set
end

--- Who holds what, as far as a list shows; raises what the store refuses.
local function read_holders(self, set)
  local held = {}
  for blob in self.container:list { prefix = self.name, metadata = true } do
    local item = blob.name:sub(#self.name + 1)
    if set[item] then
      local taken, mark = owner_of(self, item).seat.sight:look(blob)
      if taken ~= false then held[item] = mark end
    end
  end
  return held
end

---@return table<string, synod.Mark>|nil held, synod.Error? err
local function holders(self, set)
  local ok, held = pcall(read_holders, self, set)
  if ok then return held end
  if type(held) ~= "table" or held.operation ~= LIST then error(held, 0) end
  if held.code == "ContainerNotFound" then return {} end
  return nil, held
end

local function sorted(set)
  local list = {}
  for name in next, set do list[#list + 1] = name end
  table.sort(list)
  return list
end

---@class synod.Partition.View
---@field items table<string, true>
---@field held table<string, synod.Mark>
---@field members table<string, table>  id -> info
---@field count table<string, integer>  how many an instance runs
---@field asked table<string, string>    item -> who has asked for it
---@field low integer
---@field high integer

--- One look at everything. Those who retire have no share.
---@return synod.Partition.View|nil, synod.Error? err
local function look(self, items)
  local members, err = self.members:members()
  if not members then return nil, err end
  local view = { items = read_items(items), members = {}, count = {}, asked = {} }
  local active, total = 0, 0
  for _, member in ipairs(members) do
    local info = member.info or {}
    view.members[member.id], view.count[member.id] = info, 0
    if not info.retiring then active = active + 1 end
    if info.asks and member.id ~= self.options.me then view.asked[info.asks] = member.id end
  end
  view.held, err = holders(self, view.items)
  if not view.held then return nil, err end
  for _ in next, view.items do total = total + 1 end
  for _, mark in next, view.held do
    if view.count[mark.holder] then view.count[mark.holder] = view.count[mark.holder] + 1 end
  end
  view.low, view.high = total // math.max(1, active), -(-total // math.max(1, active))
  return view
end

local function mine(self)
  local count = 0
  for _ in next, self.jobs do count = count + 1 end
  return count
end

---------------------------------------------------------------- taking

--- Runs an item whose lease is ours; the end of it is news.
local function begin(self, item, held)
  local share = job.new(owner_of(self, item), item, held)
  self.jobs[item] = share
  share.task = core.spawn(function()
    local _ <close> = setmetatable({}, { __close = function()
      self.jobs[item] = nil
      self.wake:set()
    end })
    local err = share:run(self.fn)
    if err ~= nil then self.failed = self.failed or { err } end
  end)
end

--- Whether a try may find it free. Of a record only a try can find out that it is dead. What another has asked for is
--- his: it is given back for him.
local function may_be_free(self, view, item)
  local mark = view.held[item]
  if self.jobs[item] or self.arriving[item] or view.asked[item] then return false end
  return not mark or mark.kind == "record" and (not view.members[mark.holder] or mark.holder == self.options.me)
end

--- Takes what is free, in an order of our own, up to our share. False: nothing is free.
local function take_free(self, view)
  local list = {}
  for _, item in ipairs(sorted(view.items)) do
    if may_be_free(self, view, item) then
      table.insert(list, math.floor(core.random() * (#list + 1)) + 1, item)
    end
  end
  for _, item in ipairs(list) do
    if mine(self) >= view.high then break end
    local held = owner_of(self, item).seat:try()
    if held then begin(self, item, held) end
  end
  return #list > 0
end

--- Tells the others what we want: an item that we ask for, and whether we are going.
local function say(self, item)
  if self.said.asks == item and self.said.retiring == self.retiring then return end
  self.said = { asks = item, retiring = self.retiring }
  self.members:update(self.said)
end

--- Whom to ask: one who is going, else who has most, and two more than we.
local function donor(self, view)
  local best, most
  for _, id in ipairs(sorted(view.count)) do
    local count = view.count[id]
    local going = view.members[id].retiring
    local enough = id ~= self.options.me and count > 0
      and (going and mine(self) < view.high or count >= mine(self) + 2 and mine(self) < view.low)
    local weight = count + (going and ITEMS_MAX or 0)
    if enough and (not most or weight > most) then best, most = id, weight end
  end
  return best
end

--- Waits for an item that we have asked for, and gets ready when it is to come.
local function await(self, item)
  self.arriving[item] = core.spawn(function()
    local _ <close> = setmetatable({}, { __close = function()
      self.arriving[item] = nil
      self.wake:set()
    end })
    local prepare = self.options.on_arriving
    local held = transfer.wait(owner_of(self, item), self.options.answer * 2, prepare and function() prepare(item) end)
    if held then begin(self, item, held) end
  end)
end

local function ask(self, view)
  local asked = next(self.arriving)
  if asked then return say(self, asked) end
  local from = donor(self, view)
  if not from then return say(self, nil) end
  local list = {}
  for item, mark in next, view.held do
    if mark.holder == from then list[#list + 1] = item end
  end
  table.sort(list)
  local item = list[math.floor(core.random() * #list) + 1]
  await(self, item)
  say(self, item)
end

---------------------------------------------------------------- giving

--- Hands over what we were asked for, as long as we have two more than who asks, or are going.
local function give(self, view)
  for _, id in ipairs(sorted(view.members)) do
    local share = self.jobs[view.members[id].asks]
    local spare = mine(self) - self.giving
    if share and id ~= self.options.me and not share.going
      and (self.retiring or spare >= (view.count[id] or 0) + 2) then
      share.going, self.giving = true, self.giving + 1
      core.spawn(function()
        local _ <close> = setmetatable({}, { __close = function()
          share.going, self.giving = nil, self.giving - 1
          self.wake:set()
        end })
        share:give(id, self.options, self.options.answer)
      end)
    end
  end
end

--- Gives back what is no item any more, and, when nobody is left to take it, what a leaving instance has.
local function drop(self, view)
  local alone = self.retiring
  for id, info in next, view.members do
    if id ~= self.options.me and not info.retiring then alone = false end
  end
  for item, share in next, self.jobs do
    if (alone or not view.items[item]) and not share.stop:is_set() then
      share.stop:set(core.new_error { code = "Cancelled", message = "it is no item of this instance any more" })
    end
  end
end

---------------------------------------------------------------- running

local function turn(self, items)
  if self.members:lost() then self.members:join { info = self.said } end
  local view = look(self, items)
  if not view then return end -- the leases go on by themselves; it is looked at again
  drop(self, view)
  if not self.retiring then
    local free = take_free(self, view)
    if not free then ask(self, view) end
  end
  if self.retiring then say(self, nil) end
  give(self, view)
end

--- Wakes the loop where the store tells of a change.
local function watch(self)
  local o, place = self.options, { container = self.options.container, prefix = self.name }
  return core.spawn(function()
    local mark = o.store:mark(place)
    while mark do
      place.since, place.timeout = mark, 60
      local _, _, now = o.store:changed(place)
      mark = now
      self.wake:set()
    end
  end)
end

--- Stops everything that runs here, at once, and leaves.
local function finish(self, tasks)
  for _, task in ipairs(tasks) do task:cancel() end
  for _, task in next, self.arriving do task:cancel() end
  local ending = {}
  for _, share in next, self.jobs do ending[#ending + 1] = seat.ending(share.task) end
  for _, task in ipairs(tasks) do ending[#ending + 1] = seat.ending(task) end
  for _, share in next, self.jobs do share.task:cancel() end
  for _, one in ipairs(ending) do getmetatable(one).__close(one) end
  self.members:leave()
  self.members, self.fn = nil, nil
end

--- Runs fn(item, share) for each item that is this instance's, under the item's guard, until this instance retires or
--- the task is cancelled.
---@param items string[]|fun(): string[]  names; a function is called at each look
---@param fn fun(item: string, share: synod.Share)  one that returns is called again
---@return true|nil, synod.Error? err  true: it has retired; what the store refused at the beginning. An error in fn is
---  raised, when everything else that runs here has ended
function Partition:run(items, fn)
  if type(items) ~= "table" and type(items) ~= "function" then
    options.refuse("partition:run: a list of items or a function expected, got %s", type(items))
  end
  if type(fn) ~= "function" then options.refuse("partition:run: a function expected, got %s", type(fn)) end
  if self.members then options.refuse("partition:run: it runs already") end
  local o = self.options
  local members = membership.new {
    name = "partition-" .. o.name, ttl = o.member_ttl or MEMBER_TTL_S, store = o.store, instance = o.instance,
  }
  self.said, self.giving, self.failed, self.retiring, o.answer = {}, 0, nil, nil, o.answer or ANSWER_S
  local joined, err = members:join { info = self.said }
  if not joined then return nil, err end
  self.members, self.fn, self.gone = members, fn, core.event()
  local tasks = { members:watch(function() self.wake:set() end), watch(self) }
  local _ <close> = setmetatable({}, { __close = function() finish(self, tasks) end })
  while not self.failed and not (self.retiring and next(self.jobs) == nil) do
    self.wake:clear()
    turn(self, items)
    self.wake:wait(o.ttl / LOOKS)
  end
  self.gone:set(true)
  if self.failed then error(self.failed[1], 0) end
  return true
end

--- Gives everything away, to those who then ask for it, and ends the run. What nobody has come for when the time is
--- over is stopped and given back.
---@param given? { timeout?: number }  seconds (60)
---@return true|nil, synod.Error? err  Timeout: not everything was handed over
function Partition:retire(given)
  given = options.read("partition:retire", given, WAIT)
  if not self.members then return true end
  self.retiring = true
  self.wake:set()
  if self.gone:wait(given.timeout or 60) then return true end
  for _, share in next, self.jobs do
    share.stop:set(core.new_error { code = "Cancelled", message = "it retires" })
  end
  return nil, core.new_error {
    code = "Timeout", operation = "retire from", target = ("the partition '%s'"):format(self.options.name),
    message = ("nobody had come for %d items when %g s had passed"):format(mine(self), given.timeout or 60),
  }
end

--- What runs here.
---@return string[]  items, in order
function Partition:items()
  return sorted(self.jobs)
end

return partition
