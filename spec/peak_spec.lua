-- A work queue at its peak: many tasks, some of which can never be done, and consumers that are killed and stopped.
--
-- 300 tasks over a file; SYNOD_ROUNDS (any number) makes it 10,000, and as many over a storage server, which takes some
-- ten minutes, and says what was seen.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local envelope = require "synod.workqueue.envelope"
local synod = require "synod"
local witness = require "spec.support.witness"
local workqueue = require "synod.workqueue"

local TASKS, CONSUMERS, PAUSES_S = 300, 3, { 0.2, 0.7 } -- the last: between two that are killed or stopped
if witness.measured then TASKS, CONSUMERS, PAUSES_S = 10000, 6, { 0.05, 0.3 } end

local BAD_EACH = 100       -- one task of so many can never be done
local STOPPED_S = 3        -- longer than the visibility
local STOPS = 0.4          -- of those that are met are stopped, the others killed
local WHOLE_S = witness.measured and 1800 or 400
local PUSHERS = 8

--- Appends what it has handled to a file; says at its end what it has counted.
local CONSUMER = [[
local synod = require "synod"
local file, bad_each = ...
local out = assert(io.open(file, "a"))
out:setvbuf "no"
local jobs = require("synod.workqueue").new {
  name = "peak", concurrency = 4, visibility = 2, retry = { min = 1, max = 1, jitter = false }, max_attempts = 6,
  poll_min = 0.05, poll_max = 0.5,
}
assert(jobs:consume(function(msg)
  if msg.body % bad_each == 0 then error("nobody can do " .. msg.body, 0) end
  synod.sleep(0.01)
  out:write(msg.body .. "\n")
end))
local stats = jobs.consumer.counts -- stats() would ask the server too, and a controlled stop does not wait for that
print(("counted done=%d duplicates=%d superseded=%d lost=%d"):format(
  stats.done, stats.duplicates, stats.superseded, stats.lost))
]]

local function push_all(jobs, tasks)
  local lives, n = {}, 0
  for i = 1, PUSHERS do
    lives[i] = function()
      while n < tasks do
        n = n + 1
        assert(jobs:push(n))
      end
    end
  end
  synod.all(lives)
end

--- Kills or stops one consumer after the other until the queue is empty. One that is stopped goes on later.
---@return integer killed, integer stopped
local function disturb(jobs, start, consumers)
  local killed, stopped, finish = 0, 0, core.now() + WHOLE_S
  while true do
    local stats = jobs:stats() -- nil when the server had no time
    if stats and stats.waiting == 0 then return killed, stopped end
    core.sleep(PAUSES_S[1] + math.random() * (PAUSES_S[2] - PAUSES_S[1]))
    assert(core.now() < finish, "messages are left")
    local i = math.random(#consumers)
    local met = consumers[i]
    if met.stopped then
      if core.now() - met.stopped > STOPPED_S then
        met:kill "CONT"
        met.stopped = nil
      end
    elseif math.random() < STOPS then
      met.stopped = met:kill "STOP"
      stopped = stopped + 1
    else
      met:kill "KILL"
      met:wait()
      killed = killed + 1
      consumers[i] = start()
    end
  end
end

--- Task -> how often it was handled, and how many lines there are.
local function handled(w)
  local times, lines = {}, 0
  for task in (w.folder:read "handled" or ""):gmatch "%d+" do
    times[tonumber(task)] = (times[tonumber(task)] or 0) + 1
    lines = lines + 1
  end
  return times, lines
end

--- Task -> the reason of its last attempt that says one.
local function poisoned(store)
  local found, n, queue = {}, 0, store:queue "peak-poison"
  repeat
    local messages = assert(queue:get { n = 32, visibility = 300 })
    for _, message in ipairs(messages) do
      local e = envelope.read(message.body, message.id)
      n = n + 1
      for _, attempt in ipairs(e.attempts) do found[e.body] = attempt.error or found[e.body] end
    end
  until #messages == 0
  return found, n
end

local function end_all(consumers)
  for _, c in ipairs(consumers) do
    c:kill "CONT"
    c:kill "TERM"
  end
  for _, c in ipairs(consumers) do c:wait(20) end
end

--- A whole peak: what was handled, what was set apart, and what it took.
local function peak(w, url, tasks)
  local script = w:script("consumer.lua", CONSUMER)
  local store <close> = assert(synod.open(url))
  local jobs = workqueue.new { name = "peak", store = store }
  push_all(jobs, tasks)
  local function start()
    return w:start { "run", "--store", url, "--log-level", "error", script, w.path .. "/handled", BAD_EACH }
  end
  local consumers, began = {}, core.now()
  for i = 1, CONSUMERS do consumers[i] = start() end
  local killed, stopped = disturb(jobs, start, consumers)
  local took = core.now() - began
  end_all(consumers)
  local times, lines = handled(w)
  local reasons, poison = poisoned(store)
  return {
    tasks = tasks, times = times, lines = lines, reasons = reasons, poison = poison, killed = killed, stopped = stopped,
    took = took,
  }
end

local function check(found, output)
  local lost, often, apart = {}, 0, 0
  for task = 1, found.tasks do
    local bad = task % BAD_EACH == 0
    if bad then
      apart = apart + 1
      assert.equal("nobody can do " .. task, found.reasons[task])
    elseif not found.times[task] then
      lost[#lost + 1] = task
    elseif found.times[task] > 1 then
      often = often + 1
    end
    if not bad then assert.is_nil(found.reasons[task]) end
  end
  assert.same({}, lost, output)
  local again = found.lines - (found.tasks - apart)
  witness.tell("%d tasks in %.1f s, %d consumers killed and %d stopped: %d lost, %d of %d set apart with their reason "
    .. "(%d messages), %d handled more than once (%d times too often)",
    found.tasks, found.took, found.killed, found.stopped, #lost, apart, found.tasks // BAD_EACH, found.poison, often,
    again)
  for line in output:gmatch "counted [^\n]+" do witness.tell("a consumer that was left: %s", line) end
end

describe("a work queue whose consumers are killed and stopped", function()
  it("loses no task, and sets apart what cannot be done", function()
    witness.run(function(w) check(peak(w, "embedded:" .. w.path .. "/store.db", TASKS), w:output()) end)
  end)

  if witness.measured then
    it("loses none over a storage server either", function()
      local url = azurite.connection_string()
      witness.run(function(w) check(peak(w, url, TASKS), w:output()) end)
    end)
  end
end)
