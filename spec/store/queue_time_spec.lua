-- Queues and time: visibility and expiry to the instant, on the virtual clock; lost answers, cancels, waiters, a clock
-- that falls.

local core = require "synod.core"
local queues = require "synod.queue"
local sh = require "spec.support.sh"

local TICK = 2.0 ^ -20 -- seconds: an exact fraction, so that instants are compared with ==

local function run(fn, options)
  return core.main(function()
    local store <close> = assert(core.open_store("memory:", options))
    local q = store:queue "tasks"
    assert(q:create())
    fn(q, store)
  end, { clock = "virtual", seed = 1 })
end

local function at(instant) core.sleep(instant - core.now()) end

describe("on the virtual clock", function()
  it("golden case 10: a delayed message is hidden until its instant, and shows at it", function()
    run(function(q)
      assert(q:put("x", { delay = 5 }))
      at(5 - TICK)
      assert.same({ 0, 0, 1 }, { #q:peek(), #q:get(), q:count() })
      at(5)
      assert.same({ 1, 1 }, { #q:peek(), #q:get { visibility = 10 } })
      at(15 - TICK)
      assert.equal(0, #q:get())
      at(15)
      assert.equal(2, q:get()[1].dequeue_count)
    end)
  end)

  it("golden case 10: expiry beats visibility, at the instant", function()
    run(function(q)
      local put = assert(q:put("x", { ttl = 10, delay = 9 }))
      at(9)
      local msg = q:get { visibility = 100 }[1]
      assert.equal(put.expires, msg.expires)
      at(10 - TICK)
      assert.equal(1, q:count())
      assert(msg:update { visibility = 0 })
      assert.equal(1, #q:peek())
      at(10)
      assert.same({ 0, 0, 0 }, { #q:peek(), #q:get(), q:count() })
      assert.equal("MessageNotFound", select(2, msg:update { visibility = 0 }).code)
      assert.equal("MessageNotFound", select(2, msg:delete()).code)
    end)
  end)

  it("golden case 9: a receipt outlives its visibility until the next get", function()
    run(function(q)
      assert(q:put "a")
      assert(q:put "b")
      local first, second = table.unpack(q:get { n = 2, visibility = 1 })
      at(1000)
      assert.is_true(first:delete())
      local again = q:get { visibility = 1 }[1]
      assert.equal(second.id, again.id)
      assert.equal("PopReceiptMismatch", select(2, second:update { visibility = 1 }).code)
      at(2000)
      assert(again:update { visibility = 5 })
      at(2005 - TICK)
      assert.equal(0, #q:get())
      at(2005)
      assert.equal(3, q:get()[1].dequeue_count)
    end)
  end)

  it("messages come by the instant at which they show, then as they were put", function()
    run(function(q)
      for i, delay in ipairs { 3, 1, 2, 1, 0 } do assert(q:put(tostring(i), { delay = delay })) end
      at(3)
      local order = {}
      for i, msg in ipairs(q:get { n = 32 }) do order[i] = msg.body end
      assert.equal("52431", table.concat(order))
    end)
  end)

  it("an update may hide until the very end and not beyond", function()
    run(function(q)
      assert(q:put("x", { ttl = 60 }))
      local msg = q:get()[1]
      assert(msg:update { visibility = 60 })
      assert.equal("InvalidQueryParameterValue", select(2, msg:update { visibility = 61 }).code)
    end)
  end)

  it("expired ones in great numbers are passed over, and are gone in the end", function()
    run(function(q)
      for _ = 1, 3000 do assert(q:put("old", { ttl = 1 })) end
      assert(q:put "new")
      at(1)
      assert.equal(1, q:count())
      assert.equal("new", q:peek(2)[1].body)
      local list = q:get { n = 32 }
      assert.same({ 1, "new" }, { #list, list[1].body })
      for _ = 1, 20 do assert.equal(0, #q:get()) end
      assert.equal(1, q:count())
    end)
  end)

  it("a put wakes those who wait, at its instant; a get wakes nobody", function()
    run(function(q, store)
      local woken = {}
      for i = 1, 3 do
        core.spawn(function()
          assert.is_true((store:changed { container = "tasks", timeout = 60 }))
          woken[i] = core.now()
        end)
      end
      at(2.5)
      assert.equal(0, #q:get())
      at(7.25)
      assert(q:put "x")
      core.sleep(0)
      core.yield()
      assert.same({ 7.25, 7.25, 7.25 }, woken)
      core.spawn(function()
        core.sleep(1)
        assert.equal(1, #q:get())
      end)
      local changed, why = store:changed { container = "tasks", timeout = 3 }
      assert.same({ false, "timeout" }, { changed, why })
    end)
  end)
end)

describe("a lost answer", function()
  local function lost(operation, fn, more)
    local faults = { { kind = "lost-response", operation = operation } }
    for _, fault in ipairs(more or {}) do faults[#faults + 1] = fault end
    run(fn, { faults = faults })
  end

  it("of a put: it may be there twice", function()
    lost("PutMessage", function(q)
      assert(q:put "x")
      assert.equal(2, q:count())
    end)
  end)

  it("of a put that shall be made once: AnswerLost, and it is there once", function()
    lost("PutMessage", function(q, store)
      assert.equal("AnswerLost", select(2, q:put("x", { once = true })).code)
      assert.same({ 1, 1 }, { q:count(), store:usage().PutMessage })
    end)
  end)

  it("of a get: what it took comes back after its time", function()
    lost("GetMessages", function(q)
      assert(q:put "a")
      assert(q:put "b")
      assert.equal("b", q:get { visibility = 20 }[1].body)
      at(20 - TICK)
      assert.equal(0, #q:get())
      at(20)
      assert.same({ "a", 2 }, { (function(msg) return msg.body, msg.dequeue_count end)(q:get()[1]) })
    end)
  end)

  it("of a delete: it is done", function()
    lost("DeleteMessage", function(q)
      assert(q:put "a")
      assert.is_true(q:get()[1]:delete())
      assert.equal(0, q:count())
    end)
  end)

  it("of a delete that did not arrive, when another took the message meanwhile: it is not done", function()
    run(function(q)
      assert(q:put "a")
      local msg = q:get { visibility = 1 }[1]
      core.spawn(function()
        core.sleep(2)
        assert.equal(1, #q:get { visibility = 100 })
      end)
      local _, err = msg:delete()
      assert.equal("PopReceiptMismatch", err.code)
      assert.equal(1, q:count())
    end, { faults = { { kind = "lost-request", operation = "DeleteMessage" } } })
  end)

  it("of an update: AnswerLost, since nobody can tell whose the new receipt is", function()
    lost("UpdateMessage", function(q)
      assert(q:put "a")
      local msg = q:get { visibility = 100 }[1]
      local receipt = msg.receipt
      local _, err = msg:update { visibility = 0, body = "b" }
      assert.equal("AnswerLost", err.code)
      assert.same({ "a", receipt }, { msg.body, msg.receipt })
      assert.equal("b", q:get()[1].body)
    end)
  end)

  it("of an update that did not arrive: it is repeated", function()
    run(function(q)
      assert(q:put "a")
      local msg = q:get { visibility = 100 }[1]
      assert(msg:update { visibility = 0 })
      assert.equal(1, #q:get())
    end, { faults = { { kind = "lost-request", operation = "UpdateMessage" } } })
  end)

  it("of a create, a clear, a removal: it is done", function()
    for _, operation in ipairs { "CreateQueue", "ClearMessages", "DeleteQueue" } do
      lost(operation, function(_, store)
        local q = store:queue "other"
        assert.is_true(q:create { metadata = { a = "1" } })
        assert(q:put "x")
        assert.is_true(q:clear())
        assert.equal(0, q:count())
        assert.is_true(q:delete())
      end)
    end
  end)
end)

describe("a get that is cancelled", function()
  it("makes what it took visible again, and the run waits for that", function()
    run(function(q)
      for i = 1, 5 do assert(q:put(tostring(i))) end
      local task = core.spawn(function() q:get { n = 3, visibility = 1000 } end)
      at(1)
      task:cancel()
      task:join()
      assert.equal(2, #q:peek(32))
      at(6)
      assert.same({ 5, 1 }, { #q:peek(32), q:peek(32)[3].dequeue_count })
    end, { faults = { { kind = "delay", operation = "GetMessages", seconds = 2 } } })
  end)

  it("that was refused, or whose answer never comes, leaves nothing behind", function()
    for _, fault in ipairs { { kind = "throttle", code = "ServerBusy" }, { kind = "lost-request" } } do
      fault.operation = "GetMessages"
      run(function(q, store)
        assert(q:put "x")
        local task = core.spawn(function() q:get() end)
        at(0.05)
        task:cancel()
        task:join()
        at(100)
        assert.same({ 1, 1, 0 }, { #q:peek(), store:usage().GetMessages, q:peek()[1].dequeue_count })
      end, { faults = { fault } })
    end
  end)
end)

describe("a caller's mistake", function()
  local function mistake(fn)
    local err
    run(function(q, store)
      local ok
      ok, err = pcall(fn, q, store)
      assert.is_false(ok)
    end)
    assert.matches("^spec/store/queue_time_spec.lua:%d+: ", tostring(err))
    return tostring(err)
  end

  it("is raised at its line", function()
    for _, case in ipairs {
      { function(_, s) return s:queue "No" end, "the queue name 'No' must have 3 to 63 characters" },
      { function(_, s) return s:queue "$root" end, "may hold only a%-z" },
      { function(_, s) return s:queue("abc", { base = true }) end, "unknown option 'base'; a queue has base64" },
      { function(_, s) return s:queue("abc", { base64 = 1 }) end, "base64" },
      { function(q) return q:put() end, "string expected" },
      { function(q) return q:put "\0" end, "holds a control character.*{base64 = true}" },
      { function(q) return q:put "\255" end, "is not UTF%-8.*{base64 = true}" },
      { function(q) return q:put "\u{FFFE}" end, "a character that is none" },
      { function(q) return q:put("x", { delay = -1 }) end, "'delay': seconds must not be negative" },
      { function(q) return q:put("x", { delay = 1.5 }) end, "'delay': whole number expected, got 1.5" },
      { function(q) return q:put("x", { dely = 1 }) end, "unknown option 'dely' %(did you mean 'delay'%?%)" },
      { function(q) return q:put("x", { once = 1 }) end, "'once': true or false expected" },
      { function(q) return q:get { n = "3" } end, "'n': whole number expected" },
      { function(q) return q:get { visibility = -1 } end, "must not be negative" },
      { function(q) return q:peek "x" end, "number expected" },
      { function(q) q:put "x" return q:get()[1]:update {} end, "option 'visibility' is needed" },
      { function(q) q:put "x" return q:get()[1]:update { visibility = 0, body = {} } end, "'body': string expected" },
      { function(q) q:put "x" return q:peek()[1]:delete() end, "has no receipt: it was deleted, or only peeked at" },
      { function(q)
        local msg = q:put "x"
        msg:delete()
        return msg:delete()
      end, "has no receipt" },
      { function(q) return getmetatable(q:put "x").__index.delete {} end, "a message that a queue has given" },
    } do
      assert.matches(case[2], mistake(case[1]))
    end
  end)
end)

describe("moving messages to another queue", function()
  it("moves as many as there are, and none that is hidden", function()
    run(function(q, store)
      local poison = store:queue(queues.poison "tasks")
      assert(poison:create())
      for i = 1, 70 do assert(poison:put(tostring(i))) end
      assert(poison:get())
      assert.equal(69, queues.move(poison, q))
      assert.same({ 69, 1 }, { q:count(), poison:count() })
    end)
  end)

  it("keeps what never expires, and gives the others their time anew", function()
    run(function(q, store)
      local poison = store:queue "tasks-poison"
      assert(poison:create())
      assert(poison:put("kept", { ttl = -1 }))
      assert(poison:put("short", { ttl = 60 }))
      assert.equal(2, queues.move(poison, q))
      core.sleep(61)
      assert.equal(2, q:count())
      core.sleep(7 * 24 * 3600)
      local left = q:peek(32)
      assert.same({ 1, "kept" }, { #left, left[1].body })
    end)
  end)

  it("that fails leaves each in one queue at least, and those not moved visible", function()
    run(function(q, store)
      local poison = store:queue "tasks-poison"
      assert(poison:create())
      for i = 1, 10 do assert(poison:put(tostring(i))) end
      local moved, err, before = queues.move(poison, q)
      assert.same({ "Unauthorized", 3 }, { moved == nil and err.code, before })
      assert.same({ 3, 7 }, { #q:peek(32), #poison:peek(32) })
    end, { faults = { { kind = "throttle", code = "Unauthorized", operation = "PutMessage", ordinal = 14 } } })
  end)
end)

describe("the embedded store's file", function()
  local function with_file(fn)
    local folder <close> = sh.folder()
    local path = folder.path .. "/s.db"
    local function sql(text)
      local output, code = sh.run("sqlite3 " .. sh.quote(path) .. " " .. sh.quote(text))
      assert(code == 0, output)
      return (output:gsub("\n$", ""))
    end
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. path))
      local q = store:queue "tasks"
      assert(q:create { metadata = { who = "me" } })
      fn(q, sql)
    end)
  end

  it("can be read by people", function()
    with_file(function(q, sql)
      local msg = assert(q:put("größer", { ttl = -1 }))
      assert(q:get())
      assert.equal("tasks|who=me", sql "SELECT name, trim(metadata, char(10)) FROM queues")
      assert.equal(("tasks|%s|%s||1|größer"):format(msg.id, os.date("!%Y-%m-%d %H:%M:%S", msg.inserted)),
        sql "SELECT queue, id, inserted, expires, dequeue_count, body FROM messages")
      assert.equal("1", sql "SELECT next_visible > strftime('%Y-%m-%dT%H:%M:%S', 'now') FROM messages")
    end)
  end)

  it("is found by its indexes, not by searching", function()
    with_file(function(_, sql)
      for _, order in ipairs { "next_visible", "expires" } do
        local plan = sql(("EXPLAIN QUERY PLAN SELECT * FROM rows WHERE kind = 4 AND parent = 'x' ORDER BY %s, name")
          :format(order))
        assert.matches("USING INDEX messages_by_" .. (order == "expires" and "expiry" or "visibility"), plan)
        assert.is_nil(plan:find "TEMP B%-TREE")
      end
    end)
  end)

  it("has no time below the highest that was given: a clock that falls hides nothing for long", function()
    with_file(function(q, sql)
      local ahead = os.time() + 1000000
      sql("UPDATE state SET highest_date = " .. ahead)
      local msg = assert(q:put("x", { ttl = 100 }))
      assert.same({ ahead, ahead, ahead + 100 }, { msg.inserted, msg.next_visible, msg.expires })
      assert.equal(1, #q:peek())
      assert.equal(ahead + 30, q:get()[1].next_visible)
      sql("UPDATE state SET highest_date = " .. ahead + 100)
      assert.same({ 0, 0 }, { q:count(), #q:peek() })
    end)
  end)

  it("is shared by processes: each message goes to one of them, once", function()
    local folder <close> = sh.folder()
    folder:write("make.lua", [[
      local q = require("synod").store:queue "tasks"
      assert(q:create())
      for i = 1, 400 do assert(q:put(tostring(i))) end]])
    folder:write("take.lua", [[
      local q = require("synod").store:queue "tasks"
      repeat
        local list = assert(q:get { n = 3, visibility = 600 })
        for _, msg in ipairs(list) do
          print(msg.body .. " " .. msg.dequeue_count)
          assert(msg:delete())
        end
      until #list == 0]])
    local output = sh.run([[SYNOD=$(readlink -f "$SYNOD"); cd "$DIR"; RUN="$SYNOD run --store embedded:$DIR/s.db"
      $RUN make.lua; for w in 1 2 3 4 5 6; do $RUN take.lua & done; wait]], { dir = folder.path })
    local seen, count = {}, 0
    for body, times in output:gmatch "(%d+) (%d+)\n" do
      assert.is_nil(seen[body])
      assert.equal("1", times)
      seen[body], count = true, count + 1
    end
    assert.equal(400, count, output)
  end)

  it("tells other processes of a put at once", function()
    local folder <close> = sh.folder()
    folder:write("wait.lua", [[
      local synod = require "synod"
      local q = synod.store:queue "tasks"
      assert(q:create())
      io.open("ready", "w"):close()
      local mark = synod.store:mark { container = "tasks" }
      local list = assert(q:get())
      if #list == 0 then
        assert(synod.store:changed { container = "tasks", since = mark, timeout = 20 })
        list = assert(q:get())
      end
      print(list[1].body)]])
    folder:write("put.lua", [[assert(require("synod").store:queue "tasks":put "now")]])
    local output = sh.run([[SYNOD=$(readlink -f "$SYNOD"); cd "$DIR"; RUN="$SYNOD run --store embedded:$DIR/s.db"
      $RUN wait.lua & i=0; while [ ! -e ready ] && [ $i -lt 500 ]; do sleep 0.01; i=$((i + 1)); done
      $RUN put.lua; wait]], { dir = folder.path })
    assert.equal("now\n", output)
  end)
end)
