-- writer.lua: writes one blob as often as it can, then reads it as often as it can.
--
--   synod run --store URL writer.lua NAME START SECONDS      START in boot-time seconds

local synod = require "synod"

local name, start, seconds = arg[1], tonumber(arg[2]), tonumber(arg[3])
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
local writes, worst = write()
synod.sleep(math.max(0, start + seconds - synod.now()))
print(('{"writes":%d,"write_worst_ms":%.3f,"reads":%d}'):format(writes, worst, read()))
