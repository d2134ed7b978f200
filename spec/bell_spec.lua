-- bell and addresses: how those who wait at a queue find those who push to it.

local addresses = require "synod.hints.addresses"
local azurite = require "spec.support.azurite"
local bell = require "synod.hints.bell"
local board = require "synod.hints.board"
local core = require "synod.core"
local fleet = require "spec.support.fleet"
local hints = require "synod.hints"
local net = require "synod.net"
local sh = require "spec.support.sh"
local synod = require "synod"
local untold = require "spec.support.untold"
local workqueue = require "synod.workqueue"

local function blob_of(store) return store:container("locks"):blob("workqueue/tasks") end

local function is(address)
  return function(other) return other == address end
end

describe("the addresses of those who push", function()
  it("are put into a list and taken out of it", function()
    fleet.run(function(store)
      assert.same({}, (addresses.read(store, "tasks")))
      assert(addresses.add(store, "tasks", "a:1"))
      assert(addresses.add(store, "tasks", "[::1]:2"))
      assert(addresses.add(store, "tasks", "a:1"))
      assert.same({ "a:1", "[::1]:2" }, (addresses.read(store, "tasks")))
      assert.same({ synod_v = "1", synod_hints = "a:1,%5B::1%5D:2" }, blob_of(store):head().metadata)
      assert(addresses.remove(store, "tasks", is "a:1"))
      assert.same({ "[::1]:2" }, (addresses.read(store, "tasks")))
      assert(addresses.remove(store, "tasks", is "[::1]:2"))
      assert.same({ synod_v = "1" }, blob_of(store):head().metadata)
    end)
  end)

  it("are eight at most: one more takes the place of the oldest", function()
    fleet.run(function(store)
      for i = 1, 9 do assert(addresses.add(store, "tasks", "a:" .. i)) end
      local list = addresses.read(store, "tasks")
      assert.same({ 8, "a:2", "a:9" }, { #list, list[1], list[8] })
    end)
  end)

  it("survive others who change the list, and answers that are lost", function()
    local faults = {}
    for i, operation in ipairs { "PutBlob", "SetBlobMetadata" } do
      faults[i] = { operation = operation, ordinal = 0, kind = "lost-response" }
    end
    for seed = 1, 20 do
      fleet.run(function(store)
        local adders = {}
        for i = 1, 4 do adders[i] = function() assert(addresses.add(store, "tasks", "a:" .. i)) end end
        synod.all(adders)
        local list = addresses.read(store, "tasks")
        table.sort(list)
        assert.same({ "a:1", "a:2", "a:3", "a:4" }, list)
      end, { seed = seed, faults = faults })
    end
  end)

  it("lose nothing of what another wrote between the read and the write", function()
    fleet.run(function(store)
      assert(addresses.add(store, "tasks", "a:1"))
      local met
      assert(addresses.remove(store, "tasks", function(address)
        met = met or addresses.add(store, "tasks", "b:2")
        return address == "a:1"
      end))
      assert.same({ "b:2" }, (addresses.read(store, "tasks")))
    end)
  end)

  it("leave alone what else stands there, and what a newer version wrote", function()
    fleet.run(function(store)
      assert(store:container("locks"):create())
      assert(blob_of(store):put("", { metadata = { other = "kept", synod_hints = "nonsense,a:1,b c:2" } }))
      assert.same({ "a:1" }, (addresses.read(store, "tasks")))
      assert(addresses.add(store, "tasks", "d:4"))
      assert.same({ other = "kept", synod_v = "1", synod_hints = "a:1,d:4" }, blob_of(store):head().metadata)
      assert(blob_of(store):set_metadata { synod_v = "2", synod_hints = "a:1" })
      local done, err = addresses.add(store, "tasks", "e:5")
      assert.is_nil(done)
      assert.equal("NewerVersion", err.code)
      assert.same({ synod_v = "2", synod_hints = "a:1" }, blob_of(store):head().metadata)
    end)
  end)
end)

describe("one who waits at a queue", function()
  --- The reads of the list in so many seconds of looks that find nothing, or what `found` says of each.
  local function reads(seconds, found)
    return fleet.run(function(store)
      local quiet = untold.store(store)
      local hint <close> = bell.hint(quiet, "tasks")
      local ear <close> = bell.listen(quiet, "tasks", hint)
      for at = 0, seconds - 1, 3 do
        ear:looked(found and found(at) or false)
        synod.sleep(3)
      end
      return store:usage().GetBlobProperties
    end)
  end

  it("reads the list at once, and then less and less often while nobody stands in it", function()
    assert.equal(1, reads(3))
    assert.equal(1, reads(57))
    assert.equal(2, reads(63))
    local hour = reads(3600)
    assert.is_true(hour >= 12 and hour <= 15, hour .. " reads in an hour")
  end)

  it("reads it sooner when something came that may be of one who is not listed yet, but each 30 s at most", function()
    local hour = reads(3600, function(at) return at % 2 == 0 end)
    assert.is_true(hour > 100 and hour <= 120, hour .. " reads in an hour")
  end)

  it("reads it again when what came is of one who was still putting itself into it", function()
    fleet.run(function(store)
      local quiet = untold.store(store)
      local hint <close> = bell.hint(quiet, "tasks")
      local ear <close> = bell.listen(quiet, "tasks", hint)
      ear:looked(true)
      ear:looked(false)
      assert(addresses.add(store, "tasks", "nowhere.invalid:1"))
      synod.sleep(1.9)
      ear:looked(false)
      assert.same({}, ear.list)
      synod.sleep(0.1)
      ear:looked(false)
      assert.same({ "nowhere.invalid:1" }, ear.list)
    end)
  end)

  it("reads nothing of a store that tells of changes", function()
    fleet.run(function(store) assert.is_nil(bell.listen(store, "tasks", bell.hint(store, "tasks"))) end)
  end)

  it("takes out who has not stood for a minute", function()
    fleet.run(function(store)
      local quiet = untold.store(store)
      assert(addresses.add(store, "tasks", "nowhere.invalid:1"))
      local hint <close> = bell.hint(quiet, "tasks")
      local ear <close> = bell.listen(quiet, "tasks", hint)
      for _ = 0, 57, 3 do
        ear:looked(false)
        assert.is_false(hint:standing())
        synod.sleep(3)
      end
      assert.same({ "nowhere.invalid:1" }, (addresses.read(store, "tasks")))
      ear:looked(false)
      assert.same({}, (addresses.read(store, "tasks")))
    end)
  end)
end)

describe("a hint of several", function()
  local store = { name = function() return "far" end }
  local KEY = "far%2Fqueues%2Ftasks"

  --- Runs fn(addresses, says): `says[i]` is what the i-th of two pushers says on its board.
  local function with_two(fn)
    core.main(function()
      local where, says, listeners = {}, {}, {}
      for i = 1, 2 do
        local b = board.new()
        local own = b:join()
        listeners[i] = assert(net.listen("127.0.0.1:0", function(conn)
          local member = b:join()
          b:serve(member, conn)
          b:leave(member)
        end))
        where[i], says[i] = listeners[i].address, function(line) b:hear(own, line .. " " .. KEY) end
      end
      local hint = hints.on(store, "queues/tasks")
      fn(hint, where, says)
      hint:close()
      for _, listener in ipairs(listeners) do listener:close() end
    end)
  end

  local function wait_until(fn)
    assert(synod.timeout(5, function()
      while not fn() do synod.sleep(0.005) end
      return true
    end))
  end

  it("stands while each of them does, and is told by each", function()
    with_two(function(hint, where, says)
      says[1] "hold"
      hint:toward(where)
      wait_until(function() return hint:hears(where[1]) end)
      assert.is_false(hint:standing())
      says[2] "hold"
      wait_until(function() return hint:standing() end)
      assert.is_true(hint:wait(0), "what was done before is told by nobody: look once more")
      for i = 1, 2 do
        says[i] "tell"
        assert.is_true(hint:wait(5))
      end
      says[1] "drop"
      assert.is_true(hint:wait(5))
      assert.is_false(hint:standing())
      hint:toward { where[2] }
      assert.is_true(hint:standing())
    end)
  end)

  it("does not stand while one of them is out of reach, nor for none", function()
    with_two(function(hint, where, says)
      says[1] "hold"
      hint:toward { where[1], "127.0.0.1:1" }
      wait_until(function() return hint:hears(where[1]) end)
      assert.is_false(hint:wait(0.2) and hint:standing())
      assert.is_false(hint:standing())
      hint:toward {}
      assert.is_false(hint:standing())
    end)
  end)
end)


--- Pushes to two queues, and to one of them again, with the time, for each byte in a file.
local PUSHER = [[
local synod = require "synod"
local workqueue = require "synod.workqueue"
local name, wanted = ...
local slow, quick = workqueue.new { name = name .. "-slow" }, workqueue.new { name = name .. "-quick" }
assert(slow:push { at = synod.time() })
assert(quick:push { at = synod.time() })
local pushed = 0
while true do
  synod.sleep(1)
  local file <close> = assert(io.open(wanted))
  if file:seek "end" > pushed then
    pushed = pushed + 1
    assert(slow:push { at = synod.time() })
  end
end
]]

--- Handles messages of the slow queue and writes how long one took to come, and then how many requests it makes in so
--- many seconds in which nothing happens. The first ones may come before it has found who pushes.
local CONSUMER = [[
local synod = require "synod"
local workqueue = require "synod.workqueue"
local name, wanted, seconds = ...
local slow = workqueue.new { name = name .. "-slow", poll_min = 4, poll_max = 5 }
local quick = workqueue.new { name = name .. "-quick", poll_min = 0.3, poll_max = 0.3 }
local told, handled = synod.event(), 0
synod.spawn(function() quick:consume(function() end) end)
synod.spawn(function()
  slow:consume(function(msg)
    local late = synod.time() - msg.body.at
    handled = handled + 1
    if handled == 6 or handled > 1 and late < 1 then
      return told:set(late)
    end
    local file <close> = assert(io.open(wanted, "a"))
    file:write "."
  end)
end)
local late = told:wait(80)
local function requests()
  local n = 0
  for _, count in next, synod.store:usage() do n = n + count end
  return n
end
local fewest = math.huge
for _ = 1, 16 do -- whoever is still putting itself into the list when that is read is seen a minute later
  synod.sleep(1)
  local before = requests()
  synod.sleep(tonumber(seconds))
  fewest = math.min(fewest, requests() - before)
  if fewest <= 2 then break end
end
print("late", late, "requests", fewest)
slow:drain()
quick:drain()
]]

describe("over Azure, a queue between two processes", function()
  local SECONDS = tonumber(os.getenv "SYNOD_BELL_SECONDS") or 4
  local QUEUES, IDLE_S = 2, 30 -- a look each 30 s is 86,400 a month

  it("has a push reach a consumer that idles, which asks the store next to nothing", function()
    local folder <close> = sh.folder()
    folder:write("pusher.lua", PUSHER)
    folder:write("consumer.lua", CONSUMER)
    folder:write("wanted", "")
    local name = azurite.fresh("bell")
    local output, code = sh.run(([[
      $SYNOD run --hints 127.0.0.1:0 $DIR/pusher.lua %s $DIR/wanted & pusher=$!
      $SYNOD run --hints 127.0.0.1:0 $DIR/consumer.lua %s $DIR/wanted %d; code=$?
      kill $pusher; wait $pusher
      exit $code
    ]]):format(name, name, SECONDS),
      { dir = folder.path, timeout = 120 + 16 * SECONDS, env = { SYNOD_STORE = azurite.lenient() } })
    assert.equal(0, code, output)
    local late, requests = output:match "late%s+(%S+)%s+requests%s+(%d+)"
    assert.is_true(tonumber(late) < 1, output)
    assert.is_true(tonumber(requests) <= QUEUES * (SECONDS // IDLE_S + 1), output)
    core.main(function()
      local store <close> = assert(synod.open(azurite.lenient()))
      for _, queue in ipairs { name .. "-slow", name .. "-quick" } do
        local list, props = addresses.read(store, queue)
        assert.same({}, list)
        assert.equal("1", props.metadata.synod_v, "it stood there until the stop")
      end
    end)
  end)

  it("lists who pushes from its first push until it is closed", function()
    hints.configure "127.0.0.1:0"
    core.main(function()
      local store <close> = assert(synod.open(azurite.lenient()))
      local name = azurite.fresh("bell")
      local one, other = workqueue.new { name = name, store = store }, workqueue.new { name = name, store = store }
      local function list_is(list)
        assert(synod.timeout(10, function()
          while #addresses.read(store, name) ~= #list do synod.sleep(0.02) end
          return true
        end))
        assert.same(list, (addresses.read(store, name)))
      end
      list_is {}
      assert(one:push(1))
      assert(other:push(2))
      list_is { hints.address() }
      one:close()
      list_is { hints.address() }
      other:close()
      list_is {}
      assert(one:push(3))
      list_is { hints.address() }
      one:close()
      one:close()
      list_is {}
    end)
    hints.configure(nil)
  end)
end)
