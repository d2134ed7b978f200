-- blob.lua: requests over kept connections, against a service that answers without thinking.

local azure = require "harness.azure"
local json = require "cjson"
local process = require "harness.process"
local series = require "harness.series"

local blob = { title = "One blob written and read, over kept connections" }

local CYCLES = 10000
local WARM_UP = 200 -- cycles that each client makes before it measures

--- A client's costs a request; remembers how many requests the service must have seen.
local function client(seen, cycles, command)
  return function()
    local got = process.ask(command)
    assert(got.requests == cycles * 2)
    seen.requests = seen.requests + got.requests + WARM_UP * 2
    seen.clients = seen.clients + 1
    return { cpu = got.cpu_ms / got.requests * 1000, wall = got.wall_ms * 1000 / cycles }
  end
end

--- The service's own count: nothing refused, nothing repeated, no connection dropped.
local function check(seen, served)
  assert(served.refused == 0, "the stub refused requests that were not signed")
  assert(served.requests == seen.requests, "the stub saw another number of requests")
  assert(served.connections == seen.clients, "a connection was not kept")
end

function blob.run(context)
  local stub <close> = azure.stub()
  local connection = azure.connection_string(stub.first)
  local cycles = context.rounds(CYCLES, CYCLES // 4)
  local seen = { requests = 0, clients = 0 }
  local env = { AZURE_STORAGE_CONNECTION_STRING = connection }
  local all = series.by_turns(context.rounds(11, 3), {
    { "synod", client(seen, cycles, { "build/synod", "run", "--store", "azure", "bench/ours/cycle.lua", cycles,
      env = env }) },
    { "libcurl", client(seen, cycles, { "build/bench/curl_cycle", stub.first, cycles }) },
    { "SDK", client(seen, cycles // 5, { "node", "bench/peers/sdk_cycle.js", cycles // 5, env = env }) },
  }, context.say)
  check(seen, json.decode(stub:stop()))
  local function show(name, unit, key, peer, aim)
    context.show {
      name = name, unit = unit, ours = all.synod[key], peer = all[peer][key],
      peer_name = peer == "libcurl" and "bare libcurl" or "Node + SDK", aim = aim,
    }
  end
  show("CPU of 1,000 requests", "ms", "cpu", "libcurl", { ratio = true, most = 1.3 })
  show("CPU of 1,000 requests", "ms", "cpu", "SDK")
  show("wall of a write and a read", "us", "wall", "libcurl")
  show("wall of a write and a read", "us", "wall", "SDK")
end

return blob
