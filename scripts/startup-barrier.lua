-- startup-barrier: every instance does its start-up work, and none goes on before all have done theirs.
--
--   synod run -n 3 startup-barrier.lua [SECONDS]                                  on one machine
--   synod run --store azure --instance auto --instances 3 --deployment v42 startup-barrier.lua     on each of a fleet
--
-- The work is pretended and takes each instance another time, SECONDS (default 3) at most. Put yours in its place.
-- An instance that is started again goes straight through the open gate. Exit codes: 0 all are ready, 4 some instance
-- did not come within ten minutes (the message names it), 3 the store cannot be reached.

local synod = require "synod"
local barrier = require "synod.barrier"

local STEPS = { "reading the configuration", "warming the cache", "opening connections" }
local BAR = 20

local me, longest = synod.instance, tonumber((...)) or 3
local ready = barrier.new { name = "startup" }
local began = synod.now()

local function say(done, text)
  local filled = math.floor(done * BAR + 0.5)
  print(("%s%s %3.0f%%  %s"):format(("#"):rep(filled), ("."):rep(BAR - filled), done * 100, text))
end

--- Stands for the work of getting ready: the later the number, the longer.
local function prepare()
  local share = (me.ordinal + 1) / me.count
  for i, step in ipairs(STEPS) do
    say((i - 1) / #STEPS, step)
    synod.sleep(longest * share / #STEPS)
  end
end

prepare()
say(1, ("ready after %.1f s"):format(synod.now() - began))
assert(ready:arrive())
local waits_from = synod.now()
local _, missing = assert(ready:arrived())
if #missing > 0 then print(("waiting for %s"):format(table.concat(missing, ", "))) end

local passed = assert(ready:wait { timeout = 600 })
local waited = synod.now() - waits_from
print(("all %d are ready; %s waited %s: on we go"):format(
  passed.count, me.id, waited < 0.05 and "for nobody" or ("%.1f s"):format(waited)))
