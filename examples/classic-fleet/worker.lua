-- worker: an instance of a fleet whose other members are not synod's, and know the classic start-up recipe only.
--
--   synod run -n 2 --store CONNECTION_STRING worker.lua PARTIES
--
-- The recipe: who has done its start-up work makes a page blob startupWorkDone_<number> in the container `flags`, and
-- waits until there are as many as the fleet has members. `bare = true` uses these very names.

local synod = require "synod"
local barrier = require "synod.barrier"

local parties = math.tointeger(tonumber((...))) or synod.instance.count
local ready = barrier.new { name = "startupWorkDone", bare = true, parties = parties, poll_max = 0.5 }

synod.sleep(0.3 * synod.instance.ordinal) -- the start-up work
assert(ready:arrive())
local count, missing = ready:arrived()
print(("flag %d is up, %d of %d; missing: %s"):format(
  synod.instance.ordinal, count, parties, #missing > 0 and table.concat(missing, ", ") or "nobody"))

local passed = assert(ready:wait { timeout = 60 })
print(("all %d are ready"):format(passed.count))
