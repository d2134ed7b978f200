-- heads.lua: looks at a blob from many tasks at once, again and again.
--
--   synod run --store CONNECTION heads.lua AT_ONCE TIMES      prints the CPU time after the first time

local synod = require "synod"

local at_once, times = tonumber(arg[1]), tonumber(arg[2])
local blob = synod.store:container("bench"):blob "cycle"

local function look() assert(assert(blob:head()).etag) end

local looks = {}
for i = 1, at_once do looks[i] = look end

synod.all(looks)
local cpu, wall = os.clock(), synod.now()
for _ = 1, times do synod.all(looks) end
print(('{"requests":%d,"cpu_ms":%.3f,"wall_ms":%.3f}')
  :format(at_once * times, (os.clock() - cpu) * 1e3, (synod.now() - wall) * 1e3))
