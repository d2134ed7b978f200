-- handover.lua: a lock that two processes want by turns: from the beginning of the unlock in one to the return of the
-- lock in the other, which was waiting by then.

local azure = require "harness.azure"
local process = require "harness.process"
local series = require "harness.series"
local servers = require "harness.servers"
local turns = require "harness.turns"

local handover = { title = "A lock handed over between two processes" }

local TTL = 15
local AIM_MS = 5
local PROCESSES = 2

--- How long each has the lock, and how long it wants none after that: longer than a hand-over takes, so that the other
--- has it when it is asked for again. etcd looks each 100 ms after who has begun to wait; so does redis's client.
local USUAL = { hold = 0.15, pause = 0.12, poll = 0.1 }
local SLOW = { hold = 2, pause = 1.5 } -- a store that is looked at each second

local files = 0

local function measure(command)
  command.timeout = 120
  local took = turns.handovers(process.objects(process.measure(command).output))
  return { median = series.median(took), worst = math.max(table.unpack(took)) }
end

local function synod(url, pace, count, env)
  return {
    "build/synod", "run", "--store", url, "bench/ours/lock.lua", "turns", "%i", count, pace.hold, pace.pause, TTL,
    copies = PROCESSES, env = env,
  }
end

local function embedded(context, how, count)
  return function()
    files = files + 1
    return measure(synod(("embedded:%s/handover-%d.db%s"):format(context.work, files, how), USUAL, count))
  end
end

local function show(context, what, our, peers, aim)
  for _, key in ipairs { "median", "worst" } do
    local list = {}
    for i, peer in ipairs(peers) do list[i] = { peer[1], peer[2] and peer[2][key] } end
    context.show {
      name = what .. ", " .. key, unit = "ms", ours = our[key], peers = list, aim = key == "median" and aim or nil,
    }
  end
end

local function beside_servers(context)
  local count = context.rounds(15, 8)
  local peers <close> = servers.start(context, { "etcd", "zookeeper", "redis" })
  local measures = { { "synod", embedded(context, "", count) }, { "relaxed", embedded(context, "?relaxed", count) } }
  local function add(name, make)
    local server = peers[name]
    if server then
      measures[#measures + 1] = { name, function()
        local poll = name == "redis" and USUAL.poll or nil
        local command = make(server, "turns", "%i", count, USUAL.hold, USUAL.pause, poll)
        command.copies = PROCESSES
        return measure(command)
      end }
    end
  end
  add("etcd", function(server, ...) return { "build/bench/etcd", server.port, ... } end)
  add("zookeeper", servers.kazoo)
  add("redis", function(server, ...) return { "build/bench/redis", server.port, ... } end)
  local all = series.by_turns(context.rounds(7, 2), measures, context.say)
  local shown = {
    { "etcd", all.etcd }, { "ZooKeeper + kazoo", all.zookeeper }, { "redis, asked each 100 ms", all.redis },
  }
  show(context, "embedded store", all.synod, shown, { most = AIM_MS })
  show(context, "embedded store, relaxed", all.relaxed, shown, { most = AIM_MS })
end

--- Over a store that tells of no changes: two instances of one supervisor, who tell each other, and two that cannot.
local function on_emulator(context)
  local emulator <close> = azure.emulator()
  local env = { AZURE_STORAGE_CONNECTION_STRING = azure.connection_string(emulator.first) }
  local together = synod("azure", USUAL, context.rounds(15, 8), env)
  together.copies = nil
  table.move({ "-n", PROCESSES }, 1, 2, 3, table.move(together, 3, #together, 5))
  local apart = synod("azure", SLOW, context.rounds(4, 2), env)
  local all = series.by_turns(context.rounds(3, 1), {
    { "with hints", function() return measure(together) end },
    { "without", function() return measure(apart) end },
  }, context.say)
  show(context, "Azurite, instances of one supervisor", all["with hints"], { { "without hints", all.without } })
end

function handover.run(context)
  beside_servers(context)
  on_emulator(context)
end

return handover
