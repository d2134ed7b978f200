-- Scattered jobs on the virtual clock: each piece is answered, or reported missing.

local core = require "synod.core"
local fleet = require "spec.support.fleet"
local log = require "synod.log"
local scatter = require "synod.scatter"
local sh = require "spec.support.sh"
local synod = require "synod"
local untold = require "spec.support.untold"

setup(function() log.configure { level = "error" } end) -- what is moved away is told of
teardown(function() log.configure { level = "info" } end)

local function job(store, more)
  local o = {
    name = "squares", store = store, instance = { id = "worker_IN_0" }, reissue = 20, visibility = 10,
    retry = { min = 1, factor = 1, jitter = false },
  }
  for name, value in pairs(more or {}) do o[name] = value end
  return scatter.new(o)
end

--- Starts workers that square numbers, or do what fn does; gives what ends them.
local function workers(store, count, fn, more)
  local list, tasks = {}, {}
  for i = 1, count do
    list[i] = job(store, more)
    tasks[i] = synod.spawn(function() return list[i]:work(fn or function(n) return n * n end) end)
  end
  return function()
    for i, worker in ipairs(list) do
      worker:drain { timeout = 0 }
      assert(tasks[i]:join())
    end
  end, tasks
end

local function numbers(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

local function refusal(fn)
  local ok, err = pcall(fn)
  assert.is_false(ok)
  assert.equal("Usage", err.code)
  return err.message
end

describe("a scattered job", function()
  it("gives the results in the order of the pieces, however many work", function()
    for _, wrap in ipairs { function(s) return s end, untold.store } do
      fleet.run(function(store)
        store = wrap(store)
        local stop = workers(store, 3, function(n)
          synod.sleep(10 - n)
          return n * n
        end)
        local results = assert(job(store):map({ 1, 2, 3, 4, 5 }, { timeout = 100 }))
        assert.same({ 1, 4, 9, 16, 25, n = 5 }, results)
        stop()
      end)
    end
  end)

  it("takes any payload and gives any result, nil too", function()
    fleet.run(function(store)
      local stop = workers(store, 1, function(piece) if piece then return { piece } end end)
      local results = assert(job(store):map({ "a", { b = 1 }, false }, { timeout = 100 }))
      assert.same({ { "a" }, { { b = 1 } }, nil, n = 3 }, results)
      stop()
    end)
  end)

  it("is over when its results are there already, and looks no second time", function()
    local folder <close> = sh.folder()
    local url, faults = "embedded:" .. folder.path .. "/store.db?relaxed", {}
    for i = 2, 40 do faults[#faults + 1] = { kind = "lost-request", operation = "ListBlobs", ordinal = i } end
    fleet.run(function(store)
      local stop = workers(store, 2)
      assert(job(store):map({ 1, 2 }, { job = "j", timeout = 100 }))
      stop()
      local deaf <close> = assert(core.open_store(url, { faults = faults }))
      assert.same({ 1, 4, n = 2 }, job(deaf):map({ 1, 2 }, { job = "j", timeout = 5 }))
    end, { url = url })
  end)

  it("is over at once when there is nothing to do", function()
    fleet.run(function(store) assert.same({ n = 0 }, job(store):map({}, { timeout = 1 })) end)
  end)

  it("tells how far it has come", function()
    fleet.run(function(store)
      local stop, told = workers(store, 1, function() synod.sleep(1) return true end), {}
      assert(job(store):map(numbers(4), { timeout = 100, progress = function(done, count)
        told[#told + 1] = ("%d/%d"):format(done, count)
      end }))
      assert.same({ "1/4", "2/4", "3/4", "4/4" }, told)
      stop()
    end)
  end)

  it("reports what is missing when the time is over, and gives the rest", function()
    fleet.run(function(store)
      local stop = workers(store, 2, function(n)
        if n % 2 == 0 then synod.sleep(1000) end
        return n
      end)
      local results, err = job(store):map({ 1, 3, 2, 4 }, { timeout = 30 })
      assert.is_nil(results)
      assert.equal("Timeout", err.code)
      assert.equal(30, synod.now())
      assert.same({ 3, 4 }, err.missing)
      assert.same({ 1, 3, n = 4 }, err.results)
      assert.matches("2 of 4 pieces are done; no result of piece 3, 4", err.message, 1, true)
      stop()
    end)
  end)

  it("reports pieces that fail again and again, with their errors", function()
    fleet.run(function(store)
      local tries = 0
      local stop = workers(store, 1, function(n)
        if n == 2 then
          tries = tries + 1
          error("broken " .. tries, 0)
        end
        return n
      end)
      local results, err = job(store):map({ 1, 2, 3 }, { timeout = 100 })
      assert.is_nil(results)
      assert.equal("PieceFailed", err.code)
      assert.equal(3, tries)
      assert.same({ [2] = "broken 3" }, err.failed)
      assert.same({ 1, nil, 3, n = 3 }, err.results)
      assert.matches("2 of 3 pieces are done; piece 2 failed, the first with: broken 3", err.message, 1, true)
      stop()
    end)
  end)

  it("keeps jobs of the same name apart", function()
    fleet.run(function(store)
      local stop = workers(store, 2)
      local a = synod.spawn(function() return job(store):map({ 1, 2 }, { timeout = 100 }) end)
      local b = synod.spawn(function() return job(store):map({ 3, 4 }, { timeout = 100 }) end)
      assert.same({ 1, 4, n = 2 }, a:join())
      assert.same({ 9, 16, n = 2 }, b:join())
      stop()
    end)
  end)
end)

describe("a piece", function()
  it("is worked on by another when its worker dies", function()
    fleet.run(function(store)
      local _, tasks = workers(store, 1, function() synod.sleep(5) end)
      synod.spawn(function()
        synod.sleep(2)
        tasks[1]:cancel() -- gives it back
      end)
      local stop
      synod.spawn(function()
        synod.sleep(3)
        stop = workers(store, 1)
      end)
      assert.same({ 49, n = 1 }, job(store):map({ 7 }, { timeout = 100 }))
      assert.is_true(synod.now() < 10)
      stop()
    end)
  end)

  it("is handed out again when nothing comes for long: a straggler holds nobody up", function()
    fleet.run(function(store)
      local slow = true
      local stop, _ = workers(store, 2, function(n)
        if n == 3 and slow then
          slow = false
          synod.sleep(1000)
        end
        return n
      end)
      local master = job(store)
      assert.same({ 1, 2, 3, 4, n = 4 }, master:map({ 1, 2, 3, 4 }, { timeout = 500 }))
      assert.is_true(synod.now() >= 20 and synod.now() < 40, tostring(synod.now()))
      stop()
    end)
  end)

  it("is answered once: what comes late changes nothing", function()
    fleet.run(function(store)
      local calls = 0
      local stop = workers(store, 2, function()
        calls = calls + 1
        local mine = calls
        synod.sleep(mine == 1 and 60 or 1)
        return mine
      end)
      local results = assert(job(store):map({ "x" }, { timeout = 500, job = "j" }))
      assert.same({ 2, n = 1 }, results)
      synod.sleep(200)
      assert.equal(2, calls)
      assert.same({ 2, n = 1 }, job(store):map({ "x" }, { timeout = 500, job = "j" }), "the late one is not taken")
      stop()
    end)
  end)

  it("is not worked on again when its result is there", function()
    fleet.run(function(store)
      local calls = 0
      local function count() calls = calls + 1 return calls end
      assert(store:container("scatter"):create())
      local stop = workers(store, 1, count)
      assert(job(store):map({ "x" }, { job = "j", timeout = 10 }))
      stop()
      assert(job(store).queue:push { job = "j", piece = "000001", payload = "x", again = true })
      stop = workers(store, 1, count)
      synod.sleep(10)
      assert.equal(1, calls)
      stop()
    end)
  end)

  it("that kills its workers is reported as failed", function()
    fleet.run(function(store)
      local master = synod.spawn(function() return job(store):map({ "deadly" }, { timeout = 100 }) end)
      synod.sleep(0.1)
      for _ = 1, 3 do -- got, and then nothing more
        assert.equal(1, #store:queue("squares-pieces"):get { visibility = 1 })
        synod.sleep(1.5)
      end
      local stop = workers(store, 1)
      local _, err = master:join()
      assert.equal("PieceFailed", err.code)
      assert.matches("no consumer lived to say", err.failed[1], 1, true)
      stop()
    end)
  end)

  it("that is none goes to the poison queue", function()
    fleet.run(function(store)
      assert(store:queue("squares-pieces"):create())
      assert(store:queue("squares-pieces"):put("hello"))
      local stop = workers(store, 1)
      synod.sleep(5)
      assert.equal(1, store:queue("squares-pieces-poison"):count())
      stop()
    end)
  end)
end)

describe("a master", function()
  it("that is started again goes on where it was, when it gives the job's name", function()
    fleet.run(function(store)
      local calls = {}
      local stop = workers(store, 1, function(n)
        calls[n] = (calls[n] or 0) + 1
        synod.sleep(1)
        return n
      end)
      local first = synod.spawn(function() return job(store):map(numbers(10), { job = "j" }) end)
      synod.sleep(4.5)
      first:cancel()
      first:join()
      local told
      local results = assert(job(store):map(numbers(10), { job = "j", timeout = 100, progress = function(done)
        told = told or done
      end }))
      assert.equal(10, results[10])
      assert.equal(4, told, "what is there is not waited for")
      for n = 1, 10 do assert.equal(1, calls[n], "piece " .. n) end
      stop()
    end)
  end)

  it("of a deployment has names for its jobs that a restart gives again", function()
    fleet.run(function(store)
      local who = { id = "m_IN_0", deployment = "d1" }
      local stop = workers(store, 1)
      local first = job(store, { instance = who })
      assert(first:map({ 1 }, { timeout = 10 }))
      assert(first:map({ 2 }, { timeout = 10 }))
      stop() -- nobody works any more
      local second = job(store, { instance = who })
      assert.same({ 1, n = 1 }, second:map({ 1 }, { timeout = 1 }))
      assert.same({ 4, n = 1 }, second:map({ 2 }, { timeout = 1 }))
    end)
  end)

  it("can have a job's results taken away, and does it anew", function()
    fleet.run(function(store)
      local calls, master = 0, job(store)
      local stop = workers(store, 1, function() calls = calls + 1 return calls end)
      assert.same({ 1, n = 1 }, master:map({ 1 }, { job = "j", timeout = 10 }))
      assert.is_true(master:forget("j"))
      assert.same({ 2, n = 1 }, master:map({ 1 }, { job = "j", timeout = 10 }))
      stop()
    end)
  end)

  it("leaves what newer versions have written alone, and says so", function()
    fleet.run(function(store)
      local container = store:container "scatter"
      assert(container:create())
      assert(container:blob("squares/j/000001"):put('{"v":2,"result":1}'))
      local _, err = job(store):map({ 1 }, { job = "j", timeout = 10 })
      assert.equal("NewerVersion", err.code)
    end)
  end)
end)

describe("the results of old jobs", function()
  it("go after seven days, when a newer job of the name begins", function()
    fleet.run(function(store)
      local function run(name)
        local stop = workers(store, 1)
        assert(job(store):map({ 1, 2 }, { job = name, timeout = 10 }))
        synod.sleep(1)
        stop()
      end
      run "old"
      synod.sleep(6 * 24 * 3600)
      run "week"
      synod.sleep(2 * 24 * 3600)
      run "new"
      local names = {}
      for item in store:container("scatter"):list {} do names[#names + 1] = item.name end
      assert.same({
        "squares/new/000001", "squares/new/000002", "squares/week/000001", "squares/week/000002",
      }, names)
    end)
  end)
end)

describe("a result", function()
  it("may be false, or nothing", function()
    fleet.run(function(store)
      local stop = workers(store, 1, function(n) return ({ false, nil, 3 })[n] end)
      local results = assert(job(store):map({ 1, 2, 3 }, { timeout = 100 }))
      assert.same({ false, nil, 3, n = 3 }, results)
      stop()
    end)
  end)
end)

describe("scatter.new", function()
  it("refuses what cannot be meant, at the line that makes it", function()
    fleet.run(function(store)
      assert.matches("a name is needed", refusal(function() scatter.new { store = store } end), 1, true)
      assert.matches("^spec/scatter_spec.lua:%d+: scatter.new: the queue name 'A%-pieces'",
        refusal(function() job(store, { name = "A" }) end))
      assert.matches("scatter:map: piece 2: a function has no JSON text",
        refusal(function() job(store):map { 1, print } end), 1, true)
      assert.matches("a list of pieces expected, got string", refusal(function() job(store):map "x" end), 1, true)
    end)
  end)
end)
