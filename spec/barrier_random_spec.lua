-- Drawn worlds: a fleet at a barrier, with crashes and faults; and mistakes that such worlds must find out.

local barrier = require "synod.barrier"
local mutations = require "spec.mutations.barrier"
local world = require "spec.support.barrier_world"

local SEEDS = 600
local SEEDS_PER_MUTATION = 200

describe("a barrier in drawn worlds", function()
  it(("neither lets anybody pass early nor waits for ever, in %d of them"):format(SEEDS), function()
    local crashes = 0
    for seed = 1, SEEDS do
      local violation, w = world.run(seed, barrier)
      assert.is_nil(violation, ("seed %d: %s"):format(seed, violation))
      crashes = crashes + w.crashes
    end
    assert.is_true(crashes > SEEDS, "the worlds must be dangerous: " .. crashes .. " crashes")
  end)

  it("gives the same world for the same seed", function()
    local function trace()
      local _, w = world.run(17, barrier)
      local lines = {}
      for i, pass in ipairs(w.passes) do lines[i] = ("%d %d %.9f"):format(pass.round, pass.ordinal, pass.at) end
      return table.concat(lines, "\n")
    end
    assert.equal(trace(), trace())
  end)
end)

describe("a barrier with a mistake", function()
  for _, mutation in ipairs(mutations) do
    it(("is found out (%s): %s"):format(mutation.checker, mutation.why), function()
      local broken = world.mutated(mutation)
      for seed = 1, SEEDS_PER_MUTATION do
        local violation = world.run(seed, broken)
        if violation then
          assert.equal(mutation.checker, violation:match("^%w+"), violation)
          return
        end
      end
      error(("%d worlds did not find it out"):format(SEEDS_PER_MUTATION))
    end)
  end
end)
