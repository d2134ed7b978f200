-- Record leases against a real Azurite: conditional writes, ETags and metadata as the service has them.

local azurite = require "spec.support.azurite"
local contenders = require "spec.support.contenders"
local core = require "synod.core"
local lease = require "synod.lease"
local synod = require "synod"

local SLACK_S = 2 -- for a busy machine

local function blob_of(store, container)
  return store:container(container):blob "mutex/a"
end

describe("records on Azurite", function()
  local url, results = azurite.connection_string(), {}

  local function contend(blob, list)
    for _, who in ipairs(list) do who.patient = true end
    return contenders.run(blob, list)
  end

  --- Each in a container of its own, all at once: they wait in real time.
  local WORLDS = {
    records = function(container)
      local store <close> = assert(core.open_store(url))
      return contend(blob_of(store, container), {
        { id = "a", ttl = 2, hold = 1.5, rounds = 2 }, { id = "b", ttl = 1, hold = 0.5, rounds = 2 },
        { id = "c", ttl = 2, hold = 0.1, rounds = 2 },
      })
    end,
    ["records and a lease of the service"] = function(container)
      local store <close> = assert(core.open_store(url))
      return contend(blob_of(store, container), {
        { id = "a", ttl = 2, hold = 1.5, rounds = 2 }, { id = "b", ttl = 15, hold = 1, rounds = 2 },
      })
    end,
  }
  for _, kind in ipairs { "lost-request", "lost-response", "error-after-apply" } do
    for at = 4, 6 do -- take, renew, renew again
      WORLDS[("records with a fault, %s at %d"):format(kind, at)] = function(container)
        local faulty <close> = assert(core.open_store(url, { faults = { { kind = kind, ordinal = at } } }))
        local store <close> = assert(core.open_store(url))
        return contend(blob_of(store, container), {
          { id = "a", ttl = 2, hold = 2, blob = blob_of(faulty, container) },
          { id = "b", ttl = 2, hold = 0.5, start = 0.3 },
        })
      end
    end
  end

  lazy_setup(function()
    core.main(function()
      local lives = {}
      for name, world in next, WORLDS do
        local container = azurite.fresh "records"
        lives[#lives + 1] = function() results[name] = world(container) end
      end
      synod.all(lives)
    end)
  end)

  for name in next, WORLDS do
    it("never have two holders, and pass on: " .. name, function()
      assert.same({}, contenders.faults(results[name]))
      assert.is_true(#results[name] >= 2)
    end)
  end

  it("pass on when the holder has crashed, soon after their time", function()
    core.main(function()
      local store <close> = assert(core.open_store(url))
      local own = assert(core.open_store(url))
      local container = azurite.fresh "records"
      local options = { ttl = 1.5, instance = { id = "a" } }
      local a = assert(lease.contender(blob_of(own, container), options):take())
      options.instance = { id = "b" }
      local waiting = synod.spawn(function()
        return assert(lease.contender(blob_of(store, container), options):take { timeout = 30 }), synod.now()
      end)
      synod.sleep(1.2)
      local hard, crashed = a:status().hard, synod.now()
      own:close()
      local b, at = waiting:join()
      assert.is_true(at >= hard and b.fence > a.fence)
      assert.is_true(at - crashed <= 2 + SLACK_S, ("%.3f s"):format(at - crashed))
      assert(b:put(blob_of(store, container), "written with the fence"))
      assert(b:release())
    end)
  end)
end)
