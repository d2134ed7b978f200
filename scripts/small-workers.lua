-- small-workers: several small workers in one instance, each started again when it fails.
--
--   synod run -n 2 small-workers.lua [SECONDS]        for so long (5)
--
-- The workers take turns in one process: while one waits, the others go on. One that fails is started again after a
-- back-off; the others do not notice. At a stop (SIGTERM, or the time is over) each finishes what it is at, within ten
-- seconds. Exit codes: 0; 3 no store.

local synod = require "synod"
local backoff = require "synod.backoff"
local counter = require "synod.counter"

local seconds = tonumber((...)) or 5
local stopping = synod.event()
local beats = counter.new { name = "small-workers" }

local workers = {}

--- Counts what all instances do.
function workers.heartbeat()
  repeat assert(beats:add(1)) until stopping:wait(0.5)
end

--- Looks at the clock.
function workers.clock()
  repeat print(os.date "!%H:%M:%S") until stopping:wait(1)
end

--- Fails now and then.
function workers.moody()
  repeat
    if math.random(3) == 1 then error("not today", 0) end
  until stopping:wait(0.3)
end

--- Runs a worker until it returns, and again when it fails.
local function keep(name, fn)
  local pause = backoff.new { min = 0.1, max = 2 }
  while true do
    local ok, err = pcall(fn)
    if ok or stopping:is_set() then return true end
    print(("%s failed: %s"):format(name, err))
    if stopping:wait(pause:next()) then return true end
  end
end

local tasks = {}
for name, fn in pairs(workers) do tasks[#tasks + 1] = synod.spawn(keep, name, fn) end
synod.on("stopping", function()
  stopping:set()
  for _, task in ipairs(tasks) do task:join(10) end
end)
stopping:wait(seconds)
stopping:set()
for _, task in ipairs(tasks) do assert(task:join(10)) end
print(("%d heartbeats of all instances"):format(assert(beats:get())))
