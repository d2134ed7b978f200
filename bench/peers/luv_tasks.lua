-- luv_tasks.lua: coroutines that sleep on luv's timers, one timer each.
--
--   lua5.4 luv_tasks.lua COUNT ROUNDS      each sleeps 1 ms ROUNDS times; prints wall and CPU time
--   lua5.4 luv_tasks.lua COUNT 0           all fall asleep once; prints what each takes

local uv = require "luv"

local count, rounds = tonumber(arg[1]), tonumber(arg[2])
local LONG_MS = 60000

local function resident_bytes()
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^VmRSS:%s+(%d+)")
    if kb then return tonumber(kb) * 1024 end
  end
end

local function sleep(timer, co, ms)
  timer:start(ms, 0, function() assert(coroutine.resume(co)) end)
  coroutine.yield()
end

local done = 0
local function body(co)
  local timer = uv.new_timer()
  if rounds == 0 then sleep(timer, co, LONG_MS) end
  for _ = 1, rounds do sleep(timer, co, 1) end
  timer:close()
  done = done + 1
end

collectgarbage()
local before, cpu, wall = resident_bytes(), os.clock(), uv.hrtime()
for _ = 1, count do
  local co
  co = coroutine.create(function() body(co) end)
  assert(coroutine.resume(co))
end
if rounds == 0 then
  collectgarbage()
  collectgarbage()
  print(('{"bytes_each":%.1f}'):format((resident_bytes() - before) / count))
  os.exit(0, false)
end
uv.run()
assert(done == count)
print(('{"timers":%d,"cpu_ms":%.3f,"wall_ms":%.3f}')
  :format(count * rounds, (os.clock() - cpu) * 1e3, (uv.hrtime() - wall) / 1e6))
