-- Tables over HTTP: the official client as the other party, answers lost on the way, and answers that are none.

local azurite = require "spec.support.azurite"
local cjson = require "cjson"
local core = require "synod.core"
local fault_proxy = require "spec.support.fault_proxy"
local servers = require "spec.support.server"

describe("the official client", function()
  local function open(fn)
    core.main(function()
      local store <close> = assert(core.open_store(azurite.lenient()))
      fn(store)
    end)
  end

  it("reads every type that synod wrote", function()
    local name = azurite.fresh("Ours", "")
    open(function(store)
      local t = store:table(name)
      assert(t:create())
      assert(t:upsert {
        partition = "größe", row = "日本 '1'", text = "ü\u{1F600}\n\"", whole = math.maxinteger, float = 1.5, yes = true,
        small = core.int32(-7), at = core.time_value "2026-01-02T03:04:05.1234567Z",
        id = core.guid "01234567-89ab-cdef-0123-456789abcdef", bytes = core.binary "\0\1\255", none = 0 / 0,
        ["@etag"] = "own",
      })
    end)
    local seen = azurite.sdk_tables("list", name)
    assert.equal(1, #seen)
    local value = function(kind, v) return { type = kind, value = v } end
    local e = cjson.decode(seen[1])
    assert.same({
      partitionKey = "größe", rowKey = "日本 '1'", text = value("String", "ü\u{1F600}\n\""),
      whole = value("Int64", "9223372036854775807"), float = value("Double", "1.5"), yes = value("Boolean", "true"),
      small = value("Int32", "-7"), at = value("DateTime", "2026-01-02T03:04:05.1234567Z"),
      id = value("Guid", "01234567-89ab-cdef-0123-456789abcdef"), bytes = value("Binary", "AAH/"),
      none = value("Double", "NaN"),
    }, { partitionKey = e.partitionKey, rowKey = e.rowKey, text = e.text, whole = e.whole,
      float = e.float, yes = e.yes, small = e.small, at = e.at, id = e.id,
      bytes = e.bytes, none = e.none })
  end)

  it("writes what synod reads, and synod writes it back unchanged", function()
    local name = azurite.fresh("Theirs", "")
    local theirs = {
      partitionKey = "grün", rowKey = "a&b=c", text = "Straße",
      whole = { type = "Int64", value = "-9223372036854775808" },
      float = { type = "Double", value = 2.5 }, yes = false, small = { type = "Int32", value = 7 },
      at = { type = "DateTime", value = "2026-01-02T03:04:05.1234567Z" }, partition = "another",
      id = { type = "Guid", value = "01234567-89ab-cdef-0123-456789abcdef" },
      bytes = { type = "Binary", value = "AAH/" },
    }
    azurite.sdk_tables("put", name, cjson.encode(theirs))
    local before = azurite.sdk_tables("list", name)
    open(function(store)
      local t = store:table(name)
      local e = assert(t:get("grün", "a&b=c"))
      assert.same({ "Straße", math.mininteger, 2.5, false, "another" },
        { e.text, e.whole, e.float, e.yes, e["@partition"] })
      assert.equal(core.int32(7), e.small)
      assert.equal(core.time_value "2026-01-02T03:04:05.1234567Z", e.at)
      assert.equal(core.guid "01234567-89ab-cdef-0123-456789abcdef", e.id)
      assert.equal(core.binary "\0\1\255", e.bytes)
      local found = 0
      for each in t:query { filter = "id eq guid'01234567-89ab-cdef-0123-456789abcdef' and text eq 'Straße'" } do
        found = found + (each.row == e.row and 1 or 0)
      end
      assert.equal(1, found)
      assert(t:delete(e.partition, e.row, { if_match = e.etag }))
      assert(t:upsert(e))
    end)
    assert.same(before, azurite.sdk_tables("list", name))
  end)

  it("changes what synod read, which synod then does not overwrite", function()
    local name = azurite.fresh("Both", "")
    azurite.sdk_tables("put", name, '{"partitionKey":"p","rowKey":"r","n":1}')
    open(function(store)
      local t = store:table(name)
      local e = assert(t:get("p", "r"))
      azurite.sdk_tables("batch", name, '[["upsert",{"partitionKey":"p","rowKey":"r","n":2},"Replace"]]')
      local _, err = t:replace({ partition = "p", row = "r", n = 3 }, { if_match = e.etag })
      assert.equal("UpdateConditionNotSatisfied", err.code)
      assert.equal(core.int32(2), t:get("p", "r").n)
    end)
  end)
end)

describe("an account at an address without a path, as every one in the cloud has", function()
  it("is signed for", function()
    local named = azurite.connection_string():gsub("http://127.0.0.1:(%d+)/" .. azurite.account,
      "http://" .. azurite.account .. ".localhost:%1")
    core.main(function()
      local store <close> = assert(core.open_store(named))
      local t = store:table(azurite.fresh("Pathless", ""))
      assert(t:create())
      assert(t:insert { partition = "p's", row = "ü", n = 1 })
      for e in t:query { partition = "p's", select = { "n" } } do assert.equal(1, e.n) end
      assert.is_true(t:delete("p's", "ü"))
      assert.is_true(t:drop())
    end)
  end)
end)

describe("when the first answer is lost on the way", function()
  local proxy

  setup(function() proxy = fault_proxy.start() end)
  teardown(function() proxy:stop() end)

  --- Runs fn(table, store, lose); lose(): the next request for the table loses its answer.
  local function run(fn)
    return function()
      core.main(function()
        local store <close> = assert(core.open_store(proxy:connection_string()))
        local name = azurite.fresh("Lost", "")
        assert(store:table(name):create())
        fn(store:table(name), store, function() proxy:plan(name, 1, "reset-answer") end)
      end)
    end
  end

  it("an insert has happened once, and is known to be ours", run(function(t, store, lose)
    lose()
    local written = assert(t:insert { partition = "p", row = "r", n = 1 })
    assert.equal(2, store:usage().InsertEntity)
    assert.equal(t:get("p", "r").etag, written.etag)
    assert.equal("EntityAlreadyExists", select(2, t:insert { partition = "p", row = "r", n = 1 }).code)
  end))

  it("a conditional merge and replace have happened once", run(function(t, store, lose)
    local first = assert(t:insert { partition = "p", row = "r", n = 1 })
    lose()
    local second = assert(t:merge({ partition = "p", row = "r", n = 2 }, { if_match = first.etag }))
    lose()
    local third = assert(t:replace({ partition = "p", row = "r", n = 3 }, { if_match = second.etag }))
    assert.equal(t:get("p", "r").etag, third.etag)
    assert.same({ 2, 2 }, { store:usage().MergeEntity, store:usage().UpdateEntity })
  end))

  it("a delete has happened, an upsert happens again", run(function(t, _, lose)
    assert(t:insert { partition = "p", row = "r" })
    lose()
    assert.is_true(t:delete("p", "r"))
    lose()
    assert(t:upsert { partition = "p", row = "s", n = 1 })
    assert.equal(1, t:get("p", "s").n)
  end))
end)

describe("a server that is no table service", function()
  local server
  setup(function() server = servers.start("spec/support/odd_server.js") end)
  teardown(function() server:stop() end)

  --- All entities of a table of that name, or the err; tried once.
  local function ask(name)
    return core.main(function()
      local store <close> = assert(core.open_store(azurite.string_for(server.port)))
      local list = {}
      local ok, err = pcall(function()
        for each in store:table(name):query { retries = 0 } do list[#list + 1] = each end
      end)
      return ok and list or nil, err
    end)
  end

  it("is told from one that is", function()
    local list = assert(ask "JsonFine")
    local e = list[1]
    assert.same({ 5, "float", core.int32(7), nil, core.time_value "2026-01-02T03:04:05Z", e.t },
      { e.n, math.type(e.f), e.i, e.no, e.t, e.timestamp })
    assert.same({}, (ask "JsonNone"))
  end)

  for _, name in ipairs {
    "JsonCut", "JsonEmpty", "JsonHtml", "JsonList", "JsonOther", "JsonKeyless", "JsonType", "JsonWrong", "JsonNested",
    "JsonTwice", "JsonTime", "JsonBytes", "JsonMany", "JsonDeep", "JsonNul",
  } do
    it("answers " .. name, function()
      local list, err = ask(name)
      assert.is_nil(list)
      assert.equal("BadAnswer", err.code)
      assert.matches("an answer in JSON is malformed", err.message, 1, true)
    end)
  end

  it("continues pages, empty ones too, with what it was told", function()
    local seen = {}
    for i, e in ipairs(assert(ask "JsonPages")) do seen[i] = e.n.value end
    assert.same({ 1, 2, 3 }, seen)
  end)

  it("answers batches as the service does, and otherwise", function()
    core.main(function()
      local store <close> = assert(core.open_store(azurite.string_for(server.port)))
      local function batch()
        return store:table("Any"):batch({
          { upsert = { partition = "p", row = "a" } }, { merge = { partition = "p", row = "b" }, if_match = "*" },
        }, { retries = 0 })
      end
      local results = assert(batch())
      assert.same({ [[W/"datetime'2026-01-01T00%3A00%3A00Z'"]], [[W/"datetime'2026-01-02T00%3A00%3A00Z'"]] },
        { results[1].etag, results[2].etag })
      local said = {}
      for i = 1, 6 do
        local ok, err = batch()
        assert.is_nil(ok)
        said[i] = ("%s %s %s"):format(err.code, err.status, err.index)
      end
      assert.same({ "UpdateConditionNotSatisfied 412 2", "BadAnswer nil nil", "Other 400 nil", "SomethingNew 400 1",
        "BadAnswer nil nil", "RequestBodyTooLarge 413 nil" }, said)
    end)
  end)

  it("refuses in its own words", function()
    local codes = {}
    for _, name in ipairs { "JsonBusy", "JsonGone", "JsonInput", "JsonNew", "JsonMute" } do
      local _, err = ask(name)
      codes[#codes + 1] = ("%s %d %s"):format(err.code, err.status, tostring(err.retryable))
    end
    assert.same({ "ServerBusy 503 true", "TableNotFound 404 false", "InvalidInput 400 false", "SomethingNew 409 false",
      "ResourceNotFound 404 false" }, codes)
    assert.matches("Said so.", select(2, ask "JsonInput").message, 1, true)
  end)

  it("gets a wrong key, and refuses it", function()
    core.main(function()
      local store <close> = assert(core.open_store(azurite.connection_string("YWJj")))
      local ok, err = store:table("Any"):create()
      assert.is_nil(ok)
      assert.same({ "Unauthorized", 403 }, { err.code, err.status })
    end)
  end)
end)
