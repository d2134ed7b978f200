-- lease.lua: a lease renewed, again and again, against a service that answers without thinking.

local clients = require "harness.clients"

local lease = { title = "A lease renewed, over a kept connection" }

local RENEWALS = 20000
local WARM_UP = 200 -- renewals that each client makes before it measures

function lease.run(context)
  local renewals = context.rounds(RENEWALS, RENEWALS // 4)
  local all = clients.by_turns({
    rounds = context.rounds(11, 3), before = 1 + WARM_UP,
    ours = { "build/synod", "run", "--store", "azure", "bench/ours/cycle.lua", "lease", renewals },
    curl = { "lease", renewals },
    sdk = { "node", "bench/peers/sdk_cycle.js", "lease", renewals // 5 },
  }, context.say)
  local function show(name, unit, key, peer, aim)
    clients.show(context, all, peer, { name = name, unit = unit, key = key, aim = aim })
  end
  show("CPU of 1,000 renewals", "ms", "cpu", "libcurl", { ratio = true, most = 1.3 })
  show("CPU of 1,000 renewals", "ms", "cpu", "SDK", { ratio = true, most = 0.1 })
  show("wall of a renewal", "us", "wall", "libcurl")
  show("wall of a renewal", "us", "wall", "SDK")
end

return lease
