-- failover.lua: SIGKILL to whoever has the lock: how long until the next one has it.

local azure = require "harness.azure"
local process = require "harness.process"
local series = require "harness.series"
local servers = require "harness.servers"

local failover = { title = "The holder of a lock is killed: until the next one has it" }

local COPIES = 3
local LEASE, RECORD = 15, 2 -- seconds
local POLL_S = { redis = 0.1, SDK = 1 } -- how often those ask that are told nothing
local SUPERVISED_MS = 100
local RECORD_MS = 3000
local LEASE_MS = (LEASE + 1) * 1000
local LIMIT_S = 40
local SETTLE_S = 1 -- the holder is left alone for so long, and for a part of its renewals' interval:
local GOLDEN = 0.618 -- spreads the parts over it, however many there are

local files = 0

local function fresh(context)
  files = files + 1
  return ("embedded:%s/failover-%d.db"):format(context.work, files)
end

--- Kills one holder of so many copies of a command, each time at another phase of its renewals, the same for all
--- rivals: the milliseconds to the next holder.
local function killing(copies, ttl, make)
  local round = 0
  return function()
    round = round + 1
    local settle = SETTLE_S + ttl / 3 * (round * GOLDEN % 1)
    local command = make()
    local line = { "build/bench/failover", copies, ("%.3f"):format(settle), LIMIT_S, env = command.env }
    table.move(command, 1, #command, #line + 1, line)
    line.timeout = LIMIT_S * 3
    return { ms = process.ask(line).ms }
  end
end

--- Instances of one supervisor, which reaps the one that was killed.
local function supervised(url, ttl, env)
  return { "build/synod", "run", "-n", COPIES, "--store", url, "bench/ours/lock.lua", "hold", ttl, env = env }
end

--- Instances that know nothing of each other but the store.
local function apart(url, ttl, env)
  return {
    "build/synod", "run", "--store", url, "--instance", "bench_IN_%i", "bench/ours/lock.lua", "hold", ttl, env = env,
  }
end

local function from_the_shell(url, ttl)
  return { "build/synod", "lock", "bench", "--store", url, "--ttl", ttl, "--", "sh", "-c", "echo holds; sleep 60" }
end

---@class bench.Failover
---@field name string
---@field rounds integer
---@field ours bench.Rival
---@field peers bench.Rival[]
---@field aim_ms? number

---@class bench.Rival
---@field [1] string
---@field [2] fun(): table<string, number>

local function compare(context, test)
  local measures = { test.ours, table.unpack(test.peers) }
  local all = series.by_turns(test.rounds, measures, context.say, true)
  local peers = {}
  for i, peer in ipairs(test.peers) do peers[i] = { peer[1], all[peer[1]].ms } end
  context.show {
    name = test.name, unit = "ms", ours = all[test.ours[1]].ms, peers = peers,
    aim = test.aim_ms and { most = test.aim_ms } or nil,
  }
end

local function on_file(context, make, copies, ttl)
  return killing(copies, ttl, function() return make(fresh(context), ttl) end)
end

local function on_emulator(make, copies, ttl, env)
  return killing(copies, ttl, function() return make("azure", ttl, env) end)
end

--- Those of the peers that are there, each with the shortest time of life that ours has.
local function rivals(peers)
  local list = {}
  local function add(server, name, command)
    if server then
      list[#list + 1] = { name, killing(COPIES, RECORD, function() return command(server) end) }
    end
  end
  add(peers.etcd, "etcdctl lock --ttl=2", function(server)
    local command = { "etcdctl", "--endpoints=127.0.0.1:" .. server.port, "lock", "--ttl=" .. RECORD, "bench" }
    command.env = { ETCDCTL_API = 3 }
    return command
  end)
  add(peers.zookeeper, "kazoo, session of 2 s", function(server) return servers.kazoo(server, "hold", RECORD) end)
  add(peers.redis, "redis, PX 2000, asked each 100 ms", function(server)
    return { "build/bench/redis", server.port, "hold", RECORD * 1000, POLL_S.redis }
  end)
  return list
end

local function embedded(context)
  local peers <close> = servers.start(context, { "etcd", "zookeeper", "redis" })
  compare(context, {
    name = "embedded store, instances of one supervisor, ttl = 15", rounds = context.rounds(10, 2),
    ours = { "synod, supervised", on_file(context, supervised, 1, LEASE) }, peers = {}, aim_ms = SUPERVISED_MS,
  })
  compare(context, {
    name = "embedded store, ttl = 2", rounds = context.rounds(7, 1),
    ours = { "synod", on_file(context, apart, COPIES, RECORD) }, peers = rivals(peers), aim_ms = RECORD_MS,
  })
  compare(context, {
    name = "embedded store, synod lock --ttl 2", rounds = context.rounds(7, 1),
    ours = { "synod lock", on_file(context, from_the_shell, COPIES, RECORD) },
    peers = peers.etcd and { rivals(peers)[1] } or {}, aim_ms = RECORD_MS,
  })
end

local function emulated(context)
  local emulator <close> = azure.emulator()
  local env = { AZURE_STORAGE_CONNECTION_STRING = azure.connection_string(emulator.first) }
  compare(context, {
    name = "Azurite, instances of one supervisor, ttl = 15", rounds = context.rounds(10, 2),
    ours = { "synod, supervised", on_emulator(supervised, 1, LEASE, env) }, peers = {}, aim_ms = SUPERVISED_MS,
  })
  compare(context, {
    name = "Azurite, ttl = 2", rounds = context.rounds(5, 1),
    ours = { "synod", on_emulator(apart, COPIES, RECORD, env) }, peers = {}, aim_ms = RECORD_MS,
  })
  local sdk = { "node", "bench/peers/sdk_lock.js", "hold", LEASE, POLL_S.SDK, env = env }
  compare(context, {
    name = "Azurite, ttl = 15", rounds = context.rounds(3, 1),
    ours = { "synod", on_emulator(apart, COPIES, LEASE, env) },
    peers = { { "Node + SDK, asked each second", killing(COPIES, LEASE, function() return sdk end) } },
    aim_ms = LEASE_MS,
  })
end

function failover.run(context)
  embedded(context)
  emulated(context)
end

return failover
