-- The default store, and which one it is.

local core = require "synod.core"
local sh = require "spec.support.sh"
local stores = require "synod.store"
local synod = require "synod"

describe("the default store", function()
  after_each(function() stores.configure(nil) end)

  it("is opened when it is first used, once a run, and anew in the next run", function()
    stores.configure "memory:"
    local first
    core.main(function()
      first = synod.store
      assert.equal(first, synod.store)
      assert.equal("memory", first:kind())
      assert(first:container("abc"):create())
    end)
    assert.is_false(first:is_open())
    core.main(function()
      assert.not_equal(first, synod.store)
      local _, err = synod.store:container("abc"):head()
      assert.equal("ContainerNotFound", err.code)
    end)
  end)

  it("is opened again when the script has closed it", function()
    stores.configure "memory:"
    core.main(function()
      synod.store:close()
      assert.is_true(synod.store:is_open())
    end)
  end)

  it("that cannot be opened is raised as an err table", function()
    stores.configure "nowhere"
    core.main(function()
      local ok, err = pcall(function() return synod.store end)
      assert.is_false(ok)
      assert.equal("Usage", err.code)
      assert.matches("^open the store: the store's address is none of", tostring(err))
    end)
  end)

  it("is that of the command line, else of the environment, else this user's own file", function()
    local folder <close> = sh.folder()
    folder:write("url.lua", [[print((require("synod.store").url()))]])
    local function url(words) return (sh.run(words:format("$SYNOD"), { dir = folder.path })) end
    assert.equal("memory:\n", url "SYNOD_STORE=embedded:x %s run --store memory: $DIR/url.lua")
    assert.equal("embedded:x\n", url "SYNOD_STORE=embedded:x %s run $DIR/url.lua")
    assert.equal("embedded:/s/synod/store.db\n", url "env -u SYNOD_STORE XDG_STATE_HOME=/s %s run $DIR/url.lua")
    assert.equal("embedded:/h/.local/state/synod/store.db\n",
      url "env -u SYNOD_STORE -u XDG_STATE_HOME HOME=/h %s run $DIR/url.lua")
    assert.equal("nil\n", url "env -u SYNOD_STORE -u XDG_STATE_HOME -u HOME %s run $DIR/url.lua")
  end)
end)

describe("a store opened by synod.open", function()
  it("is refused as nil, err, and an address is never shown", function()
    core.main(function()
      local store, err = synod.open "AccountKey=secretsecret"
      assert.is_nil(store)
      assert.equal("Usage", err.code)
      assert.is_nil(tostring(err):find("secret", 1, true))
      assert.equal("Usage", select(2, synod.open "sqlite:secretsecret").code)
      assert.is_nil(tostring(select(2, synod.open "sqlite:secretsecret")):find("secret", 1, true))
    end)
  end)

  it("is closed by <close>, by close (twice), and by the end of the run", function()
    local left
    core.main(function()
      local closed
      do
        local store <close> = assert(synod.open "memory:")
        closed = store
      end
      assert.is_false(closed:is_open())
      closed:close()
      assert.has_error(function() closed:container "abc" end, "the store is closed")
      left = assert(synod.open "memory:")
    end)
    assert.is_false(left:is_open())
  end)

  it("may be closed by a finaliser of the script, at any moment of a call", function()
    for count = 1, 200 do
      core.main(function()
        local store = assert(synod.open "memory:")
        local container = store:container "abc"
        assert(container:create())
        local blob = container:blob "x"
        assert(blob:put(("x"):rep(1000)))
        collectgarbage()
        setmetatable({}, { __gc = function() store:close() end })
        local numbers = {} -- become texts, one after the other: the collector has steps to take
        for i = 1, count do numbers["n" .. i] = i + 0.5 end
        local ok, problem = pcall(function()
          for i = 1, 100000 do
            local _, err = blob:put(tostring(i), { metadata = numbers })
            if err and err.code ~= "Cancelled" then error(err) end
            for _ in container:list { metadata = true } do blob:get() end
          end
        end)
        assert.is_false(ok)
        assert.matches("the store .*is closed", tostring(problem))
      end, { clock = "virtual", seed = count })
    end
  end)

  it("keeps a call in the making apart from what a finaliser of the script asks in the middle of it", function()
    core.main(function()
      local store <close> = assert(synod.open "memory:")
      local container = store:container "abc"
      assert(container:create())
      local blob = container:blob "x"
      local put, body, options = blob.put, ("x"):rep(100), { metadata = {} }
      for i = 1, 20 do options.metadata["n" .. i] = i + 0.5 end -- become texts: the collector may take a step
      local kind, asked = nil, 0
      local function ask()
        asked = asked + 1
        if kind == "list" then pcall(store.queues, store) end
        if kind == "check" then core.call_check(blob, "put", { metadata = { a = "b" } }) end
        if kind == "wrong" then pcall(core.call_check, blob, "put", { unknown = true }) end
      end
      for _, next_kind in ipairs { "list", "check", "wrong", "check" } do
        kind = next_kind
        collectgarbage()
        collectgarbage("stop")
        collectgarbage("incremental", 10, 1000, 40) -- all of it in the first step
        setmetatable({}, { __gc = ask })
        collectgarbage("restart")
        local props, err = put(blob, body, options)
        collectgarbage("incremental", 200, 100, 13)
        assert.is_table(props, tostring(err))
        assert.equal("20.5", blob:head().metadata.n20)
      end
      assert.equal(4, asked)
    end, { clock = "virtual" })
  end)

  it("works on when a script's memory was too small for a body", function()
    local folder <close> = sh.folder()
    folder:write("small.lua", [[
      local synod = require "synod"
      local container = assert(synod.store:container "abc")
      assert(container:create())
      local blob = container:blob "x"
      assert(blob:put(("x"):rep(2 << 20)))
      local kept, failures = {}, 0
      for _ = 1, 40 do
        if not pcall(function() kept[#kept + 1] = assert(blob:get()) end) then
          kept, failures = {}, failures + 1
          collectgarbage()
        end
      end
      print(failures > 0, #blob:get())
    ]])
    local output, code = sh.run("$SYNOD run --store memory: --memory-limit 9M $DIR/small.lua", { dir = folder.path })
    assert.same({ "true\t2097152\n", 0 }, { output, code })
  end)

  it("has an address that is a string", function()
    core.main(function()
      for _, address in ipairs { 5, false, {} } do
        local ok, err = pcall(function() assert(synod.open(address)) end)
        assert.is_false(ok)
        assert.matches("store_spec.lua:%d+: synod.open: the store's address is a string, not a " .. type(address), err)
      end
    end)
  end)

  it("cannot be used outside of a run", function()
    assert.has_error(function() synod.open "memory:" end)
  end)
end)

describe("an err table", function()
  local function text(fields) return tostring(core.new_error(fields)) end

  it("reads as one line: what was attempted, on what, why, what to do", function()
    assert.equal("write the blob flags/x: the container does not exist (ContainerNotFound, 404); create it first",
      text { code = "ContainerNotFound", operation = "write the blob", target = "flags/x" })
    assert.equal("the lease is no longer ours (LeaseLost, 412)", text { code = "LeaseLost" })
    assert.equal("not done after 3 s (Timeout)", text { code = "Timeout", message = "not done after 3 s" })
    assert.equal("look at flags/x: the store refused (SomethingNew)",
      text { code = "SomethingNew", operation = "look at", target = "flags/x" })
  end)

  it("says what follows from its code, and keeps what was given", function()
    local err = core.new_error { code = "ServerBusy" }
    assert.same({ 503, true, "the store is too busy" }, { err.status, err.retryable, err.message })
    err = core.new_error { code = "ServerBusy", retryable = false, status = 500, extra = 1 }
    assert.same({ 500, false, 1 }, { err.status, err.retryable, err.extra })
    assert.is_false(core.new_error({ code = "BlobNotFound" }).retryable)
  end)

  it("is not made without a code", function()
    assert.error_matches(function() core.new_error {} end, "field 'code' is missing")
    assert.error_matches(function() core.new_error { code = 4 } end, "option 'code': string expected, got number")
  end)
end)
