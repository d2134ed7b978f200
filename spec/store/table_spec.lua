-- Every call on tables and entities as one list of cases: the same calls give the same results on each store. A case
-- makes calls and says their outcomes through `t`; the list beside it is what must come out.

local core = require "synod.core"
local differences = require "spec.azure.differences"
local sh = require "spec.support.sh"

--- "ok", true, or the code and status of a refusal.
local function outcome(first, second)
  if first == nil and second ~= nil then return second.code .. " " .. tostring(second.status) end
  if type(first) == "table" then return "ok" end
  if first == nil then return "nil" end
  return first
end

local counter = 0
local function fresh()
  counter = counter + 1
  return ("Case%dx%d"):format(counter, os.time())
end

local STALE = [[W/"datetime'2001-01-01T00%3A00%3A00.0000000Z'"]]

--- An entity of partition "p".
local function e(row, properties)
  local entity = { partition = "p", row = row }
  for name, value in pairs(properties or {}) do entity[name] = value end
  return entity
end

--- The rows of a query, in a line.
local function rows(query)
  local list = {}
  for each in query do list[#list + 1] = each.row end
  return table.concat(list, " ")
end

--- All of a query, whatever else a for loop would be given.
local function query(tbl, options)
  local list = {}
  for each in tbl:query(options) do list[#list + 1] = each end
  local at = 0
  return function()
    at = at + 1
    return list[at]
  end
end

---@type { [1]: string, [2]: fun(t: fun(...), tbl: synod.Table, s: synod.Store), [3]: any[] }[]
local CASES = {
  { "a table: made twice, removed, gone", function(t, _, s)
    local tbl = s:table(fresh())
    t(tbl:get("p", "r"))
    t(tbl:create())
    t(tbl:create())
    t(tbl:insert(e "r"))
    t(tbl:drop())
    t(tbl:drop())
    t(tbl:create())
    t(tbl:get("p", "r"))
    t(tbl:drop())
  end, { "TableNotFound 404", true, true, "ok", true, "TableNotFound 404", true, "ResourceNotFound 404", true } },
  { "the list of tables has the spelling they were made with", function(t, _, s)
    local name = fresh()
    s:table(name):create()
    for item in s:tables() do
      if item.name:lower() == name:lower() then t(item.name == name) end
    end
  end, { true } },
  { "every call in a table that is absent", function(t, _, s)
    local tbl = s:table(fresh())
    t(tbl:insert(e "r"))
    t(tbl:get("p", "r"))
    t(tbl:replace(e "r"))
    t(tbl:merge(e "r"))
    t(tbl:upsert(e "r"))
    t(tbl:upsert(e "r", { mode = "merge" }))
    t(tbl:delete("p", "r"))
    local ok, err = tbl:batch { { insert = e "r" } }
    t(ok, err)
    t(err.index)
    ok, err = pcall(query, tbl)
    t(not ok and err.code)
  end, { "TableNotFound 404", "TableNotFound 404", "TableNotFound 404", "TableNotFound 404", "TableNotFound 404",
    "TableNotFound 404", "TableNotFound 404", "TableNotFound 404", 1, "TableNotFound" } },

  -- the table of section 3
  { "insert: absent, there", function(t, tbl)
    t(tbl:insert(e "r"))
    t(tbl:insert(e "r"))
  end, { "ok", "EntityAlreadyExists 409" } },
  { "replace: the ETag read, a stale one, any, absent", function(t, tbl)
    local first = tbl:insert(e("r", { a = 1, b = 2 }))
    local second = tbl:replace(e("r", { a = 3 }), { if_match = first.etag })
    t(second)
    t(first.etag ~= second.etag)
    t(tbl:replace(e("r", { a = 4 }), { if_match = first.etag }))
    t(tbl:replace(e("r", { a = 4 }), { if_match = STALE }))
    local got = tbl:get("p", "r")
    t(got.a)
    t(got.b)
    t(got.etag == second.etag)
    t(tbl:replace(e("r", { a = 5 }), { if_match = "*" }))
    t(tbl:replace(e("r", { a = 6 })))
    t(tbl:get("p", "r").a)
    t(tbl:replace(e "none"))
    t(tbl:replace(e "none", { if_match = STALE }))
  end, { "ok", true, "UpdateConditionNotSatisfied 412", "UpdateConditionNotSatisfied 412", 3, "nil", true, "ok", "ok",
    6,
    "ResourceNotFound 404", "ResourceNotFound 404" } },
  { "merge: the ETag read, a stale one, any, absent; what is not given stays", function(t, tbl)
    local first = tbl:insert(e("r", { a = 1, b = 2 }))
    local second = tbl:merge(e("r", { b = 3, c = 4 }), { if_match = first.etag })
    t(second)
    t(tbl:merge(e("r", { a = 9 }), { if_match = first.etag }))
    local got = tbl:get("p", "r")
    t(("%d %d %d"):format(got.a, got.b, got.c))
    t(got.etag == second.etag)
    t(tbl:merge(e("r", { a = 5 }), { if_match = "*" }))
    t(tbl:merge(e("r", { a = 6 })))
    t(tbl:merge(e "none"))
    t(tbl:merge(e "none", { if_match = STALE }))
  end, { "ok", "UpdateConditionNotSatisfied 412", "1 3 4", true, "ok", "ok", "ResourceNotFound 404",
    "ResourceNotFound 404" } },
  { "a merge may change a property's type", function(t, tbl)
    tbl:insert(e("r", { a = 1 }))
    tbl:merge(e("r", { a = "one" }))
    t(tbl:get("p", "r").a)
    tbl:merge(e("r", { a = 1.0 }))
    t(math.type(tbl:get("p", "r").a))
  end, { "one", "float" } },
  { "upsert: creates, replaces, merges", function(t, tbl)
    t(tbl:upsert(e("r", { a = 1 })))
    t(tbl:upsert(e("r", { b = 2 })))
    t(tbl:get("p", "r").a)
    t(tbl:upsert(e("r", { c = 3 }), { mode = "merge" }))
    local got = tbl:get("p", "r")
    t(got.b + got.c)
    t(tbl:upsert(e("new", { c = 3 }), { mode = "merge" }))
    t(tbl:get("p", "new").c)
    t(tbl:upsert(e("r", { d = 4 }), { mode = "replace" }))
    t(tbl:get("p", "r").c)
  end, { "ok", "ok", "nil", "ok", 5, "ok", 3, "ok", "nil" } },
  { "delete: the ETag read, a stale one, any, absent", function(t, tbl)
    local first = tbl:insert(e "r")
    t(tbl:delete("p", "r", { if_match = STALE }))
    t(tbl:delete("p", "r", { if_match = first.etag }))
    t(tbl:delete("p", "r"))
    t(tbl:delete("p", "r", { if_match = STALE }))
    tbl:insert(e "r")
    t(tbl:delete("p", "r", { if_match = "*" }))
    tbl:insert(e "r")
    t(tbl:delete("p", "r"))
    t(tbl:get("p", "r"))
  end, { "UpdateConditionNotSatisfied 412", true, "ResourceNotFound 404", "ResourceNotFound 404", true, true,
    "ResourceNotFound 404" } },
  { "an ETag of an earlier life does not match", function(t, tbl)
    local first = tbl:insert(e "r")
    tbl:delete("p", "r")
    local second = tbl:insert(e "r")
    t(first.etag ~= second.etag)
    t(tbl:replace(e "r", { if_match = first.etag }))
  end, { true, "UpdateConditionNotSatisfied 412" } },
  { "a malformed ETag", function(t, tbl)
    tbl:insert(e "r")
    t(tbl:replace(e "r", { if_match = '"0x1"' }))
    t(tbl:merge(e "r", { if_match = "abc" }))
    t(tbl:delete("p", "r", { if_match = '"0x1"' }))
  end, { "InvalidInput 400", "InvalidOperation 400", "InvalidInput 400" } },
  { "every write yields another ETag, with equal content too", function(t, tbl)
    local seen, same = {}, 0
    for _ = 1, 20 do
      local etag = tbl:upsert(e("r", { a = 1 })).etag
      same = same + (seen[etag] and 1 or 0)
      seen[etag] = true
    end
    t(same)
    t(seen[tbl:get("p", "r").etag])
  end, { 0, true } },
  { "golden case 11", function(t, tbl)
    tbl:insert(e("r", { n = 1 }))
    t(tbl:replace(e("r", { n = 2 }), { if_match = STALE }))
    t(tbl:replace(e("absent"), { if_match = "*" }))
    t(tbl:upsert(e "created"))
    t(tbl:batch { { insert = e "new" }, { replace = e("r", { n = 3 }), if_match = STALE }, { delete = e "created" } })
    t(tbl:get("p", "new"))
    t(tbl:get("p", "created"))
    t(tbl:get("p", "r").n)
  end, { "UpdateConditionNotSatisfied 412", "ResourceNotFound 404", "ok", "UpdateConditionNotSatisfied 412",
    "ResourceNotFound 404", "ok", 1 } },

  -- keys
  { "keys of every kind", function(t, tbl)
    local keys = { "", " ", "a'b", "''", "ä ö|€", "日本", "a%2Fb", "a+b&c=d", "(x,y)", "a;b:c@d", "-", "\u{1F600}",
      ("k"):rep(512) }
    for _, key in ipairs(keys) do tbl:insert { partition = key, row = key, was = key } end
    local wrong = 0
    for _, key in ipairs(keys) do
      local got = tbl:get(key, key)
      if not got or got.partition ~= key or got.row ~= key or got.was ~= key then wrong = wrong + 1 end
    end
    t(wrong)
    for _, key in ipairs(keys) do
      local n = 0
      for each in tbl:query { partition = key, from = key, to = key } do n = n + (each.was == key and 1 or 0) end
      if n ~= 1 then t("not found by query: " .. key) end
    end
    for _, key in ipairs(keys) do
      if tbl:delete(key, key) ~= true then t("not deleted: " .. key) end
    end
  end, { 0 } },
  { "partition and row are apart", function(t, tbl)
    tbl:insert { partition = "a", row = "bc", n = 1 }
    tbl:insert { partition = "ab", row = "c", n = 2 }
    t(tbl:get("a", "bc").n + tbl:get("ab", "c").n)
    t(rows(query(tbl, { partition = "a" })))
  end, { 3, "bc" } },

  -- queries
  { "a query gives entities in the order of their keys", function(t, tbl)
    for _, key in ipairs { "b 2", "a 10", "b 1", "a 9", "ab 1", "a 1" } do
      local partition, row = key:match("(%S+) (%S+)")
      tbl:insert { partition = partition, row = row }
    end
    local seen = {}
    for each in tbl:query() do seen[#seen + 1] = each.partition .. each.row end
    t(table.concat(seen, " "))
    t(rows(query(tbl, { partition = "a" })))
    t(rows(query(tbl, { partition = "none" })))
  end, { "a1 a10 a9 ab1 b1 b2", "1 10 9", "" } },
  { "a query by row range: both ends belong to it", function(t, tbl)
    for _, row in ipairs { "a", "b", "c", "d" } do
      tbl:insert(e(row))
      tbl:insert { partition = "q", row = row }
    end
    t(rows(query(tbl, { partition = "p", from = "b", to = "c" })))
    t(rows(query(tbl, { partition = "p", from = "bb" })))
    t(rows(query(tbl, { partition = "p", to = "b" })))
    t(rows(query(tbl, { from = "c", to = "d" })))
    t(rows(query(tbl, { partition = "p", from = "d", to = "a" })))
  end, { "b c", "c d", "a b", "c d c d", "" } },
  { "pages, each row once and in order", function(t, tbl)
    for i = 1, 25 do tbl:insert { partition = i % 2 == 0 and "p" or "q", row = ("%02d"):format(i) } end
    for _, page in ipairs { 1, 3, 12, 25, 1000 } do
      t(rows(query(tbl,
        { page = page })) == "02 04 06 08 10 12 14 16 18 20 22 24 01 03 05 07 09 11 13 15 17 19 21 23 25")
    end
    t(rows(query(tbl, { page = 2, partition = "q", from = "05", to = "11" })))
  end, { true, true, true, true, true, "05 07 09 11" } },
  { "select", function(t, tbl)
    tbl:insert(e("r", { a = 1, b = 2, ["@row"] = "own" }))
    local got = tbl:get("p", "r", { select = { "b", "@row", "none" } })
    t(tostring(got.a) .. got.b .. got.row .. got["@row"] .. got.partition)
    t(type(got.etag) .. tostring(got.timestamp.type))
    for each in tbl:query { select = { "a" } } do
      t(tostring(each.a) .. tostring(each.b) .. each.row .. type(each.etag))
    end
  end, { "nil2rownp", "stringtime", "1nilrstring" } },

  -- filters
  { "a filter for each type and operator", function(t, tbl)
    tbl:insert(e("1", { i = 1, f = 1.5, s = "a", b = true, n = core.int32(1),
      at = core.time_value "2026-01-01T00:00:00Z",
      g = core.guid "00000000-0000-0000-0000-000000000001", x = core.binary "\1\2" }))
    tbl:insert(e("2", { i = 2, f = 2.5, s = "b'c", b = false, n = core.int32(2),
      at = core.time_value "2026-01-02T00:00:00.5Z", g = core.guid "00000000-0000-0000-0000-000000000002",
      x = core.binary "\1\3" }))
    tbl:insert(e("3", { other = 1 }))
    for _, filter in ipairs {
      "i eq 1L", "i gt 1L", "i ge 1L", "i lt 2L", "i le 2L", "i ne 1L", "f eq 1.5", "f gt 1.5", "n eq 2", "n ne 2",
      "s eq 'a'", "s eq 'b''c'", "s gt 'a'", "b eq true", "b eq false", "b", "not b",
      "at lt datetime'2026-01-02T00:00:00Z'", "at eq datetime'2026-01-02T00:00:00.5000000Z'",
      "g eq guid'00000000-0000-0000-0000-000000000002'", "x eq X'0102'", "x eq binary'0103'",
      "PartitionKey eq 'p' and RowKey gt '1'", "i eq 1L or i eq 2L", "not (i eq 1L)",
      "(i eq 1L or f eq 2.5) and not (s eq 'a')", "i eq 1L or i eq 2L and s eq 'none'", "other eq 1L",
    } do
      t(rows(query(tbl, { filter = filter })))
    end
  end, { "1", "2", "1 2", "1", "1 2", "2", "1", "2", "2", "1", "1", "2", "2", "1", "2", "1", "2 3", "1", "2", "2", "1",
    "2", "2 3", "1 2", "2 3", "2", "1", "3" } },
  { "a filter beside keys", function(t, tbl)
    for i = 1, 6 do
      tbl:insert(e(tostring(i), { n = i }))
      tbl:insert { partition = "q", row = tostring(i), n = i }
    end
    t(rows(query(tbl, { partition = "p", from = "2", to = "5", filter = "n eq 1L or n ge 4L" })))
    t(rows(query(tbl, { page = 1, filter = "n eq 6L" })))
  end, { "4 5", "6 6" } },
  { "a malformed filter", function(t, tbl)
    for _, filter in ipairs { "n eq", "n == 1", "(n eq 1", "n eq 'x" } do
      local ok, err = pcall(query, tbl, { filter = filter })
      t(ok or err.code .. " " .. err.status)
    end
  end, { "InvalidInput 400", "InvalidInput 400", "InvalidInput 400", "InvalidInput 400" } },

  -- batches
  { "a batch of every operation", function(t, tbl)
    local old = tbl:insert(e("old", { n = 1 }))
    tbl:insert(e("m", { a = 1 }))
    tbl:insert(e "gone")
    local results = assert(tbl:batch {
      { insert = e("new", { s = "ü\u{2028}\n" }) },
      { replace = e("old", { n = 2 }), if_match = old.etag },
      { merge = e("m", { b = 2 }) },
      { upsert = e("u1", { a = 1 }) },
      { upsert = e("u2", { a = 1 }), mode = "merge" },
      { delete = e "gone" },
    })
    t(#results)
    t(results[6])
    t(results[1].etag == tbl:get("p", "new").etag)
    t(results[2].etag == tbl:get("p", "old").etag)
    t(tbl:get("p", "m").a + tbl:get("p", "m").b + tbl:get("p", "old").n)
    t(tbl:get("p", "new").s)
    t(rows(query(tbl)))
  end, { 6, true, true, true, 5, "ü\u{2028}\n", "m new old u1 u2" } },
  { "a batch fails whole, and says at which operation", function(t, tbl)
    tbl:insert(e("r", { n = 1 }))
    local list = { { upsert = e "x" }, { merge = e("r", { n = 2 }) }, { insert = e "y" } }
    for _, case in ipairs {
      { insert = e "r2", made = true }, { replace = e "none" }, { delete = e "none" },
      { delete = e "r3", if_match = STALE, made = true },
    } do
      if case.made then tbl:upsert(case.insert or case.delete) end
      case.made = nil
      list[4] = case
      local ok, err = tbl:batch(list)
      t(ok, err)
      t(err.index)
    end
    t(rows(query(tbl)))
    t(tbl:get("p", "r").n)
  end, { "EntityAlreadyExists 409", 4, "ResourceNotFound 404", 4, "ResourceNotFound 404", 4,
    "UpdateConditionNotSatisfied 412", 4, "r r2 r3", 1 } },
  { "an entity twice in a batch", function(t, tbl)
    t(tbl:batch { { upsert = e "a" }, { upsert = e "b" }, { merge = e "a" } })
    t(rows(query(tbl)))
  end, { "InvalidDuplicateRow 400", "" } },
  { "a batch of a hundred", function(t, tbl)
    local list = {}
    for i = 1, 100 do list[i] = { insert = e(("%03d"):format(i), { n = i }) } end
    t(#assert(tbl:batch(list)))
    t(#rows(query(tbl)))
  end, { 100, 399 } },

  -- limits that only the store can see
  { "a merge that makes too many properties", function(t, tbl)
    local first, second = {}, {}
    for i = 1, 200 do first["a" .. i], second["b" .. i] = i, i end
    t(tbl:insert(e("r", first)))
    t(tbl:merge(e("r", second)))
    t(tbl:get("p", "r").b1)
  end, { "ok", "TooManyProperties 400", "nil" } },
  { "252 properties and 64 KiB of text and bytes", function(t, tbl)
    local many = {}
    for i = 1, 252 do many["p" .. i] = i end
    t(tbl:insert(e("many", many)))
    t(tbl:get("p", "many").p252)
    t(tbl:insert(e("long", { s = ("é"):rep(32768), x = core.binary(("\0\255"):rep(32768)) })))
    local got = tbl:get("p", "long")
    t(#got.s + #got.x.value)
  end, { "ok", 252, "ok", 131072 } },
}

--- What Azurite answers otherwise than the service is listed: spec/azure/differences.lua.
local function expected(case, place)
  for _, row in ipairs(place.name == "Azurite" and differences or {}) do
    if row.spec == "spec/store/table_spec.lua" and row.case == case[1] then return row.azurite end
  end
  return case[3]
end

local function run_case(store, case)
  local said = {}
  local tbl = store:table(fresh())
  assert(tbl:create())
  case[2](function(...) said[#said + 1] = outcome(...) end, tbl, store)
  tbl:drop()
  return said
end

local folder = sh.folder()
local PLACES = {
  { name = "memory", url = function() return "memory:" end },
  { name = "embedded", url = function() return "embedded:" .. folder.path .. "/store.db" end },
  { name = "embedded, relaxed", url = function() return "embedded:" .. folder.path .. "/relaxed.db?relaxed" end },
  { name = "Azurite", url = function() return require("spec.support.azurite").connection_string() end },
}

for _, place in ipairs(PLACES) do
  describe("on " .. place.name .. ":", function()
    lazy_teardown(function() folder:close() end)
    for _, case in ipairs(CASES) do
      it(case[1], function()
        core.main(function()
          local store <close> = assert(core.open_store(place.url()))
          assert.same(expected(case, place), run_case(store, case))
        end)
      end)
    end
  end)
end
