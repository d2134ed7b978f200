-- The election on the virtual clock: who leads when, and how a leadership ends.

local core = require "synod.core"
local election = require "synod.election"
local rivals = require "spec.support.rivals"
local synod = require "synod"

local function candidate(rival, more)
  local o = { name = "boss", store = rival.store, instance = rival.who }
  for name, value in next, more or {} do o[name] = value end
  return election.new(o)
end

local function forever() synod.sleep(1e6) end

--- Lets a rival lead in a task of its own, which a close of the room ends, and notes its terms.
local function life(rival, room, more, body)
  local task = synod.spawn(function()
    return candidate(rival, more):lead(function(term)
      local _ <close> = room.enter(rival.who.id)
      room.fences = room.fences or {}
      table.insert(room.fences, term.fence)
      return (body or forever)(term)
    end)
  end)
  room.lives = room.lives or {}
  table.insert(room.lives, task)
  return task
end

local function stop(room)
  for _, task in ipairs(room.lives) do
    task:cancel()
    pcall(task.join, task)
  end
end

local function kill(rival, task)
  rival.store:close()
  task:cancel()
  pcall(task.join, task)
end

describe("an election", function()
  it("does not take an answer that was long on its way for the end of a short lease", function()
    rivals.run({ "a", "b" }, function(a, b)
      local room, other = rivals.room(), candidate(b, { ttl = 1.5 })
      life(a, room, { ttl = 1.5 })
      synod.sleep(1)
      assert.equal("a", other:leader().id)
      synod.sleep(0.01)
      assert.equal("a", (other:leader() or {}).id)
      assert.is_true(synod.now() > 3)
      stop(room)
    end, { faults = { b = { { kind = "delay", operation = "GetBlobProperties", ordinal = 2, seconds = 2 } } } })
  end)

  it("has one leader, and tells everybody who it is", function()
    rivals.run({ "a", "b" }, function(a, b)
      local room, other = rivals.room(), candidate(b)
      assert.is_nil(other:leader())
      local first = life(a, room)
      synod.sleep(1)
      local leader = assert(other:leader())
      assert.equal("a", leader.id)
      assert.equal(room.fences[1], leader.term)
      assert.equal(0, leader.age)
      assert.matches("^20%d%d%-", leader.since)
      assert.is_false(other:is_leader())
      local none, err = other:campaign { timeout = 5 }
      assert.is_nil(none)
      assert.equal("Timeout", err.code)
      assert.equal("a", err.holder)
      assert.matches("lead the election 'boss': not free within 5 s: a leads", tostring(err), 1, true)
      assert.equal(6, synod.now())
      first:cancel()
      first:join()
      assert.is_nil(other:leader())
    end)
  end)

  it("remembers who leads as long as it was told to", function()
    rivals.run({ "a", "b" }, function(a, b)
      local term, other = assert(candidate(a):campaign()), candidate(b)
      assert.equal("a", other:leader().id)
      synod.sleep(3)
      term:resign()
      local leader = other:leader { max_age = 5 }
      assert.equal("a", leader.id)
      assert.equal(3, leader.age)
      assert.is_nil(other:leader { max_age = 2 })
    end)
  end)

  it("lets the next lead at the instant at which the leader has stopped, drained and resigned", function()
    rivals.run({ "a", "b" }, function(a, b)
      local room, drained = rivals.room(), nil
      local first = life(a, room, nil, function()
        synod.spawn(function()
          local _ <close> = setmetatable({}, { __close = function()
            synod.sleep(0.5)
            drained = synod.now()
          end })
          forever()
        end)
        forever()
      end)
      synod.sleep(1)
      local second = life(b, room, nil, function(term) return term.fence end)
      synod.sleep(9)
      first:cancel()
      assert.equal(room.fences[1] + 1, second:join())
      first:join()
      assert.equal(10.5, drained)
      assert.equal(10.5, synod.now())
      assert.equal(1, room.most)
    end)
  end)

  it("has the next leader when the lease of one that died is over, and not before", function()
    for ttl, most in pairs { [15] = 16, [2] = 2.2 } do
      rivals.run({ "a", "b" }, function(a, b)
        local room = rivals.room()
        local first = life(a, room, { ttl = ttl })
        synod.sleep(0.1)
        local second = life(b, room, { ttl = ttl }, function() return synod.now() end)
        synod.sleep(ttl * 4)
        kill(a, first)
        local died = synod.now()
        local after = second:join() - died
        assert.is_true(after > ttl * 0.6 and after <= most, ttl .. ": " .. after)
      end)
    end
  end)

  it("stops the body before another leads, and the instance campaigns again", function()
    local deaf = {}
    for i = 12, 40 do deaf[#deaf + 1] = { kind = "lost-request", ordinal = i } end
    rivals.run({ "a", "b" }, function(a, b)
      local room = rivals.room()
      life(a, room)
      synod.sleep(0.1)
      local second = life(b, room, nil, function() synod.sleep(500) end)
      second:join()
      synod.sleep(20)
      assert.equal("a b a", table.concat(room.visits, " "))
      assert.equal(1, room.most)
      assert.is_true(room.fences[1] < room.fences[2] and room.fences[2] < room.fences[3])
      stop(room)
    end, { faults = { a = deaf } })
  end)

  it("ends with the function's results, and with its error", function()
    rivals.run({ "a" }, function(a)
      local results = table.pack(candidate(a):lead(function(term)
        assert.is_true(term:held())
        return "done", nil, term.id
      end))
      assert.same({ "done", nil, "a", n = 3 }, results)
      local ok, err = pcall(function() candidate(a):lead(function() error("broken", 0) end) end)
      assert.is_false(ok)
      assert.equal("broken", err)
      assert.is_nil(candidate(a):leader())
    end)
  end)

  it("ends with the first term when that was wanted", function()
    rivals.run({ "a", "b" }, function(a, b)
      local first = synod.spawn(function() return candidate(a):lead(forever, { once = true }) end)
      synod.sleep(1)
      assert(b.store:container("locks"):blob("election/boss"):break_lease(0))
      local none, err = first:join()
      assert.is_nil(none)
      assert.equal("LeaseLost", err.code)
    end)
  end)

  it("refuses what cannot be meant", function()
    rivals.run({ "a" }, function(a)
      local c = candidate(a)
      local term = assert(c:campaign())
      local _, err = pcall(function() c:lead(print) end)
      assert.matches("election:lead: this instance leads already", err.message, 1, true)
      _, err = pcall(function() c:campaign() end)
      assert.matches("election:campaign: this instance leads already", err.message, 1, true)
      _, err = pcall(function() c:observe() end)
      assert.matches("election:observe: a function expected, got nil", err.message, 1, true)
      _, err = pcall(function() term:transfer() end)
      assert.matches("the id of an instance expected, got nil", err.message, 1, true)
      _, err = pcall(function() candidate(a, { ttl = 100 }) end)
      assert.matches("spec/election_spec.lua:%d+: election.new: ", err.message)
    end)
  end)
end)

describe("a term", function()
  it("is resigned: the body is stopped first, and another leads", function()
    rivals.run({ "a", "b" }, function(a, b)
      local room = rivals.room()
      life(a, room, nil, function(term)
        if #room.visits > 1 then return end
        synod.sleep(5)
        term:resign()
        error "never here"
      end)
      synod.sleep(1)
      life(b, room, nil, function() synod.sleep(3) end):join()
      assert.equal("a b", table.concat(room.visits, " "))
      assert.equal(8, synod.now())
      assert.equal(1, room.most)
    end)
  end)

  it("without a body is resigned at once, and knows it", function()
    rivals.run({ "a", "b" }, function(a, b)
      local c = candidate(a)
      local term = assert(c:campaign())
      assert.is_true(c:is_leader())
      assert.is_true(term:resign())
      assert.is_true(term:resign())
      assert.is_false(c:is_leader())
      assert.is_false(term:held())
      assert(candidate(b):campaign { timeout = 0 })
    end)
  end)

  it("is resigned once, by whoever comes first, and a transfer that comes later says so", function()
    rivals.run({ "a", "b" }, function(a, b)
      local term = assert(candidate(a):campaign())
      local second = synod.spawn(function()
        synod.sleep(0.1)
        return term:resign()
      end)
      local moved = synod.spawn(function() return term:transfer("b") end)
      local successor = synod.spawn(function()
        synod.sleep(0.05)
        return candidate(b):campaign()
      end)
      assert.is_true(term:resign())
      assert.is_true((second:join()))
      local done, err = moved:join()
      assert.is_nil(done)
      assert.is_table(err)
      assert.equal("b", successor:join().id)
    end, { faults = { a = { { kind = "delay", operation = "LeaseBlob", ordinal = 2, seconds = 0.5 } } } })
  end)

  it("is over for all who end it, also when the one who is at it is cancelled", function()
    rivals.run({ "a" }, function(a)
      local c = candidate(a)
      local term = assert(c:campaign())
      local first = synod.spawn(function() return term:resign() end)
      local second = synod.spawn(function()
        synod.sleep(0.1)
        return term:resign()
      end)
      synod.sleep(0.2)
      for _ = 1, 3 do
        first:cancel()
        synod.sleep(0.01)
      end
      local _, err = second:join(10)
      assert.is_true(second:ended())
      assert.equal("Cancelled", err.code)
      assert.is_false(c:is_leader())
    end, { faults = { a = { { kind = "delay", operation = "LeaseBlob", ordinal = 2, seconds = 3 } } } })
  end)

  it("is given back at the end of the block", function()
    rivals.run({ "a", "b" }, function(a, b)
      do
        local term <close> = assert(candidate(a):campaign())
        assert.is_true(term:held())
      end
      assert(candidate(b):campaign { timeout = 0 })
    end)
  end)

  it("goes on after a guard that has returned", function()
    rivals.run({ "a" }, function(a)
      local term = assert(candidate(a):campaign())
      assert.equal(7, term:guard(function(t, x) return t == term and x end, 7))
      assert.is_true(term:held())
      local blob = a.store:container("locks"):blob "work"
      assert(term:put(blob, "mine"))
      assert.equal(tostring(term.fence), blob:head().metadata.synod_fence)
    end)
  end)
end)

describe("the health gate", function()
  it("has a leader that fails step down, and lead again when it is well", function()
    rivals.run({ "a", "b" }, function(a, b)
      local room, well = rivals.room(), true
      life(a, room, { healthy = function() return well, "its disk is full" end, healthy_every = 1 })
      synod.sleep(0.5)
      local second = life(b, room, nil, function() synod.sleep(10) end)
      synod.sleep(4)
      well = false
      second:join()
      assert.equal("a b", table.concat(room.visits, " "))
      assert.is_true(synod.now() <= 4.5 + 1 + 10.1, synod.now())
      synod.sleep(10)
      assert.equal("a b", table.concat(room.visits, " "), "who is not well does not lead")
      well = true
      synod.sleep(2)
      assert.equal("a b a", table.concat(room.visits, " "))
      stop(room)
    end)
  end)

  it("leaves nothing held when it is cancelled while it is asked with the lease in hand", function()
    rivals.run({ "a", "b" }, function(a, b)
      local asked = 0
      local first = candidate(a, { healthy = function()
        asked = asked + 1
        if asked == 2 then forever() end
        return true
      end })
      local campaigning = synod.spawn(first.campaign, first)
      synod.sleep(1)
      assert.equal(2, asked)
      campaigning:cancel()
      campaigning:join()
      assert(candidate(b):campaign { timeout = 1 })
    end)
  end)

  it("takes no answer for an illness", function()
    rivals.run({ "a" }, function(a)
      local calls = 0
      local none, err = candidate(a, { healthy_every = 1, healthy = function()
        calls = calls + 1
        if calls > 2 then forever() end
        return true
      end }):lead(forever, { once = true })
      assert.is_nil(none)
      assert.matches("it steps down: not done after 15 s", tostring(err), 1, true)
    end)
  end)

  it("does not take the end of a campaign for an illness", function()
    rivals.run({ "a", "b" }, function(a, b)
      local campaign = synod.spawn(function()
        return candidate(a, { healthy = function()
          synod.sleep(1)
          return true
        end }):campaign()
      end)
      synod.sleep(0.5)
      campaign:cancel()
      assert.equal("Cancelled", select(2, campaign:join(60)).code)
      assert(candidate(b):campaign { timeout = 0 })
    end)
  end)

  it("takes an error for an illness, and says what it was", function()
    rivals.run({ "a" }, function(a)
      local calls = 0
      local none, err = candidate(a, { healthy_every = 1, healthy = function()
        calls = calls + 1
        if calls > 2 then error("no answer", 0) end
        return true
      end }):lead(forever, { once = true })
      assert.is_nil(none)
      assert.matches("it steps down: no answer", tostring(err), 1, true)
    end)
  end)
end)

describe("observe", function()
  it("tells of each leader, and of there being none", function()
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local seen = {}
      local watch = candidate(c):observe(function(leader)
        seen[#seen + 1] = ("%g %s"):format(synod.now(), leader and leader.id or "nobody")
      end)
      synod.sleep(1)
      local term = assert(candidate(a):campaign())
      synod.sleep(2)
      term:resign()
      synod.sleep(1)
      assert(candidate(b):campaign())
      synod.sleep(1)
      watch:cancel()
      assert.same({ "0 nobody", "1 a", "3 nobody", "4 b" }, seen)
    end)
  end)
end)

describe("a transfer", function()
  it("leaves the body time for its clean-up when the lease is lost meanwhile", function()
    for _, from in ipairs { 6, 9, 12, 15 } do
      local deaf = {}
      for i = from, 400 do deaf[#deaf + 1] = { kind = "lost-request", ordinal = i } end
      rivals.run({ "a" }, function(a)
        local cleaned
        local _, err = candidate(a):lead(function(term)
          local _ <close> = setmetatable({}, { __close = function() cleaned = not term:held() end })
          synod.sleep(5.5)
          term:transfer("b", { timeout = 100 })
        end, { once = true })
        assert.equal("LeaseLost", err.code)
        assert.is_true(cleaned, "deaf from request " .. from)
      end, { faults = { a = deaf } })
    end
  end)

  local function lease_id(rival)
    local props = assert(rival.store:container("locks"):blob("election/boss"):head())
    return props.lease_state, props.metadata
  end

  it("takes away what candidates left behind that died a week ago", function()
    rivals.run({ "a", "b" }, function(a, b)
      local room, c = rivals.room(), a.store:container "locks"
      local function propose(who)
        assert(c:blob("election/boss.next/" .. who):put("x", { metadata = { synod_v = "1", synod_fence = "7" } }))
      end
      assert(c:create())
      propose "dead"
      synod.sleep(8 * 24 * 3600)
      propose "young"
      life(a, room, nil, function(term) return term:transfer "b" end)
      life(b, room)
      synod.sleep(20)
      assert.same({ "a", "b" }, { room.visits[1], room.visits[2] })
      assert.is_nil((c:blob("election/boss.next/dead"):head()))
      assert.is_table((c:blob("election/boss.next/young"):head()))
      stop(room)
    end)
  end)

  it("makes the chosen one lead, without a free instant, when all of the old term has ended", function()
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local room, free, drained = rivals.room(), 0, nil
      assert(candidate(a):campaign()):resign()
      local watch = synod.spawn(function()
        while true do
          local mark = b.store:mark { container = "locks" }
          if lease_id(b) ~= "leased" then free = free + 1 end
          b.store:changed { container = "locks", since = mark }
        end
      end)
      watch:detach()
      life(a, room, nil, function(term)
        local _ <close> = setmetatable({}, { __close = function()
          synod.sleep(0.5)
          drained = synod.now()
        end })
        synod.sleep(5)
        free = 0
        term:transfer "c"
        error "never here"
      end)
      synod.sleep(1)
      life(b, room)
      local third = life(c, room, nil, function(term) return { synod.now(), term.fence } end)
      local at, fence = table.unpack(third:join())
      assert.equal("a c", table.concat(room.visits, " ", 1, 2))
      assert.equal(0, free)
      assert.is_true(at >= drained and at < drained + 0.6, at)
      assert.equal(room.fences[1] + 1, fence)
      assert.equal(1, room.most)
      stop(room)
      for item in c.store:container("locks"):list() do assert.equal("election/boss", item.name) end
    end, { faults = { c = { { kind = "delay", ordinal = 0, seconds = 0.02 } } } })
  end)

  it("changes nothing when the chosen one does not answer", function()
    rivals.run({ "a", "b" }, function(a, b)
      local term = assert(candidate(a):campaign())
      local done, err = term:transfer("b", { timeout = 4 })
      assert.is_nil(done)
      assert.equal("Timeout", err.code)
      assert.matches("b does not answer within 4 s", tostring(err), 1, true)
      assert.equal(4, synod.now())
      assert.is_true(term:held())
      local _, metadata = lease_id(b)
      assert.is_nil(metadata.synod_next)
      synod.sleep(30)
      assert.is_true(term:held())
    end)
  end)

  it("is withdrawn when the leader is cancelled before there is an answer", function()
    rivals.run({ "a", "b" }, function(a, b)
      local term = assert(candidate(a):campaign())
      local moving = synod.spawn(function() return term:transfer("b", { timeout = 100 }) end)
      synod.sleep(1)
      moving:cancel()
      moving:join()
      local other = candidate(b)
      local none, err = synod.timeout(100, other.campaign, other, { timeout = 4 })
      assert.is_nil(none)
      assert.matches("not free within 4 s: a leads", tostring(err), 1, true)
      assert.is_true(term:held())
    end)
  end)

  it("leaves nothing held by a candidate that is cancelled, whenever that is", function()
    for tenths = 0, 30 do
      rivals.run({ "a", "b", "c" }, function(a, b, c)
        local term, other = assert(candidate(a):campaign()), candidate(b)
        local taking = synod.spawn(other.campaign, other)
        local moving = synod.spawn(function() return term:transfer("b", { timeout = 5 }) end)
        synod.sleep(tenths / 10)
        taking:cancel()
        local next_term = taking:join()
        if next_term then next_term:resign() end
        moving:join()
        if not moving:failed() then term:resign() end
        assert(candidate(c):campaign { timeout = 20 }, tenths / 10 .. " s")
      end, { faults = { b = { { kind = "delay", ordinal = 0, seconds = 0.1 } } } })
    end
  end)

  it("does not take an old answer for one", function()
    rivals.run({ "a", "b" }, function(a, b)
      local first = assert(candidate(a):campaign())
      assert(b.store:container("locks"):blob("election/boss.next/b"):put("c0ffee00-0000-4000-8000-000000000000", {
        metadata = { synod_v = "1", synod_fence = tostring(first.fence - 1) },
      }))
      local done, err = first:transfer("b", { timeout = 2 })
      assert.is_nil(done)
      assert.equal("Timeout", err.code)
      assert.is_true(first:held())
    end)
  end)

  it("is not for short leases", function()
    rivals.run({ "a" }, function(a)
      local term = assert(candidate(a, { ttl = 2 }):campaign())
      local done, err = term:transfer "b"
      assert.is_nil(done)
      assert.equal("Unsupported", err.code)
      assert.is_true(term:held())
    end)
  end)

  it("leaves the candidate where it was when the leader dies after it has asked", function()
    rivals.run({ "a", "b" }, function(a, b)
      local room = rivals.room()
      local first = synod.spawn(function()
        local term = assert(candidate(a):campaign())
        term:transfer("b", { timeout = 100 })
      end)
      synod.sleep(0.01)
      kill(a, first)
      local second = life(b, room, nil, function() return synod.now() end)
      assert.is_true(second:join() <= 17)
    end)
  end)

  it("comes to the same whatever one request of it meets", function()
    local kinds = { "lost-request", "lost-response", "error-after-apply", "throttle", "delay" }
    for _, who in ipairs { "a", "b" } do
      for at = 6, 22 do
        local kind = kinds[(at + #who) % #kinds + 1]
        rivals.run({ "a", "b" }, function(a, b)
          local room = rivals.room()
          life(a, room, nil, function(term)
            synod.sleep(1)
            if #room.visits == 1 then term:transfer "b" end
            forever()
          end)
          life(b, room)
          synod.sleep(120)
          local where = ("%s at %d of %s: %s"):format(kind, at, who, table.concat(room.visits, " "))
          assert.equal(1, room.most, where)
          assert.equal(1, room.inside, where)
          for i = 2, #room.fences do assert.is_true(room.fences[i] > room.fences[i - 1], where) end
          stop(room)
        end, { faults = { [who] = { { kind = kind, ordinal = at, seconds = 2.5 } } } })
      end
    end
  end)
end)

describe("who leads", function()
  local fleet = require "spec.support.fleet"

  it("is nobody while somebody has the lease and has not written its fence yet", function()
    fleet.run(function(store)
      local blob = store:container "locks":blob "election/x"
      local watching = election.new { name = "x", store = store, instance = { id = "watcher" } }
      local function leader()
        synod.sleep(0.01) -- what was seen at this very instant is not asked again
        return watching:leader()
      end
      assert(store:container "locks":create())
      assert(blob:put "")
      local taken = assert(blob:lease { duration = 60 })
      assert.is_nil((leader()))
      assert(taken:release())
      local term = assert(election.new { name = "x", store = store, instance = { id = "a" } }:campaign())
      assert.equal("a", leader().id)
      assert(term:resign())
      assert.is_nil((leader()))
      taken = assert(blob:lease { duration = 60 })
      assert.is_nil((leader()), "the metadata are those of a term that is over")
      assert(taken:release())
      local later <close> = assert(election.new { name = "x", store = store, instance = { id = "b" } }:campaign())
      assert.equal("b", leader().id)
      assert.is_true(later.fence > term.fence)
    end)
  end)
end)

describe("elections in drawn worlds", function()
  local KINDS = { "lost-request", "lost-response", "error-after-apply", "throttle", "delay" }

  local function draw_faults()
    local faults = {}
    for _ = 1, 15 do
      faults[#faults + 1] = {
        kind = KINDS[math.random(#KINDS)], ordinal = math.random(150), seconds = math.random() * 5,
      }
    end
    return faults
  end

  it("have one leader at a time, with growing fences, and have one in the end", function()
    for seed = 1, 20 do
      math.randomseed(seed)
      local room = rivals.room()
      rivals.run({ "a", "b", "c" }, function(...)
        local all = { ... }
        local ttl = seed % 3 == 0 and 3 or 15
        for _, rival in ipairs(all) do
          life(rival, room, { ttl = ttl }, function(term)
            synod.sleep(core.random() * 20)
            local other = all[math.floor(core.random() * 3) + 1].who.id
            if core.random() < 0.3 and other ~= rival.who.id then term:transfer(other, { timeout = 5 }) end
            if core.random() < 0.5 then term:resign() end
            forever()
          end)
        end
        synod.sleep(200)
        assert.equal(1, room.inside, "seed " .. seed)
        stop(room)
      end, { seed = seed, faults = { a = draw_faults(), b = draw_faults() } })
      assert.equal(1, room.most, "seed " .. seed)
      for i = 2, #room.fences do assert.is_true(room.fences[i] > room.fences[i - 1], "seed " .. seed) end
    end
  end)
end)
