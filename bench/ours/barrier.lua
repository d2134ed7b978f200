-- barrier.lua: arrives at a barrier, waits for all, and says when that was.
--
--   synod run --store URL --instance ID --instances N --deployment ID barrier.lua POLL_S SETTLE_S
--
-- Prints boot-time seconds: when it called arrive, when its flag stood, when it had passed. It does so SETTLE_S after
-- it has passed, so that the others need not share the processor with printing and ending.

local barrier = require "synod.barrier"
local synod = require "synod"

local poll, settle = tonumber(arg[1]), tonumber(arg[2])

local PATIENCE_S = 60

local b = barrier.new { name = "bench", poll_min = poll, poll_max = poll }
local called = synod.now()
while true do -- again, where a service is overrun by so many at once
  local arrived, err = b:arrive()
  if arrived then break end
  if not err.retryable or synod.now() - called > PATIENCE_S then error(err) end
end
local flagged = b.entry.arrived / 1e9 -- the last one's arrive opens the gate as well
assert(b:wait { timeout = 120 })
local passed = synod.now()
synod.sleep(settle)
local requests = 0
for _, count in pairs(synod.store:usage()) do requests = requests + count end
print(('{"called":%.6f,"flagged":%.6f,"passed":%.6f,"requests":%d}'):format(called, flagged, passed, requests))
