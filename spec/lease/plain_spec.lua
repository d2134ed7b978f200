-- A lease that nobody keeps, judged by our own clock, on the virtual clock.

local fleet = require "spec.support.fleet"
local held_lease = require "synod.lease.held"
local lease = require "synod.lease"
local synod = require "synod"

local TIMES = assert(held_lease.times(15))

--- fn(blob, container) over a store with these faults.
local function run(fn, faults)
  fleet.run(function(store)
    local container = store:container "leases"
    assert(container:create())
    assert(container:blob("a"):put "x")
    fn(container:blob "a", container)
  end, { faults = faults })
end

local function near(wanted, got)
  assert.is_true(math.abs(wanted - got) < 1e-6, ("%.9f, not %.9f"):format(got, wanted))
end

describe("a lease that nobody keeps", function()
  it("is held until its soft stop, counted from before it was asked for", function()
    run(function(blob)
      local began = synod.now()
      local taken = assert(blob:lease { duration = 15 })
      assert.is_true(synod.now() - began >= 2)
      assert.is_true(taken:held())
      near(began + TIMES.soft - synod.now(), taken:remaining())
      local err = taken:wait_lost()
      assert.equal("LeaseLost", err.code)
      near(began + TIMES.soft, synod.now())
      assert.is_false(taken:held())
      assert.equal(0, taken:remaining())
    end, { { operation = "LeaseBlob", ordinal = 1, kind = "delay", seconds = 2 } })
  end)

  it("is held on by a renewal, counted from before that was sent, and not by one without an answer", function()
    run(function(blob)
      local taken = assert(blob:lease { duration = 15 })
      synod.sleep(5)
      local began = synod.now()
      assert(taken:renew())
      near(TIMES.soft, taken:remaining())
      synod.sleep(5)
      assert.is_nil((taken:renew { timeout = 1, retries = 0 }))
      near(began + TIMES.soft - synod.now(), taken:remaining())
      assert.is_nil(taken:wait_lost(1))
      assert.equal("LeaseLost", taken:wait_lost().code)
      near(began + TIMES.soft, synod.now())
      assert(taken:renew()) -- nobody has taken it: it is ours again
      assert.is_true(taken:held())
    end, { { operation = "LeaseBlob", ordinal = 3, kind = "lost-request" } })
  end)

  it("is lost when the store says so, and not held any more when it is given back or handed on", function()
    run(function(blob)
      local taken = assert(blob:lease { duration = 15 })
      assert(blob:break_lease(0))
      assert(blob:lease { duration = 15 }):release()
      assert.is_nil((taken:renew()))
      assert.is_false(taken:held())
      assert.equal("LeaseLost", taken:wait_lost().code)
      for _, call in ipairs { "release", "close" } do
        local other = assert(blob:lease { duration = 15 })
        other[call](other)
        assert.is_false(other:held())
        assert.is_nil(other:wait_lost())
      end
      local closed
      do
        local own <close> = assert(blob:lease { duration = 15 })
        closed = own
      end
      assert.is_false(closed:held())
      local source, id = assert(blob:lease { duration = 15 }), lease.draw_id()
      assert(source:change(id))
      assert.is_false(source:held())
      local target = lease.of(blob, id)
      assert.is_false(target:held(), "it has not been asked for")
      assert(target:renew())
      near(TIMES.soft, target:remaining())
      target:release()
    end)
  end)

  it("can be for ever, and be a container's", function()
    run(function(blob, container)
      local endless = assert(blob:lease { duration = -1 })
      synod.sleep(1000)
      assert.equal(math.huge, endless:remaining())
      assert.equal("done", endless:guard(function() return "done" end))
      endless:release()
      local taken = assert(container:lease { duration = 15 })
      near(TIMES.soft, taken:remaining())
      assert.equal(1, select("#", taken:guard(function() return "done" end)))
      taken:release()
      assert(blob:lease()):release()
    end)
  end)

  it("guards a function until the soft stop, which renewals move", function()
    run(function(blob)
      local taken, began = assert(blob:lease { duration = 15 }), synod.now()
      local ended
      local ok, err = pcall(taken.guard, taken, function()
        assert(blob:put "under its id")
        local _ <close> = setmetatable({}, { __close = function() ended = synod.now() end })
        synod.sleep(5)
        assert(taken:renew())
        synod.sleep(1000)
      end)
      assert.is_false(ok)
      assert.equal("LeaseLost", err.code)
      near(began + 5 + TIMES.soft, ended)
      assert.is_false(pcall(taken.guard, taken, function() error "it is over" end))
      assert.equal("LeaseLost", select(2, pcall(taken.guard, taken, print)).code)
    end)
  end)

  it("says where the script is wrong", function()
    run(function(blob)
      local taken = assert(blob:lease { duration = 15 })
      for _, wrong in ipairs {
        function() assert(taken:renew { foo = 1 }) end, function() assert(taken:renew(5)) end,
        function() assert(taken:wait_lost "soon") end, function() assert(taken:guard(7)) end,
        function() assert(taken:release(7)) end, function() assert(taken:release { foo = 1 }) end,
        function() assert(taken:change "x") end,
      } do
        local ok, err = pcall(wrong)
        assert.is_false(ok)
        assert.matches("^spec/lease/plain_spec.lua:%d+: [^/]*$", err)
      end
      assert(taken:release())
    end)
  end)

  it("stops what it guards when it is given back", function()
    run(function(blob)
      local taken = assert(blob:lease { duration = 15 })
      local body = synod.spawn(taken.guard, taken, function() synod.sleep(1000) end)
      synod.sleep(1)
      taken:release()
      local _, err = body:join()
      assert.equal("LeaseLost", err.code)
      near(1, synod.now())
    end)
  end)
end)

describe("a lease that is kept", function()
  it("says at a renewal whether it is held: the core renews it", function()
    run(function(blob)
      local kept = assert(blob:lease { duration = 15, keep = true })
      assert.is_true(kept:renew())
      kept:release()
      local done, err = kept:renew()
      assert.is_nil(done)
      assert.equal("LeaseLost", err.code)
    end)
  end)
end)
