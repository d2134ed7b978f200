-- Bodies of any size, and copies: one list of cases that every store answers alike. Then what is lost on the way, who
-- is killed in the middle, and how much memory real processes take.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local sh = require "spec.support.sh"
require "synod.store"

--- "ok", the body, true, or the code and status of a refusal.
local function outcome(first, second)
  if first == nil then return second and second.code .. " " .. tostring(second.status) or "nil" end
  if type(first) == "table" then return "ok" end
  return first
end

--- Different bytes at different places, so that no two blocks are alike.
local function content(n)
  local pieces = {}
  for i = 0, n - 1 do pieces[#pieces + 1] = string.char((i * 7 + i // 256) % 256) end
  return table.concat(pieces)
end

local function pieces_of(reader)
  local pieces = {}
  for piece in reader do pieces[#pieces + 1] = piece end
  return pieces
end

--- Writes with blocks of eight bytes, in portions of another size.
local function write(b, data, options)
  options = options or {}
  options.block = options.block or 8
  local w <close> = b:writer(options)
  for from = 1, #data, 5 do assert(w:write(data:sub(from, from + 4))) end
  return w:close()
end

---@type { [1]: string, [2]: fun(t: fun(...), c: synod.Container, s: synod.Store), [3]: any[] }[]
local CASES = {
  { "exact sizes around the block", function(t, c, s)
    for _, n in ipairs { 0, 1, 7, 8, 9, 15, 16, 17, 24, 25 } do
      local b, before = c:blob("n" .. n), s:usage().PutBlock or 0
      write(b, content(n))
      t(b:get() == content(n) and b:head().length == n and (s:usage().PutBlock or 0) - before)
    end
  end, { 0, 0, 0, 0, 2, 2, 2, 3, 3, 4 } },
  { "exact sizes around what one put takes", function(t, c, s)
    local most = core.put_bytes_max
    for _, n in ipairs { most - 1, most, most + 1 } do
      local b, body, before = c:blob "x", ("z"):rep(n - 1) .. "y", s:usage().PutBlock or 0
      t(b:put(body))
      t(b:head().length == n and b:get() == body and (s:usage().PutBlock or 0) - before)
    end
  end, { "ok", 0, "ok", 0, "ok", 5 } },
  { "what is told with it", function(t, c)
    local b = c:blob "x"
    local props = write(b, content(20), { metadata = { a = "1" }, content_type = "text/plain" })
    local head = b:head()
    t(props.etag == head.etag and props.last_modified == head.last_modified)
    t(("%s %d %s %s"):format(head.type, head.length, head.content_type, head.metadata.a))
    t(head.metadata.synod_nonce == nil and head.copy_status == nil and head.committed_block_count == nil)
    for item in c:list { metadata = true } do t(item.length .. item.metadata.a) end
  end, { true, "block 20 text/plain 1", true, "201" } },
  { "a body from a function", function(t, c)
    local b, i = c:blob "x", 0
    t(b:put(function() i = i + 1 return i <= 3 and "piece" .. i or nil end, { metadata = { a = "1" } }))
    t(b:get())
    t(b:head().metadata.a)
    t(b:put(function() return nil, core.new_error { code = "Timeout" } end))
    t(b:get())
    t(b:put(function() return nil end))
    t(b:get())
    t(pcall(b.put, b, function() error("none", 0) end))
    t(select(2, pcall(b.put, b, function() end, { type = "page", size = 512 })):match "page or append blob")
  end, { "ok", "piece1piece2piece3", "1", "Timeout nil", "piece1piece2piece3", "ok", "", false,
    "page or append blob" } },
  { "every range of blocks", function(t, c)
    local b, all, wrong = c:blob "x", content(20), 0
    write(b, all)
    for from = 0, 19 do
      for n = 1, 21 do
        if b:get { offset = from, length = n } ~= all:sub(from + 1, from + n) then wrong = wrong + 1 end
      end
    end
    t(wrong)
    t(b:get { offset = 21 })
    t(b:get { offset = 18 } == all:sub(19))
  end, { 0, "InvalidRange 416", true } },
  { "nothing is seen before close", function(t, c)
    local b = c:blob "x"
    local w <close> = b:writer { block = 4, parallel = 1 }
    t(w:write(content(30)))
    t(b:head())
    for item in c:list() do t(item.name) end
    t(w:close())
    t(b:head().length)
    t(select(2, pcall(w.write, w, "x")):match "the writer is closed")
    t(select(2, pcall(w.close, w)):match "the writer is closed")
  end, { true, "BlobNotFound 404", "ok", 30, "the writer is closed", "the writer is closed" } },
  { "a writer that is left writes nothing", function(t, c)
    local b = c:blob "x"
    b:put "old"
    do
      local w <close> = b:writer { block = 4 }
      w:write(content(30))
    end
    t(pcall(function()
      local w <close> = b:writer { block = 4 }
      w:write(content(30))
      error("in the middle", 0)
    end))
    t(b:get())
  end, { false, "old" } },
  { "conditions hold when it is closed", function(t, c)
    local b = c:blob "x"
    t(write(b, content(20), { if_match = '"0x0000000000000001"' }))
    t(write(b, content(20), { if_none_match = "*" }))
    t(write(b, content(21), { if_none_match = "*" }))
    local etag = b:head().etag
    local w = b:writer { block = 8, if_match = etag }
    w:write(content(30))
    b:set_metadata { changed = "1" }
    t(w:close())
    t(write(b, content(22), { if_match = etag }))
    t(write(b, content(23), { if_match = b:head().etag }))
    t(write(b, content(24), { if_unmodified_since = 1000000000 }))
    t(b:head().length)
    t(b:head().metadata.changed)
  end, { "ConditionNotMet 412", "ok", "BlobAlreadyExists 409", "ConditionNotMet 412", "ConditionNotMet 412", "ok",
    "ConditionNotMet 412", 23, "nil" } },
  { "only the holder of the lease writes", function(t, c)
    local b = c:blob "x"
    b:put "old"
    local lease = assert(b:lease { duration = 60 })
    local w = b:writer { block = 8 }
    w:write(content(30))
    t(w:close())
    t(b:get())
    t(write(b, content(20), { lease = lease.id }))
    t(b:head().lease_state)
    t(b:put(("x"):rep(core.put_bytes_max + 1)))
    lease:release()
  end, { "LeaseIdMissing 412", "old", "ok", "leased", "LeaseIdMissing 412" } },
  { "a put in between takes the blocks away", function(t, c)
    local b = c:blob "x"
    local w = b:writer { block = 8, parallel = 1 }
    w:write(content(40))
    b:put "other"
    w:write(content(40))
    t(w:close())
    t(b:get() == "other")
  end, { "InvalidBlockList 400", true } },
  { "two writers: the first to close wins, the other has lost its blocks", function(t, c)
    local b = c:blob "x"
    local one, two = b:writer { block = 8, parallel = 1 }, b:writer { block = 8, parallel = 1 }
    one:write(content(40))
    two:write(content(41))
    t(one:close())
    t(two:close())
    t(b:get() == content(40))
  end, { "ok", "InvalidBlockList 400", true } },
  { "an append blob is not made of blocks", function(t, c)
    local b = c:blob "x"
    b:put("", { type = "append" })
    t(b:append "abc")
    local w = b:writer { block = 8 }
    w:write(content(40))
    t(w:close())
    t(b:get())
  end, { "ok", "InvalidBlobType 409", "abc" } },
  { "a blob of blocks is replaced, changed and removed like another", function(t, c)
    local b = c:blob "x"
    write(b, content(40))
    t(b:set_metadata { a = "1" })
    t(b:get() == content(40))
    t(write(b, content(25)))
    t(b:get() == content(25))
    t(b:put "small")
    t(b:get())
    t(b:append "x")
    write(b, content(40))
    t(b:put("", { type = "append" }))
    t(b:append "y")
    t(b:get())
    t(c:blob("x"):delete())
    write(b, content(9))
    t(b:delete())
    t(b:get())
  end, { "ok", true, "ok", true, "ok", "small", "InvalidBlobType 409", "ok", "ok", "y", true, true,
    "BlobNotFound 404" } },
  { "a reader gives all of it, in pieces", function(t, c)
    local b = c:blob "x"
    write(b, content(20))
    t(#pieces_of(b:reader { chunk = 6 }))
    t(table.concat(pieces_of(b:reader { chunk = 6 })) == content(20))
    t(#pieces_of(b:reader { chunk = 20 }))
    t(#pieces_of(b:reader()))
    t(table.concat(pieces_of(b:reader { offset = 3, length = 9, chunk = 4 })) == content(20):sub(4, 12))
    t(table.concat(pieces_of(b:reader { offset = 15, length = 90, chunk = 4 })) == content(20):sub(16))
    local r = b:reader { offset = 21 }
    t(r:read())
    t(r:read())
    t(pcall(b:reader { offset = 21 }))
    t(c:blob("none"):reader():read())
    t(b:reader({ if_match = '"0x0000000000000001"' }):read())
    r = b:reader()
    r:read()
    t(r.props.etag == b:head().etag)
    t(r:read())
  end, { 4, true, 1, 1, true, true, "InvalidRange 416", "InvalidRange 416", false, "BlobNotFound 404",
    "ConditionNotMet 412", true, "nil" } },
  { "a reader of nothing", function(t, c)
    local b = c:blob "x"
    b:put ""
    local r = b:reader()
    t(#pieces_of(r))
    t(r.props.length)
  end, { 0, 0 } },
  { "a change while it is read is an error, not a mixture", function(t, c)
    local b = c:blob "x"
    write(b, content(20))
    local r = b:reader { chunk = 8 }
    t(r:read() == content(8))
    write(b, content(21))
    local piece, err = r:read()
    t(piece, err)
    t(err.message:match "^the blob was changed while it was read")
    t(r:read())
    r = b:reader { chunk = 8 }
    r:read()
    b:delete()
    t(r:read() == nil)
  end, { true, "ConditionNotMet 412", "the blob was changed while it was read", "ConditionNotMet 412", true } },
  { "copies", function(t, c, s)
    local other = s:container(azurite.fresh("copies" .. os.time()))
    other:create()
    local sources = { small = c:blob "small ü" }
    for _, name in ipairs { "blocks", "append", "page" } do sources[name] = c:blob(name) end
    sources.small:put("content", { content_type = "text/plain", metadata = { a = "1" } })
    write(sources.blocks, content(40), { metadata = { a = "2" } })
    sources.append:put("", { type = "append" })
    sources.append:append "abc"
    sources.append:append "def"
    sources.page:put("", { type = "page", size = 1024 })
    for _, name in ipairs { "small", "blocks", "append", "page" } do
      local source, copy = sources[name], other:blob(name)
      t(copy:copy_from(source))
      local body, props = copy:get()
      local theirs = source:head()
      t(body == source:get() and props.type == theirs.type and props.metadata.a == theirs.metadata.a
        and props.content_type == theirs.content_type and props.copy_status == nil)
      source:delete()
      t(copy:get() == body)
    end
    other:delete()
  end, { "ok", true, true, "ok", true, true, "ok", true, true, "ok", true, true } },
  { "a copy keeps to conditions and leases", function(t, c)
    local a, b = c:blob "a", c:blob "b"
    t(b:copy_from(a))
    local first = a:put "one"
    t(b:copy_from(a, { if_none_match = "*", metadata = { m = "1" } }))
    t(b:copy_from(a, { if_none_match = "*" }))
    t(b:head().metadata.m)
    a:put "two"
    t(b:copy_from(a, { source_if_match = first.etag }))
    t(b:copy_from(a, { if_match = '"0x0000000000000001"' }))
    t(b:copy_from(a, { if_match = b:head().etag }))
    t(b:get())
    local lease = assert(b:lease { duration = 60 })
    t(b:copy_from(a))
    t(b:copy_from(a, { lease = lease.id }))
    lease:release()
    t(a:copy_from(a, { metadata = { n = "1" } }))
    t(a:get())
    t(a:head().metadata.n)
    write(a, content(40))
    t(a:copy_from(a, { metadata = { n = "2" } }))
    t(a:get() == content(40))
  end, { "BlobNotFound 404", "ok", "BlobAlreadyExists 409", "1", "SourceConditionNotMet 412", "ConditionNotMet 412",
    "ok", "two", "LeaseIdMissing 412", "ok", "ok", "two", "1", "ok", true } },
  { "a copy of any version, and of one that is named", function(t, c)
    local a, b = c:blob "a", c:blob "b"
    local etag = a:put("x").etag
    t(b:copy_from(a, { source_if_match = "*" }))
    t(b:copy_from(a, { source_if_match = etag }))
  end, { "ok", "ok" } },
  { "blocks for a leased blob of another type meet the type first", function(t, c)
    local b = c:blob "b"
    b:put("", { type = "append" })
    local lease = assert(b:lease { duration = 60 })
    t(write(b, content(20)))
    t(write(b, content(20), { lease = lease.id }))
    t(write(b, content(20), { if_none_match = "*" }))
  end, { "InvalidBlobType 409", "InvalidBlobType 409", "InvalidBlobType 409" } },
  { "a copy onto another type", function(t, c)
    c:blob("a"):put "x"
    c:blob("b"):put("", { type = "append" })
    t(c:blob("b"):copy_from(c:blob "a"))
  end, { "InvalidBlobType 409" } },
  { "what is appended to a copy is not in its source", function(t, c)
    local a, b = c:blob "a", c:blob "b"
    a:put("", { type = "append" })
    t(b:copy_from(a))
    t(b:append "copy")
    t(a:append "source")
    t(a:get())
    t(b:get())
    t(a:head().committed_block_count)
  end, { "ok", "ok", "ok", "source", "copy", 1 } },
}

local function differences()
  local rows = {}
  for _, row in ipairs(require "spec.azure.differences") do
    if row.spec == "spec/store/body_spec.lua" then rows[row.case] = row end
  end
  return rows
end

local EMULATOR = differences()

local function expected(case, place)
  local known = place.name == "Azurite" and EMULATOR[case[1]]
  if not known then return case[3] end
  assert.same(case[3], known.ours)
  return known.azurite
end

local files = sh.folder()
local PLACES = {
  { name = "memory", url = function() return "memory:" end },
  { name = "embedded", url = function() return "embedded:" .. files.path .. "/store.db" end },
  { name = "embedded, relaxed", url = function() return "embedded:" .. files.path .. "/relaxed.db?relaxed" end },
  { name = "Azurite", url = function() return azurite.connection_string() end },
}

for _, place in ipairs(PLACES) do
  describe("on " .. place.name .. ":", function()
    lazy_teardown(function() files:close() end)

    --- Runs fn(container, store), with faults when there are some.
    local function run(fn, faults)
      core.main(function()
        local store <close> = assert(core.open_store(place.url(), { faults = faults }))
        local container = store:container(azurite.fresh("bodies" .. os.time()))
        assert(container:create())
        fn(container, store)
        container:delete()
      end)
    end

    for _, case in ipairs(CASES) do
      it(case[1], function()
        run(function(container, store)
          local said = {}
          case[2](function(...) said[#said + 1] = outcome(...) end, container, store)
          assert.same(expected(case, place), said)
        end)
      end)
    end

    it("an empty blob of any type is read as no piece at all", function()
      run(function(c)
        for _, type in ipairs { "block", "page", "append" } do
          assert(c:blob(type):put("", { type = type, size = type == "page" and 0 or nil }))
          for _, options in ipairs { {}, { length = 1 }, { chunk = 8, length = 1 } } do
            local reader = c:blob(type):reader(options)
            assert.is_nil(reader())
            assert.is_nil(reader:read())
            assert.equal(0, reader.props.length)
          end
        end
      end)
    end)

    it("a commit whose answer is lost has happened once, and is known to be ours", function()
      for _, options in ipairs { {}, { if_none_match = "*" } } do
        run(function(c, s)
          local b = c:blob "x"
          local props = assert(write(b, content(20), options))
          assert.equal(b:head().etag, props.etag)
          assert.equal(content(20), (b:get()))
          assert.equal(2, s:usage().PutBlockList)
        end, { { operation = "PutBlockList", kind = "error-after-apply" } })
      end
    end)

    it("a block whose answer is lost is sent again", function()
      run(function(c, s)
        assert(write(c:blob "x", content(20)))
        assert.equal(content(20), (c:blob("x"):get()))
        assert.equal(4, s:usage().PutBlock)
      end, { { operation = "PutBlock", kind = "error-after-apply" } })
    end)

    it("a block that cannot be sent is an error where it is noticed, and nothing is written", function()
      run(function(c)
        local b = c:blob "x"
        b:put "old"
        local w = b:writer { block = 4, parallel = 1, retries = 0 }
        local ok, err = w:write(content(40))
        assert.is_nil(ok)
        assert.equal("ServerBusy", err.code)
        assert.equal(err, select(2, w:write "more"))
        assert.equal(err, select(2, w:close()))
        assert.equal("old", (b:get()))
      end, { { operation = "PutBlock", ordinal = 2, kind = "throttle" } })
    end)

    it("a copy whose answer is lost is known to be ours", function()
      run(function(c)
        c:blob("a"):put "x"
        assert(c:blob("b"):copy_from(c:blob "a", { if_none_match = "*" }))
        assert.equal("x", (c:blob("b"):get()))
      end, { { operation = "CopyBlob", kind = "error-after-apply" } })
    end)
  end)
end

describe("a put of what a function gives", function()
  it("raises at the caller's line what cannot be a body", function()
    core.main(function()
      local store <close> = assert(core.open_store "memory:")
      assert(store:container("abc"):create())
      local b = store:container("abc"):blob "b"
      local _, why = pcall(function()
        local props = b:put(function() return 5 end)
        return props
      end)
      assert.matches("^spec/store/body_spec.lua:%d+: the body's function must give strings and at the end nil, "
        .. "and gave a number$", why)
      _, why = pcall(function()
        local props = b:put(function() return "x" end, { type = "append" })
        return props
      end)
      assert.matches("^spec/store/body_spec.lua:%d+: a page or append blob is made empty", why)
      assert.equal("BlobNotFound", select(2, b:head()).code)
    end)
  end)
end)

describe("a copy from elsewhere", function()
  it("is no copy_from: an address and a blob of another store are raised, with what to do instead", function()
    core.main(function()
      local here <close> = assert(core.open_store "memory:")
      local there <close> = assert(core.open_store "memory:")
      local b, other = here:container("abc"):blob "b", there:container("abc"):blob "other"
      assert(here:container("abc"):create())
      assert(there:container("abc"):create())
      assert(other:put(content(50), { metadata = { a = "1" } }))
      local _, why = pcall(function() b:copy_from "https://example.blob.core.windows.net/abc/other" end)
      assert.matches("body_spec.lua:%d+: bad argument #1 to 'copy_from' %(a blob of this store expected, got an ", why)
      assert.matches("store:container%(NAME%):blob%(NAME%)", why)
      _, why = pcall(b.copy_from, b, other)
      assert.matches("the blob is in another store: read it there and put it here", why)
      local r = other:reader { chunk = 7 }
      assert(b:put(function() return r:read() end, { metadata = other:head().metadata }))
      assert.equal(content(50), (b:get()))
      assert.same({ a = "1" }, b:head().metadata)
      r = there:container("abc"):blob("none"):reader()
      assert.equal("BlobNotFound", select(2, b:put(function() return r:read() end)).code)
    end)
  end)
end)

describe("a writer that is killed in the middle", function()
  it("leaves what was there, and its blocks go with the next write", function()
    local folder <close> = sh.folder()
    folder:write("write.lua", [[
      local b = require("synod").store:container("bodies"):blob "x"
      local w = b:writer { block = 4096, parallel = 1 }
      for i = 1, 100 do assert(w:write(("new "):rep(1024))) end
      io.stdout:write("sent\n")
      io.stdout:flush()
      require("synod").sleep(60)]])
    local url = "embedded:" .. folder.path .. "/s.db"
    local function blocks()
      return tonumber((sh.run("sqlite3 -readonly $DIR/s.db 'SELECT count(*) FROM blocks'", { dir = folder.path })))
    end
    core.main(function()
      local store <close> = assert(core.open_store(url))
      assert(store:container("bodies"):create())
      assert(store:container("bodies"):blob("x"):put "old")
    end)
    local output = sh.run(([[
      $SYNOD run --store '%s' "$DIR/write.lua" >"$DIR/log" & pid=$!
      for i in $(seq 1200); do grep -qs sent "$DIR/log" && break; sleep 0.05; done
      kill -KILL $pid; cat "$DIR/log"]]):format(url), { dir = folder.path, timeout = 120 })
    assert.equal("sent\n", output)
    assert.is_true(blocks() > 90)
    core.main(function()
      local store <close> = assert(core.open_store(url))
      local b = store:container("bodies"):blob "x"
      assert.equal("old", (b:get()))
      for item in store:container("bodies"):list() do assert.equal(3, item.length) end
      assert(b:put "next")
      assert.equal(0, blocks())
    end)
  end)
end)

describe("a file of 96 MiB", function()
  local LIMIT_KIB = 64 * 1024

  local function passes(url, env)
    if os.getenv("SYNOD_ASAN") then return pending("the sanitizers keep much memory of their own") end
    local folder <close> = sh.folder()
    local output, code = sh.run(([[
      umask 077; head -c 100663296 /dev/urandom >$DIR/in && STORE='%s'
      for step in "put --create" "get -o $DIR/out"; do
        /usr/bin/time -o $DIR/kib -a -f %%M $SYNOD store ${step%%%% *} --store "$STORE" bodies/x ${step#* } \
          $([ "${step%%%% *}" = put ] && echo $DIR/in) || exit 1
      done
      cmp $DIR/in $DIR/out && cat $DIR/kib]]):format(url(folder)), { dir = folder.path, env = env, timeout = 110 })
    assert.equal(0, code, output)
    local put, get = output:match "^(%d+)\n(%d+)\n$"
    assert.is_true(tonumber(put) < LIMIT_KIB, "put took " .. put .. " KiB")
    assert.is_true(tonumber(get) < LIMIT_KIB, "get took " .. get .. " KiB")
  end

  it("passes through the embedded store with little memory", function()
    passes(function(folder) return "embedded:" .. folder.path .. "/s.db?relaxed" end)
  end)

  it("passes through Azurite with little memory", function()
    passes(function() return azurite.connection_string() end)
  end)
end)

describe("with a SAS", function()
  it("blocks are sent, and a copy may read its source", function()
    local sas = sh.run("node spec/support/sas.js"):match "^%S+"
    local address = ("BlobEndpoint=http://127.0.0.1:%d/%s;SharedAccessSignature=%s"):format(azurite.port(),
      azurite.account, sas)
    core.main(function()
      local store <close> = assert(core.open_store(address))
      local c = store:container(azurite.fresh("signed" .. os.time()))
      assert(c:create())
      assert(write(c:blob "a", content(40)))
      assert(c:blob("b"):copy_from(c:blob "a"))
      assert.equal(content(40), (c:blob("b"):get()))
    end)
  end)
end)

describe("the official client", function()
  it("reads what synod wrote in blocks, and the other way round", function()
    local name = azurite.fresh("blocks" .. os.time())
    local text = ("0123456789abcdef"):rep(1000)
    core.main(function()
      local store <close> = assert(core.open_store(azurite.lenient()))
      assert(store:container(name):create())
      local w <close> = store:container(name):blob("ours"):writer { block = 1000, metadata = { who = "synod" } }
      assert(w:write(text))
      assert(w:close())
    end)
    assert.same({ "16000", text }, azurite.sdk("get", name, "ours"))
    azurite.sdk("blocks", name, "theirs", "one,", "two,", "three")
    core.main(function()
      local store <close> = assert(core.open_store(azurite.lenient()))
      local b = store:container(name):blob "theirs"
      assert.equal("one,two,three", (b:get()))
      assert.same({ "one,t", "wo,th", "ree" }, pieces_of(b:reader { chunk = 5 }))
      assert(write(b, text)) -- whose blocks have ids of another length
      assert.equal(text, (b:get()))
    end)
  end)
end)
