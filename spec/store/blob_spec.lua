-- Every call on containers and blobs and every condition, as one list of cases: the same calls give the same results on
-- each store. A case makes calls and says their outcomes through `t`; the list beside it is what must come out.

local core = require "synod.core"
local sh = require "spec.support.sh"

local FAR = 2000000000 -- seconds since 1970: long after any write of these specs
local PAST = 1000000000

--- "ok", the body, true, or the code and status of a refusal.
local function outcome(first, second)
  if first == nil then return second.code .. " " .. tostring(second.status) end
  if type(first) == "table" then return "ok" end
  return first
end

--- Names a container that no other case uses.
local counter = 0
local function fresh()
  counter = counter + 1
  return ("case-%d-%d"):format(counter, os.time())
end

local ETAG = '"0x0000000000000001"' -- of nothing

---@type { [1]: string, [2]: fun(t: fun(...), c: synod.Container, s: synod.Store), [3]: any[] }[]
local CASES = {
  -- containers
  { "a container: made twice, looked at, removed, gone", function(t, _, s)
    local c = s:container(fresh())
    t(c:head())
    t(c:create())
    t(c:create())
    t(c:head())
    t(c:delete())
    t(c:head())
  end, { "ContainerNotFound 404", true, true, "ok", true, "ContainerNotFound 404" } },
  { "a container that is absent cannot be removed", function(t, _, s)
    t(s:container(fresh()):delete())
  end, { "ContainerNotFound 404" } },
  { "a container's metadata", function(t, _, s)
    local c = s:container(fresh())
    c:create { metadata = { a = "1" } }
    t(c:head().metadata.a)
    t(c:set_metadata { b = "2" })
    local metadata = c:head().metadata
    t(tostring(metadata.a) .. tostring(metadata.b))
  end, { "1", "ok", "nil2" } },
  { "every call on a blob in a container that is absent", function(t, _, s)
    local b = s:container(fresh()):blob "x"
    t(b:put "1")
    t(b:get())
    t(b:head())
    t(b:delete())
    t(b:append "1")
    t(b:set_metadata {})
  end, { "ContainerNotFound 404", "ContainerNotFound 404", "ContainerNotFound 404", "ContainerNotFound 404",
    "ContainerNotFound 404", "ContainerNotFound 404" } },
  { "every call on a blob that is absent", function(t, c)
    local b = c:blob "x"
    t(b:get())
    t(b:head())
    t(b:delete())
    t(b:append "1")
    t(b:set_metadata {})
  end, { "BlobNotFound 404", "BlobNotFound 404", "BlobNotFound 404", "BlobNotFound 404", "BlobNotFound 404" } },
  { "the containers, with a prefix", function(t, _, s)
    local stem = fresh()
    for i = 1, 3 do s:container(stem .. "-" .. i):create() end
    for item in s:containers { prefix = stem, page = 2 } do t(item.name:sub(-1) .. type(item.etag)) end
  end, { "1string", "2string", "3string" } },

  -- the three types
  { "a block blob", function(t, c)
    local b = c:blob "x"
    t(b:put("hello", { content_type = "text/plain", metadata = { a = "1", b = 2 } }))
    local body, p = b:get()
    t(body)
    t(("%s %d %s %s %s"):format(p.type, p.length, p.content_type, p.metadata.a, p.metadata.b))
    t(("%s %s %s"):format(p.lease_state, p.lease_status, tostring(p.lease_duration)))
    t(math.abs(p.last_modified - core.time()) < 5)
    local h = b:head()
    t(h.etag == p.etag and h.length == 5 and h.metadata.a == "1" and h.last_modified == p.last_modified)
  end, { "ok", "hello", "block 5 text/plain 1 2", "available unlocked nil", true, true } },
  { "the usual content type", function(t, c)
    c:blob("x"):put ""
    t(c:blob("x"):head().content_type)
  end, { "application/octet-stream" } },
  { "content of every byte, of none, and of a megabyte", function(t, c)
    local b = c:blob "x"
    local bytes = {}
    for i = 0, 255 do bytes[i + 1] = string.char(i) end
    for _, body in ipairs { table.concat(bytes), "", ("0123456789abcdef"):rep(65536) } do
      b:put(body)
      t((b:get()) == body and b:head().length == #body)
    end
  end, { true, true, true } },
  { "a page blob is made of zeros, in pages", function(t, c)
    local b = c:blob "x"
    t(b:put("", { type = "page", size = 512, if_none_match = "*" }))
    t(b:put("", { type = "page", size = 512, if_none_match = "*" }))
    local body, p = b:get()
    t(body == ("\0"):rep(512))
    t(p.type .. p.length)
    t(b:put("", { type = "page", size = 0 }))
    t(b:head().length)
  end, { "ok", "BlobAlreadyExists 409", true, "page512", "ok", 0 } },
  { "an append blob grows", function(t, c)
    local b = c:blob "x"
    t(b:put("", { type = "append" }))
    t(b:head().committed_block_count)
    local p = b:append "one"
    t(("%d %d"):format(p.append_offset, p.committed_block_count))
    p = b:append("two", { position = 3 })
    t(("%d %d"):format(p.append_offset, p.committed_block_count))
    t(b:append("x", { position = 3 }))
    t(b:get())
    t(p.etag == b:head().etag)
    p = b:head()
    t(("%s %d %d"):format(p.type, p.length, p.committed_block_count))
    t(b:put("", { type = "append" }))
    t(b:head().length)
  end, { "ok", 0, "0 1", "3 2", "AppendPositionConditionNotMet 412", "onetwo", true, "append 6 2", "ok", 0 } },
  { "an append to a blob of another type", function(t, c)
    c:blob("x"):put "1"
    t(c:blob("x"):append "2")
    t(c:blob("x"):get())
  end, { "InvalidBlobType 409", "1" } },
  { "a blob takes another type when it is written again", function(t, c)
    local b = c:blob "x"
    b:put("", { type = "append" })
    b:append "1"
    t(b:put "2")
    local body, p = b:get()
    t(body .. p.type)
  end, { "ok", "2block" } },

  -- ranges
  { "a part of a blob", function(t, c)
    local b = c:blob "x"
    b:put "0123456789"
    t(b:get { offset = 3, length = 4 })
    t(b:get { offset = 8 })
    t(b:get { length = 2 })
    t(b:get { offset = 8, length = 100 })
    t(b:get { offset = 10 })
    b:put ""
    t(b:get { offset = 0, length = 1 }) -- nothing is a part of nothing
    t(b:get { offset = 0, length = 2 })
    t(b:get { offset = 0 })
    t(b:get())
  end, { "3456", "89", "01", "89", "InvalidRange 416", "InvalidRange 416", "InvalidRange 416",
    "InvalidRange 416", "" } },

  -- conditions on writes
  { "put if it does not exist", function(t, c)
    local b = c:blob "x"
    t(b:put("1", { if_none_match = "*" }))
    t(b:put("2", { if_none_match = "*" }))
    t(b:get())
    b:delete()
    t(b:put("3", { if_none_match = "*" }))
  end, { "ok", "BlobAlreadyExists 409", "1", "ok" } },
  { "put if it is as it was", function(t, c)
    local b = c:blob "x"
    t(b:put("0", { if_match = ETAG }))
    t(b:put("0", { if_match = "*" }))
    local p = b:put "1"
    t(b:put("2", { if_match = p.etag }))
    t(b:put("3", { if_match = p.etag }))
    t(b:put("4", { if_match = "*" }))
    t(b:get())
  end, { "ConditionNotMet 412", "ConditionNotMet 412", "ok", "ConditionNotMet 412", "ok", "4" } },
  { "put if it is not as it was", function(t, c)
    local b = c:blob "x"
    local p = b:put "1"
    t(b:put("2", { if_none_match = p.etag }))
    t(b:put("3", { if_none_match = ETAG }))
    t(b:get())
  end, { "ConditionNotMet 412", "ok", "3" } },
  { "put by date", function(t, c)
    local b = c:blob "x"
    b:put "1"
    t(b:put("2", { if_modified_since = FAR }))
    t(b:put("3", { if_modified_since = PAST }))
    t(b:put("4", { if_unmodified_since = PAST }))
    t(b:put("5", { if_unmodified_since = FAR }))
    t(b:get())
  end, { "ConditionNotMet 412", "ok", "ConditionNotMet 412", "ok", "5" } },
  { "metadata: replaced as a whole, under conditions", function(t, c)
    local b = c:blob "x"
    local first = b:put("1", { metadata = { a = "1", b = "2" } })
    local second = b:set_metadata({ c = "3" }, { if_match = first.etag })
    t(second.etag ~= first.etag)
    local p = b:head()
    t(tostring(p.metadata.a) .. p.metadata.c .. tostring(p.etag == second.etag))
    t(b:set_metadata({}, { if_match = first.etag }))
    t(b:set_metadata({}, { if_none_match = second.etag }))
    t(b:set_metadata({}, { if_modified_since = FAR }))
    t(b:set_metadata({}, { if_unmodified_since = PAST }))
    t(b:set_metadata {})
    t(next(b:head().metadata or {}) == nil)
    t(b:get())
  end, { true, "nil3true", "ConditionNotMet 412", "ConditionNotMet 412", "ConditionNotMet 412", "ConditionNotMet 412",
    "ok", true, "1" } },
  { "append under conditions", function(t, c)
    local b = c:blob "x"
    local p = b:put("", { type = "append" })
    t(b:append("1", { if_match = p.etag }))
    t(b:append("2", { if_match = p.etag }))
    t(b:append("3", { if_none_match = b:head().etag }))
    t(b:append("4", { if_unmodified_since = PAST }))
    t(b:append("5", { if_modified_since = FAR }))
    t(b:get())
  end, { "ok", "ConditionNotMet 412", "ConditionNotMet 412", "ConditionNotMet 412", "ConditionNotMet 412", "1" } },
  { "delete under conditions", function(t, c)
    local b = c:blob "x"
    local p = b:put "1"
    t(b:delete { if_match = ETAG })
    t(b:delete { if_none_match = p.etag })
    t(b:delete { if_modified_since = FAR })
    t(b:delete { if_unmodified_since = PAST })
    t(b:delete { if_match = p.etag })
    t(b:delete())
  end, { "ConditionNotMet 412", "ConditionNotMet 412", "ConditionNotMet 412", "ConditionNotMet 412", true,
    "BlobNotFound 404" } },

  -- conditions on reads
  { "read under conditions", function(t, c)
    local b = c:blob "x"
    local p = b:put "1"
    t(b:get { if_match = p.etag })
    t(b:get { if_match = ETAG })
    t(b:get { if_none_match = p.etag })
    t(b:get { if_none_match = ETAG })
    t(b:get { if_modified_since = PAST })
    t(b:get { if_unmodified_since = FAR })
    t(b:get { if_unmodified_since = PAST })
    t(b:get { if_match = "*" })
  end, { "1", "ConditionNotMet 412", "NotModified 304", "1", "1", "1", "ConditionNotMet 412", "1" } },
  { "look under conditions", function(t, c)
    local b = c:blob "x"
    local p = b:put "1"
    t(b:head { if_match = p.etag })
    t(b:head { if_match = ETAG })
    t(b:head { if_none_match = p.etag })
    t(b:head { if_none_match = ETAG })
    t(b:head { if_unmodified_since = PAST })
  end, { "ok", "ConditionNotMet 412", "NotModified 304", "ok", "ConditionNotMet 412" } },

  -- lease ids, as far as a blob without a lease goes
  { "a lease id on a blob without a lease", function(t, c)
    local b = c:blob "x"
    b:put "1"
    local lease = { lease = "00000000-0000-4000-8000-000000000001" }
    t(b:put("2", lease))
    t(b:get(lease))
    t(b:head(lease))
    t(b:set_metadata({}, lease))
    t(b:delete(lease))
    t(b:get())
  end, { "LeaseNotPresentWithBlobOperation 412", "LeaseNotPresentWithBlobOperation 412",
    "LeaseNotPresentWithBlobOperation 412", "LeaseNotPresentWithBlobOperation 412",
    "LeaseNotPresentWithBlobOperation 412", "1" } },

  -- names
  { "names with every kind of character", function(t, c)
    local names = {
      "a/b/c", "with blank", "percent%41", "plus+amp&q?h#", "ü-日本", "quote'\"", "semi;eq=at@", "UPPER", "~tilde!(x)*",
    }
    for _, name in ipairs(names) do
      c:blob(name):put(name)
      t((c:blob(name):get()) == name)
    end
    local listed = {}
    for item in c:list() do listed[#listed + 1] = item.name end
    table.sort(names)
    t(table.concat(listed, "|") == table.concat(names, "|"))
  end, { true, true, true, true, true, true, true, true, true, true } },
  { "metadata values with every kind of character", function(t, c)
    local b = c:blob "x"
    b:put("", { metadata = { a = "x y;=,:\"'%+/\\~" } })
    t(b:head().metadata.a)
  end, { "x y;=,:\"'%+/\\~" } },

  -- lists
  { "a list in order, over pages, by prefix", function(t, c)
    for i = 1, 12 do c:blob(("n%02d"):format(i)):put(("x"):rep(i)) end
    c:blob("other"):put ""
    local asked = { {}, { page = 5 }, { page = 1 }, { prefix = "n0" }, { prefix = "n", page = 12 }, { prefix = "zz" } }
    for _, options in ipairs(asked) do
      local names = {}
      for item in c:list(options) do names[#names + 1] = item.name end
      t(#names .. (names[1] or "") .. (names[#names] or ""))
    end
  end, { "13n01other", "13n01other", "13n01other", "9n01n09", "12n01n12", "0" } },
  { "a list's items have the props", function(t, c)
    c:blob("a"):put("123", { metadata = { k = "v" }, content_type = "text/plain" })
    c:blob("b"):put("", { type = "page", size = 1024 })
    c:blob("c"):put("", { type = "append" })
    for _, metadata in ipairs { true, false } do
      for item in c:list { metadata = metadata } do
        t(("%s %s %d %s %s %s"):format(item.name, item.type, item.length, item.lease_state, item.lease_status,
          metadata and tostring(item.metadata and item.metadata.k) or type(item.metadata)))
        local p = c:blob(item.name):head()
        t(p.etag == item.etag and p.last_modified == item.last_modified and p.content_type == item.content_type)
      end
    end
  end, { "a block 3 available unlocked v", true, "b page 1024 available unlocked nil", true,
    "c append 0 available unlocked nil", true, "a block 3 available unlocked nil", true,
    "b page 1024 available unlocked nil", true, "c append 0 available unlocked nil", true } },
  { "a list's items have their metadata when it is asked for, be it empty, and else none", function(t, c, s)
    c:blob("bare"):put ""
    for _, metadata in ipairs { true, false } do
      for item in c:list { metadata = metadata } do t(type(item.metadata)) end
      local empty = fresh()
      s:container(empty):create()
      for item in s:containers { prefix = empty, metadata = metadata } do t(type(item.metadata)) end
      s:queue(empty):create()
      for item in s:queues { prefix = empty, metadata = metadata } do t(type(item.metadata)) end
    end
  end, { "table", "table", "table", "nil", "nil", "nil" } },
  { "a list of a container that is absent is raised", function(t, _, s)
    local ok, err = pcall(function()
      for item in s:container(fresh()):list() do t(item.name) end
    end)
    t(ok)
    t(err.code .. err.status)
  end, { false, "ContainerNotFound404" } },
  { "what is removed while a list goes on does not stop it", function(t, c)
    for i = 1, 6 do c:blob("n" .. i):put "" end
    for item in c:list { page = 2 } do
      t(item.name)
      c:blob(item.name):delete()
    end
    for item in c:list() do t(item.name) end
  end, { "n1", "n2", "n3", "n4", "n5", "n6" } },

  -- limits
  { "metadata beyond 8 KiB", function(t, c)
    local p, err = c:blob("x"):put("", { metadata = { a = ("v"):rep(9000) } })
    t(p, err)
    t(err and err.code or "no error")
    t(c:blob("x"):head())
  end, { "MetadataTooLarge 400", "MetadataTooLarge", "BlobNotFound 404" } },
}

--- Where the emulator differs from the service, which the embedded store follows: what it says instead, by place in the
--- list of the case.
local EMULATOR = {
  ["a part of a blob"] = { [5] = "", [6] = "", [8] = "" }, -- no 416 at the end of a blob
  ["put if it is as it was"] = { [2] = "ok" },             -- If-Match: * makes a blob that is absent
  ["metadata beyond 8 KiB"] = { [1] = "ok", [2] = "no error", [3] = "ok" },
}

local function expected(case, place)
  local known = place.name == "Azurite" and EMULATOR[case[1]] or {}
  local list = {}
  for i, outcome_here in ipairs(case[3]) do list[i] = known[i] ~= nil and known[i] or outcome_here end
  return list
end

--- Runs the case in the store and gives what it said.
local function run_case(store, case)
  local said = {}
  local container = store:container(fresh())
  assert(container:create())
  case[2](function(...) said[#said + 1] = outcome(...) end, container, store)
  container:delete()
  return said
end

--- The stores: what each is called, its address, and what ends it.
local function stores()
  local folder = sh.folder()
  local list = {
    { name = "memory", kind = "memory", url = function() return "memory:" end },
    { name = "embedded", kind = "embedded", url = function() return "embedded:" .. folder.path .. "/store.db" end },
    { name = "embedded, relaxed", kind = "embedded",
      url = function() return "embedded:" .. folder.path .. "/relaxed.db?relaxed" end },
    { name = "Azurite", kind = "azure",
      url = function() return require("spec.support.azurite").connection_string() end },
  }
  return list, folder
end

local places, folder = stores()

for _, place in ipairs(places) do
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

    it("lost answers are settled by what is there", function()
      local function with_lost(operation, fn)
        core.main(function()
          local faults = { { operation = operation, kind = "error-after-apply" } }
          local store <close> = assert(core.open_store(place.url(), { faults = faults }))
          assert.equal(place.kind, store:kind())
          local container = store:container(fresh())
          assert(container:create())
          fn(container:blob "x", container)
          container:delete()
        end)
      end
      with_lost("PutBlob", function(blob)
        local props = assert(blob:put("mine", { if_none_match = "*", metadata = { a = "1" } }))
        assert.same({ a = "1" }, blob:head().metadata)
        assert.equal(props.etag, blob:head().etag)
        assert.equal("BlobAlreadyExists", select(2, blob:put("other", { if_none_match = "*" })).code)
      end)
      with_lost("SetBlobMetadata", function(blob)
        assert(blob:set_metadata({ b = "2" }, { if_match = blob:put("x").etag }))
        assert.same({ b = "2" }, blob:head().metadata)
      end)
      with_lost("AppendBlock", function(blob)
        blob:put("", { type = "append" })
        assert.equal(0, assert(blob:append("one", { position = 0 })).append_offset)
        assert.equal("one", (blob:get()))
      end)
      with_lost("DeleteBlob", function(blob)
        blob:put "x"
        assert.is_true(blob:delete())
      end)
      with_lost("CreateContainer", function(_, container) assert(container:head()) end)
      with_lost("DeleteContainer", function(_, container) assert.is_true(container:delete()) end)
    end)

    it("it says what it is and whether it can tell of changes", function()
      core.main(function()
        local store <close> = assert(core.open_store(place.url()))
        assert.equal(place.kind, store:kind())
        local container = store:container(fresh())
        local mark = store:mark { container = tostring(container):match "%S+$" }
        assert(container:create())
        local changed, why = store:changed { container = tostring(container):match "%S+$", since = mark, timeout = 5 }
        assert.same(place.kind == "azure" and { false, "poll" } or { true, nil }, { changed, why })
        assert.equal(place.kind ~= "azure", mark ~= nil)
        container:delete()
      end)
    end)
  end)
end

describe("what the caller gets wrong is raised at its line:", function()
  local function raises(text, fn)
    core.main(function()
      local store <close> = assert(core.open_store "memory:")
      local container = store:container "abc"
      local ok, problem = pcall(fn, container:blob "x", container, store)
      assert.is_false(ok)
      assert.matches(text, problem, 1, true)
      assert.matches("blob_spec.lua:%d+: ", problem)
      assert.same({}, store:usage())
    end, { clock = "virtual" })
  end

  local WRONG = {
    { "unknown option 'if_nonematch' (did you mean 'if_none_match'?)",
      function(b) b:put("", { if_nonematch = "*" }) end },
    { "unknown option 'if_match'", function(_, c) c:delete { if_match = "*" } end },
    { "unknown option 'colour'", function(b) b:get { colour = 1 } end },
    { "unknown option '1'", function(b) b:get { "x" } end },
    { "option 'timeout': seconds must not be negative", function(b) b:get { timeout = -1 } end },
    { "option 'timeout': seconds must not be negative", function(b) b:get { timeout = 0 / 0 } end },
    { "option 'timeout': number of seconds expected, got string", function(b) b:get { timeout = "1" } end },
    { "option 'try_timeout': it must not be 0", function(b) b:get { try_timeout = 0 } end },
    { "option 'retries': at least 0 expected, got -1", function(b) b:get { retries = -1 } end },
    { "option 'retries': whole number expected", function(b) b:get { retries = 1.5 } end },
    { "option 'if_match': string expected, got boolean", function(b) b:get { if_match = true } end },
    { "option 'if_match': it must not be empty", function(b) b:get { if_match = "" } end },
    { "option 'if_match': it may hold only printable ASCII", function(b) b:get { if_match = "x\r\nhost: y" } end },
    { "option 'lease': a lease id is a GUID", function(b) b:put("", { lease = "\0" }) end },
    { "option 'type': 'block', 'page' or 'append' expected, got pages", function(b) b:put("", { type = "pages" }) end },
    { "option 'size': a page blob needs it", function(b) b:put("", { type = "page" }) end },
    { "option 'size': a multiple of 512 expected, got 100", function(b) b:put("", { type = "page", size = 100 }) end },
    { "option 'size': only a page blob has it", function(b) b:put("", { size = 512 }) end },
    { "a page blob is made empty", function(b) b:put("x", { type = "page", size = 512 }) end },
    { "an append blob is made empty", function(b) b:put("x", { type = "append" }) end },
    { "string expected, got no value", function(b) b:put() end },
    { "table expected, got string", function(b) b:put("", "*") end },
    { "there is nothing to append", function(b) b:append "" end },
    { "option 'position': at least 0 expected", function(b) b:append("x", { position = -1 }) end },
    { "option 'length': at least 1 expected", function(b) b:get { length = 0 } end },
    { "the range has no end", function(b) b:get { offset = math.maxinteger, length = 2 } end },
    { "metadata is a table of strings by name", function(b) b:put("", { metadata = { "x" } }) end },
    { "metadata is a table of strings by name", function(b) b:put("", { metadata = { a = true } }) end },
    { "the metadata name 'a-b' must be a letter", function(b) b:put("", { metadata = { ["a-b"] = "" } }) end },
    { "the metadata value of 'a' may hold only printable", function(b) b:set_metadata { a = "ü" } end },
    { "differ by case alone", function(b) b:put("", { metadata = { Ab = "1", aB = "2" } }) end },
    { "differ by case alone", function(b) b:set_metadata { a = "1", b = "2", A = "3" } end },
    { "option 'size': at most 8796093022208 bytes (8 TiB) expected, got 8796093022720",
      function(b) b:put("", { type = "page", size = (8 << 40) + 512 }) end },
    { "the metadata value of 'a' may have no blank at an end", function(b) b:set_metadata { a = " x" } end },
    { "table expected, got no value", function(b) b:set_metadata() end },
    { "option 'page': at most 5000 expected", function(_, c) c:list { page = 5001 } end },
    { "option 'prefix': it may not hold a zero byte", function(_, c) c:list { prefix = "\0" } end },
    { "the container name 'ab' must have 3 to 63 characters", function(_, _, s) s:container "ab" end },
    { "the container name 'Abc' may hold only a-z, 0-9 and '-'", function(_, _, s) s:container "Abc" end },
    { "the container name 'a--b' may have no '-' at an end", function(_, _, s) s:container "a--b" end },
    { "the blob name '' must not be empty", function(_, c) c:blob "" end },
    { "may hold no control character and no backslash", function(_, c) c:blob "a\nb" end },
    { "must not end in a dot or a slash", function(_, c) c:blob "a/" end },
    { "may have no part that is '.' or '..'", function(_, c) c:blob "a/../b" end },
    { "must be UTF-8", function(_, c) c:blob "\xff" end },
    { "may have at most 1024 characters", function(_, c) c:blob(("x"):rep(1025)) end },
    { "unknown option 'contaner'", function(_, _, s) s:changed { contaner = "abc" } end },
    { "fault: 'quake' is not a kind of fault",
      function() core.open_store("memory:", { faults = { { kind = "quake" } } }) end },
  }
  for i, wrong in ipairs(WRONG) do
    it(i .. ": " .. wrong[1], function() raises(wrong[1], wrong[2]) end)
  end
end)

describe("a change", function()
  local function run(fn)
    return core.main(function()
      local store <close> = assert(core.open_store "memory:")
      local container = store:container "abc"
      container:create()
      return fn(store, container)
    end, { clock = "virtual", seed = 1 })
  end

  it("wakes who waits for it, at its instant", function()
    run(function(store, container)
      core.spawn(function()
        core.sleep(2)
        container:blob("x"):put ""
      end)
      local changed, why, mark = store:changed { container = "abc", prefix = "x", timeout = 5 }
      assert.same({ true, nil, "integer", 2 }, { changed, why, math.type(mark), core.now() })
    end)
  end)

  it("that does not come is waited for until the time is over", function()
    run(function(store)
      local changed, why = store:changed { container = "abc", timeout = 5 }
      assert.same({ false, "timeout", 5 }, { changed, why, core.now() })
    end)
  end)

  it("between taking a mark and waiting is not missed", function()
    run(function(store, container)
      local mark = store:mark { container = "abc" }
      container:blob("x"):put ""
      local changed, _, later = store:changed { container = "abc", since = mark, timeout = 5 }
      assert.same({ true, 0 }, { changed, core.now() })
      assert.is_false((store:changed { container = "abc", since = later, timeout = 1 }))
    end)
  end)

  it("is not waited for by a task that is cancelled, nor in a store that is closed", function()
    run(function(store)
      local first = core.spawn(function() return store:changed {} end)
      local second = core.spawn(function() return store:changed {} end)
      core.sleep(1)
      first:cancel()
      assert.equal("Cancelled", select(2, first:join()).code)
      store:close()
      local ok, err = second:join()
      assert.is_nil(ok)
      assert.equal("wait for a change: the store was closed (Cancelled)", tostring(err))
    end)
  end)
end)

describe("a list", function()
  it("may be left in the middle, waited in, and read only by one task at a time", function()
    core.main(function()
      local store <close> = assert(core.open_store("memory:", { faults = {
        { operation = "ListBlobs", ordinal = 2, kind = "delay", seconds = 1 },
      } }))
      local container = store:container "abc"
      container:create()
      for i = 1, 4 do container:blob("n" .. i):put "" end
      local seen = 0
      for item in container:list { page = 1 } do
        seen = seen + 1
        assert.equal("n1", item.name)
        if seen == 1 then break end
      end
      assert.equal(1, store:usage().ListBlobs)
      local next_item, cursor = container:list { page = 1 }
      local t = core.spawn(function() return next_item(cursor) end)
      core.sleep(0.5)
      assert.has_error(function() next_item(cursor) end, "another task is waiting for the next page of this list")
      assert.equal("n1", t:join().name)
      for item in container:list { page = 2 } do
        core.sleep(1)
        assert.is_string(item.name)
      end
    end, { clock = "virtual", seed = 1 })
  end)
end)
