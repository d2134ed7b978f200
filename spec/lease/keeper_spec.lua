-- The service's lease, kept: each way in which clients of leases are known to go wrong, on the virtual clock.

local core = require "synod.core"
local fleet = require "spec.support.fleet"
local held_lease = require "synod.lease.held"
local lease = require "synod.lease"
local sh = require "spec.support.sh"
local synod = require "synod"

local TIMES = assert(held_lease.times(15))

--- fn(blob, store) over a store with these faults.
local function run(fn, faults)
  fleet.run(function(store) fn(store:container("locks"):blob "mutex/a", store) end, { faults = faults })
end

--- fn(blob, other): the same blob through a store with these faults, and through one without.
local function run_two(fn, faults)
  local folder <close> = sh.folder()
  local url = "embedded:" .. folder.path .. "/store.db?relaxed"
  fleet.run(function(store)
    local faulty <close> = assert(core.open_store(url, { faults = faults }))
    fn(faulty:container("locks"):blob "mutex/a", store:container("locks"):blob "mutex/a")
  end, { url = url })
end

local function contender(blob, id, options)
  options = options or {}
  options.ttl, options.purpose, options.instance = options.ttl or 15, "spec", { id = id or "a" }
  return lease.contender(blob, options)
end

local function take(blob, id) return assert(contender(blob, id):try()) end

local function state(blob) return assert(blob:head()).lease_state end

local function refused(code, value, err)
  assert.is_nil(value)
  assert.equal(code, err.code)
  return err
end

local function leases(kind, ordinal, seconds)
  return { { operation = "LeaseBlob", kind = kind, ordinal = ordinal, seconds = seconds } }
end

local function near(expected, actual)
  assert.is_true(math.abs(expected - actual) < 1e-6, expected .. " is not " .. actual)
end

describe("a lease that is kept", function()
  it("is renewed at each third of its time, and changes nothing but the lease", function()
    run(function(blob, store)
      local held = take(blob)
      local etag = blob:head().etag
      synod.sleep(100)
      assert.is_true(held:held())
      assert.equal(20, held:status().renewals)
      near(TIMES.soft - 0, held:status().soft - held:status().confirmed)
      assert.equal(21, store:usage().LeaseBlob)
      assert.equal(etag, blob:head().etag)
    end)
  end)

  it("is free when any release of it has returned, also one that found another under way", function()
    run(function(blob)
      local held = take(blob)
      local first = synod.spawn(held.release, held)
      synod.yield()
      assert.is_true(held:release()) -- the answer to the first comes after 2 s
      assert.equal("available", state(blob))
      assert.is_true((first:join(0)))
      assert.is_true(held:release())
    end, leases("delay", 2, 2))
  end)

  it("counts from before the attempt that succeeded was sent, not from its answer", function()
    run(function(blob)
      local held = take(blob) -- answered after 2 s
      near(2, synod.now())
      near(TIMES.soft - 2, held:remaining())
      near(TIMES.hard, held:status().hard)
      synod.sleep(3 + 2.5) -- a renewal, sent at 5, answered at 7
      near(5 + TIMES.soft, held:status().soft)
    end, leases("delay", 0, 2))
  end)

  it("is taken again under the same id when the answer was lost, and counts from the second attempt", function()
    run(function(blob, store)
      local held = take(blob)
      assert.equal(2, store:usage().LeaseBlob)
      near(held:status().confirmed + TIMES.soft, held:status().soft)
      assert.is_true(held:status().confirmed >= 3)
      assert.equal("leased", state(blob))
    end, leases("lost-response", 1))
  end)

  it("is never extended on doubt: lost at the soft stop, by our own clock", function()
    for _, kind in ipairs { "lost-request", "lost-response", "error-after-apply", "throttle" } do
      run_two(function(blob, other)
        local held <const> = take(other) -- makes the blob
        held:release()
        local mine = take(blob)
        local taken = mine:status().confirmed
        local err = mine:wait_lost()
        assert.equal("LeaseLost", err.code)
        near(taken + TIMES.soft, synod.now())
        assert.is_false(mine:held())
        assert.equal(0, mine:remaining())
      end, (function()
        local faults = {}
        for at = 2, 200 do faults[#faults + 1] = leases(kind, at)[1] end
        return faults
      end)())
    end
  end)

  it("stays lost, although its last renewal was carried out and the store is well again", function()
    local faults = {}
    for at = 2, 40 do faults[#faults + 1] = leases("lost-response", at)[1] end
    run(function(blob)
      local held = take(blob)
      assert.equal("LeaseLost", held:wait_lost().code)
      synod.sleep(100)
      assert.is_false(held:held())
      assert.equal("LeaseLost", held:wait_lost().code)
      refused("LeaseLost", held:release())
    end, faults)
  end)

  it("is tried sooner and sooner after failures, with attempts that fit", function()
    local faults = {}
    for at = 2, 4 do faults[#faults + 1] = leases("lost-request", at)[1] end
    run(function(blob)
      local held = take(blob)
      synod.sleep(30)
      assert.is_true(held:held())
    end, faults)
  end)

  it("does not wait longer than the lease allows when the store asks for patience", function()
    run(function(blob)
      local held = take(blob)
      synod.sleep(30)
      assert.is_true(held:held())
    end, leases("throttle", 2, 60))
  end)

  it("is lost at once when the store says that it is another's", function()
    run(function(blob)
      local held = take(blob)
      synod.sleep(1)
      assert(blob:break_lease(0))
      assert.is_true(held:held())
      local err = held:wait_lost()
      near(TIMES.renew, synod.now())
      assert.matches("broken", err.message)
    end)
  end)

  it("outlives refusals that say nothing of the lease", function()
    run(function(blob)
      local held = take(blob)
      synod.sleep(20)
      assert.is_true(held:held())
    end, { { operation = "LeaseBlob", kind = "throttle", ordinal = 2, code = "AuthorizationFailure" } })
  end)

  it("is lost when its store is closed", function()
    run_two(function(blob, other)
      local store = core.place_of(blob)
      local held = take(blob)
      local waiting = synod.spawn(function() return held:wait_lost() end)
      synod.sleep(1)
      store:close()
      assert.is_false(held:held())
      assert.equal("LeaseLost", waiting:join().code)
      refused("LeaseLost", held:release())
      assert.equal("leased", state(other))
    end)
  end)

  it("is given back when nobody has it any more", function()
    run(function(blob)
      take(blob)
      collectgarbage()
      collectgarbage()
      synod.sleep(0.1)
      assert.equal("available", state(blob))
    end)
  end)
end)

describe("a contender", function()
  it("looks before it takes, and tells who holds", function()
    run(function(blob, store)
      local a = take(blob)
      local asked = store:usage().LeaseBlob
      local b = contender(blob, "b")
      local err = refused("LeaseAlreadyPresent", b:try())
      assert.equal(asked, store:usage().LeaseBlob)
      assert.same({ "a", a.fence, "spec" }, { err.holder, err.fence, err.purpose })
      err = refused("Timeout", b:take { timeout = 30 })
      assert.matches("a on .* holds it since 2024", err.message)
      assert.equal(30, synod.now())
    end)
  end)

  it("proposes another id each time, and shows none", function()
    run(function(blob)
      local seen = {}
      for _ = 1, 5 do
        local held <close> = take(blob)
        assert.is_nil(seen[held.id])
        seen[held.id] = true
        assert.is_nil(tostring(held):find(held.id, 1, true))
        for _, value in next, blob:head().metadata do assert.is_nil(value:find(held.id, 1, true)) end
      end
    end)
  end)

  it("that is cancelled gives back what it takes, and may have taken", function()
    for _, kind in ipairs { "delay", "lost-response", "lost-request" } do
      run_two(function(blob, other)
        take(other):release()
        local trying = synod.spawn(function() contender(blob):try() end)
        synod.sleep(1)
        trying:cancel()
        pcall(trying.join, trying)
        synod.sleep(4)
        assert.equal("available", state(other))
        take(other, "b"):release()
      end, leases(kind, 1, 2))
    end
  end)

  it("that runs out of time leaves nothing behind", function()
    run_two(function(blob, other)
      take(other):release()
      refused("Timeout", contender(blob):try(2))
      assert.is_true(synod.now() <= 2)
      assert.equal("available", state(other))
    end, leases("lost-response", 0))
  end)

  it("takes at the end of a lease whose holder has died", function()
    run_two(function(blob, other)
      take(blob)
      synod.sleep(6) -- renewed at 5
      core.place_of(blob):close()
      local b = assert(contender(other, "b"):take { timeout = 60 })
      assert.is_true(synod.now() >= 20 and synod.now() <= 21)
      assert.is_true(b:held())
    end)
  end)

  it("takes as soon as it is released", function()
    run(function(blob)
      local a = take(blob)
      local waiting = synod.spawn(function() return contender(blob, "b"):take() end)
      synod.sleep(7.3)
      a:release()
      local b = waiting:join()
      near(7.3, b:status().confirmed)
    end)
  end)

  it("refuses times that could let two hold, with the arithmetic", function()
    run(function(blob)
      local ok, err = pcall(contender, blob, "a", { ttl = 15, renew = 11 })
      assert.is_false(ok)
      assert.equal("Usage", err.code)
      assert.matches("11 %+ 3 = 14", err.message)
      assert.is_false((pcall(contender, blob, "a", { ttl = 61 })))
      assert.is_false((pcall(blob.lease, blob, { keep = true, duration = 14 })))
    end)
  end)
end)

describe("the fence", function()
  it("grows by one with each holder, keeps other metadata and the content, and starts at the store's date", function()
    run(function(blob, store)
      store:container("locks"):create()
      assert(blob:put("text", { metadata = { mine = "kept" } }))
      local first = take(blob)
      assert.equal(1704067200000, first.fence)
      first:release()
      for grown = 1, 3 do
        local held <close> = take(blob, "b")
        assert.equal(first.fence + grown, held.fence)
      end
      local text, props = blob:get()
      assert.same({ "text", "kept", "b" }, { text, props.metadata.mine, props.metadata.synod_holder })
      assert.equal(first.fence, first.fence)
    end)
  end)

  it("is raised once although the answer was lost", function()
    run(function(blob)
      local held = take(blob)
      assert.equal(tostring(held.fence), blob:head().metadata.synod_fence)
      assert.equal(1704067200000, held.fence)
    end, { { operation = "SetBlobMetadata", kind = "lost-response" } })
  end)

  it("that is not confirmed is no holding: the lease is given back", function()
    run_two(function(blob, other)
      take(other):release()
      local value, err = contender(blob):try(60)
      assert.is_nil(value)
      assert.is_true(synod.now() <= TIMES.soft + 0.1)
      assert.equal("InternalError", err.code)
      synod.sleep(1)
      assert.equal("available", state(other))
    end, { { operation = "SetBlobMetadata", kind = "error-after-apply", ordinal = 0 } })
  end)

  it("that falls is an error, and the lease is given back", function()
    run(function(blob)
      local a = contender(blob)
      local held = assert(a:try())
      held:release()
      local metadata = blob:head().metadata
      metadata.synod_fence = "12"
      assert(blob:set_metadata(metadata))
      refused("FenceRegressed", a:try())
      assert.equal("available", state(blob))
    end)
  end)

  it("does not fall with a blob that is made anew", function()
    run(function(blob)
      local a = contender(blob)
      local held = assert(a:try())
      held:release()
      synod.sleep(1)
      assert(blob:delete())
      assert.is_true(assert(a:try()).fence > held.fence)
    end)
  end)

  it("of a newer version of synod is not touched", function()
    run(function(blob, store)
      store:container("locks"):create()
      assert(blob:put("", { metadata = { synod_v = "2", synod_fence = "7" } }))
      refused("NewerVersion", contender(blob):try())
      assert.equal("7", blob:head().metadata.synod_fence)
    end)
  end)
end)

describe("leaving", function()
  it("ends the holding before anything is sent, and is done although the answer was lost", function()
    run_two(function(blob, other)
      local held = take(blob)
      local releasing = synod.spawn(function() return held:release() end)
      synod.yield()
      assert.is_false(held:held())
      assert.is_true(releasing:join())
      assert.equal("available", state(other))
      assert.is_true(held:release())
    end, leases("lost-response", 2))
  end)

  it("waits for a renewal that is under way, which does not bring the lease back", function()
    run_two(function(blob, other)
      local held = take(blob)
      synod.sleep(5.5)
      assert.is_true(held:release())
      near(7, synod.now())
      synod.sleep(5)
      assert.equal("available", state(other))
    end, leases("delay", 2, 2))
  end)

  it("goes on when its task is cancelled", function()
    run_two(function(blob, other)
      local held = take(blob)
      local releasing = synod.spawn(function() held:release() end)
      synod.yield()
      releasing:cancel()
      pcall(releasing.join, releasing)
      synod.sleep(8)
      assert.equal("available", state(other))
      held:close()
    end, leases("lost-request", 2))
  end)

  it("hands over to another's id without a free instant", function()
    run(function(blob)
      local next_id = "aaaaaaaa-0000-4000-8000-00000000000a"
      local held = take(blob)
      assert.is_true(held:change(next_id))
      assert.is_false(held:held())
      assert.equal("leased", state(blob))
      assert(lease.of(blob, next_id):renew())
      local taken <close> = assert(blob:lease { id = next_id, duration = 15, keep = true })
      assert.is_true(taken:held())
    end)
  end)
end)

describe("blob:lease { keep = true }", function()
  it("changes no metadata without a fence, and makes no blob", function()
    run(function(blob, store)
      refused("ContainerNotFound", blob:lease { keep = true })
      store:container("locks"):create()
      refused("BlobNotFound", blob:lease { keep = true })
      assert(blob:put "")
      local etag = blob:head().etag
      local held <close> = assert(blob:lease { keep = true, duration = 20 })
      assert.is_nil(held.fence)
      synod.sleep(100)
      assert.is_true(held:held())
      assert.equal(etag, blob:head().etag)
    end)
  end)
end)

describe("held:guard", function()
  local function guarded(held)
    local began = synod.now()
    local ok, err = pcall(held.guard, held, synod.sleep, 100)
    assert.is_false(ok)
    assert.equal("LeaseLost", err.code)
    return synod.now() - began, err
  end

  it("goes on as long as the lease is renewed, and does not release", function()
    run(function(blob)
      local held = take(blob)
      assert.equal("done", held:guard(function(word) synod.sleep(100) return word end, "done"))
      assert.is_true(held:held())
    end)
  end)

  it("stops its body at the soft stop when the lease cannot be renewed", function()
    local faults = {}
    for at = 2, 40 do faults[#faults + 1] = leases("lost-request", at)[1] end
    run(function(blob) near(TIMES.soft, (guarded(take(blob)))) end, faults)
  end)

  it("stops its body when the lease is another's, and when it is released meanwhile", function()
    run(function(blob)
      local held = take(blob)
      assert(blob:break_lease(0))
      near(TIMES.renew, (guarded(held)))
      near(0, (guarded(held)))
      held = take(blob, "b")
      synod.spawn(function() synod.sleep(1) held:release() end)
      local after, err = guarded(held)
      near(1, after)
      assert.matches("given back", err.message)
    end)
  end)
end)
