-- The lease as a script has it: the object, its end, wrong arguments, lost answers, cancels. What a lease lets happen
-- is in spec/store/lease_spec.lua.

local core = require "synod.core"
local sh = require "spec.support.sh"

local A, B = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"

local function run(fn, url, options)
  return core.main(function()
    local store <close> = assert(core.open_store(url or "memory:", options))
    local container = store:container "leases"
    container:create()
    local blob = container:blob "a"
    assert(blob:put "")
    return fn(blob, container, store)
  end, { clock = "virtual", seed = 1 })
end

local function state(place) return place:head().lease_state end

local function refused(code, value, err)
  assert.is_nil(value)
  assert.equal(code, err.code)
  return err
end

describe("a lease", function()
  it("ends with the block that has it, or by release or close, once", function()
    run(function(blob, _, store)
      do
        local lease <close> = assert(blob:lease { duration = 15 })
        assert.equal("leased", state(blob))
        assert.equal("lease of leases/a", tostring(lease))
      end
      assert.equal("available", state(blob))
      local lease <close> = assert(blob:lease {})
      assert.is_true(lease:release())
      local sent = store:usage().LeaseBlob
      lease:close()
      assert.equal(sent, store:usage().LeaseBlob)
      refused("LeaseIdMismatchWithLeaseOperation", lease:release())
    end)
  end)

  it("ends with the block that fails", function()
    run(function(blob)
      local ok = pcall(function()
        local _ <close> = assert(blob:lease {})
        error "no"
      end)
      assert.is_false(ok)
      assert.equal("available", state(blob))
    end)
  end)

  it("ends quietly where it was lost meanwhile, or its store is closed", function()
    run(function(blob, _, store)
      do
        local _ <close> = assert(blob:lease { duration = 15 })
        core.sleep(15)
        assert(blob:put "")
      end
      local _ <close> = assert(blob:lease {})
      store:close()
    end)
  end)

  it("has the id that was proposed, in one spelling, or one of its own", function()
    run(function(blob, container)
      for _, spelling in ipairs { A, A:upper(), "{" .. A .. "}", "(" .. A:upper() .. ")", (A:gsub("-", "")) } do
        local lease <close> = assert(blob:lease { id = spelling })
        assert.equal(A, lease.id)
        assert(blob:put("", { lease = spelling }))
      end
      local first, second = assert(blob:lease {}), assert(container:lease {})
      for _, lease in ipairs { first, second } do
        assert.matches("^%x+%-%x%x%x%x%-4%x%x%x%-[89ab]%x%x%x%-%x+$", lease.id)
        assert.equal(36, #lease.id)
      end
      assert.are_not.equal(first.id, second.id)
      assert.is_true(first:change(B:upper()))
      assert.equal(B, first.id)
      refused("LeaseIdMismatchWithLeaseOperation", core.lease_handle(blob, A):change((A:gsub("a", "c"))))
      assert.is_true(first:renew())
    end)
  end)

  it("guards an append too, which ends the memory of one that has expired", function()
    run(function(_, container)
      local log = container:blob "log"
      assert(log:put("", { type = "append" }))
      local lease = assert(log:lease { id = A, duration = 15 })
      refused("LeaseIdMissing", log:append "x")
      refused("LeaseIdMismatchWithBlobOperation", log:append("x", { lease = B }))
      assert(log:append("x", { lease = A }))
      assert.equal("leased", state(log))
      core.sleep(15)
      refused("LeaseLost", log:append("x", { lease = A }))
      assert(log:append "y")
      assert.equal("available", state(log))
      refused("LeaseIdMismatchWithLeaseOperation", lease:renew())
      assert.equal("xy", (log:get()))
    end)
  end)

  it("wakes who waits for a change of what is leased, when it ends", function()
    run(function(blob, _, store)
      local lease = assert(blob:lease {})
      core.spawn(function()
        core.sleep(5)
        lease:release()
      end)
      assert.is_true((store:changed { container = "leases", prefix = "a", timeout = 30 }))
      assert.equal(5, core.now())
    end)
  end)

  it("lasts a minute when nothing else is said", function()
    run(function(blob)
      local lease = assert(blob:lease())
      core.sleep(59.999999999)
      assert.equal("leased", state(blob))
      core.sleep(0.000000001)
      assert.equal("expired", state(blob))
      assert.is_true(lease:renew())
    end)
  end)

  it("is kept in the file in lower case, and is over in another boot", function()
    local folder <close> = sh.folder()
    local path = folder.path .. "/store.db"
    local function sql(text) return (sh.run(("sqlite3 -cmd '.timeout 2000' '%s' \"%s\""):format(path, text))) end
    run(function(blob)
      local lease = assert(blob:lease { id = "{" .. A:upper() .. "}", duration = 60 })
      assert.equal(A .. "|60\n", sql "SELECT lease_id, lease_seconds FROM rows WHERE name = 'a'")
      local function reboot() sql "UPDATE rows SET lease_boot = 'another' WHERE name = 'a'" end
      reboot()
      assert.equal("expired", state(blob))
      assert.is_true(lease:renew()) -- the clock of this boot
      assert.equal("leased", state(blob))
      assert.equal(30, (blob:break_lease(30)))
      reboot()
      assert.equal("broken", state(blob))
      assert.equal(0, (blob:break_lease()))
      assert(blob:lease { id = B, duration = -1 })
      reboot()
      assert.equal("leased", state(blob)) -- it has no end
      assert.equal(20, (blob:break_lease(20)))
      core.sleep(20)
      assert.equal("broken", state(blob))
      assert(blob:put "")
      assert.equal("|\n", sql "SELECT lease_id, lease_boot FROM rows WHERE name = 'a'")
    end, "embedded:" .. path)
  end)
end)

describe("what a lease call gets wrong is raised at its line:", function()
  local WRONG = {
    { "option 'duration': 15 to 60 seconds expected, or -1 (for ever), got 14",
      function(b) b:lease { duration = 14 } end },
    { "option 'duration': 15 to 60 seconds expected", function(b) b:lease { duration = 61 } end },
    { "option 'duration': 15 to 60 seconds expected", function(_, c) c:lease { duration = 0 } end },
    { "option 'duration': at least -1 expected, got -2", function(b) b:lease { duration = -2 } end },
    { "option 'duration': whole number expected", function(b) b:lease { duration = 15.5 } end },
    { "option 'id': a lease id is a GUID", function(b) b:lease { id = "mine" } end },
    { "option 'id': a lease id is a GUID", function(b) b:lease { id = A .. "\0" } end },
    { "option 'id': string expected, got number", function(b) b:lease { id = 1 } end },
    { "unknown option 'keep'", function(b) b:lease { keep = true } end },
    { "unknown option 'fence'", function(b) b:lease { fence = true } end },
    { "unknown option 'lease'", function(b) b:lease { lease = A } end },
    { "unknown option 'if_match'", function(_, c) c:lease { if_match = "*" } end },
    { "a break takes 0 to 60 seconds", function(b) b:break_lease(61) end },
    { "a break takes 0 to 60 seconds", function(_, c) c:break_lease(-1) end },
    { "number has no integer representation", function(b) b:break_lease(1.5) end },
    { "lease:change: string expected, got no value", function(b) core.lease_handle(b, A):change() end },
    { "lease:change: a lease id is a GUID", function(b) core.lease_handle(b, A):change "x" end },
    { "option 'lease': a lease id is a GUID", function(b) b:get { lease = "x" } end },
    { "option 'lease': a lease id is a GUID", function(_, c) c:delete { lease = "x" } end },
    { "the store of this lease is closed", function(b, _, s) s:close() core.lease_handle(b, A):renew() end },
  }
  for i, wrong in ipairs(WRONG) do
    it(i .. ": " .. wrong[1], function()
      run(function(blob, container, store)
        local ok, problem = pcall(wrong[2], blob, container, store)
        assert.is_false(ok)
        assert.matches(wrong[1], problem, 1, true)
        assert.matches("lease_object_spec.lua:%d+: ", problem)
      end)
    end)
  end
end)

describe("a lease call under a condition", function()
  for _, place in ipairs { "memory:", "Azurite" } do
    it("is judged by it first, and changes neither ETag nor date, on " .. place, function()
      core.main(function()
        local azurite = place == "Azurite" and require "spec.support.azurite"
        local store <close> = assert(core.open_store(azurite and azurite.connection_string() or place))
        local container = store:container(azurite and azurite.fresh "conditions" or "conditions")
        assert(container:create())
        local blob = container:blob "a"
        local props = assert(blob:put "")
        local other = '"0x0000000000000001"'
        refused("ConditionNotMet", blob:lease { if_match = other })
        local lease = assert(blob:lease { id = A, if_match = props.etag })
        refused("ConditionNotMet", blob:lease { id = B, if_match = other })
        refused("LeaseAlreadyPresent", blob:lease { id = B, if_match = props.etag })
        refused("ConditionNotMet", lease:renew { if_none_match = props.etag })
        refused("ConditionNotMet", lease:change(B, { if_unmodified_since = 1000000000 }))
        refused("ConditionNotMet", lease:release { if_modified_since = 2000000000 })
        refused("ConditionNotMet", blob:break_lease(0, { if_match = other }))
        refused("ConditionNotMet", container:lease { if_unmodified_since = 1000000000 })
        local was = container:head()
        assert.is_true(lease:renew { if_match = props.etag })
        assert.is_true(lease:change(B, { if_match = props.etag }))
        assert(blob:break_lease(30))
        assert.is_true(lease:release())
        local now = blob:head()
        assert.same({ props.etag, props.last_modified }, { now.etag, now.last_modified })
        local held = assert(container:lease { duration = -1 })
        assert.equal(0, (container:break_lease()))
        assert.is_true(held:release())
        now = container:head()
        assert.same({ was.etag, was.last_modified }, { now.etag, now.last_modified })
        refused("BlobNotFound", container:blob("none"):lease {})
        refused("ContainerNotFound", store:container("absent-one"):blob("a"):lease {})
        refused("ContainerNotFound", store:container("absent-one"):lease {})
      end)
    end)
  end
end)

--- The answer to a lease call is lost on the way: to the first, or to another.
local function lost(ordinal)
  return { faults = { { operation = "LeaseBlob", ordinal = ordinal or 1, kind = "lost-response" } } }
end

describe("when the answer of a lease call is lost,", function()
  it("an acquire is repeated under its own id", function()
    run(function(blob, _, store)
      local lease = assert(blob:lease { duration = 15 })
      assert.equal(2, store:usage().LeaseBlob)
      assert(blob:put("", { lease = lease.id }))
    end, nil, lost())
  end)

  it("an acquire that found another's lease is refused", function()
    run(function(blob)
      assert(blob:lease { id = A })
      refused("LeaseAlreadyPresent", blob:lease { id = B })
    end, nil, lost(2))
  end)

  it("a renewal and a change are repeated", function()
    run(function(blob)
      local lease = assert(blob:lease { id = A })
      assert.is_true(lease:renew())
    end, nil, lost(2))
    run(function(blob)
      local lease = assert(blob:lease { id = A })
      assert.is_true(lease:change(B))
      assert.equal(B, lease.id)
      assert(blob:put("", { lease = B }))
    end, nil, lost(2))
  end)

  it("a release is done, although its repetition finds no lease, or another's", function()
    run(function(blob)
      assert.is_true(assert(blob:lease { id = A }):release())
      assert.equal("available", state(blob))
    end, nil, lost(2))
    run(function(blob)
      local lease = assert(blob:lease { id = A })
      core.spawn(function()
        core.sleep(3.01) -- the first attempt is given up after 3 s
        assert(blob:lease { id = B })
      end)
      assert.is_true(lease:release())
      core.sleep(1)
      assert(blob:put("", { lease = B }))
    end, nil, lost(2))
  end)

  it("a break is done, and says that nothing is left of a lease that is gone", function()
    run(function(blob)
      assert(blob:lease { id = A })
      core.spawn(function()
        core.sleep(3.01)
        assert.is_true(core.lease_handle(blob, A):release())
      end)
      assert.equal(0, (blob:break_lease(60)))
    end, nil, lost(2))
  end)

  it("and the blob is gone with it, a release and a break are done", function()
    for _, call in ipairs { "release", "break" } do
      run(function(blob)
        local lease = assert(blob:lease { id = A })
        core.spawn(function()
          core.sleep(3.01)
          assert(blob:delete { lease = call == "break" and A or nil })
        end)
        if call == "break" then
          assert.equal(0, (blob:break_lease(60)))
        else
          assert.is_true(lease:release())
        end
      end, nil, lost(2))
    end
  end)

  it("but without a loss a refusal stands", function()
    run(function(blob)
      refused("LeaseIdMismatchWithLeaseOperation", core.lease_handle(blob, A):release())
      refused("LeaseNotPresentWithLeaseOperation", blob:break_lease())
    end)
  end)
end)

describe("a cancelled lease call", function()
  --- Cancels the call after so many seconds; gives how the lease stands when all is over, and the transactions.
  local function cancelled(fault, after, call)
    return run(function(blob, _, store)
      local t = core.spawn(call, blob)
      core.sleep(after)
      t:cancel()
      local ok, err = t:join()
      assert.is_nil(ok)
      assert.equal("Cancelled", err.code)
      core.sleep(20)
      return state(blob), store:usage().LeaseBlob
    end, nil, { faults = { fault } })
  end

  it("gives back what it may have taken", function()
    local late = { operation = "LeaseBlob", ordinal = 1, kind = "delay", seconds = 2 }
    assert.same({ "available", 2 }, { cancelled(late, 1, function(b) return b:lease {} end) })
    local unheard = { operation = "LeaseBlob", ordinal = 1, kind = "lost-response" }
    assert.same({ "available", 2 }, { cancelled(unheard, 1, function(b) return b:lease {} end) })
  end)

  it("gives back what it may have taken, in a rest between two attempts too", function()
    local busy = { operation = "LeaseBlob", ordinal = 1, kind = "error-after-apply", code = "InternalError" }
    assert.same({ "available", 2 }, { cancelled(busy, 0.01, function(b) return b:lease {} end) })
  end)

  it("releases although nobody waits for it", function()
    local late = { operation = "LeaseBlob", ordinal = 2, kind = "delay", seconds = 2 }
    assert.same({ "available", 2 }, { cancelled(late, 1, function(b) return assert(b:lease {}):release() end) })
    assert.same({ "available", 2 }, { cancelled(late, 1, function(b) local _ <close> = assert(b:lease {}) end) })
  end)

  it("is seen to before the run ends, and not for ever", function()
    local folder <close> = sh.folder()
    local url = "embedded:" .. folder.path .. "/store.db?relaxed"
    local function left_by(faults)
      core.main(function()
        local store = assert(core.open_store(url, { faults = faults }))
        local container = store:container "leases"
        container:create()
        local blob = container:blob "a"
        assert(blob:put "")
        core.spawn(blob.lease, blob, {}):detach()
        core.sleep(0.5)
      end, { clock = "virtual", seed = 1 })
      return run(function(blob) return state(blob) end, url)
    end
    assert.equal("available", left_by { { operation = "LeaseBlob", ordinal = 1, kind = "lost-response" } })
    left_by { { operation = "LeaseBlob", ordinal = 0, kind = "lost-request" } }
  end)

  it("whose acquire was refused asks for nothing more", function()
    run(function(blob, _, store)
      assert(blob:lease { id = A })
      local t = core.spawn(blob.lease, blob, { id = B })
      core.sleep(1)
      t:cancel()
      core.sleep(20)
      assert.equal(2, store:usage().LeaseBlob)
      assert(blob:put("", { lease = A }))
    end, nil, { faults = { { operation = "LeaseBlob", ordinal = 2, kind = "delay", seconds = 2 } } })
  end)
end)
