-- partition: many items, each run by one of the instances, in shares that differ by one at most.
--
--   local partition = require "synod.partition"
--   partition.new({ name = "shards" }):run({ "s1", "s2", "s3" }, function(item, share)
--     while true do ... synod.sleep(1) end       -- stopped before anybody else could run it
--   end)
--
-- Each instance looks at who lives and who runs what (shares.lua), and does its own part: it takes items that are free,
-- up to its share; with fewer than its share it asks the one who has most for one of his. Nobody takes what another
-- runs: who has too many hands over, when and because he was asked. docs/reference/partition.md is the manual, job.lua
-- one item.

local core = require "synod.core"
local job = require "synod.partition.job"
local membership = require "synod.membership"
local options = require "synod.options"
local outage = require "synod.outage"
local plan = require "synod.plan"
local seat = require "synod.seat"
local shares = require "synod.partition.shares"
local task = require "synod.task"
local transfer = require "synod.election.transfer"

local partition = {}

local MEMBER_TTL_MAX_S = 15
local ANSWER_S = 10
local RETIRE_S = 60
local STOP_S = 8 -- of the 10 that handlers of a controlled stop have
local STOPPED_S = 1.5 -- what is stopped then has for its clean-up
local LOOKS = 15 -- in the time of a lease, where nothing tells of changes
local LOOK_REQUESTS = 2
local WATCH_S = 60

---@class synod.Partition.Options: synod.Seat.Options
---@field member_ttl? number    seconds after which an instance that says nothing has no share (ttl, at most 15)
---@field answer? number        seconds that who asked for an item has to get ready for it (10)
---@field stop_timeout? number  seconds that it has at a controlled stop to give everything away (8)
---@field on_leaving? fun(item: string, share: synod.Share)  here, first: go read-only
---@field on_arriving? fun(item: string)                     at the target, second: get ready
---@field on_left? fun(item: string)                         here, last: it has stopped and is another's
---@field on_kept? fun(item: string, share: synod.Share)     here: nobody came for it, all is as before

local NEW = seat.kinds {
  member_ttl = "positive", answer = "positive", stop_timeout = "seconds", on_leaving = "callable",
  on_arriving = "callable", on_left = "callable", on_kept = "callable",
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
  o.purpose, o.answer, o.stop_timeout = o.purpose or "partition", o.answer or ANSWER_S, o.stop_timeout or STOP_S
  local every = o.ttl / LOOKS
  local look = every / LOOK_REQUESTS
  plan.note {
    policy = "partition", name = o.name, ttl = o.ttl, renew = o.timing.renew, look = look, told = "store",
    stale = o.timing.record and o.ttl * shares.STALE + every or nil,
  }
  local members = membership.new {
    name = "partition-" .. o.name, ttl = o.member_ttl or math.min(o.ttl, MEMBER_TTL_MAX_S), store = o.store,
    instance = o.instance,
  }
  local name, container = "partition/" .. o.name .. "/", o.store:container(o.container)
  return setmetatable({
    options = o, name = name, container = container, members = members, every = every, owners = {}, jobs = {},
    wake = core.event(), silence = outage.new "partition",
    shares = shares.new { container = container, prefix = name, me = o.me, members = members, look = every },
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

local function mine(self)
  local count = 0
  for _ in next, self.jobs do count = count + 1 end
  return count
end

--- A failure ends the run: the first is the one that is told.
local function fail(self, err)
  self.failed = self.failed or { err }
  self.wake:set()
end

--- What the store refuses for good ends the run too; what may come right is tried again at the next look.
local function refused(self, err)
  local passing = err.retryable or err.code == "LeaseAlreadyPresent" or err.code == "LeaseLost"
  if not passing then self.refusal = self.refusal or err end
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
    if err ~= nil then fail(self, err) end
  end)
end

--- Takes what is free, up to our share, and one beyond that of what nobody takes. False: nothing is free.
local function take_free(self, view)
  local list, overdue = view:free()
  local any = false
  for i, item in ipairs(list) do
    if not self.jobs[item] and self.asking ~= item and not self.retiring then
      any = true
      local beyond = mine(self) >= view.high
      if beyond and i > overdue then break end
      local held, err = owner_of(self, item).seat:try()
      if held then
        begin(self, item, held)
        if beyond then break end
      else
        refused(self, err)
      end
    end
  end
  return any
end

--- Tells the others what we want: an item that we ask for, and whether we are going.
local function say(self)
  local said = self.said
  if said.asks == self.asking and said.retiring == self.retiring then return end
  self.said = { asks = self.asking, retiring = self.retiring }
  self.members:update(self.said)
end

--- One end of a hand-over, in a task of its own. What a hook of the script raises ends the run.
local function move(self, fn, done)
  local mover
  mover = core.spawn(function()
    local _ <close> = setmetatable({}, { __close = function()
      self.movers[mover] = nil
      done()
      self.wake:set()
    end })
    local ok, err = pcall(fn)
    local is_cancel = type(err) == "table" and err.code == "Cancelled" and (self.finishing or self.retiring)
    if not ok and not is_cancel then fail(self, err) end
  end)
  self.movers[mover] = true
  return mover
end

--- Gets ready under the lease, where nobody has asked us to before. False: it was lost meanwhile.
local function prepare_under(held, prepare)
  local ok, err = pcall(held.guard, held, prepare)
  if ok then return true end
  local lost = not held:held()
  held:release()
  if not lost then error(err, 0) end
  return false
end

--- Waits for an item that we have asked for, and gets ready when it is to come.
local function receive(self, item)
  local ready = self.options.on_arriving == nil
  local function prepare()
    if not ready then self.options.on_arriving(item) end
    ready = true
  end
  local held, err = transfer.wait(owner_of(self, item), self.options.answer * 2, prepare)
  if not held then return refused(self, err) end
  if ready or prepare_under(held, prepare) then begin(self, item, held) end -- it was given back for us, or free
end

local function ask(self, view)
  local item = not self.asking and view:wanted(mine(self))
  if not item then return end
  self.asking = item
  self.receiver = move(self, function() receive(self, item) end, function() self.asking, self.receiver = nil, nil end)
end

--- Who retires takes nothing more.
local function stop_asking(self)
  local receiver = self.receiver
  self.receiver = nil
  if receiver then receiver:cancel "this instance retires" end
end

---------------------------------------------------------------- giving

--- Hands over what we were asked for, as long as we have two more than who asks, or are going.
local function give(self, view)
  for _, id in ipairs(shares.sorted(view.members)) do
    local share = self.jobs[view.members[id].asks]
    local spare = mine(self) - self.giving
    if share and id ~= self.options.me and not share.going and not share.stop:is_set()
      and (self.retiring or spare >= (view.count[id] or 0) + 2) then
      share.going, self.giving = true, self.giving + 1
      move(self, function() share:give(id, self.options, self.options.answer) end, function()
        share.going, self.giving = nil, self.giving - 1
      end)
    end
  end
end

--- Gives back what is no item any more, and, when nobody is left to take it, what a leaving instance has.
local function drop(self, view)
  local alone = self.retiring and view:is_alone()
  for item, share in next, self.jobs do
    if alone or not view.items[item] then share:halt "it is no item of this instance any more" end
  end
end

---------------------------------------------------------------- running

local function turn(self, items)
  if self.members:lost() and not self.members:join { info = self.said } then return end
  local view, err = self.shares:look(items)
  if not view then refused(self, err) end -- the leases go on by themselves; it is looked at again
  if not self.refusal then self.silence:note(err, { name = self.options.name }) end
  if not view then return end
  drop(self, view)
  if self.retiring then
    stop_asking(self)
  elseif not take_free(self, view) then
    ask(self, view)
  end
  if not self.members:lost() then say(self) end
  give(self, view)
end

--- Wakes the loop where the store tells of a change.
local function watch(self)
  local store, place = self.options.store, { container = self.options.container, prefix = self.name }
  local mark = store:mark(place)
  while mark do
    place.since, place.timeout = mark, WATCH_S
    local _, _, now = store:changed(place)
    mark = now
    self.wake:set()
  end
end

--- Stops everything that runs here, at once, and leaves.
local function finish(self, watchers, err)
  self.finishing = true
  for mover in next, self.movers do watchers[#watchers + 1] = mover end
  local cancelled, runners = task.stop(watchers), {}
  for _, share in next, self.jobs do
    share:halt "this instance has stopped to run its share"
    runners[#runners + 1] = share.task
  end
  cancelled = task.wait(runners) or cancelled
  self.members:leave()
  self.fn = nil
  self.gone:set(true)
  if cancelled ~= nil and err == nil then error(cancelled, 0) end
end

local function is_over(self)
  local empty = next(self.jobs) == nil and (self.late or next(self.movers) == nil)
  return self.failed or self.refusal or self.retiring and empty
end

--- Runs fn(item, share) for each item that is this instance's, under the item's guard, until this instance retires, is
--- stopped in a controlled way, or the task is cancelled.
---@param items string[]|fun(): string[]  names; a function is called at each look
---@param fn fun(item: string, share: synod.Share)  one that returns is called again
---@return true|nil, synod.Error? err  true: it has retired; what the store refuses for good. An error in fn, or in a
---  hook, is raised, when everything else that runs here has ended
function Partition:run(items, fn)
  if type(items) ~= "table" and type(items) ~= "function" then
    options.refuse("partition:run: a list of items or a function expected, got %s", type(items))
  end
  if type(fn) ~= "function" then options.refuse("partition:run: a function expected, got %s", type(fn)) end
  if self.fn then options.refuse("partition:run: it runs already") end
  if not self.stops then
    self.stops = true
    task.on("stopping", function() self:retire { timeout = self.options.stop_timeout } end)
  end
  self.said, self.giving, self.movers, self.asking = {}, 0, {}, nil
  self.failed, self.refusal, self.retiring, self.late, self.finishing = nil, nil, nil, nil, nil
  self.fn, self.gone = fn, core.event()
  local watchers = {}
  local _ <close> = setmetatable({}, { __close = function(_, err) finish(self, watchers, err) end })
  local joined, err = self.members:join { info = self.said }
  if not joined then return nil, err end
  watchers[1] = self.members:watch(function() self.wake:set() end)
  watchers[2] = core.spawn(watch, self)
  while not is_over(self) do
    self.wake:clear()
    turn(self, items)
    if not is_over(self) then self.wake:wait(self.every) end
  end
  if self.failed then error(self.failed[1], 0) end
  if self.refusal then return nil, self.refusal end
  return true
end

--- Gives everything away, to those who then ask for it, and ends the run. What nobody has come for when the time is
--- over is stopped and given back. A controlled stop does the same.
---@param given? { timeout?: number }  seconds (60)
---@return true|nil, synod.Error? err  Timeout: not everything was handed over
function Partition:retire(given)
  given = options.read("partition:retire", given, WAIT)
  if not self.fn then return true end
  local timeout = given.timeout or RETIRE_S
  self.retiring = true
  self.wake:set()
  if self.gone:wait(timeout) then return true end
  local left = mine(self)
  self.late = true
  for _, share in next, self.jobs do share:halt "it retires" end
  self.wake:set()
  self.gone:wait(STOPPED_S)
  return nil, core.new_error {
    code = "Timeout", operation = "retire from", target = ("the partition '%s'"):format(self.options.name),
    message = ("nobody had come for %d items when %g s had passed"):format(left, timeout),
  }
end

--- What runs here.
---@return string[]  items, in order
function Partition:items()
  return shares.sorted(self.jobs)
end

return partition
