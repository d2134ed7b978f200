-- Every single fault at every single call: the calls of a run without faults are numbered, and the run is repeated once
-- for each of them and each thing that can happen there. So it is shown, not drawn: no one fault breaks a barrier.

local crashing = require "spec.support.crashing"
local fleet = require "spec.support.fleet"
local synod = require "synod"

local COUNT = 3
local RECHECK_S = 10
local FAULTS = { "lost-request", "lost-response", "error-after-apply", "throttle", "delay" }

--- Instances 0, 1, 2 come at 0, 1, 2 s; `on` has a store of its own.
local function meet(store, on, mortal)
  local lives, outcomes = {}, {}
  for ordinal = 0, COUNT - 1 do
    lives[ordinal + 1] = function()
      synod.sleep(ordinal)
      local options = { store = ordinal == on and mortal or store, name = "startup", round = 1, recheck = RECHECK_S }
      local ok, passed, err = pcall(function()
        return fleet.barrier(ordinal, COUNT, options):arrive_and_wait { timeout = 120 }
      end)
      if not ok and passed ~= crashing.CRASH then error(passed, 0) end
      outcomes[ordinal] = { at = synod.now(), passed = ok and passed, err = err, crashed = not ok }
    end
  end
  synod.all(lives)
  return outcomes
end

--- The requests of each instance in a run without faults.
local function baseline()
  local requests = {}
  for on = 0, COUNT - 1 do
    fleet.run(function(store)
      local counting = crashing.store(store, { at = 0 })
      meet(store, on, counting)
      requests[on] = counting.requests()
    end)
  end
  return requests
end

describe("a crash at every call", function()
  local requests = baseline()

  it("is tried at as many calls as there are", function()
    assert.same({ [0] = 7, 4, 3 }, requests) -- the first makes the container, and waits long enough for a look more
  end)

  for on = 0, COUNT - 1 do
    for at = 1, requests[on] do
      for _, after in ipairs { false, true } do
        local what = ("of instance %d, request %d, %s it was done"):format(on, at, after and "when" or "before")

        it("does not keep the others when the flag stands, and they wait when it does not: " .. what, function()
          fleet.run(function(store)
            local outcomes = meet(store, on, crashing.store(store, { at = at, after = after }))
            assert.is_true(outcomes[on].crashed)
            local stands = store:container("flags"):blob("d1/worker/startup.1_" .. on):head() ~= nil
            fleet.each(outcomes, function(o, ordinal)
              if ordinal == on then return end
              if stands then
                assert.is_table(o.passed)
                assert.is_true(o.at >= 2 and o.at <= 2 + RECHECK_S + 1, "at " .. o.at)
              else
                assert.same({ "worker_IN_" .. on }, o.err.missing)
              end
            end)
          end)
        end)

        it("is healed by coming back: " .. what, function()
          fleet.run(function(store)
            local back = synod.spawn(function()
              synod.sleep(5)
              local options = { store = store, name = "startup", round = 1, recheck = RECHECK_S }
              return fleet.meet(COUNT, options, { [on] = 0 }, 60)[on]
            end)
            local outcomes = meet(store, on, crashing.store(store, { at = at, after = after }))
            outcomes[on] = back:join()
            fleet.each(outcomes, function(o)
              assert.same({ count = COUNT, missing = {}, parties = COUNT }, o.passed)
              assert.is_true(o.at >= 2 and o.at <= 5 + RECHECK_S, "at " .. o.at)
            end)
          end)
        end)
      end
    end
  end
end)

describe("a fault at every call", function()
  local total = 0
  fleet.run(function(store)
    meet(store)
    for _, count in next, store:usage() do total = total + count end
  end)

  for _, kind in ipairs(FAULTS) do
    it(("of kind %s leaves every instance through, and none early"):format(kind), function()
      assert.is_true(total >= 13)
      for at = 1, total + 3 do
        fleet.run(function(store)
          fleet.each(meet(store), function(o, ordinal)
            local where = ("attempt %d, instance %d, at %.3f"):format(at, ordinal, o.at)
            assert.is_table(o.passed, where .. ": " .. tostring(o.err))
            assert.is_true(o.at >= 2 and o.at <= 2 + RECHECK_S + 4, where)
          end)
        end, { faults = { { kind = kind, ordinal = at, seconds = 2.5 } } })
      end
    end)
  end

  it("and two of them at any two calls do not either", function()
    for at = 1, total do
      for other = at + 1, total + 3 do
        local kind, also = FAULTS[at % #FAULTS + 1], FAULTS[(at + other) % #FAULTS + 1]
        fleet.run(function(store)
          fleet.each(meet(store), function(o, ordinal)
            local where = ("%s at %d, %s at %d, instance %d, at %.3f"):format(kind, at, also, other, ordinal, o.at)
            assert.is_table(o.passed, where .. ": " .. tostring(o.err))
            assert.is_true(o.at >= 2 and o.at <= 2 + RECHECK_S + 8, where)
          end)
        end, { faults = {
          { kind = kind, ordinal = at, seconds = 2.5 }, { kind = also, ordinal = other, seconds = 2.5 },
        } })
      end
    end
  end)
end)
