-- delivery: one message of a work queue, from the moment it was got until it is settled.
--
--   kept     its visibility is extended at a third of it, until it is settled; the receipt is that of the last update
--   run      the handler is stopped when an extension is refused, or when none is confirmed in time
--   settled  deleted (done), hidden for the back-off of its next attempt (failed), moved to the poison queue (failed
--            too often), or shown again at once (given back)
--
-- Whoever lost the message settles nothing: it is another consumer's. Attempts are counted by the queue itself
-- (dequeue_count), so that a consumer that dies counts as one; those that were given back do not.

local core = require "synod.core"
local envelope = require "synod.workqueue.envelope"
local task = require "synod.task"

local delivery = {}

local RETRY_MIN_S = 0.2 -- between extensions while the store does not answer
local MARGIN_MAX_S = 1  -- before the end of the visibility, by our own clock, the handler is stopped
local CALL_MAX_S = 10

---@class synod.Delivery
---@field lane synod.Consumer.Lane
---@field message synod.Message
---@field envelope synod.Envelope
---@field handle synod.WorkMessage
---@field number integer  which attempt this is, from 1
---@field lost? synod.Error  why the message is no longer ours
---@field returning? boolean  the handler is stopped to give the message back
local Delivery = {}
Delivery.__index = Delivery

---@class synod.WorkMessage  what a handler is called with
---@field id string
---@field body any         what was pushed; text of another client as it came
---@field attempt integer  from 1
---@field queue string
---@field inserted integer  seconds since 1970
---@field attempts synod.Envelope.Attempt[]  what became of the earlier ones
local WorkMessage = {}
WorkMessage.__index = WorkMessage
WorkMessage.__name = "synod.WorkMessage"

--- The message can never be handled: it goes to the poison queue when the handler ends, whatever it gives.
---@param reason any
function WorkMessage:reject(reason)
  self.rejected = reason ~= nil and reason or "rejected without a reason"
end

local function seconds_until(instant)
  return math.max(0, (instant - core.instant()) / 1e9)
end

local function after(instant, seconds)
  return instant + math.floor(seconds * 1e9)
end

--- The message is hidden for so long at least, if the request was sent at `asked`.
local function hidden_from(self, asked)
  local visibility = self.options.visibility
  self.ends = after(asked, visibility - math.min(MARGIN_MAX_S, visibility / 10))
  self.extend_at = after(asked, visibility / 3)
end

---@param consumer synod.Consumer
---@param lane synod.Consumer.Lane
---@param message synod.Message
---@param asked integer  the instant before it was asked for
---@return synod.Delivery
function delivery.new(consumer, lane, message, asked)
  local self = setmetatable({
    options = consumer.options, by = consumer.by, lane = lane, message = message, settled = core.event(),
  }, Delivery)
  hidden_from(self, asked)
  return self
end

--- Reads what it carries; says which attempt this is.
---@return true|nil, synod.Error? err  NewerVersion
function Delivery:open()
  local message = self.message
  local e, err = envelope.read(message.body, message.id)
  if not e then return nil, err end
  self.envelope = e
  self.number = math.max(1, message.dequeue_count - envelope.returned(e))
  self.handle = setmetatable({
    id = e.id, body = e.body, attempt = self.number, queue = self.lane.name, inserted = message.inserted,
    attempts = e.attempts,
  }, WorkMessage)
  return true
end

---------------------------------------------------------------- keeping

--- It is another's: the handler is stopped, and told again each second.
local function lose(self, why)
  self.lost = core.new_error {
    code = "MessageLost", operation = "keep",
    target = ("message %s of the queue %s"):format(self.message.id, self.lane.name),
    message = "it is no longer hidden for us: " .. tostring(why),
  }
  if self.task then task.stop({ self.task }, self.lost) end
end

local function extend(self)
  local asked = core.instant()
  local left = seconds_until(self.ends)
  local updated, err = self.message:update {
    visibility = self.options.visibility, timeout = left, try_timeout = math.max(0.001, left / 2),
  }
  if updated then
    hidden_from(self, asked)
  elseif err.retryable or err.code == "Timeout" then
    self.extend_at = after(core.instant(), math.max(RETRY_MIN_S, seconds_until(self.ends) / 4))
  else
    return err
  end
end

local function keep(self)
  while not self.settled:wait(seconds_until(math.min(self.extend_at, self.ends))) do
    local err
    if core.instant() >= self.ends then
      err = "no extension was confirmed in time"
    else
      err = extend(self)
    end
    if err then return lose(self, err) end
  end
end

--- Keeps the message hidden until it is released.
function Delivery:keep()
  self.keeper = core.spawn(keep, self)
end

--- From here on nothing extends it, and its receipt is the last one.
function Delivery:release()
  self.settled:set()
  if self.keeper then self.keeper:join() end
end

---------------------------------------------------------------- running

--- What is started for a handler ends with whoever waits for it.
local function handler_end(self)
  local cancelled = task.stop { self.task }
  if cancelled ~= nil then error(cancelled, 0) end
end

--- Runs the handler to its end.
---@param fn fun(message: synod.WorkMessage): any
---@return boolean ok, any why  an error raised, or nil/false and what came with it
function Delivery:run(fn)
  self.task = core.spawn(fn, self.handle)
  local _ <close> = setmetatable({}, { __close = function() handler_end(self) end })
  local first, second = self.task:join()
  if self.task:failed() then return false, second end
  if not first and second ~= nil then return false, second end
  return true
end

--- Stops the handler, so that the message can be given back.
function Delivery:interrupt()
  self.returning = true
  if self.task then self.task:cancel("the work queue is drained") end
end

---------------------------------------------------------------- settling

local CALL = { timeout = CALL_MAX_S }

--- Gone, or another's: nothing is left for us to do.
local function is_others(err)
  return err.code == "MessageNotFound" or err.code == "PopReceiptMismatch" or err.code == "AnswerLost"
end

---@return true|nil done, synod.Error? err, boolean? others  it was another's by then
function Delivery:delete()
  local gone, err = self.message:delete(CALL)
  if gone then return true end
  return nil, err, is_others(err)
end

--- Hides it for so many seconds (0: shows it), with its history where that fits.
---@param seconds integer
---@return true|nil, synod.Error? err, boolean? others
function Delivery:hide(seconds)
  local body = envelope.text(self.envelope, self.options.text_max)
  local updated, err = self.message:update { visibility = seconds, body = body, timeout = CALL_MAX_S }
  if not updated and err.code == "RequestBodyTooLarge" then
    updated, err = self.message:update { visibility = seconds, timeout = CALL_MAX_S }
  end
  if updated then return true end
  return nil, err, is_others(err)
end

--- Puts it into the poison queue with its history, and only then deletes it. A body with which no history fits goes
--- there as it is.
---@return true|nil, synod.Error? err
function Delivery:poison()
  local text = envelope.text(self.envelope, self.options.text_max)
  local put, err = self.lane:put_poison(text or self.message.body)
  if not put and text and err.code == "RequestBodyTooLarge" then put, err = self.lane:put_poison(self.message.body) end
  if not put then return nil, err end
  local gone, why, others = self:delete()
  if not gone and not others then return nil, why end
  return true
end

return delivery
