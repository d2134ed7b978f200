-- many.lua: a thousand requests at once on one loop, against a service that answers without thinking.

local clients = require "harness.clients"

local many = { title = "1,000 requests at once, on one loop" }

local AT_ONCE = 1000
local TIMES = 20
local ON_THE_WAY = 64 -- of synod's HTTP client; libcurl's loop is given as many

function many.run(context)
  local times = context.rounds(TIMES, TIMES // 4)
  local all = clients.by_turns({
    rounds = context.rounds(9, 3), before = AT_ONCE, connections = ON_THE_WAY,
    ours = { "build/synod", "run", "--store", "azure", "bench/ours/heads.lua", AT_ONCE, times },
    curl = { "heads", AT_ONCE * times },
    sdk = { "node", "bench/peers/sdk_cycle.js", "heads", times // 5, AT_ONCE },
  }, context.say)
  for _, peer in ipairs { "libcurl", "SDK" } do
    clients.show(context, all, peer, { name = "requests", unit = "per second", key = "speed" })
    clients.show(context, all, peer, { name = "CPU of 1,000 requests", unit = "ms", key = "cpu" })
    clients.show(context, all, peer, { name = "peak memory", unit = "MiB", key = "memory" })
    clients.show(context, all, peer, { name = "connections", unit = "opened", key = "connections" })
  end
end

return many
