-- The barrier against a real storage server, together with the official JavaScript client.

local azurite = require "spec.support.azurite"
local cjson = require "cjson"
local core = require "synod.core"
local fleet = require "spec.support.fleet"
local sh = require "spec.support.sh"
local synod = require "synod"

--- On the real clock: fn(store).
local function run(fn)
  core.main(function()
    local store <close> = assert(synod.open(azurite.lenient()))
    fn(store)
  end)
end

--- What the official client sees: type, length and metadata by name.
local function seen(container)
  local items = {}
  for _, line in ipairs(azurite.sdk("list", container)) do
    local item = cjson.decode(line)
    items[item[1]] = { type = item[2], length = item[3], metadata = item[4] }
  end
  return items
end

describe("a barrier over Azure", function()
  it("lets five processes pass together, within one interval of the last arrival", function()
    local folder <close> = sh.folder()
    local container = azurite.fresh("flags")
    folder:write("times.lua", ([[
      local synod = require "synod"
      local me = synod.instance
      local ready = require("synod.barrier").new { name = "startup", container = %q, poll_max = 0.5 }
      synod.sleep(me.ordinal * 0.1)
      local arrived = synod.now()
      assert(ready:arrive_and_wait { timeout = 30 })
      print(("%%.6f %%.6f"):format(arrived, synod.now()))
    ]]):format(container))
    local output, code = sh.run("$SYNOD run -n 5 --deployment d7 $DIR/times.lua", {
      dir = folder.path, env = { SYNOD_STORE = azurite.lenient() },
    })
    assert.equal(0, code, output)
    local last, passes = 0, {}
    for arrived, passed in output:gmatch("| ([%d.]+) ([%d.]+)\n") do
      last, passes[#passes + 1] = math.max(last, tonumber(arrived)), tonumber(passed)
    end
    assert.equal(5, #passes)
    for _, passed in ipairs(passes) do
      assert.is_true(passed >= last, output)
      assert.is_true(passed <= last + 0.5 + 2, ("%.3f s after the last"):format(passed - last))
    end

    local items = seen(container)
    for ordinal = 0, 4 do
      local flag = items["d7/times/startup_" .. ordinal]
      assert.equal("PageBlob", flag.type)
      assert.equal(512, flag.length)
      assert.equal("1", flag.metadata.synod_v)
      assert.equal("times_IN_" .. ordinal, flag.metadata.synod_instance)
    end
    assert.equal("5", items["d7/times/startup.gate"].metadata.synod_parties)
  end)

  it("is what scripts/startup-barrier.lua does, unchanged", function()
    local output, code = sh.run("$SYNOD run -n 3 --store azure scripts/startup-barrier.lua 0.3", {
      env = { AZURE_STORAGE_CONNECTION_STRING = azurite.lenient(), SYNOD_STORE = "" },
    })
    assert.equal(0, code, output)
    for ordinal = 0, 2 do
      assert.matches(("startup-barrier_IN_%d | all 3 are ready"):format(ordinal), output, 1, true)
    end
  end)

  it("counts the flags of the official client, which may also be the last to come", function()
    run(function(store)
      local container = azurite.fresh("flags")
      assert(store:container(container):create())
      local options = {
        store = store, container = container, name = "startupWorkDone", bare = true, poll_max = 0.2, recheck = 0.5,
      }
      local ours = synod.spawn(fleet.meet, 3, options, { [1] = 0 }, 20)
      azurite.sdk("flag", container, "startupWorkDone_0")
      synod.sleep(0.3)
      assert.is_false(ours:ended())
      azurite.sdk("flag", container, "startupWorkDone_2")
      assert.is_table(ours:join(10)[1].passed)
      local items = seen(container)
      for ordinal = 0, 2 do
        local flag = items["startupWorkDone_" .. ordinal]
        assert.equal("PageBlob", flag.type)
        assert.equal(512, flag.length)
      end
    end)
  end)

  it("makes a number of requests that follows from the time it waits, not from how many there are", function()
    run(function(store)
      local container = azurite.fresh("flags")
      assert(store:container(container):create())
      for ordinal = 1, 60 do
        assert(store:container(container):blob("many_" .. ordinal):put("", { type = "page", size = 512 }))
      end
      local mine <close> = assert(synod.open(azurite.lenient()))
      assert(fleet.barrier(0, 61, {
        store = mine, container = container, name = "many", bare = true,
      }):arrive_and_wait { timeout = 10 })
      assert.same({ PutBlob = 2, ListBlobs = 1 }, mine:usage())
    end)
  end)

  it("does the rest as over any store: degraded, double, reset, restart, a newer version", function()
    run(function(store)
      local container = azurite.fresh("flags")
      local function options(more)
        local o = { store = store, container = container, poll_max = 0.2 }
        for name, value in next, more do o[name] = value end
        return o
      end
      local few = fleet.meet(3, options { name = "few", at_least = 2, within = 0.5 }, { [0] = 0, [2] = 0 }, 10)
      assert.same({ "worker_IN_1" }, few[0].passed.missing)

      local work = fleet.barrier(0, 1, options { name = "work" })
      assert(work:enter())
      assert(work:leave())
      assert.is_table(fleet.meet(1, options { name = "work" }, { [0] = 0 }, 5)[0].passed)
      assert.is_true(work:reset())

      assert(store:container(container):blob("d1/worker/new.gate"):put("0", { metadata = { synod_v = "2" } }))
      assert.equal("NewerVersion", fleet.meet(2, options { name = "new" }, { [0] = 0 }, 5)[0].err.code)
      local names = {}
      for name in next, seen(container) do names[#names + 1] = name end
      table.sort(names)
      assert.same({ "d1/worker/few.gate", "d1/worker/few_0", "d1/worker/few_2", "d1/worker/new.gate",
        "d1/worker/new_0" }, names)
    end)
  end)
end)
