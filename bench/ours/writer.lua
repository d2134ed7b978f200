-- writer.lua: writes one blob, or reads it, as often as it can.
--
--   synod run --store URL writer.lua write|read NAME START SECONDS      START in boot-time seconds

local synod = require "synod"

local what, name, start, seconds = arg[1], arg[2], tonumber(arg[3]), tonumber(arg[4])
local BODY = "a flag, a lock, a few bytes of state: what coordination writes.."

local container = synod.store:container "bench"
assert(container:create())
local blob = container:blob(name)
assert(blob:put(BODY))

local READS = 32 -- between two looks at the clock

--- How many in the time allowed, and the longest one in ms.
local function write()
  local count, worst, at = 0, 0, synod.now()
  local finish = at + seconds
  while at < finish do
    local before = at
    assert(blob:put(BODY))
    at = synod.now()
    count, worst = count + 1, math.max(worst, at - before)
  end
  return count, worst * 1e3
end

local function read()
  local count, finish = 0, synod.now() + seconds
  while synod.now() < finish do
    for _ = 1, READS do
      if blob:get() ~= BODY then error("the blob came back changed") end
    end
    count = count + READS
  end
  return count
end

synod.sleep(math.max(0, start - synod.now()))
if what == "read" then
  print(('{"count":%d,"worst_ms":0}'):format(read()))
else
  print(('{"count":%d,"worst_ms":%.3f}'):format(write()))
end
