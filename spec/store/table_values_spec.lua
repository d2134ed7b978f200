-- Values of every type keep their type and every bit of their value, on each store; what the caller gets wrong is
-- raised at its line.

local core = require "synod.core"
local sh = require "spec.support.sh"
local synod = require "synod"

local folder = sh.folder()
local PLACES = {
  memory = function() return "memory:" end,
  embedded = function() return "embedded:" .. folder.path .. "/values.db" end,
  Azurite = function() return require("spec.support.azurite").connection_string() end,
}

local VALUES = {
  -- integers
  0, 1, -1, 2 ^ 31 | 0, -(2 ^ 31 | 0) - 1, (1 << 53) + 1, math.maxinteger, math.mininteger,
  -- floats
  1.0, 0.0, -1.5, 0.1, 1 / 3, 1e15, 1e16 + 2, 1e21, 1e300, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
  123456789012345680.0, 1 / 0, -1 / 0,
  -- booleans and text
  true, false, "", "text", "a\"b\\c/d'e", "\0\1\31\127", "\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}",
    "line\r\n\u{2028}\u{2029}",
  "{\"a\":1}", " ", "2026-01-02T03:04:05Z", "01234567-89ab-cdef-0123-456789abcdef", "5", "NaN", "null",
  -- the other types
  synod.int32(0), synod.int32(-2147483648), synod.int32(2147483647),
  synod.time "2026-01-02T03:04:05.1234567Z", synod.time "1601-01-01T00:00:00Z",
    synod.time "9999-12-31T23:59:59.9999999Z",
  synod.time "1969-12-31T23:59:59.9999999Z", synod.time(0), synod.time(1767323045.5),
  synod.guid "01234567-89AB-CDEF-0123-456789abcdef", synod.binary "", synod.binary "\0\1\2\255",
    synod.binary(("x"):rep(1000)),
}

local function same(a, b)
  return a == b and math.type(a) == math.type(b) and type(a) == type(b)
end

for name, url in pairs(PLACES) do
  describe("on " .. name, function()
    lazy_teardown(function() folder:close() end)
    it("every value comes back unchanged, from a get, a query and a batch", function()
      core.main(function()
        local store <close> = assert(core.open_store(url()))
        local tbl = store:table("Values" .. os.time())
        assert(tbl:create())
        for i, value in ipairs(VALUES) do
          local how = i % 3
          local entity = { partition = "p", row = tostring(i), v = value }
          if how == 0 then assert(tbl:insert(entity))
          elseif how == 1 then assert(tbl:upsert(entity, { mode = "merge" }))
          else assert(tbl:batch { { insert = entity } }) end
          local got = assert(tbl:get("p", tostring(i)))
          assert.is_true(same(value, got.v), ("%d: %s came back as %s"):format(i, tostring(value), tostring(got.v)))
        end
        for each in tbl:query() do
          local value = VALUES[tonumber(each.row)]
          assert.is_true(same(value, each.v), ("%s: %s"):format(each.row, tostring(each.v)))
        end
        tbl:drop()
      end)
    end)

    it("so does what is no number", function()
      core.main(function()
        local store <close> = assert(core.open_store(url()))
        local tbl = store:table("Nan" .. os.time())
        assert(tbl:create())
        assert(tbl:insert { partition = "p", row = "r", v = 0 / 0 })
        local v = tbl:get("p", "r").v
        assert.is_true(v ~= v)
        tbl:drop()
      end)
    end)
  end)
end

describe("a typed value", function()
  it("has a type, a value, a text", function()
    local at = synod.time "2026-01-02T03:04:05.1234567Z"
    assert.same({ "time", "2026-01-02T03:04:05.1234567Z" }, { at.type, tostring(at) })
    assert.equal(1767323045.1234567, at.value)
    local n = synod.int32(-5)
    assert.same({ "int32", -5, "-5" }, { n.type, n.value, tostring(n) })
    local guid = synod.guid "{01234567-89AB-CDEF-0123-456789ABCDEF}"
    assert.same({ "guid", "01234567-89ab-cdef-0123-456789abcdef" }, { guid.type, tostring(guid) })
    assert.equal(guid, synod.guid "0123456789abcdef0123456789abcdef")
    local bytes = synod.binary "\0\1\255"
    assert.same({ "binary", "\0\1\255", "AAH/" }, { bytes.type, bytes.value, tostring(bytes) })
    assert.is_nil(n.none)
  end)

  it("equals its like and has an order", function()
    assert.equal(synod.int32(5), synod.int32(5))
    assert.not_equal(synod.int32(5), synod.int32(6))
    assert.is_false(synod.int32(5) == 5)
    assert.is_false(synod.binary "a" == synod.guid "01234567-89ab-cdef-0123-456789abcdef")
    assert.is_true(synod.time(1) < synod.time "1970-01-01T00:00:01.0000001Z")
    assert.is_true(synod.int32(-1) <= synod.int32(-1))
    assert.is_true(synod.binary "a" < synod.binary "ab")
    assert.has_error(function() return synod.int32(1) < synod.time(1) end, "attempt to compare int32 with time")
  end)

  it("of a time knows days and zones", function()
    for text, expected in pairs {
      ["2024-02-29T12:00:00Z"] = "2024-02-29T12:00:00.0000000Z",
      ["2000-02-29T00:00:00"] = "2000-02-29T00:00:00.0000000Z",
      ["2026-01-01T01:00:00+02:00"] = "2025-12-31T23:00:00.0000000Z",
      ["2026-12-31T23:30:00.5-00:30"] = "2027-01-01T00:00:00.5000000Z",
    } do
      assert.equal(expected, tostring(synod.time(text)))
    end
    for second = -11644473600, 253402300799, 7654321987 do
      assert.equal(os.date("!%Y-%m-%dT%H:%M:%S", second) .. ".0000000Z", tostring(synod.time(second)))
    end
  end)

  it("refuses what it cannot hold", function()
    for _, wrong in ipairs {
      { synod.int32, 2 ^ 31 | 0 }, { synod.int32, 1.5 }, { synod.int32, "x" }, { synod.time, "2026-02-29T00:00:00Z" },
      { synod.time, "2026-01-01" }, { synod.time, "1600-12-31T23:59:59Z" }, { synod.time, "2026-01-01T24:00:00Z" },
      { synod.time, "2026-01-01T00:00:00.12345678Z" }, { synod.time, 1e300 }, { synod.time, 0 / 0 }, { synod.time, {} },
      { synod.time, nil }, { synod.guid, "123" }, { synod.guid, ("g"):rep(32) }, { synod.binary, nil },
        { synod.binary, {} },
    } do
      assert.is_false(pcall(wrong[1], wrong[2]), tostring(wrong[2]))
    end
  end)

  it("is no wall clock: without an argument synod.time is one", function()
    core.main(function() assert.equal("float", math.type(synod.time())) end, { clock = "virtual" })
  end)
end)

describe("what the caller gets wrong is raised at its line:", function()
  local function many(n)
    local entity = { partition = "p", row = "r" }
    for i = 1, n do entity["p" .. i] = i end
    return entity
  end
  local function large()
    local entity = { partition = "p", row = "r" }
    for i = 1, 17 do entity["p" .. i] = ("x"):rep(32768) end
    return entity
  end
  local function operations(n)
    local list = {}
    for i = 1, n do list[i] = { insert = { partition = "p", row = tostring(i) } } end
    return list
  end
  local function key(partition) return { partition = partition, row = "r" } end

  local WRONG = {
    { "bad argument #1 to 'time' (seconds since 1970, or a text like", function() synod.time "tomorrow" end },
    { "bad argument #1 to 'time' (a time between the years 1601 and 9999", function() synod.time(1e300) end },
    { "bad argument #1 to 'int32' (", function() synod.int32(1 << 31) end },
    { "bad argument #1 to 'guid' (", function() synod.guid "x" end },
    { "bad argument #1 to 'binary' (", function() synod.binary {} end },
    { "the table name 'ab' must have 3 to 63 characters", function(_, s) s:table "ab" end },
    { "the table name 'a-b' may hold only letters and digits, a letter first", function(_, s) s:table "a-b" end },
    { "the table name '1abc' may hold only letters and digits, a letter first", function(_, s) s:table "1abc" end },
    { "the table name 'Tables' is the service's own", function(_, s) s:table "Tables" end },
    { "an entity expected: a table with partition, row and properties, got string", function(t) t:insert "x" end },
    { "the partition key: string expected, got nil", function(t) t:insert { row = "r" } end },
    { "the partition key: string expected, got nil", function(t) -- a call in the middle of a call is not made
      t:insert(setmetatable({ row = "r" }, { __index = function() return t:get("p", "r") and "p" end }))
    end },
    { "the row key: string expected, got number", function(t) t:insert { partition = "p", row = 1 } end },
    { "the partition key 'a/b' may hold none of / \\ # ?", function(t) t:insert(key "a/b") end },
    { "the partition key 'a\\b' may hold none of / \\ # ?", function(t) t:insert(key "a\\b") end },
    { "the partition key 'a?' may hold none of / \\ # ?", function(t) t:insert(key "a?") end },
    { "may hold no control character", function(t) t:insert(key "a\n") end },
    { "may hold no control character", function(t) t:insert(key "a\u{85}") end },
    { "may hold no control character", function(t) t:get("p", "a\0b") end },
    { "may have at most 1 KiB", function(t) t:insert(key(("k"):rep(1025))) end },
    { "must be UTF-8", function(t) t:insert(key "\xff") end },
    { "the row key: string expected, got no value", function(t) t:get "p" end },
    { "the partition key: string expected, got no value", function(t) t:delete() end },
    { "the property name 'a-b' must be a letter or '_'",
      function(t) t:insert { partition = "p", row = "r", ["a-b"] = 1 } end },
    { "the property name '1a' must be a letter or '_'",
      function(t) t:insert { partition = "p", row = "r", ["1a"] = 1 } end },
    { "may have at most 255 characters",
      function(t) t:insert { partition = "p", row = "r", [("n"):rep(256)] = 1 } end },
    { "this one has a number for a name", function(t) t:insert { partition = "p", row = "r", "x" } end },
    { "the property name 'RowKey' is the service's own; the keys are 'partition' and 'row'",
      function(t) t:insert { partition = "p", row = "r", RowKey = "x" } end },
    { "the property name 'synod_nonce' is synod's own",
      function(t) t:insert { partition = "p", row = "r", synod_nonce = "x" } end },
    { "the property 'x': string, number, boolean, or a value of synod.int32",
      function(t) t:insert { partition = "p", row = "r", x = {} } end },
    { "the property 'x' is not UTF-8; synod.binary holds any bytes",
      function(t) t:insert { partition = "p", row = "r", x = "\xff" } end },
    { "the property 'x' is longer than 64 KiB (32,768 characters of UTF-16)",
      function(t) t:insert { partition = "p", row = "r", x = ("x"):rep(32769) } end },
    { "the property 'x' is longer than 64 KiB",
      function(t) t:insert { partition = "p", row = "r", x = core.binary(("x"):rep(65537)) } end },
    { "the entity has more than 252 properties of its own", function(t) t:insert(many(253)) end },
    { "the entity is larger than 1 MiB", function(t) t:insert(large()) end },
    { "unknown option 'if_macht'", function(t) t:merge({ partition = "p", row = "r" }, { if_macht = "*" }) end },
    { "unknown option 'if_match'", function(t) t:insert({ partition = "p", row = "r" }, { if_match = "*" }) end },
    { "option 'if_match': it must not be empty",
      function(t) t:merge({ partition = "p", row = "r" }, { if_match = "" }) end },
    { "option 'if_match': it may hold only printable ASCII",
      function(t) t:delete("p", "r", { if_match = "a\r\nb" }) end },
    { "option 'mode': 'replace' or 'merge' expected, got insert",
      function(t) t:upsert({ partition = "p", row = "r" }, { mode = "insert" }) end },
    { "option 'select': list of property names expected, got string",
      function(t) t:get("p", "r", { select = "a" }) end },
    { "option 'select': its number 2 is no property's name",
      function(t) t:get("p", "r", { select = { "a", "b,c" } }) end },
    { "option 'page': between 1 and 1000 expected", function(t) t:query { page = 1001 } end },
    { "option 'filter': string expected, got table", function(t) t:query { filter = {} } end },
    { "unknown option 'colour'", function(t) t:query { colour = 1 } end },
    { "an empty batch does nothing", function(t) t:batch {} end },
    { "a batch has at most 100 operations", function(t) t:batch(operations(101)) end },
    { "operation 1 of the batch: table expected, got string", function(t) t:batch { "x" } end },
    { "operation 2 of the batch: insert, replace, merge, upsert or delete expected",
      function(t) t:batch { operations(1)[1], {} } end },
    { "operation 1 of the batch is more than one", function(t) t:batch { { insert = key "p", delete = key "p" } } end },
    { "operation 1 of the batch: unknown option 'if_match'",
      function(t) t:batch { { insert = key "p", if_match = "*" } } end },
    { "operation 1 of the batch: unknown option 'mode'",
      function(t) t:batch { { merge = key "p", mode = "merge" } } end },
    { "operation 2 of the batch is in the partition 'q', the first in 'p'",
      function(t) t:batch { { insert = key "p" }, { insert = key "q" } } end },
  }
  for i, wrong in ipairs(WRONG) do
    it(i .. ": " .. wrong[1], function()
      core.main(function()
        local store <close> = assert(core.open_store "memory:")
        local ok, problem = pcall(wrong[2], store:table "Table", store)
        assert.is_false(ok)
        assert.matches(wrong[1], problem, 1, true)
        assert.matches("table_values_spec.lua:%d+: ", problem)
        assert.same({}, store:usage())
      end, { clock = "virtual" })
    end)
  end
end)
