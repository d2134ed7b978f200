-- blob.lua: requests over kept connections, against a service that answers without thinking.

local clients = require "harness.clients"

local blob = { title = "One blob written and read, over kept connections" }

local CYCLES = 10000
local WARM_UP = 200 -- cycles that each client makes before it measures

function blob.run(context)
  local cycles = context.rounds(CYCLES, CYCLES // 4)
  local all = clients.by_turns({
    rounds = context.rounds(11, 3), before = WARM_UP * 2,
    ours = { "build/synod", "run", "--store", "azure", "bench/ours/cycle.lua", "blob", cycles },
    curl = { "blob", cycles },
    sdk = { "node", "bench/peers/sdk_cycle.js", "blob", cycles // 5 },
  }, context.say)
  local function show(name, unit, key, peer, aim)
    clients.show(context, all, peer, { name = name, unit = unit, key = key, aim = aim })
  end
  show("CPU of 1,000 requests", "ms", "cpu", "libcurl", { ratio = true, most = 1.3 })
  show("CPU of 1,000 requests", "ms", "cpu", "SDK")
  show("wall of a request", "us", "wall", "libcurl")
  show("wall of a request", "us", "wall", "SDK")
end

return blob
