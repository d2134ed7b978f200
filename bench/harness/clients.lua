-- clients.lua: the same requests through synod, bare libcurl and the official SDK, by turns, against the stub.

local azure = require "harness.azure"
local json = require "cjson"
local process = require "harness.process"
local series = require "harness.series"

local clients = {}

---@class bench.Requests
---@field rounds integer
---@field before integer       requests of a client before it measures
---@field ours bench.Command
---@field curl bench.Command   without its program and the port
---@field sdk bench.Command
---@field connections? integer at most so many of synod and of libcurl, any number of the SDK; one of each when absent

--- Runs a client once: what it says, and what it used.
local function ask(command)
  local measured = process.measure(command)
  local objects = process.objects(measured.output)
  assert(#objects == 1, "a client said nothing")
  local got = objects[1]
  return got, {
    cpu = got.cpu_ms / got.requests * 1000,
    wall = got.wall_ms / got.requests * 1000,
    speed = got.requests / got.wall_ms * 1000,
    memory = measured.peak_kb[1] / 1024,
  }
end

--- The service's own count: nothing refused, nothing repeated, no connection dropped.
local function check(served, requests, connections)
  assert(served.refused == 0, "the stub refused requests that were not signed")
  assert(served.requests == requests, "the stub saw another number of requests")
  assert(served.connections <= connections, "a connection was not kept")
end

--- Measures one client against a service that serves it alone.
local function alone(command, before, connections)
  local stub <close> = azure.stub()
  command.env = { AZURE_STORAGE_CONNECTION_STRING = azure.connection_string(stub.first) }
  if command.port then command[command.port] = stub.first end
  local got, costs = ask(command)
  local served = json.decode(stub:stop())
  check(served, got.requests + before, connections)
  costs.connections = served.connections
  return costs
end

--- What each request costs of CPU and wall (us), the requests per second, the peak of memory (MiB) and the connections,
--- by "synod", "libcurl" and "SDK".
---@param test bench.Requests
---@param say fun(message: string)
---@return table<string, table<string, number[]>>
function clients.by_turns(test, say)
  local curl = { "build/bench/curl_cycle", "port", port = 2 }
  table.move(test.curl, 1, #test.curl, 3, curl)
  local most = test.connections or 1
  local function measure(command, connections)
    return function() return alone(command, test.before, connections) end
  end
  return series.by_turns(test.rounds, {
    { "synod", measure(test.ours, most) },
    { "libcurl", measure(curl, most) },
    { "SDK", measure(test.sdk, test.connections and math.huge or 1) },
  }, say)
end

--- Shows one of the figures beside a peer's.
---@param context bench.Context
---@param all table<string, table<string, number[]>>
---@param peer "libcurl"|"SDK"
---@param figure bench.Figure with `key`, the figure's name in `all`
function clients.show(context, all, peer, figure)
  context.show {
    name = figure.name, unit = figure.unit, ours = all.synod[figure.key], peer = all[peer][figure.key],
    peer_name = peer == "libcurl" and "bare libcurl" or "Node + SDK", aim = figure.aim,
  }
end

return clients
