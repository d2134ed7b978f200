-- Leases below 15 s: records in a blob's metadata. Crashes, partitions, different times, and what other hands do.

local contenders = require "spec.support.contenders"
local core = require "synod.core"
local fleet = require "spec.support.fleet"
local lease = require "synod.lease"
local sh = require "spec.support.sh"
local synod = require "synod"

local PATH = "mutex/a"

--- fn(blob, open, store): `open(faults)` is a store of its own over the same file, and its blob; closing it is a crash,
--- since nothing more is sent.
local function with_file(fn)
  local folder <close> = sh.folder()
  local url = "embedded:" .. folder.path .. "/store.db?relaxed"
  return fleet.run(function(store)
    return fn(store:container("locks"):blob(PATH), function(faults)
      local own = assert(core.open_store(url, { faults = faults }))
      return own, own:container("locks"):blob(PATH)
    end, store)
  end, { url = url })
end

local function run(fn)
  fleet.run(function(store) fn(store:container("locks"):blob(PATH), store) end)
end

local function contender(blob, id, ttl)
  return lease.contender(blob, { ttl = ttl, purpose = "spec", instance = { id = id } })
end

local function metadata_of(blob)
  return assert(blob:head()).metadata
end

describe("a record whose holder crashes", function()
  --- Instance a crashes `after` seconds after it began to hold; gives how long after that b holds.
  local function crash(after, ttl_a, ttl_b)
    local waited
    with_file(function(blob, open)
      local own, blob_a = open()
      local a = assert(contender(blob_a, "a", ttl_a):take())
      local waiting = synod.spawn(function()
        return assert(contender(blob, "b", ttl_b):take { timeout = 60 }), synod.now()
      end)
      synod.sleep(after)
      local hard, crashed, fence = a:status().hard, synod.now(), a.fence
      assert.is_true(a:held())
      own:close()
      assert.is_false(a:held())
      local b, at = waiting:join()
      assert.is_true(at >= hard, ("b holds at %.3f, a until %.3f"):format(at, hard))
      assert.is_true(b.fence > fence)
      waited = at - crashed
    end)
    return waited
  end

  it("is another's after its time, from whichever instant on", function()
    for after = 0.05, 2.05, 0.1 do
      local waited = crash(after, 2, 2)
      assert.is_true(waited <= 2 + 2 / 15 + 0.01, ("%.3f s after a crash at %.2f"):format(waited, after))
    end
  end)

  it("within 2 s with a ttl of 1.5 s", function()
    for after = 0.02, 1.6, 0.06 do
      local waited = crash(after, 1.5, 1.5)
      assert.is_true(waited <= 1.65, ("%.3f s after a crash at %.2f"):format(waited, after))
    end
  end)

  it("is waited for as long as its own time says, not the waiter's", function()
    for after = 0.1, 4.1, 0.5 do
      assert.is_true(crash(after, 6, 0.5) >= 4 - 0.01) -- the last renewal is at most a third of its time ago
      local waited = crash(after, 0.5, 6)
      assert.is_true(waited <= 0.5 + 6 / 15 + 0.01, ("%.3f s after a crash at %.2f"):format(waited, after))
    end
  end)

  it("is waited for by who takes the service's lease, and the other way round", function()
    for after = 0.1, 2, 0.4 do
      local waited = crash(after, 2, 15)
      assert.is_true(waited <= 2 + 1 + 0.01, ("%.3f s after a crash at %.2f"):format(waited, after))
      assert.is_true(crash(after, 15, 2) >= 10 - 0.01)
    end
  end)
end)

describe("a record whose holder is cut off", function()
  it("is lost by the holder's own clock before it is another's", function()
    for cut = 6, 14 do
      for _, kind in ipairs { "lost-request", "lost-response" } do
        with_file(function(blob, open)
          local faults = {}
          for i = cut, cut + 400 do faults[#faults + 1] = { kind = kind, ordinal = i } end
          local own <close>, cut_off = open(faults)
          local log = contenders.run(blob, {
            { id = "a", ttl = 2, hold = 100, blob = cut_off }, { id = "b", ttl = 2, hold = 1, start = 0.1 },
          })
          assert.is_not_nil(own)
          assert.same({}, contenders.faults(log))
          assert.equal(2, #log)
          assert.equal("LeaseLost", log[1].lost.code)
          assert.matches("could not be renewed in time", log[1].lost.message, 1, true)
        end)
      end
    end
  end)
end)

--- Faults at attempts of one store: { "lost-response", 4 }, { "lost-request", 7, 400 } (from ... to).
local function faults_at(...)
  local faults = {}
  for _, each in ipairs { ... } do
    for at = each[2], each[3] or each[2] do faults[#faults + 1] = { kind = each[1], ordinal = at } end
  end
  return faults
end

describe("a lost answer about a record", function()
  it("is settled by reading whose nonce is there, and the deadline counts from the attempt that has it", function()
    with_file(function(_, open)
      local own <close>, blob = open(faults_at({ "lost-response", 4 })) -- look, container, blob, take
      local held = assert(own and contender(blob, "a", 2):try())
      assert.is_true(synod.now() > 0.4)
      assert.near(1.505, held:status().soft, 0.01)
    end)
  end)

  it("of a renewal does not make it last longer than others wait", function()
    for renewal = 5, 8 do
      with_file(function(blob, open)
        local own <close>, cut_off = open(faults_at({ "lost-response", renewal }, { "lost-request", renewal + 3, 400 }))
        local log = contenders.run(blob, {
          { id = "a", ttl = 2, hold = 100, blob = cut_off }, { id = "b", ttl = 2, hold = 1, start = 0.1 },
        })
        assert.is_not_nil(own)
        assert.same({}, contenders.faults(log))
        assert.equal("LeaseLost", log[1].lost.code)
      end)
    end
  end)

  it("of a take that is found too late is given back, not held", function()
    with_file(function(blob, open)
      local own <close>, cut_off = open(faults_at({ "lost-response", 4 }, { "lost-request", 5, 8 }))
      local held, err = contender(cut_off, "a", 2):try()
      assert.is_nil(own and held)
      assert.equal("Timeout", err.code)
      assert.matches("too late", err.message, 1, true)
      synod.sleep(0.1)
      assert.is_nil(assert(lease.look(blob)).kind)
    end)
  end)
end)

describe("a take of a record that comes to no end", function()
  it("in its time has been open until then, not refused", function()
    local ended = {}
    for tenths = 5, 130 do
      with_file(function(blob, open)
        local own <close>, cut_off = open(faults_at({ "lost-request", 4, 12 }))
        local other = synod.spawn(function()
          synod.sleep(0.3)
          return contender(blob, "b", 2):take { timeout = 10 }
        end)
        local held, err = contender(cut_off, "a", 2):try(tenths / 10)
        assert.is_nil(own and held)
        ended[err.code] = (ended[err.code] or 0) + 1
        assert.equal("b", assert(lease.look(blob)).holder)
        other:join():release()
      end)
    end
    assert.same({ Timeout = ended.Timeout, LeaseAlreadyPresent = 126 - ended.Timeout }, ended)
  end)

  it("since somebody else is first each time, is not refused either", function()
    with_file(function(blob, open)
      assert(contender(blob, "b", 2):try()):release()
      local busy = synod.every(0.004, function() assert(blob:set_metadata(metadata_of(blob))) end)
      local late = { kind = "delay", operation = "GetBlobProperties", ordinal = 0, seconds = 0.01 }
      local own <close>, slow = open { late }
      local held, err = contender(slow, "a", 2):try()
      assert.is_nil(own and held)
      assert.equal("LeaseAlreadyPresent", err.code)
      assert.matches("others were first", err.message, 1, true)
      busy:cancel()
      assert(contender(slow, "a", 2):try())
    end)
  end)
end)

describe("a record", function()
  it("keeps other people's metadata, says who holds, and leaves the fence behind", function()
    run(function(blob, store)
      assert(store:container("locks"):create())
      assert(blob:put("content", { metadata = { colour = "red" } }))
      local c = lease.contender(blob, { ttl = 2, purpose = "50% söme\nthing", instance = { id = "Wörker IN 2" } })
      local held = assert(c:try())
      assert.equal("", held.id)
      synod.sleep(5)
      local seen = assert(lease.look(blob))
      assert.same({ "record", "Wörker IN 2", "50% söme?thing", held.fence, 2.0 },
        { seen.kind, seen.holder, seen.purpose, seen.fence, seen.ttl })
      assert.is_true(seen.beat > 5)
      assert.matches("^2024%-01%-01T00:00:00", seen.since) -- of the beginning, through all renewals
      assert.equal("red", metadata_of(blob).colour)
      assert(held:release())
      assert.same({ colour = "red", synod_v = "1", synod_fence = tostring(held.fence) }, metadata_of(blob))
      assert.equal("content", (blob:get()))
      assert.is_nil(assert(lease.look(blob)).kind)
    end)
  end)

  it("tells who is refused by whom it is held, and when it may be free", function()
    run(function(blob)
      local held = assert(contender(blob, "a", 2):try())
      synod.sleep(3)
      local taken, err = contender(blob, "b", 2):try()
      assert.is_nil(taken)
      assert.equal("LeaseAlreadyPresent", err.code)
      assert.same({ "a", held.fence, 2.0 }, { err.holder, err.fence, err.again })
    end)
  end)

  it("has no id to change: it stays as it is", function()
    run(function(blob)
      local held = assert(contender(blob, "a", 2):try())
      local dropped = false
      held.bonds = setmetatable({}, { __close = function() dropped = true end })
      local done, err = held:change "aaaaaaaa-0000-4000-8000-00000000000a"
      assert.is_nil(done)
      assert.equal("Unsupported", err.code)
      assert.is_false(dropped)
      synod.sleep(5)
      assert.is_true(held:held())
    end)
  end)

  it("is not taken from a newer version of synod", function()
    run(function(blob, store)
      assert(store:container("locks"):create())
      local etag = assert(blob:put("", { metadata = { synod_v = "2", synod_fence = "1" } })).etag
      for _, ttl in ipairs { 2, 15 } do
        assert.equal("NewerVersion", select(2, contender(blob, "a", ttl):try()).code)
      end
      assert.equal(etag, assert(blob:head()).etag)
    end)
  end)

  it("with a fence that fell is an error", function()
    run(function(blob)
      local c = contender(blob, "a", 2)
      local held = assert(c:try())
      assert(held:release())
      assert(blob:put("", { metadata = { synod_v = "1", synod_fence = "5" } }))
      assert.equal("FenceRegressed", select(2, c:try()).code)
      assert(blob:put "") -- recreated: it starts at the store's time, which is later
      synod.sleep(1)
      assert.is_true(assert(c:try()).fence > held.fence)
    end)
  end)
end)

describe("other hands on a record", function()
  it("may add metadata: the holder stays, and goes on with what is there", function()
    run(function(blob)
      local held = assert(contender(blob, "a", 2):try())
      for i = 1, 8 do
        local metadata = metadata_of(blob)
        metadata.note = tostring(i)
        assert(blob:set_metadata(metadata))
        synod.sleep(0.5)
      end
      assert.is_true(held:held())
      assert.equal("8", metadata_of(blob).note)
      assert.is_true(assert(lease.look(blob)).beat > 4)
    end)
  end)

  it("that remove it end it at the next renewal", function()
    for _, remove in ipairs {
      function(blob) return blob:put "" end, function(blob) return blob:delete() end,
    } do
      run(function(blob)
        local held = assert(contender(blob, "a", 2):try())
        assert(remove(blob))
        local err = held:wait_lost(1)
        assert.equal("LeaseLost", err.code)
        assert.is_true(synod.now() < 0.7)
      end)
    end
  end)

  it("that lease the blob make it be lost at its own end, and keep others out", function()
    run(function(blob)
      local held = assert(contender(blob, "a", 2):try())
      local foreign = assert(blob:lease { duration = 60 })
      local err = held:wait_lost(10)
      assert.equal("LeaseLost", err.code)
      assert.is_true(synod.now() >= 1.4 and synod.now() < 2)
      assert.equal("LeaseAlreadyPresent", select(2, contender(blob, "b", 2):try()).code)
      synod.sleep(5)
      assert(foreign:release())
      assert(contender(blob, "b", 2):take { timeout = 5 })
    end)
  end)
end)

describe("a take of a record that is cancelled", function()
  it("leaves nothing behind, at whichever instant", function()
    for at = 1, 4 do -- look, create the container, make the blob, take
      for _, kind in ipairs { "delay", "lost-response", "lost-request" } do
        fleet.run(function(store)
          local blob = store:container("locks"):blob(PATH)
          local task = synod.spawn(function() return contender(blob, "a", 10):take() end)
          synod.sleep(0.2)
          task:cancel()
          assert.is_nil((task:join()))
          synod.sleep(6) -- what was taken is given back within its calls' time, long before its own
          local seen = lease.look(blob)
          assert.is_nil(seen and seen.kind, kind .. " at " .. at)
        end, { faults = { { kind = kind, ordinal = at, seconds = 1 } } })
      end
    end
  end)
end)

describe("what a holder writes with its fence", function()
  it("is refused once the next one has written, however late it comes", function()
    with_file(function(blob, open, store)
      local account, faults = store:container("locks"):blob "account", {}
      for i = 6, 100 do faults[#faults + 1] = { kind = "lost-request", ordinal = i } end
      local own <close>, cut_off = open(faults)
      local a = assert(contender(cut_off, "a", 2):take())
      local fence = a.fence
      assert(own and a:put(account, "a's"))
      assert.equal("LeaseLost", a:wait_lost(5).code)
      local b = assert(contender(blob, "b", 2):take())
      assert(a:put(account, "a's, late")) -- nothing newer is stored there yet
      assert(b:put(account, "b's"))
      assert.equal("Fenced", select(2, a:put(account, "a's, too late")).code)
      assert.equal("Fenced", select(2, a:set_metadata(account, {})).code)
      assert.equal(fence, a.fence)
      assert.equal("b's", (account:get()))
    end)
  end)

  it("may be the leased blob itself, and the holder goes on", function()
    for _, ttl in ipairs { 2, 15 } do
      run(function(blob)
        local held = assert(contender(blob, "a", ttl):take())
        for i = 1, 20 do
          assert(held:put(blob, tostring(i)))
          assert(held:set_metadata(blob, { note = tostring(i) }))
          synod.sleep(ttl / 7)
        end
        assert.is_true(held:held())
        assert.same({ "20", "a" }, { (blob:get()), assert(lease.look(blob)).holder })
      end)
    end
  end)
end)
