-- consumer: gets messages of one or several queues and has handlers settle them.
--
-- Each queue is a lane with a task of its own that waits for messages there. A lane that wants to look takes its turn
-- for free slots, and goes to the end of the line when it has had it: a busy queue does not starve the others. A
-- message that was got has a task that keeps it and waits for its handler, of which `concurrency` run at once.

local backoff = require "synod.backoff"
local bell = require "synod.hints.bell"
local core = require "synod.core"
local delivery = require "synod.workqueue.delivery"
local envelope = require "synod.workqueue.envelope"
local log = require "synod.log"
local outage = require "synod.outage"
local task = require "synod.task"
local turns = require "synod.turns"

local consumer = {}

local DONE_MAX = 4096   -- ids remembered, to notice duplicates
local REFUSED_S = 60    -- for which a message of a newer version is hidden
local RATE_STEP_S, RATE_STEPS = 5, 12 -- the last minute

---@class synod.Consumer.Lane
---@field name string
---@field queue synod.Queue
---@field poison synod.Queue
---@field silence? synod.Outage
---@field pusher? synod.Pusher  once something was pushed, over a store that tells of no change
---@field put_poison fun(self, text: string): synod.Message|nil, synod.Refusal

---@class synod.Consumer
---@field options synod.WorkQueue.Options
---@field lanes synod.Consumer.Lane[]
---@field fn function
---@field counts table<string, integer>
local Consumer = {}
Consumer.__index = Consumer

local function new_counts()
  return { done = 0, failed = 0, poisoned = 0, returned = 0, lost = 0, superseded = 0, duplicates = 0, refused = 0 }
end

---@param options synod.WorkQueue.Options
---@param lanes synod.Consumer.Lane[]
---@param by string  who handles
---@return synod.Consumer
function consumer.new(options, lanes, by)
  return setmetatable({
    options = options, lanes = lanes, by = by, counts = new_counts(), done = {}, done_ring = {}, done_next = 1,
    rates = {},
  }, Consumer)
end

---------------------------------------------------------------- what becomes of a message

local function count(self, name)
  self.counts[name] = self.counts[name] + 1
end

--- Done messages by steps of time.
local function count_rate(self)
  local step = math.floor(core.now() / RATE_STEP_S)
  self.rates[step] = (self.rates[step] or 0) + 1
  for old in next, self.rates do
    if old <= step - RATE_STEPS then self.rates[old] = nil end
  end
end

local function remember(self, id)
  local old = self.done_ring[self.done_next]
  if old then self.done[old] = nil end
  self.done_ring[self.done_next], self.done[id] = id, true
  self.done_next = self.done_next % DONE_MAX + 1
end

local function describe(d, err)
  return { queue = d.lane.name, id = d.envelope and d.envelope.id or d.message.id, why = tostring(err) }
end

local function finish(self, d)
  remember(self, d.envelope.id)
  count(self, "done")
  count_rate(self)
  local gone, err, others = d:delete()
  if gone then return end
  if others then count(self, "superseded") end
  log.debug("a message that is done could not be deleted", describe(d, err))
end

--- Seconds until the next attempt: `min`, then `factor` times more up to `max`, with jitter up to a quarter less.
local function pause_after(retry, number)
  local pause = retry.min
  for _ = 2, number do
    if pause >= retry.max then break end
    pause = pause * retry.factor
  end
  pause = math.min(retry.max, pause)
  if retry.jitter ~= false then pause = pause * (1 - core.random() / 4) end
  return math.max(1, math.ceil(pause)) -- the service counts whole seconds
end

local function hide(self, d, seconds, word)
  local hidden, err, others = d:hide(seconds)
  if others then
    count(self, "superseded")
  elseif hidden then
    count(self, word)
  else
    log.warn("a message could not be put back; it shows when its visibility is over", describe(d, err))
  end
end

--- Out of the way, unless who asked to be told of it could not take it, or the poison queue cannot be written.
---@return boolean moved
local function poison(self, d, why)
  if self.options.poisoned then
    local ok, err = pcall(self.options.poisoned, d.handle, why)
    if not ok then
      log.warn("a message stays where it is: the function for poisoned messages failed", describe(d, err))
      return false
    end
  end
  local moved, err = d:poison()
  if moved then
    count(self, "poisoned")
    log.warn("a message was moved to the poison queue", describe(d, why))
  else
    log.warn("a message could not be moved to the poison queue; it comes again", describe(d, err))
  end
  return moved == true
end

--- Where it cannot be moved it comes again with its history: so the reason is not lost.
local function fail(self, d, why)
  envelope.add_attempt(d.envelope, self.by, why)
  local is_over = d.handle.rejected ~= nil or d.number >= self.options.max_attempts
  if is_over and poison(self, d, why) then return end
  hide(self, d, pause_after(self.options.retry, d.number), "failed")
end

--- Untouched: the attempt does not count.
local function give_back(self, d, seconds)
  envelope.add_attempt(d.envelope, self.by)
  hide(self, d, seconds, "returned")
end

local function settle(self, d, ok, why)
  if d.lost then
    count(self, "lost")
    log.warn("a message was lost while it was handled; another consumer has it, or will", describe(d, d.lost))
  elseif d.handle.rejected ~= nil then
    fail(self, d, d.handle.rejected)
  elseif ok then
    finish(self, d)
  elseif d.returning then
    give_back(self, d, 0)
  else
    fail(self, d, why)
  end
end

--- Waits for its handler's turn and runs it. A drain or a loss may come first.
local function handle(self, d)
  local place = self.running:take(1)
  local _ <close> = setmetatable({}, { __close = function() self.running:give(place) end })
  if d.lost or place == 0 then
    d.returning = true
    return false
  end
  self.handling[d] = true
  local _ <close> = setmetatable({}, { __close = function() self.handling[d] = nil end })
  return d:run(self.fn)
end

--- There were attempts enough, whatever became of the last one.
local function give_up(self, d)
  local e = d.envelope
  local failed, why = envelope.failed(e)
  local is_told = failed >= d.number - 1
  if not is_told then
    why = ("%d attempts, and no consumer lived to say how the last one ended%s"):format(
      d.number - 1, why and "; the last error known: " .. why or "")
    envelope.add_attempt(e, self.by, why)
  end
  if poison(self, d, why) then return end
  if not is_told then table.remove(e.attempts) end
  give_back(self, d, pause_after(self.options.retry, d.number))
end

--- What needs no handler: true when it is settled.
local function settle_unhandled(self, d)
  local known, err = d:open()
  if not known then
    count(self, "refused")
    log.warn("a message is left alone", describe(d, err))
    d.message:update { visibility = REFUSED_S }
    return true
  end
  local id = d.envelope.id
  if self.done[id] then
    count(self, "duplicates")
    d:delete()
    return true
  end
  if self.ids[id] then
    count(self, "duplicates")
    give_back(self, d, self.options.visibility)
    return true
  end
  if d.number > self.options.max_attempts then
    give_up(self, d)
    return true
  end
end

local function process(self, d)
  local _ <close> = setmetatable({}, {
    __close = function()
      self.held[d] = nil
      self.slots:give(1)
      if not next(self.held) then self.empty:set() end
    end,
  })
  if settle_unhandled(self, d) then return end
  local id = d.envelope.id
  self.ids[id] = true
  local _ <close> = setmetatable({}, { __close = function() self.ids[id] = nil end })
  d:keep()
  local ok, why
  do
    local _ <close> = setmetatable({}, { __close = function() d:release() end })
    ok, why = handle(self, d)
  end
  settle(self, d, ok, why)
end

---------------------------------------------------------------- lanes

--- Gets what its turn allows. True ends this wait of the lane.
local function fetch(self, lane)
  local reserved = self.slots:take(self.options.batch)
  local _ <close> = setmetatable({}, { __close = function() self.slots:give(reserved) end })
  local asked = core.instant()
  local messages, err = lane.queue:get { n = reserved, visibility = self.options.visibility }
  if not messages then
    if err.code == "QueueNotFound" then
      local made, why = lane.queue:create()
      if made then return nil end
      err = why
    end
    if err.retryable or err.code == "Timeout" then return nil, err end
    self.failure = err
    self.over:set()
    return true
  end
  for _, message in ipairs(messages) do
    local d = delivery.new(self, lane, message, asked)
    reserved = reserved - 1
    self.empty:clear()
    self.held[d] = core.spawn(process, self, d)
  end
  return #messages > 0
end

local function watch(self, lane)
  local o = self.options
  local hint <close> = bell.hint(o.store, lane.name)
  local ear <close> = bell.listen(o.store, lane.name, hint)
  local function look()
    local found, err = fetch(self, lane)
    if not self.failure then lane.silence:note(err, { queue = lane.name }) end
    if ear and not err then ear:looked(found == true) end
    return found, err
  end
  while not self.draining and not self.failure do
    backoff.poll(look, {
      store = o.store, container = lane.name, min = o.poll_min, max = o.poll_max, recheck = o.recheck, hint = hint,
    })
  end
end

local function begin(self, fn)
  self.fn, self.draining, self.failure = fn, false, nil
  -- a full page is got when there is room for it
  self.slots = turns.new(self.options.concurrency + self.options.batch - 1)
  self.running = turns.new(self.options.concurrency)
  self.held, self.handling, self.ids = {}, {}, {}
  self.over, self.empty = core.event(), core.event()
  self.empty:set()
  self.watchers = {}
  for i, lane in ipairs(self.lanes) do
    lane.silence = outage.new "work queue"
    self.watchers[i] = core.spawn(watch, self, lane)
  end
end

--- No more messages are got, and no more handlers begin; what a get under way took is shown again. Then the handlers
--- are waited for, and after `timeout` stopped. A cancel meanwhile ends that wait, and nothing else: it is kept.
---@return boolean all, any cancelled
local function drain(self, timeout)
  self.draining = true
  self.running:close()
  local cancelled = task.stop(self.watchers, "the work queue is drained")
  local ok, empty = pcall(self.empty.wait, self.empty, cancelled == nil and timeout or 0)
  if not ok then cancelled = empty end
  local all = ok and empty ~= nil
  while next(self.held) do
    for d in next, self.handling do d:interrupt() end
    local waited, why = pcall(self.empty.wait, self.empty, 1)
    if not waited then cancelled = why end
  end
  self.over:set()
  return all, cancelled
end

---@return boolean
function Consumer:is_consuming()
  return self.watchers ~= nil
end

--- Gets no more messages and waits for the handlers; those that run longer are stopped, and their messages shown again.
--- One that comes before the first run ends that.
---@param timeout number  seconds
---@return boolean all  every handler ended by itself
function Consumer:drain(timeout)
  if not self.watchers then
    self.early = not self.begun -- whoever is about to begin ends at once
    return true
  end
  local all, cancelled = drain(self, timeout)
  if cancelled ~= nil then error(cancelled, 0) end
  return all
end

--- Handles messages until it is drained, or until the store refuses for good.
---@param fn fun(message: synod.WorkMessage)
---@return true|nil, synod.Error? err
function Consumer:run(fn)
  self.begun = true
  if self.early then
    self.early = false
    return true
  end
  begin(self, fn)
  local _ <close> = setmetatable({}, {
    __close = function(_, err)
      local _, cancelled = drain(self, 0)
      self.watchers = nil
      if cancelled ~= nil and err == nil then error(cancelled, 0) end
    end,
  })
  self.over:wait()
  if self.failure then return nil, self.failure end
  return true
end

---------------------------------------------------------------- figures

--- Messages that are held here: handled, or waiting for a handler.
---@return integer
function Consumer:in_flight()
  local n = 0
  for _ in next, self.held or {} do n = n + 1 end
  return n
end

--- Messages done a second, over the last minute.
---@return number
function Consumer:rate()
  local now, sum = math.floor(core.now() / RATE_STEP_S), 0
  for step, n in next, self.rates do
    if step > now - RATE_STEPS then sum = sum + n end
  end
  return sum / (RATE_STEP_S * RATE_STEPS)
end

return consumer
