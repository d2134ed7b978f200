-- Leases on a real Azurite beside other parties: the official client, and a line that loses answers.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local fault_proxy = require "spec.support.fault_proxy"

local A, B, C = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b",
  "cccccccc-0000-4000-8000-00000000000c"

--- Runs fn(blob, container) in a container of its own.
local function run(url, name, fn)
  core.main(function()
    local store <close> = assert(core.open_store(url))
    local container = store:container(name)
    assert(container:create())
    local blob = container:blob "held"
    if not blob:head() then assert(blob:put "") end
    fn(blob, container)
  end)
end

local function sdk(...) return azurite.sdk(...)[1] end

local function refused(code, value, err)
  assert.is_nil(value)
  assert.equal(code, err.code)
end

describe("the official client", function()
  it("is refused where synod holds the lease", function()
    local name = azurite.fresh "leases"
    run(azurite.lenient(), name, function(blob, container)
      assert(blob:lease { id = A, duration = 60 })
      assert(container:lease { id = A, duration = -1 })
    end)
    assert.equal("LeaseAlreadyPresent", sdk("lease", "acquire", name, "held", B))
    assert.equal("LeaseAlreadyPresent", sdk("lease", "acquire", name, "-", B))
    assert.equal("LeaseIdMismatchWithLeaseOperation", sdk("lease", "renew", name, "held", B))
    assert.equal("LeaseIdMismatchWithLeaseOperation", sdk("lease", "release", name, "held", B))
    assert.equal("LeaseIdMissing", sdk("write", name, "held", "-"))
    assert.equal("LeaseIdMismatchWithBlobOperation", sdk("write", name, "held", B))
    assert.equal("ok", sdk("write", name, "held", A))
  end)

  it("refuses synod where it holds the lease", function()
    local name = azurite.fresh "leases"
    run(azurite.lenient(), name, function() end)
    assert.equal("ok", sdk("lease", "acquire", name, "held", B))
    assert.equal("ok", sdk("lease", "acquire", name, "-", B))
    run(azurite.lenient(), name, function(blob, container)
      refused("LeaseAlreadyPresent", blob:lease { id = A })
      refused("LeaseAlreadyPresent", container:lease { id = A })
      refused("LeaseIdMismatchWithLeaseOperation", core.lease_handle(blob, A):renew())
      refused("LeaseIdMissing", blob:put "")
      refused("LeaseIdMismatchWithBlobOperation", blob:put("", { lease = A }))
      refused("LeaseIdMissing", container:delete())
      assert(blob:put("", { lease = B }))
      local props = blob:head()
      assert.same({ "leased", "fixed" }, { props.lease_state, props.lease_duration })
    end)
  end)

  it("and synod hand a lease on, renew and break each other's", function()
    local name = azurite.fresh "leases"
    run(azurite.lenient(), name, function(blob)
      assert.is_true(assert(blob:lease { id = A }):change(B))
    end)
    assert.equal("ok", sdk("lease", "renew", name, "held", B))
    assert.equal("ok", sdk("lease", "change", name, "held", B, C))
    run(azurite.lenient(), name, function(blob)
      refused("LeaseIdMismatchWithLeaseOperation", core.lease_handle(blob, B):renew())
      assert.is_true(core.lease_handle(blob, C):renew())
    end)
    assert.equal("ok", sdk("lease", "break", name, "held", "-"))
    run(azurite.lenient(), name, function(blob)
      assert.equal("broken", blob:head().lease_state)
      assert(blob:lease { id = A })
      assert.equal(0, (blob:break_lease(0)))
    end)
    assert.equal("ok", sdk("lease", "acquire", name, "held", B))
  end)
end)

describe("when answers are lost on the way", function()
  local proxy
  setup(function() proxy = fault_proxy.start() end)
  teardown(function() proxy:stop() end)

  --- A blob whose next call loses its first answer.
  local function lossy(fn, prepare)
    local name = azurite.fresh "leases"
    core.main(function()
      local direct <close> = assert(core.open_store(azurite.connection_string()))
      local store <close> = assert(core.open_store(proxy:connection_string()))
      assert(direct:container(name):create())
      local straight = direct:container(name):blob "lease"
      assert(straight:put "")
      if prepare then prepare(straight) end
      proxy:plan(name .. "/lease", 1, "reset-answer")
      fn(store:container(name):blob "lease", straight, store)
    end)
  end

  local function take(blob) assert(blob:lease { id = A }) end

  it("a lease is taken once, under its own id", function()
    lossy(function(blob, straight, store)
      local lease = assert(blob:lease { duration = 15 })
      assert.equal(2, store:usage().LeaseBlob)
      assert(straight:put("", { lease = lease.id }))
    end)
  end)

  it("a renewal, a change, a release and a break are done", function()
    lossy(function(blob) assert.is_true(core.lease_handle(blob, A):renew()) end, take)
    lossy(function(blob, straight)
      assert.is_true(core.lease_handle(blob, A):change(B))
      assert(straight:put("", { lease = B }))
    end, take)
    lossy(function(blob, straight)
      assert.is_true(core.lease_handle(blob, A):release())
      assert.equal("available", straight:head().lease_state)
    end, take)
    lossy(function(blob, straight)
      assert.is_number((blob:break_lease(0)))
      assert.equal("broken", straight:head().lease_state)
    end, take)
  end)

  it("a lease that nobody waits for any more is given back", function()
    lossy(function(blob, straight)
      local t = core.spawn(blob.lease, blob, {})
      core.sleep(0.02)
      t:cancel()
      t:join()
      for _ = 1, 100 do
        if straight:head().lease_state == "available" then break end
        core.sleep(0.05)
      end
      assert.equal("available", straight:head().lease_state)
    end)
  end)
end)
