-- Deadlines, back-off and lost answers, on the virtual clock: instants are compared with ==.

local core = require "synod.core"
local sh = require "spec.support.sh"

local TRY, TIMEOUT = 3, 10 -- seconds, the defaults

--- Runs fn(store, blob) in a store over which these faults hang.
local function with_faults(faults, fn, seed)
  return core.main(function()
    local store <close> = assert(core.open_store("memory:", { faults = faults }))
    local container = store:container "flags"
    container:create()
    return fn(store, container:blob "a", container)
  end, { clock = "virtual", seed = seed or 1 })
end

--- The seconds that fn takes, and its results.
local function timed(fn)
  local from = core.now()
  local results = table.pack(fn())
  return core.now() - from, table.unpack(results, 1, results.n)
end

local function between(low, high, value)
  assert.is_true(value >= low and value < high, ("%s is not in [%s, %s)"):format(value, low, high))
end

local function throttled(count, seconds, operation)
  local faults = {}
  for i = 1, count do
    faults[i] = { operation = operation or "PutBlob", ordinal = i, kind = "throttle", seconds = seconds }
  end
  return faults
end

describe("a deadline", function()
  it("ends a call whose every request is lost, at its very instant", function()
    with_faults({ { operation = "PutBlob", ordinal = 0, kind = "lost-request" } }, function(_, blob)
      for _, timeout in ipairs { 0.5, 2, 3 } do
        local took, ok, err = timed(function() return blob:put("", { timeout = timeout }) end)
        assert.equal(timeout, took)
        assert.is_nil(ok)
        assert.equal("Timeout", err.code)
        assert.is_true(err.retryable)
      end
    end)
  end)

  it("is never passed by attempts and rests together", function()
    for seed = 1, 20 do
      with_faults({ { operation = "PutBlob", ordinal = 0, kind = "lost-request" } }, function(store, blob)
        local took, _, err = timed(function() return blob:put("") end)
        assert.equal("Timeout", err.code)
        between(3 * TRY, TIMEOUT + 1e-9, took)
        assert.is_true(store:usage().PutBlob >= 3)
      end, seed)
    end
  end)

  it("of nothing sends nothing", function()
    with_faults({}, function(store, blob)
      local took, ok, err = timed(function() return blob:put("", { timeout = 0 }) end)
      assert.same({ 0, nil, "Timeout" }, { took, ok, err.code })
      assert.is_nil(store:usage().PutBlob)
    end)
  end)

  it("bounds one attempt too", function()
    with_faults({ { operation = "GetBlob", kind = "lost-request" } }, function(_, blob)
      blob:put("x")
      local took, body = timed(function() return blob:get { try_timeout = 0.25 } end)
      assert.equal("x", body)
      between(0.25 + 0.1, 0.25 + 0.3, took)
    end)
  end)

  it("shows in a Timeout what the store said last", function()
    local faults = throttled(1)
    faults[2] = { operation = "PutBlob", ordinal = 0, kind = "lost-request" }
    with_faults(faults, function(_, blob)
      local _, err = blob:put("", { timeout = 2 })
      assert.equal("Timeout", err.code)
      assert.matches("last answer: ServerBusy", err.message, 1, true)
      assert.matches("it may or may not have happened", err.message, 1, true)
      assert.equal("write the blob flags/a: " .. err.message .. " (Timeout)", tostring(err))
    end)
  end)

  it("says nothing of a doubt where nothing was to be changed", function()
    with_faults({ { operation = "GetBlob", ordinal = 0, kind = "lost-request" } }, function(_, blob)
      local _, err = blob:get { timeout = 1 }
      assert.equal("no answer within 1 s", err.message)
    end)
  end)
end)

describe("a slow answer", function()
  it("is waited for inside the attempt's time", function()
    with_faults({ { operation = "PutBlob", kind = "delay", seconds = 2.5 } }, function(store, blob)
      local took, props = timed(function() return blob:put("x") end)
      assert.equal(2.5, took)
      assert.is_string(props.etag)
      assert.equal(1, store:usage().PutBlob)
    end)
  end)

  it("is given up at the end of the attempt's time and not a moment later", function()
    with_faults({ { operation = "PutBlob", kind = "delay", seconds = 3 } }, function(_, blob)
      local took, ok, err = timed(function() return blob:put("x", { retries = 0 }) end)
      assert.same({ 3, nil, "Timeout" }, { took, ok, err.code })
    end)
  end)
end)

describe("back-off", function()
  it("rests for 0.1 to 0.3 s first, never less than 0.1 s nor more than three times the last rest", function()
    for seed = 1, 30 do
      with_faults(throttled(1), function(_, blob)
        between(0.1, 0.3, (timed(function() return assert(blob:put "x") end)))
      end, seed)
      with_faults(throttled(3), function(store, blob)
        between(0.3, 0.3 + 0.9 + 2, (timed(function() return assert(blob:put "x") end)))
        assert.equal(4, store:usage().PutBlob)
      end, seed)
    end
  end)

  it("differs from store to store and repeats with the seed", function()
    local function rest(seed)
      return with_faults(throttled(1), function(_, blob)
        return (timed(function() return blob:put "x" end))
      end, seed)
    end
    assert.equal(rest(7), rest(7))
    assert.not_equal(rest(7), rest(8))
  end)

  it("waits as long as the store asks for", function()
    with_faults(throttled(1, 4), function(_, blob)
      assert.equal(4, (timed(function() return assert(blob:put "x") end)))
    end)
  end)

  it("does not begin a rest that would reach the deadline", function()
    with_faults(throttled(1, 10), function(store, blob)
      local took, ok, err = timed(function() return blob:put "x" end)
      assert.same({ 0, nil, "ServerBusy", 503 }, { took, ok, err.code, err.status })
      assert.equal(1, store:usage().PutBlob)
    end)
  end)

  it("gives the store's own answer when the attempts are used up", function()
    with_faults(throttled(9), function(store, blob)
      local _, err = blob:put("x", { retries = 2 })
      assert.equal("ServerBusy", err.code)
      assert.matches("3 attempts", err.message)
      assert.equal(3, store:usage().PutBlob)
    end)
  end)

  it("is not for what the store has refused", function()
    with_faults({}, function(store, blob)
      local took, _, err = timed(function() return blob:get() end)
      assert.same({ 0, "BlobNotFound", 404, false }, { took, err.code, err.status, err.retryable })
      assert.equal(1, store:usage().GetBlob)
    end)
  end)
end)

--- Each way in which an answer is lost although the request was carried out.
local AFTER_APPLY = {
  { kind = "lost-response" },
  { kind = "delay", seconds = 60 },
  { kind = "error-after-apply" },
  { kind = "error-after-apply", code = "OperationTimedOut" },
  { kind = "error-after-apply", code = "ServerBusy" },
  { kind = "error-after-apply", code = "Unreachable" },
  { kind = "error-after-apply", code = "BadAnswer" },
}

--- For each of them: fn(store, blob, container) in a store where the first `operation` is struck.
local function each_loss(operation, fn)
  for _, fault in ipairs(AFTER_APPLY) do
    with_faults({ { operation = operation, kind = fault.kind, code = fault.code, seconds = fault.seconds } }, fn)
  end
end

describe("a lost answer", function()
  it("to a create is settled by its nonce: no false 'already exists'", function()
    each_loss("PutBlob", function(store, blob)
      local props = assert(blob:put("mine", { if_none_match = "*", metadata = { a = "1" } }))
      assert.same({ PutBlob = 2, GetBlobProperties = 1, CreateContainer = 1 }, store:usage())
      local body, now = blob:get()
      assert.equal("mine", body)
      assert.equal(now.etag, props.etag)
      assert.same({ a = "1" }, now.metadata)
    end)
  end)

  it("to a create that somebody else has won stays a refusal", function()
    with_faults({ { operation = "PutBlob", ordinal = 2, kind = "lost-request" } }, function(_, blob)
      assert(blob:put("theirs", { if_none_match = "*" }))
      local props, err = blob:put("mine", { if_none_match = "*" })
      assert.is_nil(props)
      assert.equal("BlobAlreadyExists", err.code)
      assert.equal("theirs", (blob:get()))
    end)
  end)

  it("to a compare-and-set is settled the same way", function()
    for _, call in ipairs { "put", "set_metadata" } do
      local operation = call == "put" and "PutBlob" or "SetBlobMetadata"
      for _, fault in ipairs(AFTER_APPLY) do
        local strike = { operation = operation, kind = fault.kind, code = fault.code, seconds = fault.seconds }
        strike.ordinal = call == "put" and 2 or 1
        with_faults({ strike }, function(_, blob)
          local first = assert(blob:put "1")
          local write = call == "put" and function(when) return blob:put("2", when) end
            or function(when) return blob:set_metadata({ n = "2" }, when) end
          local second = assert(write { if_match = first.etag })
          assert.not_equal(first.etag, second.etag)
          local _, err = write { if_match = first.etag }
          assert.same({ "ConditionNotMet", 412 }, { err.code, err.status })
        end)
      end
    end
  end)

  it("to a delete: gone is done", function()
    each_loss("DeleteBlob", function(_, blob)
      blob:put "x"
      assert.is_true(blob:delete())
      local ok, err = blob:delete()
      assert.is_nil(ok)
      assert.equal("BlobNotFound", err.code)
    end)
    each_loss("DeleteContainer", function(_, _, container)
      assert.is_true(container:delete())
    end)
  end)

  it("to a delete of a version: its repetition meets no version, and so it is done", function()
    each_loss("DeleteBlob", function(store, blob)
      local first = blob:put "x"
      assert.is_true(blob:delete { if_match = first.etag })
      assert.equal(1, store:usage().GetBlobProperties)
      local _, err = blob:delete { if_match = first.etag }
      assert.equal("ConditionNotMet", err.code)
    end)
  end)

  it("to a delete of a version that somebody else has replaced stays a refusal", function()
    with_faults({ { operation = "DeleteBlob", kind = "lost-request" } }, function(_, blob)
      local first = blob:put "x"
      local second = assert(blob:put "y")
      local _, err = blob:delete { if_match = first.etag }
      assert.equal("ConditionNotMet", err.code)
      assert.equal(second.etag, blob:head().etag)
    end)
  end)

  it("to the making of a container", function()
    with_faults({ { operation = "CreateContainer", ordinal = 2, kind = "lost-response" } }, function(store)
      local c = store:container "another"
      assert.is_true(c:create { metadata = { a = "1" } })
      assert.same({ a = "1" }, c:head().metadata)
    end)
  end)

  it("to an unconditional write: it is written again", function()
    each_loss("PutBlob", function(store, blob)
      assert(blob:put "x")
      assert.equal(2, store:usage().PutBlob)
      assert.is_nil(store:usage().GetBlobProperties)
    end)
  end)

  it("to a write whose repetition is refused: the refusal says that it may have happened", function()
    with_faults({ { operation = "PutBlob", ordinal = 2, kind = "lost-response" } }, function(_, blob)
      blob:put "x"
      local leasing = core.spawn(function()
        core.sleep(0.05)
        return blob:lease { duration = 15 }
      end)
      local _, err = blob:put "y"
      assert.equal("LeaseIdMissing", err.code)
      assert.matches("; an attempt before was not answered: it may or may not have happened", err.message, 1, true)
      assert.equal("y", (blob:get()))
      assert(leasing:join()):release()
    end)
  end)

  it("to an append at a position: what is there is compared", function()
    each_loss("AppendBlock", function(_, blob)
      blob:put("", { type = "append" })
      local props = assert(blob:append("one", { position = 0 }))
      assert.equal(0, props.append_offset)
      assert.equal("one", (blob:get()))
    end)
    with_faults({ { operation = "AppendBlock", ordinal = 2, kind = "lost-request" } }, function(_, blob)
      blob:put("", { type = "append" })
      blob:append "two"
      local _, err = blob:append("one", { position = 0 })
      assert.equal("AppendPositionConditionNotMet", err.code)
      assert.equal("two", (blob:get()))
    end)
  end)

  it("to an append at a position under a condition, which its own doing has made false", function()
    each_loss("AppendBlock", function(_, blob)
      local empty = blob:put("", { type = "append" })
      local props = assert(blob:append("one", { position = 0, if_match = empty.etag }))
      assert.equal(0, props.append_offset)
      assert.equal("one", (blob:get()))
      local _, err = blob:append("two", { position = 3, if_match = empty.etag })
      assert.equal("ConditionNotMet", err.code)
    end)
  end)

  it("to an append anywhere is told and never repeated", function()
    each_loss("AppendBlock", function(store, blob)
      blob:put("", { type = "append" })
      local props, err = blob:append "one"
      assert.is_nil(props)
      assert.equal("AnswerLost", err.code)
      assert.matches("may or may not have happened", tostring(err), 1, true)
      assert.equal(1, store:usage().AppendBlock)
      assert.equal("one", (blob:get()))
    end)
  end)

  it("while looking whose doing it is: the look is repeated, inside the same deadline", function()
    local faults = {
      { operation = "PutBlob", kind = "lost-response" },
      { operation = "GetBlobProperties", kind = "throttle" },
    }
    with_faults(faults, function(store, blob)
      assert(blob:put("", { if_none_match = "*" }))
      assert.equal(2, store:usage().GetBlobProperties)
    end)
    faults[2] = { operation = "GetBlobProperties", ordinal = 0, kind = "lost-request" }
    with_faults(faults, function(_, blob)
      local took, _, err = timed(function() return blob:put("", { if_none_match = "*", timeout = 5 }) end)
      assert.equal("Timeout", err.code)
      between(3, 5 + 1e-9, took)
      assert.matches("it may or may not have happened", err.message, 1, true)
    end)
  end)
end)

describe("the nonce", function()
  it("is seen by nobody: not on reads, not in lists", function()
    with_faults({}, function(_, blob, container)
      blob:put("", { if_none_match = "*", metadata = { a = "1" } })
      assert.same({ a = "1" }, blob:head().metadata)
      for item in container:list { metadata = true } do assert.same({ a = "1" }, item.metadata) end
    end)
  end)

  it("that was copied from elsewhere settles nothing", function()
    with_faults({}, function(_, blob)
      assert(blob:put("", { metadata = { synod_nonce = ("0"):rep(32), b = "2" } }))
      assert.same({ b = "2" }, blob:head().metadata)
    end)
  end)
end)

describe("a task that is cancelled in a call", function()
  it("leaves the call behind at once, resting or under way", function()
    for _, kind in ipairs { "throttle", "lost-request", "delay" } do
      with_faults({ { operation = "PutBlob", ordinal = 0, kind = kind, seconds = 1 } }, function(_, blob)
        local t = core.spawn(function() return blob:put "x" end)
        core.sleep(0.05)
        local took, ok, err = timed(function()
          t:cancel()
          return t:join()
        end)
        assert.same({ 0, nil, "Cancelled" }, { took, ok, err.code })
      end)
    end
  end)
end)

describe("a cancel at any instant of a call with a lost answer", function()
  --- Cancels fn's task after `at` seconds; then the store must work, and nothing may be waited for.
  local function cancelled_at(at, faults, fn)
    with_faults(faults, function(_, blob, container)
      blob:put("", { type = "append" })
      local t = core.spawn(fn, container)
      core.sleep(at)
      local ended = t:ended()
      t:cancel()
      local took, ok, err = timed(function() return t:join() end)
      assert.equal(0, took)
      if not ended then assert.same({ nil, "Cancelled" }, { ok, err.code }) end
      local took_after = timed(function() assert(container:blob("after"):put "x") end)
      assert.equal(0, took_after)
      assert.equal("x", (container:blob("after"):get()))
    end)
  end

  it("leaves a store that works", function()
    for tenths = 0, 45 do
      cancelled_at(tenths / 10, {
        { operation = "PutBlob", ordinal = 2, kind = "lost-response" },
        { operation = "GetBlobProperties", kind = "delay", seconds = 1 },
      }, function(container) return container:blob("b"):put("1", { if_none_match = "*" }) end)
      cancelled_at(tenths / 10, {
        { operation = "AppendBlock", kind = "error-after-apply" },
        { operation = "GetBlob", kind = "lost-request" },
      }, function(container) return container:blob("a"):append("1", { position = 0 }) end)
    end
  end)
end)

describe("a request that arrives late", function()
  it("is a write: a list that nobody waits for any more is asked of nobody", function() -- told by make asan
    with_faults({ { operation = "ListBlobs", kind = "late-apply", seconds = 20 } }, function(_, _, container)
      local n = 0
      for _ in container:list { prefix = ("x"):rep(1000) } do n = n + 1 end
      assert.equal(0, n)
      collectgarbage()
      core.sleep(60)
    end)
  end)
end)

describe("a store that is closed", function()
  it("ends the calls under way", function()
    for _, kind in ipairs { "throttle", "lost-request" } do
      with_faults({ { operation = "PutBlob", ordinal = 0, kind = kind, seconds = 1 } }, function(store, blob)
        local t = core.spawn(function() return blob:put "x" end)
        core.sleep(0.05)
        store:close()
        local ok, err = t:join()
        assert.same({ nil, "Cancelled" }, { ok, err.code })
        assert.equal("the store was closed; it may or may not have happened", err.message)
        assert.has_error(function() blob:get() end, "the store of 'a' is closed")
      end)
    end
  end)
end)

describe("one fault anywhere", function()
  local OPERATIONS = {
    "CreateContainer", "PutBlob", "GetBlob", "GetBlobProperties", "SetBlobMetadata", "AppendBlock", "DeleteBlob",
    "ListBlobs",
  }

  --- A create, a compare-and-set, appends, a list and a delete, each of which must have happened exactly once.
  local function scenario(store, run)
    local c = store:container("sweep-" .. run)
    assert.is_true(c:create())
    local flag, log = c:blob "flag", c:blob "log"
    assert(flag:put("0", { if_none_match = "*" }))
    for i = 1, 3 do
      local body, props = flag:get()
      assert.equal(tostring(i - 1), body)
      assert(flag:put(tostring(i), { if_match = props.etag }))
    end
    assert(flag:set_metadata({ done = "yes" }, { if_match = flag:head().etag }))
    assert(log:put("", { type = "append", if_none_match = "*" }))
    for i = 1, 3 do assert(log:append(tostring(i), { position = i - 1 })) end
    assert.equal("123", (log:get()))
    assert.same({ done = "yes" }, flag:head().metadata)
    local names = {}
    for item in c:list { page = 1 } do names[#names + 1] = item.name end
    assert.same({ "flag", "log" }, names)
    assert.is_true(flag:delete())
    assert.equal("BlobNotFound", select(2, flag:get()).code)
  end

  local KINDS = { { kind = "lost-request" }, { kind = "throttle" }, table.unpack(AFTER_APPLY) }

  local function sweep(url)
    local runs = 0
    for _, operation in ipairs(OPERATIONS) do
      for ordinal = 1, 6 do
        for _, fault in ipairs(KINDS) do
          runs = runs + 1
          core.main(function()
            local store <close> = assert(core.open_store(url, { faults = { {
              operation = operation, ordinal = ordinal, kind = fault.kind, code = fault.code, seconds = fault.seconds,
            } } }))
            local took = timed(function() scenario(store, runs) end)
            assert.is_true(took < TIMEOUT)
          end, { clock = "virtual", seed = runs })
        end
      end
    end
    assert.equal(#OPERATIONS * 6 * #KINDS, runs)
  end

  it("changes nothing in what a scenario does, nor does any wait pass its deadline", function()
    sweep "memory:"
  end)

  it("changes nothing over a file either", function()
    local folder <close> = sh.folder()
    sweep("embedded:" .. folder.path .. "/store.db?relaxed")
  end)
end)


describe("calls in a file that are cancelled at random", function()
  it("leave a store that works, and nobody waiting", function()
    local folder <close> = sh.folder()
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. folder.path .. "/store.db"))
      local container = store:container "abc"
      assert(container:create())
      local blob = container:blob "x"
      for round = 1, 20 do
        local tasks = {}
        for i = 1, 10 do
          tasks[i] = core.spawn(function() return blob:put(("%d"):format(i)) end)
        end
        core.sleep(core.random() * 0.004)
        local cancelled = {}
        for i = 1, 10 do
          cancelled[i] = core.random() < 0.5
          if cancelled[i] then tasks[i]:cancel() end
        end
        for i = 1, 10 do
          local props, err = tasks[i]:join(TIMEOUT)
          assert.is_true(props ~= nil or (cancelled[i] and err.code == "Cancelled"), tostring(err))
        end
        assert.matches("^%d+$", assert(blob:get()))
        local done, err
        repeat -- what was cancelled may happen yet, between the two
          done, err = blob:put(tostring(round), { if_match = assert(blob:head()).etag })
        until done or err.code ~= "ConditionNotMet"
        assert(done, tostring(err))
      end
      for _ = 1, 10 do core.spawn(function() blob:put "left behind" end):detach() end
      core.sleep(0) -- they are under way when the store is closed
    end)
  end)
end)
