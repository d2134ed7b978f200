-- The quorum on the virtual clock: enough are live, one of them is the head, and most of several stores agree.

local core = require "synod.core"
local quorum = require "synod.quorum"
local rivals = require "spec.support.rivals"
local sh = require "spec.support.sh"
local synod = require "synod"

local function cluster(rival, more)
  local o = { name = "cluster", store = rival.store, instance = rival.who }
  for name, value in next, more or {} do o[name] = value end
  return quorum.new(o)
end

local function forever() synod.sleep(1e6) end

describe("a quorum of members", function()
  it("is waited for until enough are live", function()
    rivals.run({ "a", "b", "c", "d", "e" }, function(a, b, c, d)
      local first = cluster(a)
      local none, err = first:wait { timeout = 5 }
      assert.is_nil(none)
      assert.equal("Timeout", err.code)
      assert.equal(1, err.count)
      assert.matches("wait for the quorum 'cluster': 1 of 3 needed were live when 5 s had passed",
        tostring(err), 1, true)
      assert.is_false(first:held())
      local others = {}
      for i, rival in ipairs { b, c, d } do
        synod.spawn(function()
          synod.sleep(i)
          others[i] = cluster(rival)
          others[i]:held()
        end)
      end
      local present = assert(first:wait { timeout = 60 })
      assert.is_true(synod.now() >= 7 and synod.now() <= 13, synod.now()) -- c has come at 7, and is seen to live by 12
      assert.same({ count = 3, need = 3, members = { "a", "b", "c" } }, present)
      synod.sleep(6)
      assert.same({ true, 4 }, { first:held() })
      for _, other in next, others do other:leave() end
      assert.same({ false, 1 }, { first:held() })
      first:leave()
    end)
  end)

  it("does not count one that is not heard of any more, and none that nobody has seen to live", function()
    local deaf = {}
    for i = 30, 300 do deaf[#deaf + 1] = { kind = "lost-request", ordinal = i } end
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local first, second = cluster(a), cluster(b)
      assert.is_false(first:held())
      assert.is_false(second:held())
      assert.is_false(first:held())
      synod.sleep(6)
      assert.same({ true, 2 }, { first:held() })
      local third = cluster(c)
      assert.same({ false, 1 }, { third:held() }, "c has seen nobody live yet")
      assert.is_true(third:leave())
      synod.sleep(100)
      assert.same({ false, 1 }, { first:held() })
      first:leave()
      second:leave()
    end, { faults = { b = deaf } })
  end)

  it("counts one again that could not say for a while that it lives", function()
    local deaf = {}
    for i = 30, 100 do deaf[#deaf + 1] = { kind = "lost-request", ordinal = i } end
    rivals.run({ "a", "b" }, function(a, b)
      local first, second = cluster(a, { parties = 2 }), cluster(b, { parties = 2 })
      local waiting = synod.spawn(function() return assert(second:wait()) end)
      assert(first:wait { timeout = 60 })
      assert(waiting:join())
      local gone_at
      repeat
        synod.sleep(1)
        local held = first:held()
        gone_at = gone_at or held == false and synod.now()
        second:held()
      until gone_at and held or synod.now() > 1000
      assert.is_number(gone_at)
      assert.is_true(synod.now() < 1000, "it is never counted again")
      assert.same({ true, 2 }, { second:held() })
      first:leave()
      second:leave()
    end, { faults = { b = deaf } })
  end)

  it("counts one again whose name another process has borne for a while", function()
    rivals.run({ "a", "b" }, function(a, b)
      local old, young, other = cluster(a), cluster(a), cluster(b)
      for _, each in ipairs { old, other, young } do each:held() end
      for _ = 1, 10 do
        synod.sleep(6)
        assert.same({ true, 2 }, { other:held() }, "a is one, whichever of the two processes says so")
        old:held()
        young:held()
      end
      old:leave()
      synod.sleep(6)
      young:held()
      synod.sleep(6)
      assert.same({ true, 2 }, { young:held() })
      assert.same({ true, 2 }, { other:held() })
      young:leave()
      other:leave()
    end)
  end)

  it("is joined once, however many tasks ask first", function()
    rivals.run({ "a" }, function(a)
      local q = cluster(a)
      assert(a.store:table("members"):create())
      synod.all { function() q:held() end, function() q:held() end, function() q:wait { timeout = 1 } end }
      assert.is_nil(q.members:lost())
      assert.equal(1, a.store:usage().InsertEntity)
      assert.is_nil(a.store:usage().UpdateEntity)
      q:leave()
    end, { faults = { a = { { kind = "delay", ordinal = 0, seconds = 0.1 } } } })
  end)

  it("refuses what cannot be meant", function()
    rivals.run({ "a" }, function(a)
      local function refusal(more)
        local _, err = pcall(cluster, a, more)
        return err.message
      end
      assert.matches("need = 4 of parties = 3 can never be live", refusal { need = 4, parties = 3 }, 1, true)
      assert.matches("'need' must be \"majority\" or a whole number", refusal { need = "most" }, 1, true)
      local alone = quorum.new { name = "x", store = a.store, instance = { id = "x" } }
      local _, err = pcall(alone.wait, alone)
      assert.equal("Usage", err.code)
    end)
  end)
end)

describe("the head node", function()
  it("is one of the live, on a page blob, while enough are", function()
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local room, nodes, lives = rivals.room(), {}, {}
      for i, rival in ipairs { a, b, c } do
        nodes[i] = cluster(rival)
        lives[i] = synod.spawn(function()
          assert(nodes[i]:wait { timeout = 60 })
          return nodes[i]:head(function(term)
            local _ <close> = room.enter(term.id)
            forever()
          end)
        end)
      end
      synod.sleep(20)
      assert.equal(1, room.inside)
      assert.equal(room.visits[1], nodes[1]:leader().id)
      assert.equal("page", a.store:container("locks"):blob("quorum/cluster"):head().type)
      local head = room.visits[1]
      for i, rival in ipairs { a, b, c } do -- the others go: the head is alone, and steps down
        if rival.who.id ~= head then
          lives[i]:cancel()
          lives[i]:join()
          nodes[i]:leave()
        end
      end
      synod.sleep(10)
      assert.equal(0, room.inside)
      for i in ipairs(lives) do
        lives[i]:cancel()
        lives[i]:join()
        nodes[i]:leave()
      end
      assert.equal(1, room.most)
    end)
  end)
end)

describe("a lease over several stores", function()
  --- Runs fn(open): open(i, faults) opens account i from another instance.
  local function over(fn, seed)
    local folder <close> = sh.folder()
    return core.main(function()
      return fn(function(i, faults)
        return assert(core.open_store(("embedded:%s/s%d.db?relaxed"):format(folder.path, i), { faults = faults }))
      end)
    end, { clock = "virtual", seed = seed or 1 })
  end

  local function dead() return { { kind = "lost-request", ordinal = 0 } } end

  local function wanted(id, more)
    local o = { name = "x", store = false, instance = { id = id } }
    for name, value in next, more or {} do o[name] = value end
    return o
  end

  local function new(id, stores)
    return quorum.new(wanted(id, { store = stores[1] }))
  end

  it("is held by one, whose fence grows", function()
    over(function(open)
      local mine, theirs = { open(1), open(2), open(3) }, { open(1), open(2), open(3) }
      local held = assert(new("a", mine):lease { stores = mine })
      assert.is_true(held:held())
      assert.is_true(held:remaining() > 11 and held:remaining() < 12)
      local none, err = new("b", theirs):lease { stores = theirs, timeout = 2 }
      assert.is_nil(none)
      assert.equal("Timeout", err.code)
      assert.matches("2 of 3 are needed", tostring(err), 1, true)
      synod.sleep(60)
      assert.is_true(held:held())
      assert.is_true(held:release())
      assert.is_false(held:held())
      local next_held = assert(new("b", theirs):lease { stores = theirs, timeout = 5 })
      assert.is_true(next_held.fence > held.fence)
      next_held:release()
    end)
  end)

  it("survives the loss of a minority, and takes it again when it comes back", function()
    over(function(open)
      local stores = { open(1), open(2), open(3) }
      local held = assert(new("a", stores):lease { stores = stores })
      stores[1]:container("locks"):blob("quorum/x.lease"):break_lease(0)
      synod.sleep(30)
      assert.is_true(held:held())
      assert.equal("leased", stores[1]:container("locks"):blob("quorum/x.lease"):head().lease_state)
      assert.equal(3, #held.majority.seats)
      held:release()
    end)
  end)

  it("gives all of them back, however often it is cancelled meanwhile", function()
    over(function(open)
      local stores = { open(1), open(2), open(3) }
      local held = assert(new("a", stores):lease { stores = stores })
      local holder = synod.spawn(function()
        local _ <close> = held
        forever()
      end)
      synod.sleep(1)
      for _ = 1, 3 do
        holder:cancel()
        synod.yield()
      end
      holder:join()
      for i = 1, 3 do
        assert.equal("available", stores[i]:container("locks"):blob("quorum/x.lease"):head().lease_state)
      end
    end)
  end)

  it("gives back what it is about to take as well, whenever it is released", function()
    for tenths = 0, 25, 2 do
      over(function(open)
        local slow, others = open(1, { { kind = "delay", ordinal = 0, seconds = 0.5 } }), open(1)
        local stores = { slow, open(2), open(3) }
        for i = 2, 3 do -- their fences are higher: that of the first store is to be raised
          local c = stores[i]:container "locks"
          assert(c:create())
          assert(c:blob("quorum/x.lease"):put("", { metadata = { synod_v = "1", synod_fence = "9000000000000000" } }))
        end
        local held = assert(new("a", stores):lease { stores = stores }) -- of the two that answer at once
        local function is_leased()
          local props = others:container("locks"):blob("quorum/x.lease"):head()
          return props ~= nil and props.lease_state == "leased"
        end
        synod.sleep(2)
        assert.is_false(is_leased())
        while not is_leased() and synod.now() < 60 do synod.sleep(0.1) end
        synod.sleep(tenths / 10)
        held:release()
        synod.sleep(3)
        assert.is_false(is_leased(), ("released %g s after it was taken"):format(tenths / 10))
      end)
    end
  end)

  it("is had though a minority does not answer, and its fence is higher for whoever meets another majority", function()
    over(function(open)
      local fences = {}
      for turn = 1, 6 do
        local stores = {}
        for i = 1, 3 do stores[i] = open(i, i == turn % 3 + 1 and dead() or nil) end
        local held = assert(new("a", stores):lease { stores = stores, timeout = 60 })
        fences[turn] = held.fence
        held:release()
        if turn > 1 then assert.is_true(fences[turn] > fences[turn - 1], turn) end
      end
    end)
  end)

  it("is not had with a majority that does not answer, and leaves nothing taken", function()
    over(function(open)
      local stores = { open(1), open(2, dead()), open(3, dead()) }
      local held, err = new("a", stores):lease { stores = stores, timeout = 20 }
      assert.is_nil(held)
      assert.equal("Timeout", err.code)
      assert.equal("available", open(1):container("locks"):blob("quorum/x.lease"):head().lease_state)
    end)
  end)

  it("stops its guard when the majority is lost, before another can hold one", function()
    over(function(open)
      local mine, theirs = { open(1), open(2), open(3) }, { open(1), open(2), open(3) }
      local held, stopped = assert(new("a", mine):lease { stores = mine }), nil
      local guarded = synod.spawn(function()
        return held:guard(function()
          local _ <close> = setmetatable({}, { __close = function() stopped = synod.now() end })
          forever()
        end)
      end)
      synod.sleep(7)
      mine[1]:close()
      synod.sleep(9)
      assert.is_nil(stopped)
      mine[2]:close()
      local other = assert(new("b", theirs):lease { stores = theirs, timeout = 60 })
      local _, err = guarded:join()
      assert.equal("LeaseLost", err.code)
      assert.is_true(stopped < synod.now())
      assert.is_true(other.fence > held.fence)
      assert.equal("LeaseLost", held:wait_lost(0).code)
      assert.equal("LeaseLost", select(2, held:release()).code)
      other:release()
    end)
  end)

  it("lasts as long as the need-th longest of its leases", function()
    over(function(open)
      local function deaf_from(n)
        local faults = {}
        for i = n, 60 do faults[#faults + 1] = { kind = "lost-request", ordinal = i } end
        return faults
      end
      local stores = { open(1), open(2, deaf_from(8)), open(3, deaf_from(9)) }
      local held = assert(new("a", stores):lease { stores = stores })
      local lost = held:wait_lost(60)
      assert.equal("LeaseLost", lost.code)
      assert.is_true(synod.now() > 26.7 and synod.now() < 27.1, synod.now()) -- the last renewals were at 10 and 15
    end)
  end)

  it("is held by one at a time among many, whatever happens to requests", function()
    local kinds = { "lost-request", "lost-response", "error-after-apply", "throttle", "delay" }
    for seed = 1, 8 do
      math.randomseed(seed)
      local room = rivals.room()
      over(function(open)
        local lives = {}
        for id = 1, 3 do
          local stores = {}
          for i = 1, 3 do
            local faults = {}
            for _ = 1, 6 do
              local kind, seconds = kinds[math.random(5)], math.random() * 4
              faults[#faults + 1] = { kind = kind, ordinal = math.random(60), seconds = seconds }
            end
            stores[i] = open(i, faults)
          end
          lives[id] = function()
            for _ = 1, 2 do
              local held <close> = new("i" .. id, stores):lease { stores = stores, timeout = 200 }
              if held then
                pcall(held.guard, held, function()
                  local _ <close> = room.enter(id)
                  room.fences = room.fences or {}
                  table.insert(room.fences, held.fence)
                  synod.sleep(core.random() * 10)
                end)
              end
            end
          end
        end
        synod.all(lives)
      end, seed)
      assert.equal(1, room.most)
      assert.is_true(#room.visits >= 3)
      for i = 2, #room.fences do assert.is_true(room.fences[i] > room.fences[i - 1], "seed " .. seed) end
    end
  end)

  it("refuses stores of which none may fail, and short leases", function()
    over(function(open)
      local two = { open(1), open(2) }
      local _, err = pcall(function() new("a", two):lease { stores = two } end)
      assert.matches("an odd number of stores from 3 to 9 expected, got 2: of two, none may fail", err.message, 1, true)
      local three = { open(1), open(2), open(3) }
      _, err = pcall(function()
        quorum.new(wanted("a", { store = three[1], ttl = 2 })):lease { stores = three }
      end)
      assert.matches("ttl = 2 s is a record", err.message, 1, true)
    end)
  end)
end)
