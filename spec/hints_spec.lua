-- hints: what a board tells whom, and what is told over real connections.

local board = require "synod.hints.board"
local core = require "synod.core"
local hints = require "synod.hints"
local net = require "synod.net"
local synod = require "synod"

local function sorted(lines)
  table.sort(lines)
  return lines
end

describe("a board", function()
  local function fresh()
    local b = board.new()
    return b, b:join(), b:join()
  end

  --- Runs fn(board, member, member) where events can be made.
  local function on_board(fn)
    return core.main(function() return fn(fresh()) end, { clock = "virtual", seed = 1 })
  end

  it("says how a key stands as soon as it is watched", function()
    on_board(function(b, one, two)
      b:hear(two, "hold k")
      b:hear(one, "watch k")
      b:hear(one, "watch l")
      assert.same({ "free l\n", "standing k\n" }, sorted(b:take(one)))
      assert.same({}, b:take(one))
      assert.same({}, b:take(two))
    end)
  end)

  it("has those who watch look when it is dropped, but not who dropped it", function()
    on_board(function(b, one, two)
      for _, member in ipairs { one, two } do b:hear(member, "watch k") end
      b:hear(two, "hold k")
      b:take(one)
      b:take(two)
      b:hear(two, "drop k")
      assert.same({ "look k free\n" }, b:take(one))
      assert.same({}, b:take(two))
      b:hear(two, "drop k")
      assert.same({}, b:take(one), "it was dropped already")
    end)
  end)

  it("counts the holders while one takes over from the other", function()
    on_board(function(b, one, two)
      local three = b:join()
      b:hear(three, "watch k")
      b:hear(one, "hold k")
      b:hear(two, "hold k")
      b:hear(one, "drop k")
      assert.same({ "look k standing\n" }, b:take(three))
      b:leave(two)
      assert.same({ "look k free\n" }, b:take(three))
    end)
  end)

  it("keeps for who does not read the last state of each key, and that it has to look", function()
    on_board(function(b, one, two)
      b:hear(one, "watch k")
      for _ = 1, 1000 do
        b:hear(two, "hold k")
        b:hear(two, "drop k")
      end
      b:hear(two, "hold k")
      assert.same({ "look k standing\n" }, b:take(one))
    end)
  end)

  it("passes on that something has happened, to the others who watch", function()
    on_board(function(b, one, two)
      b:hear(one, "watch q")
      b:hear(two, "watch q")
      b:take(one)
      b:take(two)
      b:hear(two, "tell q")
      assert.same({ "look q free\n" }, b:take(one))
      assert.same({}, b:take(two))
    end)
  end)

  it("forgets who has left", function()
    on_board(function(b, one, two)
      b:hear(one, "watch k")
      b:leave(one)
      b:hear(two, "hold k")
      assert.same({}, b:take(one))
      assert.same({}, b.watchers)
      b:leave(two)
      assert.same({}, b.holders)
    end)
  end)

  it("passes over what it does not understand", function()
    on_board(function(b, one)
      local lines = { "", "watch", "watch ", "dance k", "watch " .. ("k"):rep(5000), "\0\1" }
      for _, line in ipairs(lines) do b:hear(one, line) end
      assert.same({}, b.watchers)
      assert.same({}, b:take(one))
    end)
  end)

  it("lets one member have no more than ten thousand keys", function()
    on_board(function(b, one, two)
      for i = 1, 10001 do b:hear(one, "watch k" .. i) end
      b:hear(two, "tell k10000")
      b:hear(two, "tell k10001")
      local looks = 0
      for _, line in ipairs(b:take(one)) do looks = looks + (line:find("^look") and 1 or 0) end
      assert.equal(1, looks)
      b:hear(one, "unwatch k1")
      b:hear(one, "watch again")
      assert.same({ "free again\n" }, b:take(one))
    end)
  end)
end)

--- A store that only has a name: hints ask it nothing.
local store = { name = function() return "https://account.example/" end }

describe("hints across machines", function()
  --- A holder's board, as a listener of its own would have it.
  local function with_holder(fn)
    core.main(function()
      local b = board.new()
      local holder = b:join()
      local conns = {}
      local listener <close> = assert(net.listen("127.0.0.1:0", function(conn)
        conns[#conns + 1] = conn
        local member = b:join()
        b:serve(member, conn)
        b:leave(member)
      end))
      fn(listener, function(line) b:hear(holder, line) end, conns)
      for _, conn in ipairs(conns) do conn:close() end
    end)
  end

  local KEY = "https:%2F%2Faccount.example%2F%2Flocks%2Fmutex%2Fx"

  it("stand while the holder holds, and tell its end", function()
    with_holder(function(listener, say)
      say("hold " .. KEY)
      local hint <close> = hints.on(store, "locks/mutex/x")
      assert.is_false(hint:standing())
      hint:toward(listener.address)
      synod.timeout(5, function() while not hint:standing() do synod.sleep(0.005) end end)
      assert.is_true(hint:standing())
      assert.is_false(hint:wait(0.05))
      say("drop " .. KEY)
      assert.is_true(hint:wait(5))
      assert.is_false(hint:standing())
    end)
  end)

  it("do not stand for what the other does not hold, such as a new process at an old address", function()
    with_holder(function(listener, say)
      say("hold other")
      local hint <close> = hints.on(store, "locks/mutex/x")
      hint:toward(listener.address)
      assert.is_false(hint:wait(0.2))
      assert.is_false(hint:standing())
    end)
  end)

  it("fall with the connection, and then it is time to look", function()
    with_holder(function(listener, say, conns)
      say("hold " .. KEY)
      local hint <close> = hints.on(store, "locks/mutex/x")
      hint:toward(listener.address)
      synod.timeout(5, function() while not hint:standing() do synod.sleep(0.005) end end)
      conns[1]:close()
      assert.is_true(hint:wait(5))
      assert.is_false(hint:standing())
    end)
  end)

  it("do not stand where nobody answers, and nobody waits for that", function()
    core.main(function()
      local hint <close> = hints.on(store, "locks/mutex/x")
      local began = synod.now()
      hint:toward("127.0.0.1:1")
      assert.is_true(synod.now() - began < 1)
      hint:wait(0.2)
      assert.is_false(hint:standing())
    end)
  end)

  it("pass over what is no address", function()
    core.main(function()
      local hint <close> = hints.on(store, "locks/mutex/x")
      for _, where in ipairs { "nonsense", "a b:1", "a:99999", "" } do
        hint:toward(where)
        assert.same({}, hint.links)
      end
    end)
  end)

  it("are told by an instance that listens, without holding the run", function()
    core.main(function()
      hints.configure("127.0.0.1:0")
      local here = hints.address()
      assert.matches("^127%.0%.0%.1:%d+$", here)
      local holding = hints.holding(store, "locks/mutex/x")
      local conn <close> = assert(net.connect(here))
      conn:write("watch ", KEY, "\n")
      assert.equal("standing " .. KEY, conn:read("line", { timeout = 5 }))
      holding:close()
      assert.equal("look " .. KEY .. " free", conn:read("line", { timeout = 5 }))
      hints.tell(store, "locks/mutex/x")
      assert.equal("look " .. KEY .. " free", conn:read("line", { timeout = 5 }))
    end)
    hints.configure(nil)
  end)

  it("survive an address that is in use: the instance goes on without", function()
    core.main(function()
      local listener <close> = assert(net.listen("127.0.0.1:0", function() end))
      hints.configure(listener.address)
      assert.is_nil(hints.address())
      local holding <close> = hints.holding(store, "locks/mutex/x")
      assert.is_table(holding)
    end)
    hints.configure(nil)
  end)
end)

describe("an instance that listens for hints", function()
  it("has descriptors for more who connect than it may have open at first", function()
    local sh = require "spec.support.sh"
    local folder <close> = sh.folder()
    folder:write("holder.lua", [[
      local synod, hints = require "synod", require "synod.hints"
      local holding <close> = hints.holding({ name = function() return "far away" end }, "k")
      print(hints.address())
      io.stdout:flush()
      synod.sleep(60)
    ]])
    folder:write("others.lua", [[
      local synod = require "synod"
      local conns = {}
      for i = 1, 120 do
        conns[i] = assert(synod.connect((...)))
        conns[i]:write "watch x\n"
        if not conns[i]:read("line", { timeout = 20 }) then return print("not answered", i) end
      end
      print "all answered"
    ]])
    local said = sh.run([[
      (ulimit -Sn 80; exec $SYNOD run --hints 127.0.0.1:0 "$DIR/holder.lua" >"$DIR/address") & holder=$!
      while ! [ -s "$DIR/address" ]; do sleep 0.01; done
      $SYNOD run "$DIR/others.lua" "$(cat "$DIR/address")"
      kill -KILL $holder
    ]], { dir = folder.path })
    assert.equal("all answered\n", said)
  end)
end)

describe("hints among the instances of one run", function()
  local program = require "spec.support.program"

  --- Runs a script three times over, in which `me` is the ordinal.
  local function run(lua)
    local r = program.run({ "run", "-n", "3", "x.lua" }, { files = { ["x.lua"] = [[
      local synod = require "synod"
      local hints = require "synod.hints"
      local me = synod.instance.ordinal
      local store = { name = function() return "far away" end }
      local function standing(hint)
        assert(synod.timeout(20, function()
          while not hint:standing() do synod.sleep(0.005) end
          return true
        end))
      end
    ]] .. lua } })
    return r.out .. r.err, r.code
  end

  it("stand while one holds, and are told at its end", function()
    local said, code = run [[
      if me == 0 then
        local holding <close> = hints.holding(store, "k")
        synod.sleep(0.5)
      else
        local hint <close> = hints.on(store, "k")
        standing(hint)
        assert(hint:wait(20))
        assert(not hint:standing())
        print("told")
      end
    ]]
    assert.equal(0, code, said)
    assert.equal(2, select(2, said:gsub("told", "")))
  end)

  it("are told when an instance is killed", function()
    local said, code = run [[
      if me == 0 then
        local holding = hints.holding(store, "k")
        synod.sleep(0.3)
        synod.exec { "sh", "-c", "kill -KILL $PPID" }
        synod.sleep(20)
      end
      local hint <close> = hints.on(store, "k")
      standing(hint)
      assert(hint:wait(20))
      print("told")
    ]]
    assert.equal(137, code, said)
    assert.equal(2, select(2, said:gsub("| told", "")), said)
  end)

  it("pass on that something has happened, to the others", function()
    local said, code = run [[
      local hint <close> = hints.on(store, "queues/tasks")
      if me == 0 then
        synod.sleep(0.3)
        hints.tell(store, "queues/tasks")
        print("myself", hint:wait(0.2))
      else
        print("others", hint:wait(20))
      end
    ]]
    assert.equal(0, code, said)
    assert.equal(2, select(2, said:gsub("others\ttrue", "")), said)
    assert.matches("myself\tfalse", said, 1, true)
  end)

  it("are no business of commands that an instance starts", function()
    local said, code = run [[
      print((synod.exec { "env" }.stdout:find "SYNOD_HUB_FD"), os.getenv "SYNOD_HUB_FD" ~= nil)
    ]]
    assert.equal(0, code, said)
    assert.equal(3, select(2, said:gsub("nil\ttrue", "")), said)
  end)
end)

describe("a ledger", function()
  it("is read by who keeps its other end, when the writer is dead", function()
    local sh = require "spec.support.sh"
    local folder <close> = sh.folder()
    folder:write("child.lua", [[
      local ledger = require "synod.lease.ledger"
      local function entry(name, id)
        return { kind = "service", id = id, fence = 7, url = "", container = "locks", name = name }
      end
      ledger.hold(entry("a b%20\n", "1"))
      local gone = ledger.hold(entry("gone", "2"))
      ledger.hold(entry("c", ""))
      gone:drop()
      gone:drop()
      ledger.hold(entry("d", "3"))
      require("synod").exec { "sh", "-c", "kill -KILL $PPID" }
      require("synod").sleep(20)
    ]])
    core.main(function()
      local ledger = require "synod.lease.ledger"
      local fd = core.slots_new()
      local env = core.environment()
      env[#env + 1] = "SYNOD_LEDGER_FD=" .. fd
      local p = assert(core.process_spawn {
        file = sh.synod, args = { "synod", folder.path .. "/child.lua" }, env = env, passed = { fd },
        stdin = "null", stdout = "inherit", stderr = "inherit",
      })
      assert.equal("killed", (p:wait()))
      local found = {}
      for _, entry in ipairs(ledger.read(fd)) do
        found[#found + 1] = ("%s=%s/%d"):format(entry.name, entry.id, entry.fence)
      end
      table.sort(found)
      assert.same({ "a b%20\n=1/7", "c=/7", "d=3/7" }, found)
      core.descriptor_close(fd)
    end)
  end)
end)
