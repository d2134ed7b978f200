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

local function write() assert(blob:put(BODY)) end
local function read() assert(assert(blob:get()) == BODY, "the blob came back changed") end

--- How many in the time allowed, and the longest one in ms.
local function repeated(once)
  local count, worst, at = 0, 0, synod.now()
  local finish = at + seconds
  while at < finish do
    local before = at
    once()
    at = synod.now()
    count, worst = count + 1, math.max(worst, at - before)
  end
  return count, worst * 1e3
end

synod.sleep(math.max(0, start - synod.now()))
local writes, write_worst = repeated(write)
synod.sleep(math.max(0, start + seconds - synod.now()))
local reads, read_worst = repeated(read)
print(('{"writes":%d,"write_worst_ms":%.3f,"reads":%d,"read_worst_ms":%.3f}')
  :format(writes, write_worst, reads, read_worst))
