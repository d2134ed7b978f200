-- Membership on the virtual clock: who is seen, from when and until when.

local core = require "synod.core"
local fleet = require "spec.support.fleet"
local membership = require "synod.membership"
local synod = require "synod"
local untold = require "spec.support.untold"

local made -- in this run

--- A membership of instance n.
local function member(store, n, more)
  local o = { name = "workers", ttl = 9, store = store, instance = { id = "worker_IN_" .. n, deployment = "d1" } }
  for name, value in pairs(more or {}) do o[name] = value end
  made[#made + 1] = membership.new(o)
  return made[#made]
end

local function ids(members)
  local list = {}
  for i, each in ipairs(assert(members)) do list[i] = each.id:match("%d+$") end
  return table.concat(list, " ")
end

--- Stops its beats without a word, as a crash does.
local function crash(m)
  for _, t in ipairs(m.tasks or {}) do
    t:cancel()
    pcall(t.join, t)
  end
end

local function run(fn, options)
  fleet.run(function(store)
    made = {}
    fn(store)
    for _, m in ipairs(made) do crash(m) end
  end, options)
end

local function refusal(fn)
  local ok, err = pcall(fn)
  assert.is_false(ok)
  assert.equal("Usage", err.code)
  return err.message
end

describe("a membership", function()
  it("beats in time however many updates there were", function()
    run(function(store)
      local m = member(store, 0)
      assert(m:join())
      for i = 1, 5 do
        m:update(i)
        synod.sleep(0.1)
      end
      assert.is_nil(m:wait_lost(60))
    end)
  end)

  it("shows who has joined, with what they say, in order", function()
    run(function(store)
      local b, a = member(store, 2), member(store, 1)
      assert(b:join { info = { port = 7002 } })
      assert(a:join())
      local members = assert(member(store, 3):members())
      assert.equal("1 2", ids(members))
      assert.same({ port = 7002 }, members[2].info)
      assert.equal("d1", members[2].deployment)
      assert.matches("^2024%-01%-01T", members[2].since)
    end)
  end)

  it("shows nobody where nobody has ever joined", function()
    run(function(store) assert.same({}, member(store, 1):members()) end)
  end)

  it("keeps groups apart, and deployments as well", function()
    run(function(store)
      assert(member(store, 1):join())
      assert(member(store, 1, { name = "others" }):join())
      assert(member(store, 1, { deployment = "d2" }):join())
      assert(member(store, "a/b|c", {}):join())
      assert.equal(3, #member(store, 9):members())
      assert.equal(1, #member(store, 9, { name = "others" }):members())
      assert.equal("worker_IN_a/b|c", member(store, 9):members()[2].id)
    end)
  end)

  it("shows a change of info with the next beat, which comes at once", function()
    run(function(store)
      local m, other = member(store, 1), member(store, 2)
      assert(m:join { info = "starting" })
      m:update("ready")
      synod.sleep(0)
      assert.equal("ready", other:members()[1].info)
    end)
  end)

  it("no longer shows who has left", function()
    run(function(store)
      do
        local m <close> = member(store, 1)
        assert(m:join())
        assert.equal("1", ids(member(store, 2):members()))
      end
      assert.equal("", ids(member(store, 2):members()))
    end)
  end)

  it("costs three writes a ttl", function()
    run(function(store)
      assert(member(store, 1):join())
      synod.sleep(900)
      local writes = store:usage().MergeEntity
      assert.is_true(writes >= 297 and writes <= 301, writes .. " beats in a hundred ttl")
    end)
  end)
end)

describe("a member that dies", function()
  it("disappears when its record has not changed for its own ttl, whatever the watcher's is", function()
    for _, watcher_ttl in ipairs { 1, 90 } do
      run(function(store)
        local m, watcher = member(store, 1), member(store, 2, { ttl = watcher_ttl })
        assert(m:join())
        synod.sleep(1)
        assert.equal("1", ids(watcher:members()))
        crash(m)
        synod.sleep(8.9)
        assert.equal("1", ids(watcher:members()))
        synod.sleep(0.3)
        assert.equal("", ids(watcher:members()))
      end)
    end
  end)

  it("is not judged by its clock", function()
    run(function(store)
      local m, watcher = member(store, 1), member(store, 2)
      assert(m:join())
      synod.sleep(1)
      -- The machine that wrote this has a clock of its own.
      local row = { partition = "workers", row = "d1|worker_IN_1", since = "1999-01-01T00:00:00Z" }
      assert(store:table("members"):merge(row))
      for _ = 1, 10 do
        synod.sleep(5)
        assert.equal("1", ids(watcher:members()))
      end
    end)
  end)

  it("is told from the living when the first look has settled", function()
    run(function(store)
      local dead, alive = member(store, 1), member(store, 2)
      assert(dead:join())
      assert(alive:join())
      crash(dead)
      synod.sleep(5)
      local watcher = member(store, 3)
      assert.equal("1 2", ids(watcher:members()))
      assert.is_false(watcher:members()[1].sure)
      assert.equal("2", ids(watcher:members { settle = true }))
      assert.is_true(synod.now() <= 5 + 9.2 + 1.6, tostring(synod.now()))
    end)
  end)

  it("has its row taken away, by watchers and by whoever joins", function()
    run(function(store)
      local m = member(store, 1)
      assert(m:join())
      crash(m)
      synod.sleep(100)
      local other = member(store, 2)
      assert(other:join())
      synod.sleep(40)
      assert.is_nil((store:table("members"):get("workers", "d1|worker_IN_1")))
      assert.is_table((store:table("members"):get("workers", "d1|worker_IN_2")))
    end)
  end)
end)

describe("an incarnation", function()
  it("replaces the one before, which may never write again and learns of it", function()
    run(function(store)
      local told
      local old, young = member(store, 1, { lost = function(err) told = err end }), member(store, 1)
      assert(old:join { info = "old" })
      synod.sleep(10)
      assert(young:join { info = "young" })
      local first = member(store, 2):members()[1]
      local err = old:wait_lost(4)
      assert.equal("MembershipLost", err.code)
      assert.matches("has taken its place", err.message, 1, true)
      synod.sleep(0)
      assert.equal(err, told)
      assert.equal(err, old:lost())
      assert.is_nil(young:lost())
      synod.sleep(100)
      local members = member(store, 2):members()
      assert.equal(1, #members)
      assert.equal("young", members[1].info)
      assert.equal(first.incarnation, members[1].incarnation)
    end)
  end)

  it("is greater than the one before", function()
    run(function(store)
      local m, seen = member(store, 1), {}
      for i = 1, 3 do
        local each = member(store, 1)
        assert(each:join())
        seen[i] = member(store, 2):members()[1].incarnation
        crash(each)
      end
      assert.is_true(seen[1] < seen[2] and seen[2] < seen[3])
      assert(m)
    end)
  end)

  it("that is revived late does not leave in the name of the newer one", function()
    run(function(store)
      local old, young = member(store, 1), member(store, 1)
      assert(old:join())
      assert(young:join())
      assert(old:leave())
      assert.equal("1", ids(member(store, 2):members()))
    end)
  end)

  it("that was swept learns of it, and can join again", function()
    run(function(store)
      local m = member(store, 1)
      assert(m:join())
      assert(store:table("members"):delete("workers", "d1|worker_IN_1"))
      assert.matches("its row is gone", m:wait_lost(4).message, 1, true)
      assert(m:join())
      assert.is_nil(m:lost())
      assert.equal("1", ids(member(store, 2):members()))
    end)
  end)
end)

describe("a watcher", function()
  it("does not take an answer that was long on its way for a silence", function()
    run(function(store)
      local m, watcher = member(store, 1, { ttl = 1.5 }), member(store, 2)
      assert(m:join())
      synod.sleep(0.1)
      assert.equal("1", ids(watcher:members()))
      assert.equal("1", ids(watcher:members())) -- read now, and told 2 s later
      assert.is_true(synod.now() > 2)
      assert.is_nil(m:lost())
    end, { faults = { { kind = "delay", operation = "QueryEntities", ordinal = 3, seconds = 2 } } })
  end)

  it("is told at once, of nobody too", function()
    run(function(store)
      local calls = 0
      local watching = member(store, 1):watch(function(members, changes)
        calls = calls + 1
        assert.same({}, members)
        assert.same({ joined = {}, left = {}, changed = {} }, changes)
      end)
      synod.sleep(100)
      assert.equal(1, calls)
      watching:cancel()
    end)
  end)
end)

describe("a member that cannot write", function()
  local function mute(from)
    local faults = {}
    for ordinal = from, 200 do
      faults[#faults + 1] = { kind = "lost-request", operation = "MergeEntity", ordinal = ordinal }
    end
    return faults
  end

  it("knows before the others can take it for dead", function()
    run(function(store)
      local m, watcher, gone_at = member(store, 1), member(store, 2), nil
      assert(m:join())
      local watching = watcher:watch(function(members) if #members == 0 then gone_at = synod.now() end end)
      local err = m:wait_lost(100)
      assert.equal("MembershipLost", err.code)
      assert.matches("no beat was confirmed for 9 s", err.message, 1, true)
      local at = synod.now()
      assert.is_true(at > 9 and at < 9 + 3, tostring(at)) -- the last beat was sent at 3
      synod.sleep(20)
      assert.is_true(gone_at > at)
      watching:cancel()
    end, { faults = mute(2) })
  end)

  it("goes on when it can again in time", function()
    run(function(store)
      local m = member(store, 1)
      assert(m:join())
      assert.is_nil(m:wait_lost(100))
    end, { faults = {
      { kind = "lost-request", operation = "MergeEntity", ordinal = 2 },
      { kind = "throttle", operation = "MergeEntity", ordinal = 3, seconds = 1 },
    } })
  end)

  it("counts from the first try also when the first look at what became of it was refused", function()
    local faults = mute(4) -- the beat of which the answer is lost, its repetition, and the next one
    faults[#faults + 1] = { kind = "lost-response", operation = "MergeEntity", ordinal = 1 }
    for i = 2, 3 do -- the store's own look, and the member's
      faults[#faults + 1] = { kind = "throttle", operation = "GetEntity", ordinal = i, code = "Unauthorized" }
    end
    run(function(store)
      local m = member(store, 1, { ttl = 3 })
      assert(m:join())
      assert.is_table(m:wait_lost(100))
      assert.is_true(synod.now() <= 1 + 3, "the others saw the last beat when it was sent, at 1: " .. synod.now())
      assert.is_true(synod.now() > 3)
    end, { faults = faults })
  end)

  it("counts from the try that came through when an answer is lost", function()
    run(function(store)
      local m = member(store, 1)
      assert(m:join())
      assert.is_nil(m:wait_lost(100))
      assert.equal("1", ids(member(store, 2):members()))
    end, { faults = {
      { kind = "lost-response", operation = "MergeEntity", ordinal = 2 },
      { kind = "lost-response", operation = "InsertEntity", ordinal = 2 },
    } })
  end)
end)

describe("membership:watch", function()
  it("tells of joins, changes, departures and deaths", function()
    for _, wrap in ipairs { function(s) return s end, untold.store } do
      run(function(store)
        store = wrap(store)
        local events, watcher = {}, member(store, 9)
        local watching = watcher:watch(function(members, changes)
          events[#events + 1] = ("%s: +%d ~%d -%d"):format(
            ids(members), #changes.joined, #changes.changed, #changes.left)
        end)
        local a, b = member(store, 1), member(store, 2)
        assert(a:join())
        synod.sleep(5)
        assert(b:join { info = 1 })
        synod.sleep(5)
        b:update(2)
        synod.sleep(5)
        assert(a:leave())
        synod.sleep(5)
        crash(b)
        synod.sleep(20)
        assert.same({ "1: +1 ~0 -0", "1 2: +1 ~0 -0", "1 2: +0 ~1 -0", "2: +0 ~0 -1", ": +0 ~0 -1" }, events)
        watching:cancel()
        watching:join()
      end)
    end
  end)

  it("tells at once over a store that tells of changes", function()
    run(function(store)
      local at
      local watching = member(store, 9):watch(function() at = synod.now() end)
      synod.sleep(1.25)
      assert(member(store, 1):join())
      synod.sleep(1)
      assert.equal(1.25, at)
      watching:cancel()
    end)
  end)
end)

describe("membership.new", function()
  it("refuses what cannot be meant", function()
    run(function(store)
      assert.matches("a name is needed", refusal(function() membership.new { store = store } end), 1, true)
      assert.matches("ttl = 0.1 s leaves less than", refusal(function() member(store, 1, { ttl = 0.1 }) end), 1, true)
      assert.matches("the table name 'a_b'", refusal(function() member(store, 1, { table = "a_b" }) end), 1, true)
      local m = member(store, 1)
      assert.matches("info: a function has no JSON text", refusal(function() m:join { info = print } end), 1, true)
      assert.matches("bytes of JSON, and a record takes",
        refusal(function() m:join { info = ("x"):rep(40000) } end), 1, true)
      assert.matches("it has not joined", refusal(function() m:update(1) end), 1, true)
      assert(m:join())
      assert.matches("it has joined", refusal(function() m:join() end), 1, true)
      assert.matches("this instance has no name",
        refusal(function() membership.new({ name = "x", store = store, instance = {} }):join() end), 1, true)
    end)
  end)

  it("reads a record whose numbers another client has written as 32 bits", function()
    run(function(store)
      local small = core.int32
      assert(store:table("members"):create())
      assert(store:table("members"):insert {
        partition = "workers", row = "d1|other", synod_v = small(1), incarnation = small(3), nonce = "n", info = "{}",
        beat = small(7), ttl_ms = small(30000), since = "2024-01-01T00:00:00.000Z",
      })
      local m = member(store, 1)
      for _ = 1, 2 do
        local found = assert(m:members())[1]
        assert.equal("other", found.id)
        assert.equal(3, found.incarnation)
        synod.sleep(20)
      end
      assert.same({}, m:members())
    end)
  end)

  it("neither reads nor overwrites a record of a newer version, nor somebody else's", function()
    for code, version in pairs { NewerVersion = core.int32(2), BadAnswer = "?" } do
      run(function(store)
        assert(store:table("members"):create())
        assert(store:table("members"):insert {
          partition = "workers", row = "d1|worker_IN_1", synod_v = version, incarnation = 1,
        })
        local joined, err = member(store, 1):join()
        assert.is_nil(joined)
        assert.equal(code, err.code)
        assert.same({}, member(store, 2):members())
      end)
    end
  end)
end)
