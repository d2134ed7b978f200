-- barrier.lua: many processes of one machine wait for each other.

local azure = require "harness.azure"
local process = require "harness.process"
local series = require "harness.series"

local barrier = { title = "A barrier of processes on one machine" }

local POLL_S = 0.1
local deployments = 0

--- The command of one copy; `parties` may be more than there are copies.
local function instance(url, parties, settle)
  deployments = deployments + 1
  return {
    "build/synod", "run", "--store", "azure", "--instance", "bench_IN_%i", "--instances", parties, "--deployment",
    "d" .. deployments, "bench/ours/barrier.lua", POLL_S, settle,
    env = { AZURE_STORAGE_CONNECTION_STRING = url },
  }
end

local function embedded(path, parties, settle)
  local command = instance("", parties, settle)
  command[4] = "embedded:" .. path
  return command
end

local function largest(objects, field)
  local value = -math.huge
  for _, each in ipairs(objects) do value = math.max(value, each[field]) end
  return value
end

--- What the copies saw. Raises when one of them passed before the last had arrived.
local function crossing(command, copies, timeout)
  command.copies, command.timeout = copies, timeout
  local objects = process.objects(process.measure(command).output)
  assert(#objects == copies, "an instance said nothing")
  local called, flagged, passed = largest(objects, "called"), largest(objects, "flagged"), largest(objects, "passed")
  local requests = {}
  for i, each in ipairs(objects) do
    assert(each.passed >= called, "an instance passed before the last one had arrived")
    requests[i] = each.requests
  end
  return {
    spread = (passed - flagged) * 1e3, whole = (passed - called) * 1e3, requests = series.median(requests),
    most = largest(objects, "requests"),
  }
end

local function by_the_system(copies)
  return function()
    return { spread = process.ask({ "build/bench/os_barrier", copies }).spread_ms }
  end
end

local function show(context, all, where, copies, aim_ms)
  local ours, system = all.synod, all.futex
  local function name(text) return ("%s, %d processes, %s"):format(where, copies, text) end
  context.show {
    name = name "last flag to last pass", unit = "ms", ours = ours.spread, peer = system.spread,
    peer_name = "futex", aim = aim_ms and { most = aim_ms } or nil,
  }
  context.show { name = name "last call to last pass", unit = "ms", ours = ours.whole }
  context.show { name = name "an instance's requests", unit = "", ours = ours.requests }
  context.show { name = name "most requests of one", unit = "", ours = ours.most }
end

local function on_file(context, copies, rounds, aim_ms)
  local path = ("%s/barrier-%d.db"):format(context.work, copies)
  local all = series.by_turns(rounds, {
    { "synod", function() return crossing(embedded(path, copies, 0.5), copies, 60) end },
    { "futex", by_the_system(copies) },
  }, context.say)
  show(context, all, "embedded store", copies, aim_ms)
end

local function on_emulator(context, url, copies, rounds, aim_ms)
  local all = series.by_turns(rounds, {
    { "synod", function() return crossing(instance(url, copies, 1), copies, 120) end },
    { "futex", by_the_system(copies) },
  }, context.say)
  show(context, all, "Azurite", copies, aim_ms)
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

function barrier.run(context)
  on_file(context, 5, context.rounds(20, 5), 50)
  on_file(context, 50, context.rounds(7, 2))
  on_file(context, 200, context.rounds(7, 1), 100)
  memory(context, 200, function(parties)
    return embedded(context.work .. "/memory.db", parties, 0)
  end, "embedded store")
  local emulator <close> = azure.emulator()
  local url = azure.connection_string(emulator.first)
  on_emulator(context, url, 5, context.rounds(5, 2))
  on_emulator(context, url, 50, context.rounds(3, 1))
  on_emulator(context, url, 200, context.rounds(3, 1), 300)
  memory(context, 50, function(parties) return instance(url, parties, 0) end, "Azurite")
end

return barrier
