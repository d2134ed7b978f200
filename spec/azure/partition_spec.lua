-- The partition against a real storage server: leases of the service, handed over by their change.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local log = require "synod.log"
local partition = require "synod.partition"
local synod = require "synod"

setup(function() log.configure { level = "error" } end)
teardown(function() log.configure { level = "info" } end)

local function wait_until(what, fn)
  local ends = synod.now() + 25
  while not fn() do
    assert(synod.now() < ends, what .. ": not in 25 s")
    synod.sleep(0.05)
  end
end

describe("over Azure", function()
  it("a partition moves items to a newcomer and from one that retires, each run by one at a time", function()
    core.main(function()
      local store <close> = assert(synod.open(azurite.lenient()))
      local name = azurite.fresh("shards")
      local running, fences, steps = {}, {}, {}
      local function life(id)
        local p = partition.new {
          name = name, store = store, instance = { id = id },
          on_leaving = function(item) steps[#steps + 1] = "leaving " .. item end,
          on_arriving = function(item) steps[#steps + 1] = "arriving " .. item end,
        }
        local task = synod.spawn(p.run, p, { "x", "y", "z" }, function(item, share)
          assert(not running[item] and share.fence > (fences[item] or 0))
          running[item], fences[item] = id, share.fence
          local _ <close> = setmetatable({}, { __close = function() running[item] = nil end })
          synod.sleep(1e6)
        end)
        return { p = p, task = task }
      end
      local a = life "a"
      wait_until("a runs everything", function() return #a.p:items() == 3 end)
      local b = life "b"
      wait_until("b runs one", function() return #b.p:items() == 1 and #a.p:items() == 2 end)
      local moved = b.p:items()[1]
      assert.same({ "leaving " .. moved, "arriving " .. moved }, steps)
      assert(a.p:retire())
      assert.is_true(a.task:join())
      wait_until("b runs everything", function() return running.x == "b" and running.y == "b" and running.z == "b" end)
      assert.equal(6, #steps)
      b.task:cancel()
      b.task:join()
      assert.same({}, running)
    end)
  end)
end)
