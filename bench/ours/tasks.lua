-- tasks.lua: tasks that sleep.
--
--   synod tasks.lua COUNT ROUNDS      each sleeps 1 ms ROUNDS times; prints wall and CPU time
--   synod tasks.lua COUNT 0           all fall asleep once; prints what each takes

local synod = require "synod"

local count, rounds = tonumber(arg[1]), tonumber(arg[2])
local LONG_S = 60

local function resident_bytes()
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^VmRSS:%s+(%d+)")
    if kb then return tonumber(kb) * 1024 end
  end
end

local done = 0
local function body()
  if rounds == 0 then synod.sleep(LONG_S) end
  for _ = 1, rounds do synod.sleep(0.001) end
  done = done + 1
end

--- One that looks at the clock as well: none may wake too early.
local function watched()
  for _ = 1, math.max(rounds, 1) do
    local asleep = synod.now()
    synod.sleep(0.001)
    assert(synod.now() - asleep >= 0.001, "a sleep was too short")
  end
end

collectgarbage()
local before, cpu, wall = resident_bytes(), os.clock(), synod.now()
local last = synod.spawn(watched)
for _ = 1, count do last = synod.spawn(body) end
if rounds == 0 then
  synod.sleep(0.5)
  collectgarbage()
  collectgarbage()
  print(('{"bytes_each":%.1f}'):format((resident_bytes() - before) / count))
  os.exit(0)
end
while done < count do last:join(0.001) end
print(('{"timers":%d,"cpu_ms":%.3f,"wall_ms":%.3f}')
  :format(count * rounds, (os.clock() - cpu) * 1e3, (synod.now() - wall) * 1e3))
