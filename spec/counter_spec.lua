-- The counter on the virtual clock, with whatever can happen to an answer; and between real processes.

local core = require "synod.core"
local counter = require "synod.counter"
local fleet = require "spec.support.fleet"
local sh = require "spec.support.sh"
local synod = require "synod"

local FAULTS = { "lost-request", "lost-response", "error-after-apply", "throttle", "delay" }

local function orders(store) return counter.new { name = "orders", store = store } end

local function blob(store) return store:container("counters"):blob "orders" end

--- A store at which the n-th write of a blob is done and its answer lost, and `meanwhile` runs before anybody asks.
local function with_lost_answer(store, n, meanwhile)
  local puts = 0
  assert(store:container("counters"):create())
  local inner = blob(store)
  local fake = setmetatable({}, { __index = function(_, name)
    return function(_, ...)
      if name ~= "put" then return inner[name](inner, ...) end
      puts = puts + 1
      local props, err = inner:put(...)
      if puts ~= n then return props, err end
      meanwhile()
      return nil, core.new_error { code = "Timeout" }
    end
  end })
  local container = setmetatable({}, { __index = function(_, name)
    if name == "blob" then return function() return fake end end
    return function(_, ...) return store:container("counters")[name](store:container("counters"), ...) end
  end })
  return setmetatable({ container = function() return container end }, { __index = store })
end

describe("a counter", function()
  it("is 0 at first, and what was added to it", function()
    fleet.run(function(store)
      local c = orders(store)
      assert.equal(0, c:get())
      assert.equal(1, c:add())
      assert.equal(6, c:add(5))
      assert.equal(-4, c:add(-10))
      assert.equal(-4, c:add(0))
      assert.equal(-4, orders(store):get())
    end)
  end)

  it("is set where it is what it was thought to be, and says else what it is", function()
    fleet.run(function(store)
      local c = orders(store)
      assert.is_true(c:compare_and_set(0, 7))
      local done, actual = c:compare_and_set(0, 8)
      assert.is_false(done)
      assert.equal(7, actual)
      assert.is_true(c:compare_and_set(7, 7))
      assert.equal(7, c:get())
    end)
  end)

  it("keeps nothing of what was refused, however often that is", function()
    fleet.run(function(store)
      local c = orders(store)
      for _ = 1, 100 do assert.is_false(c:compare_and_set(1, 2)) end
      assert.is_nil(next(c.settled))
    end)
  end)

  it("takes a number that another client has put, and refuses what is none", function()
    fleet.run(function(store)
      assert(store:container("counters"):create())
      assert(blob(store):put " 41\n")
      assert.equal(42, orders(store):add())
      assert.equal("42", blob(store):get())
      assert(blob(store):put "many")
      local value, err = orders(store):add()
      assert.is_nil(value)
      assert.equal("BadAnswer", err.code)
      assert.matches("use the counter 'orders': its blob orders holds no whole number", tostring(err), 1, true)
      assert.equal("many", blob(store):get())
    end)
  end)

  it("leaves alone what a newer synod has written", function()
    fleet.run(function(store)
      assert(store:container("counters"):create())
      assert(blob(store):put("5", { metadata = { synod_v = "2" } }))
      for _, call in ipairs { "get", "add" } do
        local value, err = orders(store)[call](orders(store))
        assert.is_nil(value)
        assert.equal("NewerVersion", err.code)
      end
      assert.is_nil((orders(store):compare_and_set(5, 6)))
      assert.equal("5", blob(store):get())
    end)
  end)

  it("does not go round at the end of 64 bits", function()
    fleet.run(function(store)
      local c = orders(store)
      assert.is_true(c:compare_and_set(0, math.maxinteger))
      local value, err = c:add(1)
      assert.is_nil(value)
      assert.equal("InvalidInput", err.code)
      assert.equal(math.maxinteger - 1, c:add(-1))
      assert.is_true(c:compare_and_set(math.maxinteger - 1, math.mininteger))
      assert.is_nil((c:add(-1)))
    end)
  end)

  it("refuses what cannot be meant at the line that says it", function()
    local line = debug.getinfo(1, "l").currentline
    local _, err = pcall(function() counter.new {} end)
    local expected = "spec/counter_spec.lua:%d: counter.new: a name is needed, such as name = \"orders\""
    assert.equal(expected:format(line + 1), err.message)
    fleet.run(function(store)
      local _, why = pcall(function() orders(store):add(1.5) end)
      assert.matches("spec/counter_spec.lua:%d+: counter:add: a whole number expected, got 1.5$", tostring(why))
      _, why = pcall(function() orders(store):compare_and_set(nil, 1) end)
      assert.matches("counter:compare_and_set: a whole number expected, got nil", tostring(why), 1, true)
    end)
  end)
end)

describe("many who add at once", function()
  --- Each of `count` adds `times`, with answers that take their time, and gives all results.
  local function crowd(store, count, times)
    local seen, lives = {}, {}
    for i = 1, count do
      lives[i] = function()
        local c = orders(store)
        for _ = 1, times do
          local number = assert(c:add(1, { timeout = 600 }))
          seen[#seen + 1] = number
        end
      end
    end
    synod.all(lives)
    return seen
  end

  it("lose no addition, and each gets a number of its own", function()
    fleet.run(function(store)
      local seen = crowd(store, 10, 10)
      table.sort(seen)
      for i = 1, 100 do assert.equal(i, seen[i]) end
      assert.equal(100, orders(store):get())
    end, { faults = { { kind = "delay", ordinal = 0, seconds = 0.01 } } })
  end)

  it("neither lose nor double any, whatever happens to any one request, or to two", function()
    local total = 0
    fleet.run(function(store)
      crowd(store, 3, 3)
      for _, n in next, store:usage() do total = total + n end
    end)
    for i, kind in ipairs(FAULTS) do
      for at = 1, total do
        local also = FAULTS[(i + at) % #FAULTS + 1]
        fleet.run(function(store)
          local seen = crowd(store, 3, 3)
          table.sort(seen)
          assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, seen, ("%s at %d"):format(kind, at))
          assert.equal(9, orders(store):get())
        end, { faults = {
          { kind = kind, ordinal = at, seconds = 2.5 }, { kind = also, ordinal = at + 4, seconds = 1 },
        } })
      end
    end
  end)
end)

describe("an answer that was lost", function()
  it("is found in the record when others have written since", function()
    fleet.run(function(store)
      local c = orders(with_lost_answer(store, 2, function()
        for _ = 1, 20 do orders(store):add(100) end
      end))
      c:add(1)
      assert.equal(2, c:add(1))
      assert.equal(2002, orders(store):get())
    end)
  end)

  it("does not keep others' changes out of the record, however often one instance makes them", function()
    fleet.run(function(store)
      local busy = orders(store)
      local c = orders(with_lost_answer(store, 1, function()
        for _ = 1, 500 do busy:add(1) end
      end))
      assert.equal(1, c:add(1))
      assert.equal(501, orders(store):get())
    end)
  end)

  it("is told as such when so many others have written that nobody can tell", function()
    fleet.run(function(store)
      local c = orders(with_lost_answer(store, 1, function()
        for _ = 1, 65 do orders(store):add(1) end
      end))
      local value, err = c:add(1)
      assert.is_nil(value)
      assert.equal("AnswerLost", err.code)
      assert.equal(66, orders(store):get())
    end)
  end)

  it("is told as such when another client has overwritten the record", function()
    fleet.run(function(store)
      local c = orders(with_lost_answer(store, 3, function() assert(blob(store):put "70") end))
      c:add(1)
      c:add(1)
      assert.equal("AnswerLost", select(2, c:add(1)).code)
      assert.equal(71, c:add(1))
    end)
  end)

  it("of a compare-and-set that was done is no refusal, though the value has moved on", function()
    fleet.run(function(store)
      local c = orders(with_lost_answer(store, 1, function() orders(store):add(1) end))
      assert.is_true(c:compare_and_set(0, 10))
      assert.equal(11, c:get())
    end)
  end)

  it("may be of a request that arrives late: it is not made twice", function()
    fleet.run(function(store)
      orders(store):add(1)
      local inner, tries, late = blob(store), 0, nil
      local fake = setmetatable({}, { __index = function(_, name)
        return function(_, ...)
          if name ~= "put" then return inner[name](inner, ...) end
          tries = tries + 1
          if tries == 1 then
            late = table.pack(...)
            return nil, core.new_error { code = "Timeout" }
          end
          if tries == 2 then inner:put(table.unpack(late)) end -- just before the second attempt
          return inner:put(...)
        end
      end })
      local c = orders(store)
      c.blob = fake
      assert.equal(2, c:add(1))
      assert.equal(2, orders(store):get())
    end)
  end)

  it("is asked for only as long as there is time", function()
    fleet.run(function(store)
      orders(store):add(1)
      local value, err = orders(store):add(1, { timeout = 5 })
      assert.is_nil(value)
      assert.equal("Timeout", err.code)
      assert.is_true(synod.now() >= 5 and synod.now() < 6, synod.now())
    end, { faults = {
      { kind = "delay", operation = "GetBlob", ordinal = 1 },
      { kind = "lost-request", operation = "GetBlob", ordinal = 0 },
    } })
  end)
end)

describe("a counter of processes", function()
  it("has each addition once, though one of them is killed", function()
    local folder <close> = sh.folder()
    folder:write("count.lua", [[
      local synod = require "synod"
      local c = require("synod.counter").new { name = "orders" }
      local mine = 0
      for i = 1, 100 do
        assert(c:add(1))
        mine = i
        if synod.instance.ordinal == 0 and i == 40 then
          print(mine)
          io.stdout:flush()
          os.execute("kill -9 $PPID")
        end
      end
      print(mine)
    ]])
    local env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" }
    local output = sh.run("$SYNOD run -n 4 $DIR/count.lua; $SYNOD store get counters/orders", {
      dir = folder.path, env = env,
    })
    assert.matches("\n340$", output)
  end)
end)
