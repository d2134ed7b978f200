-- One drawn life of a fleet at a barrier with two rounds: instances come when they like, crash, come back, and the
-- store loses, delays and refuses what it likes. All is drawn from the seed: also whether all are needed or fewer after
-- a time, and whether each round is left together. The checkers are those of any barrier:
--
--   S3   nobody has passed a round, or left it, before everybody began to arrive, or to leave; with fewer: before so
--        many did, or before the time of one of them was over
--   A1   all who passed a round were told of the same who were missing
--   L2   who waits has passed soon after all flags stand, faults and crashed arrivers notwithstanding

local core = require "synod.core"
local synod = require "synod"

local world = {}

local ROUNDS = 2
local RECHECK_S = 10
local SOON_S = RECHECK_S + 20 -- what lost answers may add
local PATIENCE_S = 300
local CLOSE_S = 1e-6 -- instants are whole nanoseconds, and their differences here are not
local OPERATIONS_MAX = 150

local KINDS = { "lost-request", "lost-response", "error-after-apply", "throttle", "delay" }

local function draw(n) return math.floor(core.random() * n) + 1 end

local function draw_faults()
  local faults = {}
  for _ = 1, draw(10) - 1 do
    faults[#faults + 1] = { kind = KINDS[draw(#KINDS)], ordinal = draw(OPERATIONS_MAX), seconds = core.random() }
  end
  for ordinal = 1, OPERATIONS_MAX do -- the network takes its time, so that calls of several instances are under way
    faults[#faults + 1] = { kind = "delay", ordinal = ordinal, seconds = core.random() * 0.3 }
  end
  return faults
end

local function options(w, ordinal, round)
  return {
    name = "step", round = round, store = w.store, recheck = RECHECK_S,
    instance = { ordinal = ordinal, count = w.count, role = "worker", deployment = w.deployment },
    at_least = w.at_least, within = w.within,
  }
end

--- Tries until it has passed; `try` makes a new attempt.
local function persist(what, try)
  while true do
    local passed, err = try()
    if passed then return passed end
    if err.missing then error(("L2: %s waits for ever"):format(what), 0) end
    synod.sleep(1) -- the store has refused
  end
end

--- One life: from the first round to the last.
local function live(w, ordinal)
  for round = 1, ROUNDS do
    synod.sleep(core.random() * 5)
    local from, b = synod.now(), nil
    w.began[round][ordinal] = w.began[round][ordinal] or from
    w.arriving[ordinal]:set()
    local passed = persist(("instance %d at round %d"):format(ordinal, round), function()
      b = w.barrier.new(options(w, ordinal, round))
      return b:arrive_and_wait { timeout = PATIENCE_S }
    end)
    w.passes[#w.passes + 1] = {
      round = round, ordinal = ordinal, from = from, at = synod.now(), missing = table.concat(passed.missing, " "),
    }
    if w.double then
      synod.sleep(core.random() * 2)
      w.leaving[round][ordinal] = w.leaving[round][ordinal] or synod.now()
      persist(("instance %d at the end of round %d"):format(ordinal, round), function()
        return b:leave { timeout = PATIENCE_S }
      end)
      w.leaves[#w.leaves + 1] = { round = round, ordinal = ordinal, at = synod.now() }
    end
  end
end

--- All lives of an instance. Half of the crashes come while it arrives, the others at any time.
local function exist(w, ordinal)
  for _ = 1, draw(4) - 1 do
    w.arriving[ordinal]:clear()
    local life = synod.spawn(live, w, ordinal)
    if core.random() < 0.5 then
      w.arriving[ordinal]:wait()
      life:join(core.random())
    else
      life:join(core.random() * 12)
    end
    life:cancel()
    local _, err = life:join()
    if life:failed() and not (type(err) == "table" and err.code == "Cancelled") then error(err, 0) end
    w.crashes = w.crashes + 1
    synod.sleep(core.random() < 0.3 and 60 or core.random() * 3)
  end
  live(w, ordinal)
end

--- When the last flag of a round stood, or nil where they have other names.
local function complete_at(w, round)
  local last, count = 0, 0
  for item in w.store:container("flags"):list { prefix = ("%s/worker/step.%d_"):format(w.deployment, round) } do
    last, count = math.max(last, item.last_modified), count + 1
  end
  return count == w.count and last + 1 - (synod.time() - synod.now()) or nil
end

--- How many have begun before a pass, and since when.
local function begun(w, pass, began)
  local count, first = 0, math.huge
  for ordinal = 0, w.count - 1 do
    local at = began[pass.round][ordinal]
    if at and at <= pass.at then count, first = count + 1, math.min(first, at) end
  end
  return count, first
end

local function judge_pass(w, pass)
  local count, first = begun(w, pass, w.began)
  if count < (w.at_least or w.count) then
    return ("S3: instance %d passed round %d at %.3f, when %d of %d had begun to arrive"):format(
      pass.ordinal, pass.round, pass.at, count, w.count)
  end
  if pass.missing ~= "" and not (w.within and pass.at >= first + w.within - CLOSE_S) then
    return ("S3: instance %d passed round %d at %.3f without %s, before the time was over"):format(
      pass.ordinal, pass.round, pass.at, pass.missing)
  end
  local told = w.told[pass.round] or pass.missing
  w.told[pass.round] = told
  if told ~= pass.missing then
    return ("A1: instance %d was told that '%s' are missing from round %d, another '%s'"):format(
      pass.ordinal, pass.missing, pass.round, told)
  end
  local complete = complete_at(w, pass.round)
  if complete and pass.at > math.max(complete, pass.from) + SOON_S then
    return ("L2: instance %d passed round %d at %.3f, and all flags stood at %.3f"):format(
      pass.ordinal, pass.round, pass.at, complete)
  end
end

local function judge(w)
  for _, pass in ipairs(w.passes) do
    local violation = judge_pass(w, pass)
    if violation then return violation end
  end
  for _, leave in ipairs(w.leaves) do
    local count = begun(w, leave, w.leaving)
    if count < (w.at_least or w.count) then
      return ("S3: instance %d left round %d at %.3f, when %d of %d had begun to leave"):format(
        leave.ordinal, leave.round, leave.at, count, w.count)
    end
  end
end

--- `before`: the same deployment when it was smaller, whose arrivals stand.
local function run_deployment(store, barrier, deployment, count, before)
  local w = {
    barrier = barrier, store = store, deployment = deployment, count = count, passes = {}, leaves = {}, arriving = {},
    began = before and before.began or { {}, {} }, crashes = before and before.crashes or 0, told = {},
    leaving = before and before.leaving or { {}, {} }, double = core.random() < 0.3,
  }
  if count > 2 and not before and core.random() < 0.3 then
    w.at_least, w.within = count - 1, core.random() * 8
  end
  local instances = {}
  for ordinal = 0, count - 1 do
    w.arriving[ordinal] = synod.event()
    instances[#instances + 1] = function() exist(w, ordinal) end
  end
  local ok, err = pcall(synod.all, instances)
  if not ok and not tostring(err):find("^L2: ") then error(err, 0) end
  return not ok and err or judge(w), w
end

---@param seed integer
---@param barrier table  the module
---@return string|nil violation, table|nil w  what happened
function world.run(seed, barrier)
  return core.main(function()
    local store <close> = assert(core.open_store("memory:", { faults = draw_faults() }))
    local count = draw(4) + 1
    local violation, smaller
    if core.random() < 0.3 then
      violation = run_deployment(store, barrier, "yesterday", count)
      if violation then return violation end
    end
    if core.random() < 0.3 then
      violation, smaller = run_deployment(store, barrier, "today", count - 1)
      if violation then return violation end
    end
    return run_deployment(store, barrier, "today", count, smaller)
  end, { clock = "virtual", seed = seed })
end

local MODULES = { "options", "backoff", "barrier.flags", "sweep", "generation", "barrier.crossing", "barrier" }

--- The barrier with one change in its sources, loaded apart from the real one.
---@param mutation { file: string, find: string, replace: string }
---@return table barrier
function world.mutated(mutation)
  local loaded, found = {}, false
  local env = setmetatable({ require = function(name) return loaded[name] or require(name) end }, { __index = _G })
  for _, name in ipairs(MODULES) do
    local file <close> = assert(io.open(("lua/synod/%s.lua"):format((name:gsub("%.", "/")))))
    local source = file:read("a")
    if name:match "[^.]+$" == mutation.file then
      local from, to = source:find(mutation.find, 1, true)
      assert(from and not source:find(mutation.find, to + 1, true), "it must be there, once: " .. mutation.find)
      source, found = source:sub(1, from - 1) .. mutation.replace .. source:sub(to + 1), true
    end
    loaded["synod." .. name] = assert(load(source, "=" .. name, "t", env))()
  end
  assert(found, mutation.file)
  return loaded["synod.barrier"]
end

return world
