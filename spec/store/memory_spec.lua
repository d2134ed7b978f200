-- The store in memory: what only it promises. What its calls answer is in blob_spec.lua.

local core = require "synod.core"

local function run(fn, seed)
  return core.main(function()
    local store <close> = assert(core.open_store("memory:"))
    local container = store:container "abc"
    assert(container:create())
    return fn(container, store)
  end, { clock = "virtual", seed = seed or 1 })
end

--- Numbers that look drawn by lot and are the same on every machine.
local function sequence(seed)
  local state = seed
  return function(n)
    state = (state * 1103515245 + 12345) % 2147483648
    return state // 65536 % n + 1
  end
end

describe("the store in memory", function()
  it("takes no time: the virtual clock stands still, and answers are the same each time", function()
    local function trace()
      return run(function(container)
        local lines = {}
        for i = 1, 50 do
          local props = assert(container:blob("b" .. i % 7):put("x" .. i))
          lines[#lines + 1] = props.etag .. " " .. props.last_modified .. " " .. core.now()
          if i == 25 then core.sleep(1.5) end
        end
        return lines
      end)
    end
    local lines = trace()
    assert.same(lines, trace())
    assert.matches(' 1704067200 0%.0$', lines[25])
    assert.matches(' 1704067201 1%.5$', lines[26])
  end)

  it("belongs to who opened it: another one is empty", function()
    run(function(container)
      assert(container:blob("b"):put "x")
      local other <close> = assert(core.open_store("memory:"))
      assert.equal("ContainerNotFound", select(2, other:container("abc"):blob("b"):get()).code)
    end)
  end)

  it("agrees with a plain table after a thousand random writes", function()
    for seed = 1, 5 do
      run(function(container)
        local draw, model = sequence(seed), {}
        for i = 1, 1000 do
          local name = ("n%d/%d"):format(draw(4), draw(40))
          local b, what = container:blob(name), draw(4)
          if what == 1 then
            assert.equal(model[name] ~= nil, (b:delete()) == true)
            model[name] = nil
          else
            assert(b:put(tostring(i)))
            model[name] = tostring(i)
          end
        end
        local names = {}
        for item in container:list { page = draw(30) } do
          names[#names + 1] = item.name
          assert.equal(model[item.name], (container:blob(item.name):get()))
          model[item.name] = nil
        end
        assert.is_nil(next(model))
        local sorted = table.move(names, 1, #names, 1, {})
        table.sort(sorted)
        assert.same(sorted, names)
      end, seed)
    end
  end)

  it("keeps many blobs in order, and forgets those of a container that goes", function()
    run(function(container, store)
      local other = store:container "abd"
      assert(other:create())
      for i = 3000, 1, -1 do assert(container:blob(("%05d"):format(i)):put "") end
      assert(other:blob("stays"):put "here")
      local n = 0
      for item in container:list { page = 700 } do
        n = n + 1
        assert.equal(("%05d"):format(n), item.name)
      end
      assert.equal(3000, n)
      assert(container:delete())
      assert(container:create())
      for item in container:list() do error(item.name) end
      assert.equal("here", (other:blob("stays"):get()))
    end)
  end)

  it("wakes a waiter at the instant of the change", function()
    run(function(container, store)
      core.spawn(function()
        core.sleep(2.25)
        container:blob("gate"):put "open"
      end)
      assert.is_true((store:changed { container = "abc", prefix = "gate", timeout = 10 }))
      assert.equal(2.25, core.now())
    end)
  end)

  it("wakes those whose place has changed, in the order in which they came, and leaves the others", function()
    run(function(container, store)
      local woken, tasks = {}, {}
      for i = 1, 3000 do
        tasks[i] = core.spawn(function()
          local place = i % 3 == 0 and "elsewhere/" or "here, all of them/"
          local changed = store:changed { container = "abc", prefix = place, timeout = 60 }
          woken[#woken + 1] = changed and i or -i
          if i == 7 then tasks[8]:cancel() end -- woken already: its result stays
          if i == 7 then tasks[9]:cancel() end -- it waits elsewhere
        end)
      end
      core.sleep(1)
      container:blob("here, all of them/1"):put ""
      core.sleep(1)
      assert.equal(2000, #woken)
      for n = 1, #woken - 1 do assert.is_true(woken[n] > 0 and woken[n] < woken[n + 1]) end
      container:blob("elsewhere/1"):put ""
      core.sleep(0)
      assert.equal(2999, #woken)
      assert.equal(2, core.now())
      assert.equal("Cancelled", select(2, tasks[9]:join()).code)
    end)
  end)

  it("appends to one blob as often as the service allows", function()
    run(function(container)
      local b = container:blob "log"
      assert(b:put("", { type = "append" }))
      for _ = 1, 50000 do assert(b:append "x") end
      local _, err = b:append "x"
      assert.same({ "BlockCountExceedsLimit", 409 }, { err.code, err.status })
      assert.equal(("x"):rep(50000), (b:get()))
    end)
  end)
end)
