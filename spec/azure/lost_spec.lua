-- Answers that are lost on the way: the emulator has carried the request out, and its answer never comes.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local servers = require "spec.support.server"

describe("when the first answer is lost", function()
  local relay, c_name

  setup(function() relay = servers.start("spec/support/relay.js", tostring(azurite.port())) end)
  teardown(function() relay:stop() end)

  local function run(fn)
    return function()
      core.main(function()
        local store <close> = assert(core.open_store(azurite.string_for(relay.port)))
        c_name = azurite.fresh("kept")
        local container = store:container(c_name)
        assert(container:create())
        fn(container, store)
      end)
    end
  end

  it("a create has happened once, and is known to be ours", run(function(c, store)
    local b = c:blob "lost-flag"
    assert(b:put("", { type = "page", size = 512, if_none_match = "*" }))
    assert.equal(2, store:usage().PutBlob)
    local again, err = b:put("", { type = "page", size = 512, if_none_match = "*" })
    assert.is_nil(again)
    assert.equal("BlobAlreadyExists", err.code)
  end))

  it("a conditional write has happened once", run(function(c, store)
    local direct <close> = assert(core.open_store(azurite.connection_string()))
    local etag = assert(direct:container(c_name):blob("lost-counter"):put "0").etag
    local props = assert(c:blob("lost-counter"):put("1", { if_match = etag }))
    assert.equal(2, store:usage().PutBlob)
    local body, now = c:blob("lost-counter"):get()
    assert.equal("1", body)
    assert.equal(now.etag, props.etag)
  end))

  it("a delete has happened", run(function(c)
    local b = c:blob "lost-gone"
    assert(b:put "x")
    assert.is_true((b:delete()))
    assert.equal("BlobNotFound", select(2, b:head()).code)
  end))

  it("an append at a position has happened once", run(function(c)
    local direct <close> = assert(core.open_store(azurite.connection_string()))
    assert(direct:container(c_name):blob("lost-log"):put("", { type = "append" }))
    local props = assert(c:blob("lost-log"):append("one", { position = 0 }))
    assert.equal(c:blob("lost-log"):head().etag, props.etag)
    assert.equal("one", (c:blob("lost-log"):get()))
  end))

  it("a container made is made", run(function(_, store)
    local c = store:container("lost-" .. azurite.fresh("c"))
    assert.is_true((c:create()))
    assert(c:blob("x"):put "")
  end))
end)
