-- barrier.lua: arrives at a barrier, waits for all, and says when that was.
--
--   synod run --store URL --instance ID --instances N --deployment ID barrier.lua together|late POLL_S SETTLE_S
--
-- `late`: the last of the instances holds back until all the others wait. Prints boot-time seconds: when it called
-- arrive, when its flag stood, when it had passed. It does so SETTLE_S after it has passed, so that the others need not
-- share the processor with printing and ending.

local barrier = require "synod.barrier"
local synod = require "synod"

local late, poll, settle = arg[1] == "late", tonumber(arg[2]), tonumber(arg[3])

local PATIENCE_S = 60
local LOOK_S = 0.5 -- how often the late one looks whether the others are there
local CALM_S = 1 -- and how long it leaves them to their waiting then

local me = synod.instance
local b = barrier.new { name = "bench", poll_min = poll, poll_max = poll }

local function hold_back()
  local scout = barrier.new { name = "bench" }
  while scout:arrived() ~= me.count - 1 do synod.sleep(LOOK_S) end
  synod.sleep(CALM_S)
end

local function arrive()
  local called = synod.now()
  while true do -- again, where a service is overrun by so many at once
    local arrived, err = b:arrive()
    if arrived then return called end
    if not err.retryable or synod.now() - called > PATIENCE_S then error(err) end
  end
end

if late and me.ordinal == me.count - 1 then hold_back() end
local before = 0
for _, count in pairs(synod.store:usage()) do before = before + count end
local called = arrive()
local flagged = b.entry.arrived / 1e9 -- the last one's arrive opens the gate as well
assert(b:wait { timeout = 120 })
local passed = synod.now()
synod.sleep(settle)
local requests = -before
for _, count in pairs(synod.store:usage()) do requests = requests + count end
print(('{"called":%.6f,"flagged":%.6f,"passed":%.6f,"requests":%d}'):format(called, flagged, passed, requests))
