-- The partition on the virtual clock: who runs what, and how items move.

local core = require "synod.core"
local lease = require "synod.lease"
local membership = require "synod.membership"
local partition = require "synod.partition"
local plan = require "synod.plan"
local rivals = require "spec.support.rivals"
local synod = require "synod"

local ITEMS = { "i1", "i2", "i3", "i4", "i5", "i6", "i7" }

--- What happens to whom: one running at a time, and the steps of hand-overs.
local function new_log()
  return { running = {}, most = 0, events = {}, runs = 0 }
end

local function note(log, what, who, item) log.events[#log.events + 1] = ("%s %s %s"):format(what, who, item) end

--- A life of an instance that runs its share of the items.
local function life(rival, log, items, more)
  local me = rival.who.id
  local o = {
    name = "shards", store = rival.store, instance = rival.who,
    on_leaving = function(item, share)
      assert(share:held() and share:leaving())
      note(log, "leaving", me, item)
    end,
    on_arriving = function(item) note(log, "arriving", me, item) end,
    on_left = function(item) note(log, "left", me, item) end,
    on_kept = function(item) note(log, "kept", me, item) end,
  }
  for name, value in next, more or {} do o[name] = value end
  local p = partition.new(o)
  local task = synod.spawn(function()
    return p:run(items, function(item, share)
      assert(share.item == item and share:held())
      log.runs = log.runs + 1
      note(log, "start", me, item)
      log.running[item] = (log.running[item] or 0) + 1
      log.most = math.max(log.most, log.running[item])
      local _ <close> = setmetatable({}, { __close = function()
        log.running[item] = log.running[item] - 1
        note(log, "stop", me, item)
      end })
      synod.sleep(1e6)
    end)
  end)
  return { p = p, task = task, rival = rival }
end

local function stop(...)
  for _, one in ipairs { ... } do
    one.task:cancel()
    one.task:join()
  end
end

local function counts(...)
  local list = {}
  for i, one in ipairs { ... } do list[i] = #one.p:items() end
  table.sort(list)
  return table.concat(list, " ")
end

local function running(log)
  local count = 0
  for _, n in next, log.running do count = count + n end
  return count
end

describe("a partition", function()
  it("has each item run by one, in shares that differ by one at most", function()
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local log = new_log()
      local lives = { life(a, log, ITEMS), life(b, log, ITEMS), life(c, log, ITEMS) }
      synod.sleep(40)
      assert.equal("2 2 3", counts(table.unpack(lives)))
      assert.equal(7, running(log))
      assert.equal(1, log.most)
      local runs = log.runs
      synod.sleep(300)
      assert.equal(runs, log.runs, "nothing moves without need")
      stop(table.unpack(lives))
      assert.equal(0, running(log))
    end)
  end)

  it("comes to such shares also where they cannot be equal, or some have none, and then rests", function()
    for _, case in ipairs { { 8, 15, "2 3 3" }, { 4, 15, "1 1 2" }, { 2, 15, "0 1 1" }, { 2, 3, "0 1 1" } } do
      rivals.run({ "a", "b", "c" }, function(a, b, c)
        local log, items = new_log(), {}
        for i = 1, case[1] do items[i] = "i" .. i end
        local lives = { life(a, log, items, { ttl = case[2] }) }
        synod.sleep(10)
        lives[2], lives[3] = life(b, log, items, { ttl = case[2] }), life(c, log, items, { ttl = case[2] })
        synod.sleep(80) -- who asks for what another gets first waits for two times `answer`
        assert.equal(case[3], counts(table.unpack(lives)))
        assert.equal(1, log.most)
        local runs = log.runs
        synod.sleep(60)
        assert.equal(runs, log.runs, "nothing moves without need")
        stop(table.unpack(lives))
      end)
    end
  end)

  it("moves items to a newcomer by a hand-over that both sides see, and none without", function()
    for _, ttl in ipairs { 15, 3 } do
      rivals.run({ "a", "b", "c" }, function(a, b, c)
        local log = new_log()
        local first, second = life(a, log, ITEMS, { ttl = ttl }), life(b, log, ITEMS, { ttl = ttl })
        synod.sleep(40)
        assert.equal("3 4", counts(first, second))
        log.events = {}
        local third = life(c, log, ITEMS, { ttl = ttl })
        synod.sleep(60)
        assert.equal("2 2 3", counts(first, second, third))
        assert.equal(1, log.most)
        local steps, moved = {}, 0
        for _, event in ipairs(log.events) do
          local what, who, item = event:match("(%S+) (%S+) (%S+)")
          steps[item] = (steps[item] and steps[item] .. " " or "") .. what .. " " .. who
        end
        for item, text in next, steps do
          moved = moved + 1
          local source = text:match("^leaving (%a)")
          local expected = ttl == 15 and "leaving X arriving c stop X left X start c"
            or "leaving X stop X left X arriving c start c"
          for _, step in ipairs { "start c", "arriving c" } do -- how two instances come to tell has no order
            text = text:gsub(step .. " left " .. source, "left " .. source .. " " .. step)
          end
          assert.equal(expected:gsub("X", source), text, item)
        end
        assert.equal(#third.p:items(), moved)
        stop(first, second, third)
      end)
    end
  end)

  it("has the items of one that died run by the others when its leases are over, and not before", function()
    rivals.run({ "a", "b" }, function(a, b)
      local log = new_log()
      local first = life(a, log, ITEMS)
      local second = life(b, log, ITEMS)
      synod.sleep(40)
      local runs = log.runs
      local theirs = #second.p:items()
      second.task:cancel() -- with its store deaf, as of now, its leases stay
      pcall(second.task.join, second.task)
      synod.sleep(40)
      assert.equal("7", counts(first))
      assert.equal(runs + theirs, log.runs)
      assert.equal(1, log.most)
      stop(first)
    end)
    local deaf = {}
    for i = 40, 900 do deaf[#deaf + 1] = { kind = "lost-request", ordinal = i } end
    rivals.run({ "a", "b" }, function(a, b)
      local log = new_log()
      local first = life(a, log, ITEMS)
      local second = life(b, log, ITEMS)
      synod.sleep(120)
      assert.equal("0 7", counts(first, second))
      assert.equal(7, running(log))
      assert.equal(1, log.most)
      stop(first, second)
    end, { faults = { b = deaf } })
  end)

  it("has everything given away by one that retires, before its run ends", function()
    rivals.run({ "a", "b" }, function(a, b)
      local log = new_log()
      local first, second = life(a, log, ITEMS), life(b, log, ITEMS)
      synod.sleep(40)
      log.events = {}
      assert.is_true(first.p:retire { timeout = 120 })
      assert.is_true(first.task:join())
      assert.equal("7", counts(second))
      assert.equal(1, log.most)
      for _, event in ipairs(log.events) do
        if event:find "^stop a" then
          local item = event:match("%S+$")
          assert.is_true(table.concat(log.events, "|"):find("arriving b " .. item, 1, true) ~= nil, item)
        end
      end
      stop(second)
    end)
  end)

  it("is retired from at once by the last one, and late when nobody comes", function()
    rivals.run({ "a", "b" }, function(a, b)
      local log = new_log()
      local first = life(a, log, ITEMS)
      synod.sleep(10)
      assert.equal("7", counts(first))
      assert.is_true(first.p:retire())
      assert.is_true(synod.now() < 12)
      assert.equal(0, running(log))
      local stubborn = life(a, log, ITEMS, { on_leaving = function() synod.sleep(1000) end })
      synod.sleep(5)
      local other = life(b, log, ITEMS)
      synod.sleep(5)
      local done, err = stubborn.p:retire { timeout = 20 }
      assert.is_nil(done)
      assert.equal("Timeout", err.code)
      assert.is_true(stubborn.task:join())
      synod.sleep(30)
      assert.equal("7", counts(other))
      stop(other)
      assert.equal(1, log.most)
    end)
  end)

  it("takes no more than a share of what is free, so that little has to move", function()
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local log, items = new_log(), {}
      local function list() return items end
      local lives = { life(a, log, list), life(b, log, list), life(c, log, list) }
      synod.sleep(20)
      items = ITEMS
      synod.sleep(30)
      assert.equal("2 2 3", counts(table.unpack(lives)))
      local _, moves = table.concat(log.events, "|"):gsub("leaving", "")
      assert.is_true(moves <= 2, moves)
      stop(table.unpack(lives))
    end)
  end)

  it("follows the list of items", function()
    rivals.run({ "a", "b" }, function(a, b)
      local log, items = new_log(), { "x", "y" }
      local function list() return items end
      local first, second = life(a, log, list), life(b, log, list)
      synod.sleep(30)
      assert.equal("1 1", counts(first, second))
      items = { "y", "z", "u", "v" }
      synod.sleep(30)
      assert.equal("2 2", counts(first, second))
      assert.equal(0, log.running.x)
      assert.equal(4, running(log))
      stop(first, second)
    end)
  end)

  it("calls a function that returns again, and raises what one raises when the rest has ended", function()
    rivals.run({ "a" }, function(a)
      local calls, ended = 0, 0
      local p = partition.new { name = "shards", store = a.store, instance = a.who }
      local ok, err = pcall(p.run, p, { "x", "y" }, function(item)
        local _ <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
        calls = calls + 1
        if item == "x" then synod.sleep(1e6) end
        if calls >= 5 then error("broken", 0) end
      end)
      assert.is_false(ok)
      assert.equal("broken", err)
      assert.equal(calls, ended)
    end)
  end)

  it("has what the dead leave run by the others though they still have a share", function()
    for _, ttl in ipairs { 15, 3 } do
      local deaf = {}
      for i = 60, 900 do deaf[#deaf + 1] = { kind = "lost-request", ordinal = i } end
      rivals.run({ "a", "b", "c" }, function(a, b, c)
        local log, more = new_log(), { ttl = ttl, member_ttl = 600 }
        local second = life(b, log, ITEMS, more)
        while #second.p:items() < 7 do synod.sleep(0.1) end
        while #second.p:items() > 0 do synod.sleep(0.1) end
        local first, third = life(a, log, ITEMS, more), life(c, log, ITEMS, more)
        local from = synod.now()
        while #first.p:items() + #third.p:items() < 7 do synod.sleep(0.1) end
        assert.is_true(synod.now() - from < ttl * 2, synod.now() - from .. " for a ttl of " .. ttl)
        synod.sleep(2 * ttl)
        assert.equal("0 3 4", counts(first, second, third))
        assert.equal(1, log.most)
        stop(first, third)
        second.task:cancel()
      end, { faults = { b = deaf } })
    end
  end)

  it("leaves what is new to whose share it is for a while, and takes at once what was run before", function()
    rivals.run({ "a", "b" }, function(a, b)
      local ghost = membership.new { name = "partition-shards", ttl = 600, store = b.store, instance = b.who }
      assert(ghost:join { info = {} })
      local i1 = b.store:container("locks"):blob "partition/shards/i1"
      local held = assert(lease.contender(i1, { ttl = 15, instance = b.who }):try())
      local log = new_log()
      local first = life(a, log, ITEMS)
      synod.sleep(1.5)
      assert.equal("4", counts(first))
      synod.sleep(10)
      assert.equal("6", counts(first))
      assert(held:release())
      synod.sleep(1.5)
      assert.equal("7", counts(first))
      stop(first)
      ghost:leave()
    end)
  end)

  it("has what one that retires runs fetched by the others though the dead still have a share", function()
    local deaf = {}
    for i = 60, 900 do deaf[#deaf + 1] = { kind = "lost-request", ordinal = i } end
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local log, more = new_log(), { member_ttl = 600 }
      local second = life(b, log, ITEMS, more)
      synod.sleep(1)
      local first, third = life(a, log, ITEMS, more), life(c, log, ITEMS, more)
      synod.sleep(90)
      assert.equal("0 3 4", counts(first, second, third))
      assert.is_true(first.p:retire { timeout = 15 })
      assert.is_true(first.task:join())
      synod.sleep(1)
      assert.equal("7", counts(third))
      assert.equal(1, log.most)
      stop(third)
      second.task:cancel()
    end, { faults = { b = deaf } })
  end)

  it("ends soon after the time to retire is over, whoever has been asked to get ready", function()
    rivals.run({ "a", "b" }, function(a, b)
      local log = new_log()
      local first = life(a, log, ITEMS, { answer = 100 })
      synod.sleep(2)
      local second = life(b, log, ITEMS, { answer = 100, on_arriving = function() synod.sleep(1000) end })
      synod.sleep(5)
      local from = synod.now()
      assert.is_nil((first.p:retire { timeout = 8 }))
      assert.is_true(first.task:join(0.1))
      assert.is_true(synod.now() - from < 10)
      assert.equal("0", counts(first))
      stop(second)
    end)
  end)

  it("asks for nothing more when it retires, and waits for its hooks before it gives back", function()
    rivals.run({ "a", "b" }, function(a, b)
      local log, leaving = new_log(), {}
      local first = life(a, log, ITEMS, { on_leaving = function(item)
        local _ <close> = setmetatable({}, { __close = function()
          synod.sleep(0.9) -- who does not end is told again each second
          leaving[item] = nil
        end })
        leaving[item] = true
        synod.sleep(1000)
      end })
      synod.sleep(5)
      local second = life(b, log, ITEMS)
      synod.sleep(5)
      assert.is_not_nil(next(leaving))
      local began = synod.now()
      assert.is_true(second.p:retire())
      assert.is_true(second.task:join())
      assert.is_true(synod.now() - began < 5, "it does not wait for what it has asked for")
      local third = life(b, log, ITEMS, { on_arriving = function(item) assert.is_nil(leaving[item]) end })
      synod.sleep(5)
      assert.is_nil((first.p:retire { timeout = 20 }))
      assert.is_true(first.task:join())
      assert.same({}, leaving)
      synod.sleep(30)
      assert.equal("7", counts(third))
      stop(third)
    end)
  end)

  it("ends with what a hook raises, and with what the store refuses for good", function()
    for _, hook in ipairs { "on_leaving", "on_arriving", "on_left" } do
      rivals.run({ "a", "b" }, function(a, b)
        local log = new_log()
        local breaks, at_target = { [hook] = function() error("broken", 0) end }, hook == "on_arriving"
        local first = life(a, log, ITEMS, not at_target and breaks or {})
        synod.sleep(5)
        local second = life(b, log, ITEMS, at_target and breaks or {})
        local broken, sound = first, second
        if at_target then broken, sound = second, first end
        assert.same({ nil, "broken" }, { broken.task:join(60) }, hook)
        synod.sleep(60)
        assert.equal("7", counts(sound))
        assert.equal(1, log.most)
        stop(sound)
      end)
    end
    rivals.run({ "a" }, function(a)
      local log, items = new_log(), { "x", "y" }
      local one = life(a, log, function() return items end)
      synod.sleep(5)
      items = { "y" }
      synod.sleep(5)
      assert(a.store:container("locks"):blob("partition/shards/x"):set_metadata { synod_v = "1", synod_fence = "7" })
      items = { "x", "y" }
      local ran, err = one.task:join(5)
      assert.is_nil(ran)
      assert.equal("FenceRegressed", err.code)
      assert.equal(0, running(log))
    end)
  end)

  it("says to synod explain what it is made with", function()
    rivals.run({ "a" }, function(a)
      local notes = plan.collect(function()
        partition.new { name = "shards", store = a.store, instance = a.who, ttl = 20, renew = 5 }
      end)
      assert.equal("partition", notes[1].policy)
      assert.equal(20, notes[1].ttl)
      assert.equal(5, notes[1].renew)
      assert.equal("membership", notes[2].policy)
    end)
  end)

  it("refuses what cannot be meant", function()
    rivals.run({ "a" }, function(a)
      local p = partition.new { name = "shards", store = a.store, instance = a.who }
      local _, err = pcall(function() p:run("x", print) end)
      assert.matches("partition:run: a list of items or a function expected, got string", err.message, 1, true)
      _, err = pcall(function() p:run({}, nil) end)
      assert.matches("partition:run: a function expected, got nil", err.message, 1, true)
      _, err = pcall(function() partition.new { name = "x", store = a.store, instance = {} } end)
      assert.matches("partition.new: this instance has no name", err.message, 1, true)
    end)
  end)

  it("has one run each item at a time, whatever comes and goes and happens to requests", function()
    local kinds = { "lost-request", "lost-response", "error-after-apply", "throttle", "delay" }
    for seed = 1, 6 do
      math.randomseed(seed)
      local function faults()
        local list = {}
        for _ = 1, 15 do
          list[#list + 1] = { kind = kinds[math.random(5)], ordinal = math.random(200), seconds = math.random() * 3 }
        end
        return list
      end
      local log = new_log()
      rivals.run({ "a", "b", "c" }, function(a, b, c)
        local more = { ttl = seed % 2 == 0 and 3 or 15 }
        local first = life(a, log, ITEMS, more)
        synod.sleep(core.random() * 20)
        local second = life(b, log, ITEMS, more)
        synod.sleep(core.random() * 20)
        local third = life(c, log, ITEMS, more)
        synod.sleep(core.random() * 40)
        second.p:retire { timeout = 30 }
        second.task:join()
        synod.sleep(120)
        assert.equal("3 4", counts(first, third), "seed " .. seed)
        assert.equal(7, running(log), "seed " .. seed)
        stop(first, third)
      end, { seed = seed, faults = { a = faults(), b = faults() } })
      assert.equal(1, log.most, "seed " .. seed)
    end
  end)
end)
