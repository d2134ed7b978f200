-- locks.lua: a lock taken and given back that nobody else wants.

local azure = require "harness.azure"
local process = require "harness.process"
local series = require "harness.series"
local servers = require "harness.servers"

local locks = { title = "A lock that nobody else wants, taken and given back" }

local COUNT, COUNT_QUICK = 500, 200
local WARM_UP = 50 -- cycles that each client makes before it measures
local SERVICE_TTL, RECORD_TTL = 15, 2
local AIM_MS = 1

local files = 0

--- One run of a client. The processor's time is the client's and the server's: where the store is embedded, the client
--- does the server's work.
---@param command bench.Command
---@param server? bench.Server
local function ask(command, server)
  local before = server and server:cpu_ms() or 0
  local got = process.ask(command)
  local used = server and server:cpu_ms() - before or 0
  return {
    median = got.median_ms, worst = got.worst_ms, requests = got.requests and got.requests / got.cycles,
    client = got.cpu_ms / got.cycles * 1e3,
    all = (got.cpu_ms / got.cycles + used / (got.cycles + WARM_UP)) * 1e3,
  }
end

local function ours(context, how, ttl)
  local count = context.rounds(COUNT, COUNT_QUICK)
  return function()
    files = files + 1
    local url = ("embedded:%s/locks-%d.db%s"):format(context.work, files, how or "")
    return ask { "build/synod", "run", "--store", url, "bench/ours/lock.lua", "cycle", count, ttl }
  end
end

local function on_emulator(context, emulator, ...)
  local command = { ... }
  command[#command + 1] = context.rounds(COUNT, COUNT_QUICK)
  command.env = { AZURE_STORAGE_CONNECTION_STRING = azure.connection_string(emulator.first) }
  return command
end

--- The peers by name, each with this one of its figures.
local function of(peers, key)
  local list = {}
  for i, peer in ipairs(peers) do list[i] = { peer[1], peer[2] and peer[2][key] } end
  return list
end

local function show(context, what, our, peers, aim)
  local function figure(text, unit, key, bound)
    context.show {
      name = what .. ", " .. text, unit = unit, ours = our[key], peers = of(peers, key), aim = bound,
    }
  end
  figure("median", "ms", "median", aim)
  figure("worst", "ms", "worst")
  figure("CPU with the server's", "us", "all")
  figure("requests", "each", "requests")
end

local function beside_servers(context)
  local count = context.rounds(COUNT, COUNT_QUICK)
  local peers <close> = servers.start(context, { "etcd", "zookeeper", "redis-disk", "redis" })
  local measures = {
    { "synod", ours(context, "", SERVICE_TTL) }, { "synod, relaxed", ours(context, "?relaxed", SERVICE_TTL) },
    { "synod, record", ours(context, "", RECORD_TTL) },
  }
  local function add(name, make)
    local server = peers[name]
    if server then
      measures[#measures + 1] = { name, function() return ask(make(server), server) end }
    end
  end
  add("etcd", function(server) return { "build/bench/etcd", server.port, "cycle", count } end)
  add("zookeeper", function(server) return servers.kazoo(server, "cycle", count) end)
  add("redis-disk", function(server) return { "build/bench/redis", server.port, "cycle", count } end)
  add("redis", function(server) return { "build/bench/redis", server.port, "cycle", count } end)
  local all = series.by_turns(context.rounds(9, 2), measures, context.say)
  local durable = {
    { "etcd", all.etcd }, { "ZooKeeper + kazoo", all.zookeeper }, { "redis, each to the disk", all["redis-disk"] },
  }
  show(context, "embedded store", all.synod, durable, { most = AIM_MS })
  show(context, "embedded store, ttl = 2", all["synod, record"], durable, { most = AIM_MS })
  show(context, "embedded store, relaxed", all["synod, relaxed"], { { "redis, in memory", all.redis } })
end

local function beside_sdk(context)
  local emulator <close> = azure.emulator()
  local function measure(...)
    local command = on_emulator(context, emulator, ...)
    return function() return ask(command, emulator) end
  end
  local function synod(ttl)
    local command = on_emulator(context, emulator, "build/synod", "run", "--store", "azure", "bench/ours/lock.lua",
      "cycle")
    command[#command + 1] = ttl
    return function() return ask(command, emulator) end
  end
  local all = series.by_turns(context.rounds(5, 1), {
    { "synod", synod(SERVICE_TTL) }, { "synod, record", synod(RECORD_TTL) },
    { "SDK", measure("node", "bench/peers/sdk_lock.js", "cycle") },
  }, context.say)
  local peers = { { "Node + SDK", all.SDK } }
  for _, each in ipairs { { "Azurite", all.synod }, { "Azurite, ttl = 2", all["synod, record"] } } do
    local what, figures = each[1], each[2]
    show(context, what, figures, peers)
    context.show {
      name = what .. ", CPU of the client", unit = "us", ours = figures.client, peer = all.SDK.client,
      peer_name = "Node + SDK",
    }
  end
end

function locks.run(context)
  beside_servers(context)
  beside_sdk(context)
end

return locks
