-- The work queue on the virtual clock: what happens to a message, and when.

local cancels = require "spec.support.cancels"
local fleet = require "spec.support.fleet"
local json = require "synod.json"
local log = require "synod.log"
local synod = require "synod"
local untold = require "spec.support.untold"
local workqueue = require "synod.workqueue"

setup(function() log.configure { level = "error" } end) -- what is moved away is told of
teardown(function() log.configure { level = "info" } end)

--- A work queue without jitter, with what is given besides.
local function queue(store, more)
  local o = {
    name = "tasks", store = store, instance = { id = "worker_IN_0" }, visibility = 30,
    retry = { min = 2, max = 60, factor = 3, jitter = false },
  }
  for name, value in pairs(more or {}) do o[name] = value end
  if o.names then o.name = nil end
  return workqueue.new(o)
end

--- Consumes for so many seconds.
local function consume_for(q, seconds, fn)
  local consumer = synod.spawn(function() return q:consume(fn) end)
  synod.sleep(seconds)
  q:drain { timeout = 1000 }
  return assert(consumer:join())
end

local function messages_of(store, name)
  local list = store:queue(name):get { n = 32, visibility = 1 } or {}
  for i, message in ipairs(list) do list[i] = json.decode(message.body) or message.body end
  return list
end

local function refusal(fn, ...)
  local ok, err = pcall(fn, ...)
  assert.is_false(ok)
  assert.equal("Usage", err.code)
  return err.message
end

describe("a work queue", function()
  it("hands each payload to one handler, and deletes it when that has returned", function()
    fleet.run(function(store)
      local q, seen = queue(store), {}
      for _, payload in ipairs { "text", 7, { file = "7.jpg", list = { 1, 2 } }, false } do assert(q:push(payload)) end
      consume_for(q, 5, function(msg)
        seen[#seen + 1] = msg.body
        assert.equal(1, msg.attempt)
        assert.equal("tasks", msg.queue)
      end)
      assert.same({ "text", 7, { file = "7.jpg", list = { 1, 2 } }, false }, seen)
      assert.equal(0, store:queue("tasks"):count())
      assert.equal(4, q:stats().done)
    end)
  end)

  it("wakes its consumer at the instant of a put", function()
    fleet.run(function(store)
      local q, at = queue(store), nil
      synod.spawn(function()
        synod.sleep(3.25)
        queue(store):push("x")
      end)
      consume_for(q, 10, function() at = synod.now() end)
      assert.equal(3.25, at)
    end)
  end)

  it("shows a delayed message when its time has come, and a second later at most", function()
    fleet.run(function(store)
      local q, at = queue(store), nil
      assert(q:push("later", { delay = 7 }))
      consume_for(q, 20, function() at = synod.now() end)
      assert.is_true(at >= 7 and at <= 8, tostring(at))
    end)
  end)

  it("keeps messages for as long as nobody has time, those in the poison queue too", function()
    fleet.run(function(store)
      local q, seen = queue(store), {}
      assert(q:push "late")
      synod.sleep(30 * 24 * 3600)
      consume_for(q, 5, function(msg)
        seen[#seen + 1] = msg.body
        msg:reject "too late"
      end)
      assert.same({ "late" }, seen)
      synod.sleep(30 * 24 * 3600)
      assert.equal(1, #messages_of(store, "tasks-poison"))
    end)
  end)

  it("runs as many handlers at once as it may", function()
    fleet.run(function(store)
      local q, running, most = queue(store, { concurrency = 3, batch = 8 }), 0, 0
      for i = 1, 20 do assert(q:push(i)) end
      consume_for(q, 60, function()
        running = running + 1
        most = math.max(most, running)
        synod.sleep(2)
        running = running - 1
      end)
      assert.equal(3, most)
      assert.equal(20, q:stats().done)
    end)
  end)

  it("asks for a page of messages at once", function()
    fleet.run(function(store)
      local q = queue(store, { concurrency = 1, batch = 10 })
      for i = 1, 50 do assert(q:push(i)) end
      consume_for(q, 0.5, function() end)
      assert.equal(50, q:stats().done)
      assert.is_true(store:usage().GetMessages <= 10, store:usage().GetMessages .. " requests for 50 messages")
    end)
  end)

  it("takes a body without an envelope as it is", function()
    fleet.run(function(store)
      local tasks = store:queue "tasks"
      assert(tasks:create())
      for _, body in ipairs { "plain text", '{"v":"x"}', "[1]", "{broken" } do assert(tasks:put(body)) end
      local q, seen = queue(store), {}
      consume_for(q, 2, function(msg) seen[#seen + 1] = msg.body end)
      assert.same({ "plain text", '{"v":"x"}', "[1]", "{broken" }, seen)
    end)
  end)

  it("carries bodies as base64 where other clients do", function()
    fleet.run(function(store)
      local q, seen = queue(store, { base64 = true }), nil
      assert(q:push("x"))
      assert.is_nil(store:queue("tasks"):peek()[1].body:find("{", 1, true))
      consume_for(q, 1, function(msg) seen = msg.body end)
      assert.equal("x", seen)
    end)
  end)

  it("neither handles nor touches a message of a newer version", function()
    fleet.run(function(store)
      assert(store:queue("tasks"):create())
      local body = '{"v":2,"id":"a","body":1,"attempts":[],"more":true}'
      assert(store:queue("tasks"):put(body))
      local q = queue(store)
      consume_for(q, 200, function() error("it must not be handled") end)
      assert.is_true(q:stats().refused >= 1)
      synod.sleep(100)
      assert.equal(body, store:queue("tasks"):peek()[1].body)
    end)
  end)
end)

describe("a work queue over a store that tells nothing", function()
  it("looks less and less often, up to poll_max", function()
    fleet.run(function(store)
      local q = queue(untold.store(store), { poll_min = 1, poll_max = 10 })
      consume_for(q, 3600, function() end)
      local looks = store:usage().GetMessages
      assert.is_true(looks > 360 and looks < 1200, looks .. " looks in an hour")
    end)
  end)

  it("looks at once after its own put", function()
    fleet.run(function(store)
      local q, at = queue(untold.store(store), { poll_min = 5, poll_max = 1000 }), {}
      synod.spawn(function()
        for _, instant in ipairs { 100, 100.5, 700 } do
          synod.sleep(instant - synod.now())
          q:push("x")
        end
      end)
      consume_for(q, 800, function() at[#at + 1] = synod.now() end)
      assert.same({ 100, 100.5, 700 }, at)
    end)
  end)
end)

describe("a message that is handled", function()
  it("stays hidden for as long as its handler runs, and is deleted by its last receipt", function()
    fleet.run(function(store)
      local q, attempts = queue(store, { visibility = 10 }), 0
      assert(q:push("long"))
      local others = synod.spawn(function()
        for _ = 1, 200 do
          synod.sleep(0.5)
          assert.same({}, store:queue("tasks"):get())
        end
      end)
      consume_for(q, 0.1, function()
        attempts = attempts + 1
        synod.sleep(120)
      end)
      assert.equal(1, attempts)
      assert.equal(0, store:queue("tasks"):count())
      assert(not others:failed())
    end)
  end)

  it("stops its handler when the extension is refused", function()
    fleet.run(function(store)
      local q, err, at = queue(store), nil, nil
      assert(q:push("x"))
      synod.spawn(function()
        synod.sleep(5)
        store:queue("tasks"):clear()
      end)
      consume_for(q, 20, function()
        local _
        _, err = pcall(synod.sleep, 100)
        at = synod.now()
        error(err, 0)
      end)
      assert.equal("MessageLost", err.code)
      assert.equal(10, at, "at the first extension after it")
      assert.equal(1, q:stats().lost)
    end)
  end)

  it("stops its handler before its visibility is over when no extension is confirmed", function()
    fleet.run(function(store)
      local q, at = queue(store), nil
      assert(q:push("x"))
      consume_for(q, 40, function(msg)
        if msg.attempt > 1 then return end
        pcall(synod.sleep, 100)
        at = synod.now()
      end)
      assert.is_true(at > 20 and at < 30, tostring(at))
    end, { faults = { { kind = "lost-request", operation = "UpdateMessage", ordinal = 0 } } })
  end)

  it("is counted from before an extension was sent, however late its answer came", function()
    local faults = { { kind = "delay", operation = "UpdateMessage", ordinal = 1, seconds = 4 } }
    for ordinal = 2, 60 do
      faults[ordinal] = { kind = "lost-request", operation = "UpdateMessage", ordinal = ordinal }
    end
    fleet.run(function(store)
      local q, at = queue(store, { concurrency = 1 }), nil
      assert(q:push("x"))
      consume_for(q, 60, function(msg)
        if msg.attempt > 1 then return end
        pcall(synod.sleep, 100)
        at = synod.now()
      end)
      assert.is_true(at > 30 and at < 40, at .. ", and it was hidden at 10 for 30 s")
    end, { faults = faults })
  end)

  it("is extended all the same when one extension gets no answer", function()
    fleet.run(function(store)
      local q, stopped = queue(store), nil
      assert(q:push("x"))
      consume_for(q, 200, function() stopped = not pcall(synod.sleep, 100) end)
      assert.is_false(stopped)
    end, { faults = { { kind = "lost-request", operation = "UpdateMessage", ordinal = 2 } } })
  end)
end)

describe("a handler that fails", function()
  it("waits its own back-off before the next attempt, not the visibility", function()
    fleet.run(function(store)
      local q, at = queue(store, { visibility = 1000, max_attempts = 4 }), {}
      assert(q:push("x"))
      consume_for(q, 100, function()
        at[#at + 1] = math.floor(synod.now())
        error("broken", 0)
      end)
      assert.same({ 0, 2, 8, 26 }, at) -- 2, 6 and 18 seconds later
    end)
  end)

  it("fails by nil and an err too, but not by nil alone", function()
    fleet.run(function(store)
      local q = queue(store, { max_attempts = 1 })
      assert(q:push("a"))
      assert(q:push("b"))
      consume_for(q, 5, function(msg) if msg.body == "a" then return nil, "no disk" end end)
      assert.equal(1, q:stats().done)
      assert.equal("no disk", messages_of(store, "tasks-poison")[1].attempts[1].error)
    end)
  end)

  it("has its message moved to the poison queue after max_attempts, with the history", function()
    fleet.run(function(store)
      local q, tries = queue(store, { max_attempts = 3 }), 0
      local id = assert(q:push { n = 1 })
      consume_for(q, 100, function(msg)
        tries = tries + 1
        assert.equal(tries, msg.attempt)
        assert.equal(tries - 1, #msg.attempts)
        error("broken " .. tries, 0)
      end)
      local poisoned = messages_of(store, "tasks-poison")
      assert.equal(1, #poisoned)
      assert.equal(id, poisoned[1].id)
      assert.same({ n = 1 }, poisoned[1].body)
      assert.equal(1, poisoned[1].v)
      local errors = {}
      for i, attempt in ipairs(poisoned[1].attempts) do
        errors[i] = attempt.error
        assert.equal("worker_IN_0", attempt.by)
        assert.matches("^2024%-01%-01T00:00:", attempt.at)
      end
      assert.same({ "broken 1", "broken 2", "broken 3" }, errors)
      assert.equal(0, store:queue("tasks"):count())
      assert.equal(1, q:stats().poison)
    end)
  end)

  it("has its message moved at its last failure, not a back-off later", function()
    fleet.run(function(store)
      local retry = { min = 5, max = 500, factor = 100, jitter = false }
      local q, tries = queue(store, { max_attempts = 2, retry = retry }), 0
      assert(q:push "x")
      consume_for(q, 20, function()
        tries = tries + 1
        error("broken", 0)
      end)
      assert.equal(2, tries)
      assert.equal(1, #messages_of(store, "tasks-poison"))
    end)
  end)

  it("tells of a message that goes to the poison queue, and leaves it where it is while that fails", function()
    fleet.run(function(store)
      local told, attempts = {}, {}
      local q = queue(store, {
        max_attempts = 2,
        poisoned = function(msg, why)
          told[#told + 1] = ("%s %d: %s"):format(msg.body, msg.attempt, why)
          if #told == 1 then error("nobody listens", 0) end
        end,
      })
      assert(q:push "bad")
      consume_for(q, 60, function(msg)
        attempts[#attempts + 1] = msg.attempt
        assert.equal(0, #messages_of(store, "tasks-poison"))
        error("it is bad", 0)
      end)
      assert.same({ 1, 2 }, attempts)
      assert.equal("bad 2: it is bad", told[1])
      assert.equal(2, #told)
      assert.equal(1, #messages_of(store, "tasks-poison"))
    end)
  end)

  it("can reject a message that will never be handled", function()
    fleet.run(function(store)
      local q, tries = queue(store), 0
      assert(q:push("nonsense"))
      consume_for(q, 100, function(msg)
        tries = tries + 1
        msg:reject("not a picture")
      end)
      assert.equal(1, tries)
      assert.equal("not a picture", messages_of(store, "tasks-poison")[1].attempts[1].error)
    end)
  end)

  it("loses nothing when the poison queue does not take the message", function()
    fleet.run(function(store)
      local q, tries = queue(store, { max_attempts = 2 }), 0
      assert(q:push("x"))
      local function handler()
        tries = tries + 1
        error("broken " .. tries, 0)
      end
      consume_for(q, 4, handler)
      assert.equal(1, store:queue("tasks"):count(), "it was not deleted")
      consume_for(q, 100, handler)
      assert.equal(0, store:queue("tasks"):count())
      assert.equal(2, tries)
      local moved = messages_of(store, "tasks-poison")[1]
      assert.equal("x", moved.body)
      local errors = {}
      for _, attempt in ipairs(moved.attempts) do errors[#errors + 1] = attempt.error end
      assert.same({ "broken 1", "broken 2" }, errors, "the reason is not lost")
    end, { faults = {
      { kind = "error-after-apply", operation = "CreateQueue", ordinal = 2, code = "QueueDisabled" },
      { kind = "throttle", operation = "PutMessage", ordinal = 4, code = "QueueDisabled" },
    } })
  end)

  it("keeps a body that leaves no room for its history", function()
    fleet.run(function(store)
      local q, attempts = queue(store, { max_attempts = 3 }), {}
      local body = ("x"):rep(64 * 1024 - 120)
      assert(q:push(body))
      consume_for(q, 100, function(msg)
        attempts[#attempts + 1] = msg.attempt
        error(("very "):rep(100) .. "broken", 0)
      end)
      assert.same({ 1, 2, 3 }, attempts)
      local text = store:queue("tasks-poison"):get()[1].body
      assert.is_true(#text <= 64 * 1024)
      assert.equal(body, json.decode(text).body)
    end)
  end)

  it("leaves what JSON cannot say as it came, of another client too", function()
    fleet.run(function(store)
      for i, body in ipairs { "\xff\xfe", '{"v":1,"id":"x","body":1e999}' } do
        local name = "foreign-" .. i
        local q = queue(store, { name = name, base64 = true, max_attempts = 2 })
        assert(store:queue(name, { base64 = true }):create())
        assert(store:queue(name, { base64 = true }):put(body))
        local seen = {}
        consume_for(q, 60, function(msg)
          seen[#seen + 1] = msg.body
          error "no"
        end)
        assert.same({ body, body }, seen)
        local poison = store:queue(name .. "-poison", { base64 = true }):get()
        assert.truthy(poison[1].body == body or json.decode(poison[1].body).body == body, poison[1].body)
      end
    end)
  end)

  it("keeps a foreign body with which no envelope fits as it came", function()
    fleet.run(function(store)
      assert(store:queue("tasks"):create())
      local body = ("y"):rep(64 * 1024)
      assert(store:queue("tasks"):put(body))
      local q = queue(store, { max_attempts = 2 })
      consume_for(q, 100, function() error("broken", 0) end)
      assert.equal(body, store:queue("tasks-poison"):get()[1].body)
    end)
  end)
end)

describe("a consumer that dies", function()
  it("counts as an attempt, and a message that kills all of them is set apart", function()
    fleet.run(function(store)
      local q, attempts = queue(store, { max_attempts = 3 }), {}
      assert(q:push("deadly"))
      for _ = 1, 2 do -- got, and then nothing more
        assert.equal(1, #store:queue("tasks"):get { visibility = 1 })
        synod.sleep(2)
      end
      consume_for(q, 10, function(msg) attempts[#attempts + 1] = msg.attempt end)
      assert.same({ 3 }, attempts)
      assert(q:push("deadlier"))
      for _ = 1, 3 do
        assert.equal(1, #store:queue("tasks"):get { visibility = 1 })
        synod.sleep(2)
      end
      consume_for(q, 10, function() error("it must not be handled again") end)
      local poisoned = messages_of(store, "tasks-poison")[1]
      assert.equal("deadlier", poisoned.body)
      assert.matches("3 attempts, and no consumer lived to say how", poisoned.attempts[1].error, 1, true)
    end)
  end)

  it("has its message handled again after the visibility, by another", function()
    fleet.run(function(store)
      local q, at = queue(store, { visibility = 10 }), nil
      assert(q:push("x"))
      assert.equal(1, #store:queue("tasks"):get { visibility = 10 })
      consume_for(q, 20, function() at = synod.now() end)
      assert.is_true(at >= 10 and at <= 11, tostring(at))
    end)
  end)
end)

describe("several queues", function()
  it("share the handlers: a busy one does not starve the others", function()
    fleet.run(function(store)
      for _, batch in ipairs { 1, 4 } do
        local q, order = queue(store, { names = { "busy" .. batch, "calm" .. batch }, batch = batch }), {}
        for i = 1, 50 do assert(q:push(i, { to = "busy" .. batch })) end
        for i = 1, 3 do assert(q:push(i, { to = "calm" .. batch })) end
        consume_for(q, 100, function(msg)
          order[#order + 1] = msg.queue:sub(1, 4)
          synod.sleep(1)
        end)
        assert.equal(53, #order)
        local calm = 0
        for i = 1, 6 + 4 * batch do calm = calm + (order[i] == "calm" and 1 or 0) end
        assert.equal(3, calm, table.concat(order, " "))
      end
    end)
  end)

  it("tell which one a message is put into, and are counted apart", function()
    fleet.run(function(store)
      local q = queue(store, { names = { "one", "two" } })
      assert.matches("it has several queues", refusal(function() q:push(1) end), 1, true)
      assert.matches("has no queue 'three'", refusal(function() q:push(1, { to = "three" }) end), 1, true)
      assert(q:push(1, { to = "two" }))
      local stats = q:stats()
      assert.same({ one = { waiting = 0, poison = 0 }, two = { waiting = 1, poison = 0 } }, stats.queues)
      assert.equal(1, stats.waiting)
    end)
  end)
end)

describe("draining", function()
  it("ends a consume that has not begun yet, and no later one", function()
    fleet.run(function(store)
      local q = queue(store)
      local consumer = synod.spawn(q.consume, q, function() return true end)
      assert.is_true(q:drain())
      assert.is_true(consumer:join(1000))
      assert(q:push "later")
      assert.is_true(q:drain())
      local got
      assert.is_true(consume_for(q, 5, function(msg) got = msg.body end))
      assert.equal("later", got)
    end)
  end)

  it("lets the handlers end, and begins no more", function()
    fleet.run(function(store)
      local q, ended = queue(store, { concurrency = 2, batch = 8 }), 0
      for i = 1, 8 do assert(q:push(i)) end
      local consumer = synod.spawn(function() return q:consume(function()
        synod.sleep(5)
        ended = ended + 1
      end) end)
      synod.sleep(1)
      assert.is_true(q:drain { timeout = 10 })
      assert.equal(5, synod.now())
      assert.equal(2, ended)
      assert.is_true(consumer:join())
      assert.equal(6, #store:queue("tasks"):get { n = 32 }, "the others show at once")
    end)
  end)

  it("stops those that take too long, and shows their messages at once", function()
    fleet.run(function(store)
      local q, cancelled = queue(store), nil
      assert(q:push("x"))
      local consumer = synod.spawn(function() return q:consume(function()
        local _
        _, cancelled = pcall(synod.sleep, 100)
        error(cancelled, 0)
      end) end)
      synod.sleep(1)
      assert.is_false(q:drain { timeout = 3 })
      assert.equal(4, synod.now())
      assert.equal("Cancelled", cancelled.code)
      assert.is_true(consumer:join())
      local attempt
      consume_for(q, 1, function(msg) attempt = msg.attempt end)
      assert.equal(1, attempt, "what was given back does not count")
      assert.equal(1, q:stats().returned)
    end)
  end)

  it("happens when the task that consumes is cancelled", function()
    fleet.run(function(store)
      local q = queue(store)
      assert(q:push("x"))
      local consumer = synod.spawn(function() return q:consume(function() synod.sleep(100) end) end)
      synod.sleep(1)
      consumer:cancel()
      consumer:join()
      assert.equal(1, #store:queue("tasks"):get())
      assert.equal(1, synod.now())
    end)
  end)

  it("goes on to its end when it is cancelled again and again: nothing is left, and it can consume again", function()
    fleet.run(function(store)
      local q, running = queue(store, { concurrency = 2 }), 0
      for i = 1, 4 do assert(q:push(i)) end
      local consumer = synod.spawn(q.consume, q, function()
        running = running + 1
        local _ <close> = setmetatable({}, { __close = function() running = running - 1 end })
        cancels.stubborn()
      end)
      synod.sleep(1)
      assert.equal(2, running)
      cancels.often(consumer)
      assert.equal(0, running)
      local seen = 0
      consume_for(q, 5, function() seen = seen + 1 end)
      assert.equal(4, seen)
    end)
  end)

  it("ends the consume also when whoever drains is cancelled", function()
    fleet.run(function(store)
      local q = queue(store)
      assert(q:push "x")
      local consumer = synod.spawn(q.consume, q, function() synod.sleep(1e6) end)
      synod.sleep(1)
      assert.is_nil(synod.timeout(2, q.drain, q, { timeout = 100 }))
      assert.is_true(consumer:join(1))
      assert.equal(1, #store:queue("tasks"):get())
    end)
  end)
end)

describe("duplicates", function()
  it("are noticed by their id, and not handled again", function()
    fleet.run(function(store)
      local q, handled = queue(store), 0
      for _ = 1, 3 do assert(q:push("x", { id = "same" })) end
      consume_for(q, 100, function() handled = handled + 1 end)
      assert.equal(1, handled)
      assert.equal(2, q:stats().duplicates)
      assert.equal(0, store:queue("tasks"):count())
    end)
  end)

  it("wait while the first one is handled, and are handled when it fails", function()
    fleet.run(function(store)
      local q, bodies = queue(store, { concurrency = 2, max_attempts = 1 }), {}
      assert(q:push("first", { id = "same" }))
      assert(q:push("second", { id = "same" }))
      consume_for(q, 100, function(msg)
        bodies[#bodies + 1] = msg.body
        synod.sleep(1)
        if msg.body == "first" then error("broken", 0) end
      end)
      assert.same({ "first", "second" }, bodies)
    end)
  end)

  it("are told when a lost answer made them", function()
    fleet.run(function(store)
      local q, handled = queue(store), 0
      assert(store:queue("tasks"):create())
      assert(q:push("x"))
      assert.equal(2, store:queue("tasks"):count())
      consume_for(q, 100, function() handled = handled + 1 end)
      assert.equal(1, handled)
    end, { faults = { { kind = "lost-response", operation = "PutMessage", ordinal = 1 } } })
  end)
end)

describe("workqueue.stats", function()
  it("tells how much waits, how much is under way, and how fast it goes", function()
    fleet.run(function(store)
      local q = queue(store, { concurrency = 2 })
      for i = 1, 62 do assert(q:push(i)) end
      assert.equal(62, q:stats().waiting)
      local consumer = synod.spawn(function() return q:consume(function() synod.sleep(2) end) end)
      synod.sleep(59)
      local stats = q:stats()
      assert.is_true(stats.in_flight >= 2 and stats.in_flight <= 3)
      assert.equal(58, stats.done)
      assert.equal(62 - 58, stats.waiting + stats.in_flight)
      assert.is_true(stats.rate > 0.9 and stats.rate <= 1, tostring(stats.rate))
      q:drain()
      consumer:join()
      synod.sleep(100)
      assert.equal(0, q:stats().rate)
    end)
  end)
end)

describe("workqueue.new", function()
  local function refused(o)
    return refusal(function() workqueue.new(o) end)
  end

  it("refuses what cannot be meant, at the line that makes it", function()
    local store = {}
    assert.matches("a name is needed", refused { store = store }, 1, true)
    assert.matches("^spec/workqueue_spec.lua:%d+: workqueue.new: the queue name 'Tasks'", refused { name = "Tasks" })
    assert.matches("named twice", refused { names = { "aaa", "aaa" } }, 1, true)
    assert.matches("give name, or names", refused { name = "aaa", names = { "bbb" } }, 1, true)
    assert.matches("batch = 33 is more than a queue gives at once (32)", refused { name = "aaa", batch = 33 }, 1, true)
    assert.matches("retry.max (1 s) is below retry.min (2 s)",
      refused { name = "aaa", retry = { min = 2, max = 1 } }, 1, true)
    assert.matches("retry.max = 700000 s is more than a queue hides a message (604800)",
      refused { name = "aaa", retry = { max = 700000 } }, 1, true)
    assert.matches("retry takes min, max", refused { name = "aaa", retry = { often = 1 } }, 1, true)
    assert.matches("poll_max (1 s) is below poll_min (2 s)",
      refused { name = "aaa", poll_min = 2, poll_max = 1 }, 1, true)
  end)

  it("refuses a payload that JSON cannot say, and one that is too large", function()
    fleet.run(function(store)
      local q = queue(store)
      assert.matches("the payload: a function has no JSON text", refusal(function() q:push(print) end), 1, true)
      local id, err = q:push(("x"):rep(64 * 1024))
      assert.is_nil(id)
      assert.equal("RequestBodyTooLarge", err.code)
      assert.matches("put it into a blob, and push its name", tostring(err), 1, true)
    end)
  end)

  it("consumes once at a time", function()
    fleet.run(function(store)
      local q = queue(store)
      local consumer = synod.spawn(function() return q:consume(print) end)
      synod.sleep(1)
      assert.matches("it consumes already", refusal(function() q:consume(print) end), 1, true)
      q:drain()
      consumer:join()
      assert.equal(1, synod.now())
    end)
  end)

  it("gives what the store refuses for good", function()
    fleet.run(function(store)
      local done, err = queue(store):consume(print)
      assert.is_nil(done)
      assert.equal("Unauthorized", err.code)
    end, { faults = { { kind = "error-after-apply", operation = "GetMessages", ordinal = 0, code = "Unauthorized" } } })
  end)

  it("waits for a store that does not answer", function()
    fleet.run(function(store)
      local q, handled = queue(store), 0
      assert(q:push("x"))
      consume_for(q, 100, function() handled = handled + 1 end)
      assert.equal(1, handled)
    end, { faults = { { kind = "lost-request", operation = "GetMessages", ordinal = 1 },
      { kind = "throttle", operation = "GetMessages", ordinal = 2, seconds = 5 } } })
  end)
end)
