-- Blobs on a real Azurite: what spec/store/blob_spec.lua, which holds every store to the same results, does not ask.

local azurite = require "spec.support.azurite"
local core = require "synod.core"

--- Runs fn(container, store) as the main task, with a container of its own.
local function run(fn)
  return function()
    core.main(function()
      local store <close> = assert(core.open_store(azurite.connection_string()))
      local container = store:container(azurite.fresh("blobs"))
      assert(container:create())
      fn(container, store)
    end)
  end
end

local NAMES = {
  "plain", "with space", " leading", "a+b", "100%", "%41", "a%2Fb", "what?", "a?b=c&d", "#1", "a#b", "a&b=c",
  "q'uo\"te", "<tag>", "a;b,c:d@e!$*()", "[x]{y}|^`~", "deep/er/name", "a//b", "ümläut", "日本語/ファイル", "emoji 🚦",
  "dots...in.name", "UPPER and lower",
}

describe("on Azurite", function()
  it("a blob may have any name", run(function(c)
    for i, name in ipairs(NAMES) do
      local b = c:blob(name)
      assert(b:put(name, { metadata = { place = i } }))
      local body, props = b:get()
      assert.equal(name, body)
      assert.equal(tostring(i), props.metadata.place)
      assert(b:set_metadata { place = i, again = "yes" })
      assert.equal("yes", b:head().metadata.again)
    end
    local listed = {}
    for item in c:list { page = 5 } do listed[#listed + 1] = item.name end
    local sorted = table.move(NAMES, 1, #NAMES, 1, {})
    table.sort(sorted)
    table.sort(listed)
    assert.same(sorted, listed)
    for _, name in ipairs(NAMES) do assert(c:blob(name):delete()) end
    for item in c:list() do error("left: " .. item.name) end
  end))

  it("a prefix may hold any character", run(function(c)
    for _, name in ipairs(NAMES) do assert(c:blob(name .. "/x"):put "") end
    for _, name in ipairs(NAMES) do
      local found = 0
      for item in c:list { prefix = name .. "/x" } do
        assert.equal(name .. "/x", item.name)
        found = found + 1
      end
      assert.equal(1, found)
    end
  end))

  it("lists of many pages are whole and in order", run(function(c, store)
    for i = 1, 25 do assert(c:blob(("n%03d"):format(i)):put("", { metadata = { i = i } })) end
    local i = 0
    for item in c:list { page = 4, metadata = true } do
      i = i + 1
      assert.equal(("n%03d"):format(i), item.name)
      assert.equal(tostring(i), item.metadata.i)
      assert.equal("block", item.type)
      assert.equal(item.etag, c:blob(item.name):head().etag)
    end
    assert.equal(25, i)
    assert.equal(7, store:usage().ListBlobs)
  end))

  it("metadata names keep their case, in every answer", run(function(c)
    local b = c:blob "x"
    assert(b:put("", { metadata = { Foo = "1", fooBar = "2", a_b = "3", ab = "4", a1 = "5" } }))
    assert.same({ Foo = "1", fooBar = "2", a_b = "3", ab = "4", a1 = "5" }, b:head().metadata)
    for item in c:list { metadata = true } do assert.same(b:head().metadata, item.metadata) end
    assert(c:set_metadata { Bar = "6" })
    assert.same({ Bar = "6" }, c:head().metadata)
  end))

  it("metadata values keep their blanks and punctuation", run(function(c)
    local value = "a  b,c;d=e\"f':%20/\\ ~"
    assert(c:blob("x"):put("", { metadata = { v = value } }))
    assert.equal(value, c:blob("x"):head().metadata.v)
    for item in c:list { metadata = true } do assert.equal(value, item.metadata.v) end
  end))

  it("sixty calls at once are all answered", run(function(c)
    local tasks = {}
    for i = 1, 60 do
      tasks[i] = core.spawn(function() return c:blob("n" .. i):put("x") end)
    end
    for i = 1, 60 do assert.is_string(assert(tasks[i]:join()).etag) end
  end))

  it("the listed containers carry their metadata", run(function(c, store)
    assert(c:set_metadata { who = "me" })
    local seen
    for item in store:containers { metadata = true } do
      if item.metadata and item.metadata.who == "me" then seen = item end
    end
    assert.is_string(seen.etag)
    assert.equal("available", seen.lease_state)
  end))
end)

describe("the official client", function()
  it("lists what synod wrote", function()
    local flags = azurite.fresh("flags")
    core.main(function()
      local store <close> = assert(core.open_store(azurite.lenient()))
      local c = store:container(flags)
      assert(c:create())
      assert(c:blob("startupWorkDone_0"):put("", { type = "page", size = 512, if_none_match = "*" }))
      assert(c:blob("ü 1"):put("hello", { metadata = { synod_v = 1 } }))
      assert(c:blob("log"):put("", { type = "append" }))
    end)
    local seen = azurite.sdk("list", flags)
    for i, line in ipairs(seen) do -- what a create is told apart by when its answer is lost
      seen[i] = line:gsub('"synod_nonce":"%x+"', "")
    end
    assert.same({
      '["log","AppendBlob",0,{}]', '["startupWorkDone_0","PageBlob",512,{}]', '["ü 1","BlockBlob",5,{"synod_v":"1"}]',
    }, seen)
  end)

  it("writes what synod lists and reads", function()
    local shared = azurite.fresh("shared")
    core.main(function()
      local store <close> = assert(core.open_store(azurite.lenient()))
      assert(store:container(shared):create())
    end)
    azurite.sdk("put", shared, "from the other party/ä?", "their words", "who=sdk")
    core.main(function()
      local store <close> = assert(core.open_store(azurite.lenient()))
      local names = {}
      for item in store:container(shared):list { metadata = true } do
        names[#names + 1] = item.name
        assert.equal("sdk", item.metadata.who)
        assert.equal(11, item.length)
      end
      assert.same({ "from the other party/ä?" }, names)
      assert.equal("their words", (store:container(shared):blob(names[1]):get()))
    end)
  end)

  it("is signed for at an address without a path, as every account in the cloud has", function()
    local named = azurite.connection_string():gsub("http://127.0.0.1:(%d+)/" .. azurite.account,
      "http://" .. azurite.account .. ".localhost:%1")
    core.main(function()
      local store <close> = assert(core.open_store(named))
      local container = store:container(azurite.fresh "pathless")
      assert(container:create())
      assert(container:blob("a/b"):put "x")
      assert.equal("x", (container:blob("a/b"):get()))
    end)
  end)
end)
