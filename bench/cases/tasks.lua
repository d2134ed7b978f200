-- tasks.lua: many sleeping tasks, a computing one, and one that only waits.

local process = require "harness.process"
local series = require "harness.series"

local tasks = { title = "Tasks and time" }

local COUNT, ROUNDS = 100000, 10
local TURNS = 30000000
local WAIT_S = 5

local function sleepers(command, rounds)
  return function()
    local got = process.ask { command[1], command[2], COUNT, rounds }
    if rounds == 0 then return { bytes = got.bytes_each } end
    return { speed = got.timers / got.wall_ms * 1e3, cpu = got.cpu_ms * 1e3 / got.timers }
  end
end

local function sleeping(context)
  local ours, luv = { "build/synod", "bench/ours/tasks.lua" }, { "lua5.4", "bench/peers/luv_tasks.lua" }
  local rounds = context.rounds(9, 2)
  local run = series.by_turns(rounds, { { "synod", sleepers(ours, ROUNDS) }, { "luv", sleepers(luv, ROUNDS) } },
    context.say)
  context.show {
    name = "100,000 tasks that sleep: timers", unit = "per second", ours = run.synod.speed, peer = run.luv.speed,
    peer_name = "luv", aim = { ratio = true, least = 1.5 },
  }
  context.show {
    name = "the same: CPU a timer", unit = "us", ours = run.synod.cpu, peer = run.luv.cpu, peer_name = "luv",
  }
  local memory = series.by_turns(context.rounds(5, 1), { { "synod, memory", sleepers(ours, 0) },
    { "luv, memory", sleepers(luv, 0) } }, context.say)
  context.show {
    name = "memory of a sleeping task", unit = "bytes", ours = memory["synod, memory"].bytes,
    peer = memory["luv, memory"].bytes, peer_name = "luv", aim = { most = 1500 },
  }
end

local function computing(context)
  context.say("a computing loop")
  local got = process.ask {
    "lua5.4", "bench/ours/compute.lua", TURNS, context.rounds(15, 3), timeout = 120,
    env = { LUA_PATH = "lua/?.lua;lua/?/init.lua;;", LUA_CPATH = "build/lib/?.so;;" },
  }
  context.show {
    name = "30 M turns, the world polled meanwhile", unit = "ms", ours = got.inside_ms, peer = got.bare_ms,
    peer_name = "no hook", aim = { ratio = true, most = 1.05 },
  }
  context.show {
    name = "the same", unit = "ms", ours = got.inside_ms, peer = got.hook_ms, peer_name = "permanent count hook",
  }
end

--- What waiting adds to a start: an instance that waits, beside one that ends at once.
local function idling(context)
  local function wait(seconds)
    return function()
      local m = process.measure { "build/synod", "bench/ours/wait.lua", seconds }
      return { cpu = m.cpu_ms[1], switches = m.switches[1] }
    end
  end
  local all = series.by_turns(context.rounds(5, 1), { { "waits", wait(WAIT_S) }, { "ends", wait(0) } }, context.say)
  local cpu, switches = {}, {}
  for i = 1, #all.waits.cpu do
    cpu[i] = math.max(0, all.waits.cpu[i] - all.ends.cpu[i]) * 60 / WAIT_S
    switches[i] = math.max(0, all.waits.switches[i] - all.ends.switches[i]) * 60 / WAIT_S
  end
  context.show { name = "CPU of an instance that waits", unit = "ms a minute", ours = cpu, aim = { most = 10 } }
  context.show { name = "how often it wakes", unit = "times a minute", ours = switches, aim = { most = 20 } }
end

function tasks.run(context)
  sleeping(context)
  computing(context)
  idling(context)
end

return tasks
