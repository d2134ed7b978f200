-- What tables are in the embedded store alone: pages of its own making, versions that grow, two that share a file,
-- waking, and what a person sees with sqlite3.

local core = require "synod.core"
local sh = require "spec.support.sh"

local function with_file(fn, options)
  local folder <close> = sh.folder()
  local path = folder.path .. "/store.db"
  core.main(function()
    local store <close> = assert(core.open_store("embedded:" .. path .. ((options or {}).relaxed and "?relaxed" or "")))
    fn(store, path)
  end, options and options.main)
end

local function fill(tbl, count, make)
  for first = 1, count, 100 do
    local list = {}
    for i = first, math.min(first + 99, count) do
      list[#list + 1] = { insert = make and make(i) or { partition = "p", row = ("%06d"):format(i), n = i } }
    end
    assert(tbl:batch(list))
  end
end

describe("a table in a file", function()
  it("gives a long query in pages of a thousand", function()
    with_file(function(store)
      local tbl = store:table "Long"
      assert(tbl:create())
      fill(tbl, 2500)
      local n = 0
      for e in tbl:query() do
        n = n + 1
        assert.equal(n, e.n)
      end
      assert.equal(2500, n)
      assert.equal(3, store:usage().QueryEntities)
    end, { relaxed = true })
  end)

  it("ends a page early that finds little, and goes on", function()
    with_file(function(store)
      local tbl = store:table "Sparse"
      assert(tbl:create())
      fill(tbl, 12000)
      local found = {}
      for e in tbl:query { filter = "n eq 7L or n eq 11999L" } do found[#found + 1] = e.n end
      assert.same({ 7, 11999 }, found)
      assert.equal(3, store:usage().QueryEntities)
    end, { relaxed = true })
  end)

  it("keeps entities of nearly 1 MiB, in a query too", function()
    with_file(function(store)
      local tbl = store:table "Large"
      assert(tbl:create())
      local text = ("ü"):rep(32000)
      for i = 1, 6 do
        local e = { partition = "p", row = tostring(i) }
        for k = 1, 16 do e["t" .. k] = text end
        assert(tbl:insert(e))
      end
      local n = 0
      for e in tbl:query() do
        n = n + 1
        assert.equal(text, e.t16)
      end
      assert.equal(6, n)
      local ok, err = tbl:merge { partition = "p", row = "1", more = ("x"):rep(20000) }
      assert.is_nil(ok)
      assert.same({ "EntityTooLarge", 400 }, { err.code, err.status })
      assert.is_nil(tbl:get("p", "1").more)
    end)
  end)

  it("survives the end of the store, and its removal leaves a container of the same name alone", function()
    local folder <close> = sh.folder()
    local url = "embedded:" .. folder.path .. "/store.db"
    core.main(function()
      local store <close> = assert(core.open_store(url))
      assert(store:table("same"):create())
      assert(store:table("same"):insert { partition = "p", row = "r", n = 1.0, s = "ü" })
      assert(store:container("same"):create())
      local log = store:container("same"):blob "log"
      assert(log:put("", { type = "append" }))
      assert(log:append "line")
    end)
    core.main(function()
      local store <close> = assert(core.open_store(url))
      local e = store:table("SAME"):get("p", "r")
      assert.same({ "float", "ü" }, { math.type(e.n), e.s })
      assert.is_true(store:table("same"):drop())
      assert.equal("line", (store:container("same"):blob("log"):get()))
    end)
  end)

  it("never gives an ETag twice, whichever process writes, and later ones are later", function()
    local folder <close> = sh.folder()
    local url = "embedded:" .. folder.path .. "/store.db?relaxed"
    core.main(function()
      local a <close> = assert(core.open_store(url))
      local b <close> = assert(core.open_store(url))
      assert(a:table("Versions"):create())
      local last, seen = "", {}
      for i = 1, 300 do
        local store = i % 3 == 0 and a or b
        local etag = assert(store:table("Versions"):upsert { partition = "p", row = tostring(i % 7) }).etag
        assert.is_nil(seen[etag])
        assert.is_true(etag > last)
        seen[etag], last = true, etag
        if i % 5 == 0 then assert(store:table("Versions"):delete("p", tostring(i % 7))) end
      end
    end, { clock = "virtual" }) -- the clock stands still
  end)

  it("can be read by a person", function()
    with_file(function(store, path)
      local tbl = store:table "People"
      assert(tbl:create())
      assert(tbl:upsert { partition = "group", row = "x|1", name = "Ada", age = 36 })
      local output = sh.run(("sqlite3 -readonly %s \"SELECT name FROM tables; SELECT partition, row, "
        .. "json_extract(properties, '$.name'), json_extract(properties, '$.age'), length(timestamp) "
        .. "FROM entities\""):format(sh.quote(path)))
      assert.equal("People\ngroup|x|1|Ada|36|28\n", output)
    end)
  end)

  it("wakes who waits for a change of a partition", function()
    core.main(function()
      local store <close> = assert(core.open_store "memory:")
      local tbl = store:table "Members"
      assert(tbl:create())
      for _, change in ipairs {
        function() return tbl:insert { partition = "partition one", row = "r" } end,
        function() return tbl:batch { { merge = { partition = "partition one", row = "r", n = 1 } } } end,
        function() return tbl:delete("partition one", "r") end,
        function() return tbl:drop() end,
      } do
        core.spawn(function()
          core.sleep(1)
          assert(change())
        end)
        local from = core.now()
        assert.is_true((store:changed { container = "Members", prefix = "partition one", timeout = 5 }))
        assert.equal(1, core.now() - from)
      end
    end, { clock = "virtual", seed = 1 })
  end)

  it("gives a query that may be left in the middle, and is read by one task at a time", function()
    core.main(function()
      local store <close> = assert(core.open_store("memory:", { faults = {
        { operation = "QueryEntities", ordinal = 2, kind = "delay", seconds = 1 },
      } }))
      local tbl = store:table "Members"
      assert(tbl:create())
      fill(tbl, 4)
      local seen = 0
      for e in tbl:query { page = 1 } do
        seen = seen + 1
        assert.equal(1, e.n)
        if seen == 1 then break end
      end
      assert.equal(1, store:usage().QueryEntities)
      local next_entity, cursor = tbl:query { page = 1 }
      local task = core.spawn(function() return next_entity(cursor) end)
      core.sleep(0.5)
      assert.has_error(function() next_entity(cursor) end, "another task is waiting for the next page of this query")
      assert.equal(1, task:join().n)
      assert.equal(2, next_entity(cursor).n)
      store:close()
      assert.has_error(function() next_entity(cursor) end, "the store is closed")
    end, { clock = "virtual", seed = 1 })
  end)

  it("gives up a query whose task is cancelled", function()
    core.main(function()
      local store <close> = assert(core.open_store("memory:", { faults = {
        { operation = "QueryEntities", kind = "delay", seconds = 2 },
      } }))
      local tbl = store:table "Members"
      assert(tbl:create())
      fill(tbl, 2)
      local task = core.spawn(function()
        for _ in tbl:query() do end
      end)
      core.sleep(1)
      task:cancel()
      assert.equal("Cancelled", select(2, task:join()).code)
    end, { clock = "virtual", seed = 1 })
  end)
end)
