-- workqueue: work that is handed to whoever has time for it, each piece at least once.
--
--   local workqueue = require "synod.workqueue"
--   local jobs = workqueue.new { name = "thumbnails", concurrency = 4 }
--   assert(jobs:push { file = "7.jpg" })
--   assert(jobs:consume(function(msg) resize(msg.body.file) end))      -- until the instance is stopped
--
-- A message is hidden from others while its handler runs, and deleted when that has returned; a handler that fails has
-- it shown again after a back-off, and too many failures move it, with its history, to the queue <name>-poison.
-- docs/reference/workqueue.md is the manual; consumer.lua gets messages, delivery.lua keeps and settles one,
-- envelope.lua knows the record.

local backoff = require "synod.backoff"
local bell = require "synod.hints.bell"
local consumer = require "synod.workqueue.consumer"
local core = require "synod.core"
local envelope = require "synod.workqueue.envelope"
local options = require "synod.options"
local plan = require "synod.plan"
local queues = require "synod.queue"
local task = require "synod.task"

local workqueue = {}

local VISIBILITY_S, VISIBILITY_MAX_S = 30, 7 * 24 * 3600
local RETRY = { min = 2, max = 300, factor = 2 }
local ATTEMPTS = 5
local PAGE_MAX = 32          -- messages that a queue gives at once
local POLL_MIN_S, POLL_MAX_S = 0.2, 10
local RECHECK_S = 1          -- a message that was hidden shows without a change that could wake anybody
local STOP_S = 8             -- for handlers to end at a controlled stop, whose handlers have 10 s
local FOR_EVER = -1          -- ttl: work is not lost because nobody had time for a week

---@class synod.WorkQueue.Retry
---@field min? number     seconds after the first failure (2)
---@field max? number     seconds at most (300, or min where that is more)
---@field factor? number  how much longer after each further one (2)
---@field jitter? boolean  false: exactly so; else up to a quarter less

---@class synod.WorkQueue.Options
---@field name? string           the queue
---@field names? string[]        several, which share the handlers fairly
---@field visibility? integer    seconds that a message is hidden; extended while its handler runs (30)
---@field retry? synod.WorkQueue.Retry  how long a failed message waits for its next attempt
---@field max_attempts? integer  after so many failures it goes to the poison queue (5)
---@field concurrency? integer   handlers at once (1)
---@field batch? integer         messages asked for at once, up to 32 (concurrency)
---@field base64? boolean        bodies travel as base64, as some other clients have it
---@field poisoned? fun(msg: synod.WorkMessage, why: any)  told before a message goes to the poison queue
---@field stop_timeout? number   seconds that handlers have at a controlled stop (8)
---@field store? synod.Store     synod.store
---@field instance? synod.Instance  who this is (synod.instance)
---@field poll_min? number       seconds between looks over a store that does not tell of changes (0.2) ...
---@field poll_max? number       ... at most (10)
---@field recheck? number        seconds between looks over one that does (1)

local NEW = {
  name = "label", names = "table", visibility = "count", retry = "table", max_attempts = "count", concurrency = "count",
  batch = "count", base64 = "boolean", poisoned = "callable", stop_timeout = "seconds", store = "store",
  instance = "table", poll_min = "positive", poll_max = "positive", recheck = "positive",
}

---@class synod.WorkQueue
local WorkQueue = {}
WorkQueue.__index = WorkQueue
WorkQueue.__name = "synod.WorkQueue"

local function problem_of_names(names)
  if #names == 0 then return "a name is needed, such as name = \"tasks\"" end
  local seen = {}
  for _, name in ipairs(names) do
    if type(name) ~= "string" then return "names is a list of strings" end
    local fault = core.name_fault("queue", name) or core.name_fault("queue", queues.poison(name))
    if fault then return ("the queue name '%s' (with '-poison' behind it) %s"):format(name, fault) end
    if seen[name] then return ("the queue '%s' is named twice"):format(name) end
    seen[name] = true
  end
end

local function problem_of_retry(retry)
  for name, value in next, retry do
    local is_right = name == "jitter" and type(value) == "boolean"
      or (name == "min" or name == "max" or name == "factor") and type(value) == "number" and value > 0
    if not is_right then
      return ("retry takes min, max (seconds above 0), factor (1 or more) and jitter, not %s = %s"):format(
        tostring(name), tostring(value))
    end
  end
  if retry.factor and retry.factor < 1 then return "retry.factor is a number from 1 on" end
  for _, name in ipairs { "min", "max" } do
    if (retry[name] or 0) > VISIBILITY_MAX_S then
      return ("retry.%s = %g s is more than a queue hides a message (%d)"):format(name, retry[name], VISIBILITY_MAX_S)
    end
  end
  if retry.max and retry.min and retry.max < retry.min then
    return ("retry.max (%g s) is below retry.min (%g s)"):format(retry.max, retry.min)
  end
end

local function problem_with(o)
  if o.name and o.names then return "give name, or names for several queues" end
  if o.visibility and o.visibility > VISIBILITY_MAX_S then
    return ("visibility = %d s is more than a queue allows (%d)"):format(o.visibility, VISIBILITY_MAX_S)
  end
  if o.batch and o.batch > PAGE_MAX then
    return ("batch = %d is more than a queue gives at once (%d)"):format(o.batch, PAGE_MAX)
  end
  if o.poll_min and o.poll_max and o.poll_max < o.poll_min then
    return ("poll_max (%g s) is below poll_min (%g s)"):format(o.poll_max, o.poll_min)
  end
  return problem_of_names(o.names or { o.name }) or problem_of_retry(o.retry or {})
end

local function complete(o)
  local retry = o.retry or {}
  local min = retry.min or math.min(RETRY.min, retry.max or RETRY.min)
  o.retry = { min = min, max = retry.max or math.max(RETRY.max, min), factor = retry.factor or RETRY.factor,
    jitter = retry.jitter }
  o.visibility, o.max_attempts = o.visibility or VISIBILITY_S, o.max_attempts or ATTEMPTS
  o.concurrency = o.concurrency or 1
  o.batch = o.batch or math.min(PAGE_MAX, o.concurrency)
  o.stop_timeout = o.stop_timeout or STOP_S
  o.poll_min = o.poll_min or math.min(POLL_MIN_S, o.poll_max or POLL_MIN_S)
  o.poll_max = o.poll_max or math.max(POLL_MAX_S, o.poll_min)
  o.recheck = o.recheck or RECHECK_S
  o.store = o.store or require("synod").store
  o.text_max = o.base64 and envelope.BYTES_MAX or envelope.TEXT_MAX
  return o
end

--- Puts a text; makes the queue when it is not there.
local function put(queue, text, put_options)
  local message, err = queue:put(text, put_options)
  if message or err.code ~= "QueueNotFound" then return message, err end
  local made, why = queue:create()
  if not made then return nil, why end
  return queue:put(text, put_options)
end

local function lane_of(o, name)
  local queue_options = o.base64 and { base64 = true } or nil
  local lane = {
    name = name, queue = o.store:queue(name, queue_options), poison = o.store:queue(queues.poison(name), queue_options),
  }
  function lane:put_poison(text) return put(self.poison, text, { ttl = FOR_EVER }) end
  return lane
end

--- Makes a work queue; makes no request.
---@param given synod.WorkQueue.Options
---@return synod.WorkQueue
function workqueue.new(given)
  local o = options.read("workqueue.new", given, NEW)
  local problem = problem_with(o)
  if problem then options.refuse("workqueue.new: %s", problem) end
  local names = o.names or { o.name }
  complete(o)
  local lanes, by_name = {}, {}
  for i, name in ipairs(names) do
    plan.note { policy = "workqueue", name = name, look = backoff.mean(o.poll_min, o.poll_max), read = bell.READ_S }
    lanes[i] = lane_of(o, name)
    by_name[name] = lanes[i]
  end
  local who = o.instance or require("synod").instance
  return setmetatable({
    options = o, lanes = lanes, by_name = by_name, consumer = consumer.new(o, lanes, who.id or "unnamed"),
  }, WorkQueue)
end

---------------------------------------------------------------- pushing

local PUSH = { delay = "seconds", id = "string", to = "string" }

local function too_large(name, max)
  return core.new_error {
    code = "RequestBodyTooLarge", operation = "push to", target = ("the queue %s"):format(name),
    message = ("the payload and its envelope are more than the %d bytes of a message: put it into a blob, and push its "
      .. "name"):format(max),
  }
end

--- Consumers look: those of this process, and those that are told by hints.
local function tell(self, lane)
  if self.options.store:mark {} then return end -- the store itself tells
  lane.pusher = lane.pusher or bell.pusher(self.options.store, lane.name) -- from here on pushes are told
  lane.pusher:ring()
end

--- Hands over work: anything that JSON can say. A put whose answer is lost is repeated, with the same id.
---@param payload any
---@param given? { delay?: number, id?: string, to?: string }  seconds until it shows; an id of yours; which of several
---@return string|nil id, synod.Error? err
function WorkQueue:push(payload, given)
  given = options.read("workqueue:push", given, PUSH)
  local lane = given.to and self.by_name[given.to] or not given.to and #self.lanes == 1 and self.lanes[1]
  if not lane then
    options.refuse("workqueue:push: %s", given.to and ("this work queue has no queue '%s'"):format(given.to)
      or "it has several queues: say which with to = NAME")
  end
  local e = envelope.new(payload, given.id)
  local ok, text = pcall(envelope.text, e, self.options.text_max)
  if not ok then options.refuse("workqueue:push: the payload: %s", tostring(text)) end
  if not text then return nil, too_large(lane.name, self.options.text_max) end
  local message, err = put(lane.queue, text, { delay = math.ceil(given.delay or 0), ttl = FOR_EVER })
  if not message then return nil, err end
  tell(self, lane)
  return e.id
end

--- Says that nothing more is pushed: consumers elsewhere no longer rely on being told by this object. One that pushes
--- again begins anew.
function WorkQueue:close()
  for _, lane in ipairs(self.lanes) do
    local pusher = lane.pusher
    lane.pusher = nil
    if pusher then pusher:close() end
  end
end

WorkQueue.__close = WorkQueue.close

---------------------------------------------------------------- consuming

local function drain_at_stop(self)
  if self.stops then return end
  self.stops = true
  task.on("stopping", function() self.consumer:drain(self.options.stop_timeout) end)
end

--- Handles messages until drain() or a controlled stop; then its handlers have ended, and what they had not done shows
--- again. A handler that raises an error, or returns nil or false and an err, has failed.
---@param fn fun(msg: synod.WorkMessage): any
---@return true|nil, synod.Error? err  what the store refuses for good
function WorkQueue:consume(fn)
  if type(fn) ~= "function" then options.refuse("workqueue:consume: a function expected, got %s", type(fn)) end
  if self.consumer:is_consuming() then
    options.refuse("workqueue:consume: it consumes already; for more handlers at once give concurrency = N")
  end
  drain_at_stop(self)
  return self.consumer:run(fn)
end

local DRAIN = { timeout = "seconds" }

--- Ends consume(): no more messages are got, and the handlers may end. Those that take longer than `timeout` are
--- cancelled, and their messages shown again. Not from a handler, which would wait for itself.
---@param given? { timeout?: number }  seconds (stop_timeout)
---@return boolean all  every handler ended by itself
function WorkQueue:drain(given)
  given = options.read("workqueue:drain", given, DRAIN)
  return self.consumer:drain(given.timeout or self.options.stop_timeout)
end

---------------------------------------------------------------- figures

---@class synod.WorkQueue.Stats
---@field waiting integer     messages in the queues that are not held here; those of other consumers included
---@field in_flight integer   held here
---@field poison integer      in the poison queues
---@field rate number         done here a second, over the last minute
---@field done integer        here, like all that follow
---@field failed integer      attempts
---@field poisoned integer    messages moved away
---@field returned integer    given back unharmed
---@field lost integer        taken over by others while they were handled
---@field superseded integer  settled too late: another had got it by then
---@field duplicates integer  noticed, and not handled again
---@field refused integer     of a newer version, left alone
---@field queues table<string, { waiting: integer, poison: integer }>

local function count_of(queue)
  local n, err = queue:count()
  if n then return n end
  if err.code == "QueueNotFound" then return 0 end
  return nil, err
end

--- How much there is to do, for whoever decides how many consumers there should be. Two requests a queue.
---@return synod.WorkQueue.Stats|nil, synod.Error? err
function WorkQueue:stats()
  local stats = { waiting = 0, poison = 0, queues = {}, rate = self.consumer:rate() }
  for _, lane in ipairs(self.lanes) do
    local waiting, err = count_of(lane.queue)
    local poison
    if waiting then poison, err = count_of(lane.poison) end
    if err then return nil, err end
    stats.queues[lane.name] = { waiting = waiting, poison = poison }
    stats.waiting, stats.poison = stats.waiting + waiting, stats.poison + poison
  end
  stats.in_flight = self.consumer:in_flight()
  stats.waiting = math.max(0, stats.waiting - stats.in_flight)
  for name, n in next, self.consumer.counts do stats[name] = n end
  return stats
end

return workqueue
