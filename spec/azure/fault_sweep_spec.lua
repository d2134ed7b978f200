-- Each kind of harm at each request of each story in turn, between the client and a real server: whatever befalls one
-- request, nothing is done twice that must not be, no call is refused for what it has done itself, and none waits
-- beyond its time.
--
-- SYNOD_FAULT_STORY="a lease" SYNOD_FAULT_KIND=truncate SYNOD_FAULT_REQUEST=3 choose one run. Under the sanitizers
-- there are as many kinds and requests, but each meets only a third of the others.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local fault_proxy = require "spec.support.fault_proxy"
local stories = require "spec.support.fault_stories"

local ONLY_STORY, ONLY_KIND = os.getenv "SYNOD_FAULT_STORY", os.getenv "SYNOD_FAULT_KIND"
local ONLY_REQUEST = tonumber(os.getenv "SYNOD_FAULT_REQUEST")

local EACH = os.getenv "SYNOD_ASAN" and 3 or 1
local RUNS_AT_ONCE = 16
local TRY_S = 0.8
local TIMEOUT_S, SILENCE_S = 8, 2
local SLACK_S = 1.5 -- of this machine

--- How a call may end that meets the fault: `ends` with which code, beside success; `doubt`: it may have been lost;
--- `nothing`: what failed has not happened.
local KINDS = {
  { "drop-request", doubt = true }, { "reset", doubt = true },
  { "drop-answer", doubt = true }, { "reset-answer", doubt = true }, { "cut-head", doubt = true },
  { "truncate", doubt = true }, { "reset-body", doubt = true }, { "garbage", doubt = true },
  { "garbage-body", doubt = true }, { "error-after", doubt = true }, { "portal", doubt = true },
  { "busy", doubt = true }, { "busy-long", doubt = true, ends = "ServerBusy", nothing = true },
  { "delay" }, { "garbage-behind", doubt = true }, { "many" }, { "late", doubt = true },
  { "drop-answer", ever = true, doubt = true, ends = "Timeout" },
}

local function name_of(kind) return kind[1] .. (kind.ever and " from there on" or "") end

local function world(proxy, kind)
  local w = { tag = azurite.fresh("sweep", ""), timeout = kind.ever and SILENCE_S or TIMEOUT_S }
  w.store = assert(core.open_store(proxy:connection_string()))
  w.direct = assert(core.open_store(azurite.connection_string()))
  function w.o(options)
    options = options or {}
    options.timeout, options.try_timeout = w.timeout, TRY_S
    return options
  end
  return setmetatable(w, { __close = function()
    w.store:close()
    w.direct:close()
  end })
end

--- Goes through a story until a step fails: which, and its err. Notes the state before and after each step, if asked.
local function tell(w, story, states)
  if states then states[0] = story.state(w) end
  for i, step in ipairs(story.steps) do
    local begun = core.now()
    local value, err = step[2](w)
    local took = core.now() - begun
    assert(took <= w.timeout * (step.calls or 1) + SLACK_S, ("%s took %.1f s"):format(step[1], took))
    if value == nil then return i, err end
    if states then states[i] = story.state(w) end
  end
  return nil
end

--- Was an answer too late by itself, on a machine that has too much to do?
local function was_slow(w)
  for _, outcomes in pairs(w.store:usage { outcomes = true }) do
    if outcomes.lost then return true end
  end
  return false
end

--- May the call of this step end with that err?
local function may_end(w, kind, step, err)
  if step.doubt and (kind.doubt or was_slow(w)) and err.code == "AnswerLost" then return true end
  if err.code ~= kind.ends then return false end
  local reads = step.reads or err.operation == "look at the blob" -- as a copy does first
  return err.code ~= "Timeout" or reads or err.message:find("may or may not have happened", 1, true) ~= nil
end

--- What is wrong with the end of a run, or nil.
local function fault_of(w, story, kind, states, failed, err)
  local state = story.state(w)
  local function is(n) return state == states[n] or (story.same and story.same(w, state, states[n])) end
  if failed and not may_end(w, kind, story.steps[failed], err) then
    return ("%s: %s"):format(story.steps[failed][1], tostring(err))
  end
  local last = failed or #story.steps
  if is(last) and not (failed and kind.nothing) then return nil end
  if failed and is(failed - 1) then return nil end
  return ("after %s (%s) the server has %q"):format(story.steps[last][1], failed and err.code or "ok", state)
end

local function run_one(proxy, story, kind, number, states)
  local w <close> = world(proxy, kind)
  story.prepare(w)
  proxy:plan(w.tag, number, kind[1], kind.ever)
  local fine, failed, err = pcall(tell, w, story)
  local passed = proxy:passed(w.tag)
  proxy:forget(w.tag)
  local fault
  if not fine then
    fault = failed
  elseif not passed[number] or passed[number].fault ~= kind[1] then
    fault = ("only %d requests came"):format(#passed)
  else
    fault = fault_of(w, story, kind, states, failed, err)
  end
  return fault and ("%s at request %d of %s, %s: %s"):format(name_of(kind), number, story.name,
    passed[number] and passed[number].request or "none", tostring(fault))
end

--- The story without a fault: its states, and how many requests it makes.
local function rehearse(proxy, story)
  local w <close> = world(proxy, KINDS[1])
  local states = {}
  story.prepare(w)
  proxy:plan(w.tag, 1, "none")
  local failed, err = tell(w, story, states)
  assert(not failed, failed and story.steps[failed][1] .. ": " .. tostring(err))
  return states, #proxy:passed(w.tag)
end

local function jobs_of(story, requests)
  local jobs = {}
  for i, kind in ipairs(KINDS) do
    for number = 1, (kind[1] ~= "late" or story.late) and requests or 0 do
      local chosen = (i + number) % EACH == 0 and (not ONLY_KIND or ONLY_KIND == kind[1])
        and (not ONLY_REQUEST or ONLY_REQUEST == number)
      jobs[#jobs + 1] = chosen and { kind, number } or nil
    end
  end
  return jobs
end

--- All runs of a story, several at once: what is wrong with them.
local function sweep(proxy, story)
  local states, requests = rehearse(proxy, story)
  local jobs, faults, workers = jobs_of(story, requests), {}, {}
  for i = 1, RUNS_AT_ONCE do
    workers[i] = core.spawn(function()
      while #jobs > 0 do
        local job = table.remove(jobs)
        local fault = run_one(proxy, story, job[1], job[2], states)
        faults[#faults + 1] = fault -- not in one step: the others add theirs meanwhile
      end
      return true
    end)
  end
  for _, worker in ipairs(workers) do assert(worker:join()) end
  return faults
end

describe("whatever befalls one request of", function()
  local proxy
  lazy_setup(function() proxy = fault_proxy.start() end)
  lazy_teardown(function() proxy:stop() end)

  for _, story in ipairs(stories) do
    if not ONLY_STORY or ONLY_STORY == story.name then
      it(story.name .. ": all is done as often as it must be", function()
        core.main(function() assert.equal("", table.concat(sweep(proxy, story), "\n")) end)
      end)
    end
  end
end)
