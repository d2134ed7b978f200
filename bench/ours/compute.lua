-- compute.lua: a loop that computes, outside of a run, inside of one, and under a permanent count hook.
--
--   lua5.4 compute.lua TURNS ROUNDS      prints the CPU time of each, in one process, turn by turn

local core = require "synod.core"

local turns, rounds = tonumber(arg[1]), tonumber(arg[2])

local function compute()
  local sum, cpu = 0, os.clock()
  for i = 1, turns do sum = sum + i % 7 end
  assert(sum > 0)
  return (os.clock() - cpu) * 1e3
end

local function hooked()
  debug.sethook(function() end, "", 1000)
  local ms = compute()
  debug.sethook()
  return ms
end

local bare, inside, hook = {}, {}, {}
compute()
for i = 1, rounds do
  bare[i] = ("%.3f"):format(compute())
  inside[i] = ("%.3f"):format(core.main(compute))
  hook[i] = ("%.3f"):format(hooked())
end
print(('{"bare_ms":[%s],"inside_ms":[%s],"hook_ms":[%s]}')
  :format(table.concat(bare, ","), table.concat(inside, ","), table.concat(hook, ",")))
