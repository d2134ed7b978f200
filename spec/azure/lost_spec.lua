-- Answers that are lost on the way: the emulator has carried the request out, and its answer never comes. What befalls
-- each request of each kind of call is swept through in fault_sweep_spec.lua.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local fault_proxy = require "spec.support.fault_proxy"

describe("when the first answer is lost", function()
  local proxy, c_name

  setup(function() proxy = fault_proxy.start() end)
  teardown(function() proxy:stop() end)

  --- Loses the answer to the next request for that blob.
  local function lose(name) proxy:plan(c_name .. "/" .. name, 1, "reset-answer") end

  local function run(fn)
    return function()
      core.main(function()
        local store <close> = assert(core.open_store(proxy:connection_string()))
        c_name = azurite.fresh("kept")
        local container = store:container(c_name)
        assert(container:create())
        fn(container, store)
      end)
    end
  end

  it("a create has happened once, and is known to be ours", run(function(c, store)
    local b = c:blob "flag"
    lose "flag"
    assert(b:put("", { type = "page", size = 512, if_none_match = "*" }))
    assert.equal(2, store:usage().PutBlob)
    local again, err = b:put("", { type = "page", size = 512, if_none_match = "*" })
    assert.is_nil(again)
    assert.equal("BlobAlreadyExists", err.code)
  end))

  it("a conditional write has happened once", run(function(c, store)
    local direct <close> = assert(core.open_store(azurite.connection_string()))
    local etag = assert(direct:container(c_name):blob("counter"):put "0").etag
    lose "counter"
    local props = assert(c:blob("counter"):put("1", { if_match = etag }))
    assert.equal(2, store:usage().PutBlob)
    local body, now = c:blob("counter"):get()
    assert.equal("1", body)
    assert.equal(now.etag, props.etag)
  end))

  it("a delete has happened", run(function(c)
    local b = c:blob "gone"
    assert(b:put "x")
    lose "gone"
    assert.is_true((b:delete()))
    assert.equal("BlobNotFound", select(2, b:head()).code)
  end))

  it("a delete of a version has happened", run(function(c)
    local b = c:blob "version"
    local first = assert(b:put "x")
    lose "version"
    assert.is_true((b:delete { if_match = first.etag }))
    assert.equal("ConditionNotMet", select(2, b:delete { if_match = first.etag }).code)
    local second = assert(b:put "y")
    lose "version"
    assert.equal("ConditionNotMet", select(2, b:delete { if_match = first.etag }).code)
    assert.equal(second.etag, b:head().etag)
  end))

  it("an append at a position has happened once", run(function(c)
    local direct <close> = assert(core.open_store(azurite.connection_string()))
    assert(direct:container(c_name):blob("log"):put("", { type = "append" }))
    lose "log"
    local props = assert(c:blob("log"):append("one", { position = 0 }))
    assert.equal(c:blob("log"):head().etag, props.etag)
    assert.equal("one", (c:blob("log"):get()))
  end))

  it("a container made is made", run(function(_, store)
    local name = azurite.fresh "made"
    local c = store:container(name)
    proxy:plan(name, 1, "reset-answer")
    assert.is_true((c:create()))
    assert(c:blob("x"):put "")
  end))
end)
