-- cycle.lua: writes a blob and reads it, or renews a blob's lease, again and again.
--
--   synod run --store CONNECTION cycle.lua blob|lease CYCLES      prints the CPU time of the cycles alone

local synod = require "synod"

local what, cycles = arg[1], tonumber(arg[2])
local WARM_UP = 200
local BODY = "a flag, a lock, a few bytes of state: what coordination writes.."

local blob = synod.store:container("bench"):blob "cycle"

--- What is repeated, and the requests that it makes.
local kinds = {}

function kinds.blob()
  return function()
    assert(assert(blob:put(BODY)).etag)
    assert(assert(blob:get()) == BODY, "the blob came back changed")
  end, 2
end

function kinds.lease()
  local lease = assert(blob:lease { duration = 60 })
  return function() assert(lease:renew()) end, 1
end

local once, requests = kinds[what]()
for _ = 1, WARM_UP do once() end
local cpu, wall = os.clock(), synod.now()
for _ = 1, cycles do once() end
print(('{"requests":%d,"cpu_ms":%.3f,"wall_ms":%.3f}')
  :format(cycles * requests, (os.clock() - cpu) * 1e3, (synod.now() - wall) * 1e3))
