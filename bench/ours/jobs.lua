-- jobs.lua: messages through a work queue, as often as it can: one on the way at a time, each pushed when the one
-- before it was handled.
--
--   synod run --store URL jobs.lua SECONDS

local synod = require "synod"
local workqueue = require "synod.workqueue"

local seconds = tonumber(arg[1])
local BODY = "a task, its file, a few bytes of state: what a queue carries...."

local jobs = workqueue.new { name = "bench" }
local count, worst, began = 0, 0, synod.now()
local at = began

assert(jobs:push(BODY))
local consumer = synod.spawn(function()
  assert(jobs:consume(function(msg)
    if msg.body ~= BODY then error("the message came back changed") end
    local now = synod.now()
    count, worst, at = count + 1, math.max(worst, now - at), now
    if now - began < seconds then
      assert(jobs:push(BODY))
    else
      synod.spawn(function() jobs:drain() end)
    end
  end))
end)
consumer:join()
print(('{"count":%d,"worst_ms":%.3f,"seconds":%.6f}'):format(count, worst * 1e3, synod.now() - began))
