-- cycle.lua: writes a blob and reads it, again and again.
--
--   synod run --store CONNECTION cycle.lua CYCLES      prints the CPU time of the cycles alone

local synod = require "synod"

local cycles = tonumber(arg[1])
local WARM_UP = 200
local BODY = "a flag, a lock, a few bytes of state: what coordination writes.."

local blob = synod.store:container("bench"):blob "cycle"

local function repeated(count)
  for _ = 1, count do
    assert(assert(blob:put(BODY)).etag)
    assert(assert(blob:get()) == BODY, "the blob came back changed")
  end
end

repeated(WARM_UP)
local cpu, wall = os.clock(), synod.now()
repeated(cycles)
print(('{"requests":%d,"cpu_ms":%.3f,"wall_ms":%.3f}')
  :format(cycles * 2, (os.clock() - cpu) * 1e3, (synod.now() - wall) * 1e3))
