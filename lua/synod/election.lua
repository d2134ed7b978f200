-- election: one of many leads, until it stops, resigns, fails or dies; then another does.
--
--   local election = require "synod.election"
--   election.new({ name = "scheduler" }):lead(function(term)
--     while true do ... synod.sleep(1) end          -- stopped before anybody else could lead
--   end)
--
-- `lead` campaigns, runs its function under a guard, and when the leadership is lost campaigns again. How a leader
-- hands over to a chosen successor is in transfer.lua. docs/reference/election.md is the manual.

local backoff = require "synod.backoff"
local core = require "synod.core"
local options = require "synod.options"
local seat = require "synod.seat"
local task = require "synod.task"
local transfer = require "synod.election.transfer"

local election = {}

local HEALTH_EVERY = 1 / 3 -- of the ttl
local REST_LOOKS = 2       -- between a term and the next campaign: as long as the others need to look so often

---@class synod.Election.Options: synod.Seat.Options
---@field healthy? fun(): any     a leader for whom it is false, or raises, steps down; who is not healthy does not lead
---@field healthy_every? number   seconds between asking (a third of the ttl)

local NEW = seat.kinds { healthy = "callable", healthy_every = "positive" }
local LEAD = { once = "boolean", timeout = "seconds" }
local WAIT = { timeout = "seconds" }
local LEADER = { max_age = "seconds", timeout = "seconds" }

---@class synod.Election
local Election = {}
Election.__index = Election
Election.__name = "synod.Election"

---@class synod.Term  one leadership; to be closed
---@field fence integer                  grows with each term
---@field id string                      who leads: this instance
---@field held fun(self): boolean        is it ours, by our own clock
---@field remaining fun(self): number    seconds until it is lost, unless it is renewed
---@field wait_lost fun(self, timeout?: number): synod.Error|nil
---@field put fun(self, blob: synod.Blob, body: string, options?: synod.PutOptions): synod.Props|nil, synod.Refusal
---@field set_metadata fun(self, blob: synod.Blob, metadata: synod.Metadata, options?: synod.Conditions)
---@field merge fun(self, table: synod.Table, entity: synod.Entity, options?: table)
local Term = seat.class "synod.Term"

---@class synod.Leader
---@field id string       instance id
---@field term integer    the fence of its term
---@field since? string   UTC, RFC 3339, by its own clock
---@field host? string
---@field hints? string   where it can be asked to tell of its end (synod.hints)
---@field age number      seconds since the store said so

--- Touches no store.
---@param given synod.Election.Options
---@return synod.Election
function election.new(given)
  local o, problem = seat.complete(options.read("election.new", given, NEW), "scheduler")
  if problem then options.refuse("election.new: %s", problem) end
  o.purpose = o.purpose or "election"
  return election.of(o, "election/" .. o.name)
end

--- An election for another place, for policies that have a leader of their own.
---@param o table  options that seat.complete has completed
---@param name string  the blob's
---@return synod.Election
function election.of(o, name)
  o.healthy_every = o.healthy_every or o.ttl * HEALTH_EVERY
  return setmetatable({ options = o, seat = seat.new(o, name), title = ("the election '%s'"):format(o.name) }, Election)
end

---------------------------------------------------------------- health

--- Whether the instance says that it can lead; and what it says else. Asked in a task of its own: an error there is an
--- answer, one that is raised here, as a cancel, is not.
local function check_health(self)
  local healthy = self.options.healthy
  if not healthy then return true end
  local ok, well, why = task.timeout(self.options.ttl, function() return pcall(healthy) end)
  if ok and well then return true end
  return false, tostring(not ok and well or why or "it is not healthy")
end

--- Waits until it can lead.
local function wait_healthy(self, timeout)
  if check_health(self) then return true end
  local every = self.options.healthy_every
  return backoff.poll(function() return (check_health(self)) end,
    { min = every, max = every, factor = 1, jitter = false, timeout = timeout })
end

local function stepping_down(self, why)
  return core.new_error {
    code = "Cancelled", operation = "lead", target = self.title,
    message = "it steps down: " .. why,
  }
end

---------------------------------------------------------------- a term

local function new_term(self, held)
  local term = setmetatable({
    lease = held, fence = held.fence, id = self.options.me, owner = self, stop = core.event(), ended = core.event(),
  }, Term)
  self.term = term
  return term
end

--- The end of a term, when nothing of it runs any more: it is handed over, or given back.
local function finish(term)
  if term.finished then return end
  term.finished = true
  local self = term.owner
  term.result = table.pack(nil, stepping_down(self, "the call was cancelled")) -- unless it comes to its end
  local _ <close> = setmetatable({}, { __close = function()
    if self.term == term then self.term = nil end
    term.ended:set()
  end })
  if term.proposal then
    term.result = table.pack(transfer.hand_over(term))
  else
    term.result = table.pack(term.lease:release())
  end
end

--- Ends the term. Where a body runs under it, that is told to stop, and to wait for the end is to be stopped, for the
--- body and all that belongs to it.
local function end_term(term, why)
  if term.running then
    term.stop:set(stepping_down(term.owner, why))
  else
    finish(term)
  end
  term.ended:wait() -- another task may be at it
  return table.unpack(term.result, 1, term.result.n)
end

--- Gives the leadership up: what runs under it is stopped, then it is free. In the body itself the stop is raised by
--- this call.
---@return true|nil, synod.Error? err  LeaseLost: it had been lost before; what the store refuses
function Term:resign()
  return end_term(self, "it resigns")
end

--- Hands the leadership to another candidate, which is asked first; what runs under it is stopped, then it is his,
--- without an instant in which a third could take it. In the body itself the stop is raised by this call. When he does
--- not answer, nothing has changed.
---@param instance string  his instance id
---@param given? { timeout?: number }  seconds for his answer (10)
---@return true|nil, synod.Error? err  Timeout: he does not answer; Unsupported: of a short lease
function Term:transfer(instance, given)
  given = options.read("term:transfer", given, WAIT)
  if type(instance) ~= "string" or instance == "" then
    options.refuse("term:transfer: the id of an instance expected, got %s", tostring(instance))
  end
  local proposal, err
  if not self.finished then
    proposal, err = transfer.invite(self, instance, given.timeout)
    if not proposal then return nil, err end
  end
  if self.finished then
    return nil, core.new_error { code = "LeaseLost", operation = "transfer", target = self.owner.title }
  end
  self.proposal = proposal
  return end_term(self, "it hands over to " .. instance)
end

--- Runs fn(term, ...) guarded by the term. It is stopped with LeaseLost before anybody else could lead, and with
--- Cancelled by `resign` and `transfer`; then the term is over. Else the term goes on when fn returns.
---@param fn fun(term: synod.Term, ...: any): ...
---@param ... any
---@return ...  fn's results; its error is raised
function Term:guard(fn, ...)
  if self.running then error("term:guard: something runs under this term already", 2) end
  self.running = true
  local _ <close> = setmetatable({}, { __close = function()
    self.running = nil
    if self.stop:is_set() then finish(self) end
  end })
  return seat.run(self.lease, self.stop, fn, self, ...)
end

Term.__close = finish

---------------------------------------------------------------- candidates

local function late(self, timeout, last)
  return core.new_error {
    code = "Timeout", operation = "lead", target = self.title,
    message = ("not free within %g s%s"):format(timeout, last.holder and ": " .. last.holder .. " leads" or ""),
    holder = last.holder, host = last.host, since = last.since, fence = last.fence,
  }
end

--- Begins a term if this instance can lead by now; else the lease is given back, also when it is cancelled meanwhile.
---@return synod.Term|nil
local function begin_term(self, held)
  local term
  local _ <close> = setmetatable({}, { __close = function() if not term then held:release() end end })
  if check_health(self) then term = new_term(self, held) end
  return term
end

local function campaign(self, timeout)
  local began = core.now()
  while true do
    local left = timeout and math.max(0, timeout - (core.now() - began))
    local well, unwell = wait_healthy(self, left)
    if not well then return nil, unwell end
    local held, err = transfer.wait(self, left)
    if not held then
      if err.code == "LeaseAlreadyPresent" then err = late(self, timeout, err) end
      return nil, err
    end
    local term = begin_term(self, held)
    if term then return term end
  end
end

--- Waits until this instance leads. A cancel meanwhile leaves nothing behind.
---@param given? { timeout?: number }  seconds; 0: look once; nothing: for ever
---@return synod.Term|nil, synod.Error? err  Timeout, with who leads; what the store refuses
function Election:campaign(given)
  given = options.read("election:campaign", given, WAIT)
  if self.term then options.refuse("election:campaign: this instance leads already") end
  return campaign(self, given.timeout)
end

---------------------------------------------------------------- leading

--- Watches the health of a leader; close it to end.
local function watch_health(self, term)
  local o = self.options
  if not o.healthy then return nil end
  local watcher = core.spawn(function()
    while true do
      core.sleep(o.healthy_every)
      local well, why = check_health(self)
      if not well then return term.stop:set(stepping_down(self, why)) end
    end
  end)
  return setmetatable({}, { __close = function()
    watcher:cancel()
    watcher:join()
  end })
end

--- One term of `lead`. True and the results when fn returned; false and why when it was stopped by us.
local function serve(self, term, fn)
  local _ <close> = term
  local _ <close> = watch_health(self, term)
  local results = table.pack(pcall(term.guard, term, fn))
  if results[1] then return table.unpack(results, 1, results.n) end
  local err = results[2]
  local stopped = term.stop:is_set() and term.stop:wait()
  local lost = type(err) == "table" and err.code == "LeaseLost" and not term.lease:held()
  if not lost and not rawequal(err, stopped) then error(err, 0) end
  return false, err
end

--- Leads whenever this instance can: campaigns, and runs fn(term) under the term's guard. When the leadership is lost,
--- resigned, handed over or the health fails, fn is stopped, and it campaigns again, until fn returns. Then it resigns.
---@param fn fun(term: synod.Term): ...
---@param given? { once?: boolean, timeout?: number }  once: no second campaign; seconds for each campaign
---@return ...  fn's results; nil, err: Timeout of a campaign, what the store refuses, with `once` how the leadership
---  ended. An error in fn is raised
function Election:lead(fn, given)
  given = options.read("election:lead", given, LEAD)
  if type(fn) ~= "function" then options.refuse("election:lead: a function expected, got %s", type(fn)) end
  if self.term then options.refuse("election:lead: this instance leads already") end
  while true do
    local term, err = campaign(self, given.timeout)
    if not term then return nil, err end
    local results = table.pack(serve(self, term, fn))
    if results[1] then return table.unpack(results, 2, results.n) end
    if given.once then return nil, results[2] end
    core.sleep(self.seat:place().max * REST_LOOKS) -- others first
  end
end

--- Does this instance lead, by our own clock, as far as this object knows?
---@return boolean
function Election:is_leader()
  return self.term ~= nil and self.term.lease:held()
end

---------------------------------------------------------------- who leads

--- Asks the store. Nil without an err: nobody leads. Who has just taken the lease does not lead before its fence is
--- written: until then the metadata are those of the last one, whose term was seen to be over.
---@return synod.Leader|nil, synod.Error? err
local function ask(self, timeout)
  local held, mark = self.seat:look(timeout)
  if held == nil then return nil, mark end
  if not held then self.over = mark.fence end
  if not held or not mark.holder or mark.fence == self.over then return nil end
  return { id = mark.holder, term = mark.fence, since = mark.since, host = mark.host, hints = mark.hints }
end

--- Who leads. One look, unless one that is not older than `max_age` is remembered. Of a short lease, whose end nothing
--- tells, it may be one that has just died: he is gone when nothing has changed for the ttl while this object looked.
---@param given? { max_age?: number, timeout?: number }  seconds
---@return synod.Leader|nil, synod.Error? err  nil without an err: nobody
function Election:leader(given)
  given = options.read("election:leader", given, LEADER)
  local now = core.now()
  if not self.asked_at or now - self.asked_at > (given.max_age or 0) then
    local leader, err = ask(self, given.timeout)
    if err then return nil, err end
    self.known, self.asked_at = leader, now
  end
  if not self.known then return nil end
  local leader = { age = core.now() - self.asked_at }
  for field, value in next, self.known do leader[field] = value end
  return leader
end

--- Calls fn with who leads, now and whenever that changes (nil: nobody), in a task of its own. While the store does not
--- answer nothing is said.
---@param fn fun(leader: synod.Leader|nil)
---@return synod.Task  cancel it to end
function Election:observe(fn)
  if type(fn) ~= "function" then options.refuse("election:observe: a function expected, got %s", type(fn)) end
  local place = self.seat:place()
  return core.spawn(function()
    local hint <close> = self.seat:hint()
    place.hint = hint
    local told
    backoff.poll(function()
      local leader, err = self:leader()
      if hint then hint:toward(leader and leader.hints) end
      local now = leader and leader.term or 0
      if err or now == told then return nil end
      told = now
      fn(leader)
    end, place)
  end)
end

return election
