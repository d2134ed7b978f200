-- start: begin with fewer when some do not come, and know who is missing.
--
--   synod run -n 5 start.lua [SECONDS]      how long to wait for all (10); number 3 stays away
--
-- At least three of the five are needed. Who is missing is decided once, by whoever opens the gate, so that all
-- instances share out the work in the same way. One that comes late learns that the others went on without it.

local synod = require "synod"
local barrier = require "synod.barrier"

local AWAY, NEEDED = 3, 3

local me, within = synod.instance, tonumber((...)) or 10
local ready = barrier.new { name = "startup", at_least = NEEDED, within = within }

if me.ordinal == AWAY then synod.sleep(within * 2) end -- comes when the others have long gone on

local passed = assert(ready:arrive_and_wait { timeout = 60 })
local missing = {}
for _, id in ipairs(passed.missing) do missing[id] = true end
if missing[me.id] then
  print("came late: the others went on without me")
  return
end

--- The shards of this instance: they are dealt to those who are there, by their place among them.
local place, there = 0, 0
for ordinal = 0, me.count - 1 do
  if not missing[("%s_IN_%d"):format(me.role, ordinal)] then
    if ordinal == me.ordinal then place = there end
    there = there + 1
  end
end
local mine = {}
for shard = 0, 11 do
  if shard % there == place then mine[#mine + 1] = shard end
end
print(("%d of %d are here; I take the shards %s"):format(passed.count, passed.parties, table.concat(mine, " ")))
