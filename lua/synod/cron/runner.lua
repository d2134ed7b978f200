-- runner: settles one slot of a schedule: runs it, or waits until another has.
--
--   none, begun     whoever takes the lease of the slot's blob runs it; the others wait until it is finished, or free
--   started         an "at-most" once slot whose function has begun. Who finds it free writes "abandoned"
--   done, failed    over. Written with the result by the holder alone, in one write
--
-- A runner that dies, or cannot renew, leaves the lease to run out, and who waits takes it. The function is stopped
-- before that (held:guard).

local backoff = require "synod.backoff"
local core = require "synod.core"
local json = require "synod.json"
local lease = require "synod.lease"
local log = require "synod.log"
local slots = require "synod.cron.slots"
local task = require "synod.task"

local runner = {}

local CLEAN_EVERY_S = 3600

--- Whether it may be otherwise soon.
---@param err synod.Error
---@return boolean
function runner.is_passing(err)
  return err.retryable or err.code == "Timeout" or err.code == "Unreachable"
end

local function describe(slot, err)
  return { name = slot.name, slot = slot.id, why = tostring(err) }
end

--- What a function's results come to.
local function record_of(ok, result, why)
  if ok and result == nil and why ~= nil then ok, result = false, why end
  if ok then
    local sayable, problem = pcall(json.encode, result)
    if sayable then return { state = "done", result = result } end
    result = "the result: " .. tostring(problem)
  end
  local text = tostring(result)
  return { state = "failed", error = utf8.len(text) and text or "an error that is no UTF-8" }
end

--- Runs the function under the guard; nil when it was stopped in the middle. In a task of its own, so that our own
--- cancel is raised here, and is not taken for one that the function has met.
local function call(job, slot, held)
  slot.held, slot.fence = held, held.fence
  local ok, result, why = task.race { function() return pcall(held.guard, held, job.fn, slot) end }
  if not ok and not held:held() then
    log.warn("a slot was stopped: its lease was lost", describe(slot, result))
    return nil
  end
  return record_of(ok, result, why)
end

local function finish(cron, job, slot, held, record)
  record.by = cron.options.instance.id or "unnamed"
  local props, err = job.slots:write(held, slot.id, record)
  if not props then
    log.warn("what became of a slot could not be written", describe(slot, err))
    return false
  end
  if record.state == "failed" then log.warn("a slot has failed", describe(slot, record.error)) end
  if not job.cleaned_at or core.now() - job.cleaned_at >= CLEAN_EVERY_S then
    job.cleaned_at = core.now()
    job.slots:clean_later(props.last_modified)
  end
  return true
end

--- Under the lease, where nobody else can write. True when the slot is finished.
local function run_held(cron, job, slot, held)
  local record, err = job.slots:read(slot.id)
  if not record then return nil, err end
  if slots.is_finished(record) then return true end
  if job.once == "at-most" then
    if record.state == "started" then return finish(cron, job, slot, held, { state = "abandoned" }) end
    if not finish(cron, job, slot, held, { state = "started" }) then return false end
  end
  record = call(job, slot, held)
  return record and finish(cron, job, slot, held, record)
end

--- One look, and when it is free, our turn. True: it is finished.
local function attempt(cron, job, slot, contender)
  local record, err = job.slots:read(slot.id)
  if not record then return nil, err end
  if slots.is_finished(record) then return true end
  local held
  held, err = contender:try()
  if not held then
    if err.code == "LeaseAlreadyPresent" then return false end
    return nil, err
  end
  slot.running = true
  local _ <close> = setmetatable({}, {
    __close = function()
      slot.running = false
      held:release()
    end,
  })
  return run_held(cron, job, slot, held)
end

--- Sees to it that a slot is finished, by us or by another.
---@param cron synod.Cron
---@param job synod.Cron.Job
---@param slot synod.Slot
function runner.settle(cron, job, slot)
  local o = cron.options
  local contender = lease.contender(job.slots:blob(slot.id), {
    ttl = o.ttl, purpose = "slot of " .. job.name, instance = o.instance,
  })
  backoff.poll(function()
    local finished, err = attempt(cron, job, slot, contender)
    if finished then return true end
    if not err or runner.is_passing(err) then return nil, err end
    log.warn("a slot is left alone", describe(slot, err))
    if err.code ~= "NewerVersion" and err.code ~= "BadAnswer" and err.code ~= "FenceRegressed" then cron:fail(err) end
    return true
  end, {
    store = o.store, container = o.container or "cron", prefix = job.slots.prefix .. slot.id, min = o.ttl / 6,
    max = o.ttl / 2, recheck = o.ttl / 6,
  })
end

return runner
