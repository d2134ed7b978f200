-- barrier.lua: many processes of one machine wait for each other.

local azure = require "harness.azure"
local process = require "harness.process"
local series = require "harness.series"
local servers = require "harness.servers"

local barrier = { title = "A barrier of processes on one machine" }

local POLL_S = 0.1
local deployments = 0

--- The command of one copy; `parties` may be more than there are copies.
---@param how "late"|"together"
local function instance(url, how, parties, settle)
  deployments = deployments + 1
  return {
    "build/synod", "run", "--store", "azure", "--instance", "bench_IN_%i", "--instances", parties, "--deployment",
    "d" .. deployments, "bench/ours/barrier.lua", how, POLL_S, settle,
    env = { AZURE_STORAGE_CONNECTION_STRING = url },
  }
end

local function embedded(path, how, parties, settle)
  local command = instance("", how, parties, settle)
  command[4] = "embedded:" .. path
  return command
end

local function largest(objects, field)
  local value = -math.huge
  for _, each in ipairs(objects) do value = math.max(value, each[field]) end
  return value
end

local function smallest(objects, field)
  local value = math.huge
  for _, each in ipairs(objects) do value = math.min(value, each[field]) end
  return value
end

--- What the copies saw. Raises when one of them passed before the last had arrived.
local function crossing(command, copies, timeout)
  command.copies, command.timeout = copies, timeout
  local objects = process.objects(process.measure(command).output)
  assert(#objects == copies, "an instance said nothing")
  local called, passed = largest(objects, "called"), largest(objects, "passed")
  for _, each in ipairs(objects) do
    assert(each.passed >= called, "an instance passed before the last one had arrived")
  end
  return { late = (passed - called) * 1e3, all = (passed - smallest(objects, "called")) * 1e3 }, objects, passed
end

--- The same of ours, which say what they asked for as well.
local function crossing_of_ours(command, copies, timeout)
  local seen, objects, passed = crossing(command, copies, timeout)
  local requests = {}
  for i, each in ipairs(objects) do requests[i] = each.requests end
  seen.flag = (passed - largest(objects, "flagged")) * 1e3
  seen.requests, seen.most = series.median(requests), largest(objects, "requests")
  return seen
end

--- What coordinates by a server, as far as it is there.
local function by_servers(peers, copies)
  local list = {}
  local function add(server, name, command)
    if not server then return end
    list[#list + 1] = { name, function()
      deployments = deployments + 1
      return (crossing(command("barrier", "%i", copies, "d" .. deployments), copies, 240))
    end }
  end
  add(peers.etcd, "etcd", function(...) return { "build/bench/etcd", peers.etcd.port, ... } end)
  add(peers.zookeeper, "ZooKeeper + kazoo", function(...) return servers.kazoo(peers.zookeeper, ...) end)
  return list
end

local function by_the_system(copies)
  return function()
    return { late = process.ask({ "build/bench/os_barrier", copies }).spread_ms }
  end
end

---@class bench.Crowd
---@field where string
---@field copies integer
---@field make fun(how: string): bench.Command
---@field rounds integer
---@field aim_ms? number
---@field peers? table<string, bench.Peer>

--- The last one comes when the others wait: what the aims are about.
local function one_late(context, crowd)
  local others = by_servers(crowd.peers or {}, crowd.copies)
  local all = series.by_turns(crowd.rounds, {
    { "synod", function() return crossing_of_ours(crowd.make("late"), crowd.copies, 120) end },
    { "futex", by_the_system(crowd.copies) }, table.unpack(others),
  }, context.say)
  local function show(text, unit, key, peers, aim)
    context.show {
      name = ("%s, %d processes, %s"):format(crowd.where, crowd.copies, text), unit = unit, ours = all.synod[key],
      peers = peers or {}, aim = aim,
    }
  end
  local peers = { { "futex", all.futex.late } }
  for _, other in ipairs(others) do peers[#peers + 1] = { other[1], all[other[1]].late } end
  show("last call to last pass", "ms", "late", peers, crowd.aim_ms and { most = crowd.aim_ms })
  show("its flag to last pass", "ms", "flag")
  show("requests of an instance", "median", "requests")
  show("requests of an instance", "most", "most")
end

--- All come as they are started: how long such a start takes in all.
local function all_at_once(context, crowd)
  local all = series.by_turns(crowd.rounds, {
    { "synod, at once", function() return crossing_of_ours(crowd.make("together"), crowd.copies, 120) end },
  }, context.say)["synod, at once"]
  context.show {
    name = ("%s, %d processes at once, first call to last pass"):format(crowd.where, crowd.copies), unit = "ms",
    ours = all.all,
  }
  context.show {
    name = ("%s, %d processes at once, requests of an instance"):format(crowd.where, crowd.copies), unit = "median",
    ours = all.requests,
  }
end

local function on_file(context, copies, rounds, aim_ms, peers)
  local path = ("%s/barrier-%d.db"):format(context.work, copies)
  return {
    where = "embedded store", copies = copies, rounds = rounds, aim_ms = aim_ms, peers = peers,
    make = function(how) return embedded(path, how, copies, 0.5) end,
  }
end

local function on_emulator(url, copies, rounds, aim_ms)
  return {
    where = "Azurite", copies = copies, rounds = rounds, aim_ms = aim_ms,
    make = function(how) return instance(url, how, copies, 1) end,
  }
end

--- What each of many waiting instances has to itself: one more is expected than there are.
local function memory(context, copies, make, name)
  local seconds = 1 + copies / 50
  local function private(command)
    command.copies, command.sample = copies, seconds
    return function() return { kb = series.median(process.measure(command).private_kb) / 1024 } end
  end
  local all = series.by_turns(context.rounds(3, 1), {
    { "synod waits", private(make(copies + 1)) },
    { "lua5.4 waits", private { "lua5.4", "-e", "io.read()" } },
  }, context.say)
  context.show {
    name = ("%s, private memory of %d that wait"):format(name, copies), unit = "MiB each",
    ours = all["synod waits"].kb, peer = all["lua5.4 waits"].kb, peer_name = "lua5.4", aim = { most = 3 },
  }
end

local function beside_servers(context)
  local peers <close> = servers.start(context, { "etcd", "zookeeper" })
  one_late(context, on_file(context, 5, context.rounds(15, 3), 50, peers))
  one_late(context, on_file(context, 50, context.rounds(7, 2), nil, peers))
  one_late(context, on_file(context, 200, context.rounds(5, 1), 100, peers))
end

function barrier.run(context)
  beside_servers(context)
  all_at_once(context, on_file(context, 200, context.rounds(5, 1)))
  memory(context, 200, function(parties)
    return embedded(context.work .. "/memory.db", "together", parties, 0)
  end, "embedded store")
  local emulator <close> = azure.emulator()
  local url = azure.connection_string(emulator.first)
  one_late(context, on_emulator(url, 5, context.rounds(5, 2)))
  one_late(context, on_emulator(url, 50, context.rounds(5, 1)))
  one_late(context, on_emulator(url, 200, context.rounds(5, 1), 300))
  all_at_once(context, on_emulator(url, 200, context.rounds(3, 1)))
  memory(context, 50, function(parties) return instance(url, "together", parties, 0) end, "Azurite")
end

return barrier
