-- The seeded random walk of spec/store/walk_spec.lua beside a real server, the storage emulator: every answer is the
-- same as in memory, but for the rows of spec/azure/differences.lua.
--
--   SYNOD_WALK_CALLS=1000000 SYNOD_WALK_SECONDS=7200 SYNOD_WALK_SEED=7 lua5.4 /usr/bin/busted spec/azure/walk_spec.lua
--
-- On an idle machine of two cores 100,000 calls take two and a half minutes, and two of processor time, most of it the
-- emulator's. A machine that is too slow or too busy for them walks as far as the time goes.

local live = require "spec.support.walk_live"

local CALLS = tonumber(os.getenv "SYNOD_WALK_CALLS") or (os.getenv "SYNOD_ASAN" and 5000 or 100000)
local SEED = tonumber(os.getenv "SYNOD_WALK_SEED") or 1
local SECONDS = tonumber(os.getenv "SYNOD_WALK_SECONDS") or (os.getenv "SYNOD_ASAN" and 60 or 420)
local LEAST = math.min(CALLS, SECONDS * 4) -- what any machine comes to

describe("a random walk over all calls", function()
  it("has the same answers on a real server, but for the known differences", function()
    local made, fault = live.walk { seed = SEED, calls = CALLS, seconds = SECONDS }
    if fault then error(("the walk of seed %d\n%s"):format(fault.seed, fault.script), 0) end
    assert.is_true(made.calls >= LEAST, ("%d calls in %d walks"):format(made.calls, made.walks))
  end)
end)
