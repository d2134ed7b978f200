-- Stories for the sweep of faults: together they make every kind of call. After each step `state` tells, by looking at
-- the server itself, what the calls have done; done twice, or half, it tells otherwise.
--
--   story.prepare(w)      what is there before, made directly
--   story.steps           { name, call(w) -> value or nil, err }, and in it
--                           doubt = true   it may end as AnswerLost
--                           reads = true   it changes nothing
--                           calls = n      how many calls it makes at most, one after the other; 1
--   story.state(w)        a text
--   story.late            a request that comes after its repetition changes nothing: all steps are conditional
--
-- In a world `w`: `tag`, a name that nobody else uses; `store`, behind the proxy; `direct`; `o(options)`, which adds
-- the times. What a step learns for the next ones it keeps in `w`.

local core = require "synod.core"
require "synod.store"

local A, B = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
local HIDDEN_S = 1   -- what a lost get has taken
local LOOK_AGAIN_S = 0.2

--- The result of a call, whose ETag is kept for the next one.
local function keep(w, result, err)
  if result then w.etag = result.etag end
  return result, err
end

local function container(w) return w.store:container(w.tag) end
local function blob(w) return container(w):blob "b" end
local function tbl(w) return w.store:table(w.tag) end
local function queue(w) return w.store:queue(w.tag) end

local function make_container(w) assert(w.direct:container(w.tag):create()) end

local function shown(map)
  local words = {}
  for name, value in pairs(map) do words[#words + 1] = name .. "=" .. tostring(value) end
  table.sort(words)
  return table.concat(words, ",")
end

--- A blob with what is in it; or the code that says why not.
local function blob_state(w, name)
  local body, props = w.direct:container(w.tag):blob(name or "b"):get()
  if not body then return props.code end
  return ("%s %s %s %s"):format(body:gsub("\0+", "0"), props.type, shown(props.metadata), props.lease_state)
end

--- All of a list, or the err that it raises.
local function all(iterate)
  local names = {}
  local ok, err = pcall(function()
    for item in iterate() do names[#names + 1] = item.name or item.row end
  end)
  if ok then return names end
  return nil, err
end

--- Refuses what a read should not have given.
local function expect(wanted, got, err)
  if got == nil then return nil, err end
  return got == wanted or error(("read %q instead of %q"):format(tostring(got), wanted), 0)
end

local function entities_state(w)
  local list = {}
  local ok, err = pcall(function()
    for e in w.direct:table(w.tag):query() do list[#list + 1] = ("%s=%s/%s"):format(e.row, e.n, tostring(e.m)) end
  end)
  return ok and table.concat(list, " ") or err.code
end

local function queue_state(w)
  local count, err = w.direct:queue(w.tag):count()
  return count and tostring(count) or err.code
end

local function e(row, n, m) return { partition = "p", row = row, n = n, m = m } end

local stories = {
  {
    name = "a container", prepare = function() end,
    steps = {
      { "create", function(w) return container(w):create(w.o { metadata = { a = "1" } }) end },
      { "set_metadata", function(w) return container(w):set_metadata({ a = "2" }, w.o()) end },
      { "head", function(w) return container(w):head(w.o()) end, reads = true },
      { "lease", function(w) return container(w):lease(w.o { id = A }) end },
      { "set_metadata under the lease", function(w)
        return container(w):set_metadata({ a = "3" }, w.o { lease = A })
      end },
      { "delete", function(w) return container(w):delete(w.o { lease = A }) end },
    },
    state = function(w)
      local props, err = w.direct:container(w.tag):head()
      return props and shown(props.metadata) .. props.lease_state or err.code
    end,
  },
  {
    name = "a blob under conditions", prepare = make_container, late = true,
    steps = {
      { "put, create-only", function(w) return keep(w, blob(w):put("1", w.o { if_none_match = "*" })) end },
      { "put", function(w) return keep(w, blob(w):put("2", w.o { if_match = w.etag })) end },
      { "set_metadata", function(w) return keep(w, blob(w):set_metadata({ a = "1" }, w.o { if_match = w.etag })) end },
      { "get", function(w) return expect("2", blob(w):get(w.o { if_match = w.etag })) end, reads = true },
      { "put again", function(w) return keep(w, blob(w):put("3", w.o { if_match = w.etag })) end },
      { "head", function(w) return blob(w):head(w.o { if_match = w.etag }) end, reads = true },
    },
    state = blob_state,
  },
  {
    name = "a blob without conditions", prepare = make_container,
    steps = {
      { "put", function(w) return blob(w):put("1", w.o { metadata = { a = "1" } }) end },
      { "set_metadata", function(w) return blob(w):set_metadata({ a = "2" }, w.o()) end },
      { "head", function(w) return keep(w, blob(w):head(w.o())) end, reads = true },
      { "copy, create-only", function(w)
        return container(w):blob("c"):copy_from(blob(w), w.o { if_none_match = "*", source_if_match = w.etag })
      end, calls = 2 },
      { "copy", function(w) return container(w):blob("c"):copy_from(blob(w), w.o()) end, calls = 2 },
      { "list", function(w)
        local names, err = all(function() return container(w):list(w.o { page = 1 }) end)
        return expect("b c", names and table.concat(names, " "), err)
      end, calls = 3, reads = true },
      { "delete", function(w) return blob(w):delete(w.o { if_match = w.etag }) end },
      { "delete the copy", function(w) return container(w):blob("c"):delete(w.o()) end },
    },
    state = function(w) return blob_state(w) .. "; " .. blob_state(w, "c") end,
  },
  {
    name = "a page blob and a log", prepare = make_container,
    steps = {
      { "put of a page blob", function(w)
        return blob(w):put("", w.o { type = "page", size = 512, if_none_match = "*", metadata = { a = "1" } })
      end },
      { "put of an append blob", function(w)
        return container(w):blob("log"):put("", w.o { type = "append", if_none_match = "*" })
      end },
      { "append at 0", function(w) return container(w):blob("log"):append("one", w.o { position = 0 }) end },
      { "append at 3", function(w) return container(w):blob("log"):append("one", w.o { position = 3 }) end },
      { "append", function(w) return container(w):blob("log"):append("any", w.o()) end, doubt = true },
    },
    state = function(w) return blob_state(w) .. "; " .. blob_state(w, "log") end,
  },
  {
    name = "a body in blocks", prepare = make_container, late = true,
    steps = {
      { "a writer, create-only", function(w)
        local writer <close> = blob(w):writer(w.o { block = 4, parallel = 1, if_none_match = "*" })
        local ok, err = writer:write "abcdefgh"
        if not ok then return nil, err end
        return keep(w, writer:close())
      end, calls = 3 },
      { "a writer over that version", function(w)
        local writer <close> = blob(w):writer(w.o { block = 4, parallel = 2, if_match = w.etag })
        local ok, err = writer:write "ijklmnop"
        if not ok then return nil, err end
        return keep(w, writer:close())
      end, calls = 3 },
      { "a reader", function(w)
        local reader, parts = blob(w):reader(w.o { chunk = 4 }), {}
        while true do
          local part, err = reader:read()
          if err then return nil, err end
          if not part then return expect("ijklmnop", table.concat(parts)) end
          parts[#parts + 1] = part
        end
      end, calls = 3, reads = true },
    },
    state = blob_state,
  },
  {
    name = "a lease", prepare = function(w)
      make_container(w)
      assert(w.direct:container(w.tag):blob("b"):put "")
    end,
    steps = {
      { "acquire", function(w)
        local err
        w.lease, err = blob(w):lease(w.o { id = A })
        return w.lease, err
      end },
      { "put under it", function(w) return keep(w, blob(w):put("1", w.o { lease = A })) end },
      { "renew", function(w) return w.lease:renew(w.o()) end },
      { "change", function(w) return w.lease:change(B, w.o()) end },
      { "put under the other id", function(w) return blob(w):put("2", w.o { lease = B, if_match = w.etag }) end },
      { "release", function(w) return w.lease:release(w.o()) end },
      { "acquire again", function(w)
        local err
        w.lease, err = blob(w):lease(w.o())
        return w.lease, err
      end },
      { "break", function(w) return blob(w):break_lease(0, w.o()) end },
    },
    state = function(w)
      local blob_direct = w.direct:container(w.tag):blob "b"
      local owned = {}
      for name, id in pairs { A = A, B = B } do -- a write under an id is refused unless it is the holder's
        if blob_direct:get { lease = id } then owned[#owned + 1] = name end
      end
      return blob_state(w) .. " " .. table.concat(owned)
    end,
  },
  {
    name = "a queue", prepare = function() end,
    steps = {
      { "create", function(w) return queue(w):create(w.o { metadata = { a = "1" } }) end },
      { "put", function(w) return queue(w):put("m", w.o()) end },
      { "peek", function(w) return queue(w):peek(1, w.o()) end, reads = true },
      { "get", function(w) -- what a lost answer has taken shows again
        local finish = core.now() + w.timeout
        repeat
          local list, err = queue(w):get(w.o { visibility = HIDDEN_S })
          if not list then return nil, err end
          w.message = list[1]
          if not w.message then core.sleep(LOOK_AGAIN_S) end
        until w.message or core.now() > finish
        return w.message or error("the message does not show again", 0)
      end, calls = 2 },
      { "update", function(w) return w.message:update(w.o { visibility = 60, body = "n" }) end, doubt = true },
      { "delete of the message", function(w) return w.message:delete(w.o()) end },
      { "count", function(w) return queue(w):count(w.o()) end, reads = true },
      { "delete", function(w) return queue(w):delete(w.o()) end },
    },
    state = queue_state,
    same = function(w, got, wanted) -- each repeated put may have made one more
      local more = (tonumber(got) or 0) - (tonumber(wanted) or 0)
      return got == wanted or (more > 0 and more < (w.store:usage().PutMessage or 0))
    end,
  },
  {
    name = "a message put once", prepare = function(w) assert(w.direct:queue(w.tag):create()) end,
    steps = {
      { "put once", function(w) return queue(w):put("m", w.o { once = true }) end, doubt = true },
      { "clear", function(w) return queue(w):clear(w.o()) end },
      { "put once again", function(w) return queue(w):put("m", w.o { once = true }) end, doubt = true },
    },
    state = queue_state,
  },
  {
    name = "entities", prepare = function() end,
    steps = {
      { "create", function(w) return tbl(w):create(w.o()) end },
      { "insert", function(w) return keep(w, tbl(w):insert(e("a", 1), w.o())) end },
      { "merge", function(w) return keep(w, tbl(w):merge(e("a", nil, 2), w.o { if_match = w.etag })) end },
      { "replace", function(w) return keep(w, tbl(w):replace(e("a", 3), w.o { if_match = w.etag })) end },
      { "get", function(w)
        local found, err = tbl(w):get("p", "a", w.o())
        return expect(w.etag, found and found.etag, err)
      end, reads = true },
      { "upsert", function(w) return tbl(w):upsert(e("b", 1), w.o()) end },
      { "merge of any version", function(w) return tbl(w):merge(e("b", 2, 2), w.o()) end },
      { "replace of any version", function(w) return tbl(w):replace(e("b", 3), w.o()) end },
      { "query", function(w)
        local names, err = all(function() return tbl(w):query(w.o { partition = "p" }) end)
        return expect("a b", names and table.concat(names, " "), err)
      end, reads = true },
      { "delete", function(w) return tbl(w):delete("p", "a", w.o { if_match = w.etag }) end },
      { "delete of any version", function(w) return tbl(w):delete("p", "b", w.o()) end },
      { "drop", function(w) return tbl(w):drop(w.o()) end },
    },
    state = entities_state,
  },
  {
    name = "a counter in a table", late = true, prepare = function(w) assert(w.direct:table(w.tag):create()) end,
    steps = {
      { "insert", function(w) return keep(w, tbl(w):insert(e("a", 1), w.o())) end },
      { "merge", function(w) return keep(w, tbl(w):merge(e("a", 2), w.o { if_match = w.etag })) end },
      { "replace", function(w) return keep(w, tbl(w):replace(e("a", 3), w.o { if_match = w.etag })) end },
    },
    state = entities_state,
  },
  {
    name = "batches", prepare = function(w) assert(w.direct:table(w.tag):create()) end,
    steps = {
      { "of inserts", function(w)
        local results, err = tbl(w):batch({ { insert = e("a", 1) }, { insert = e("b", 1) } }, w.o())
        w.etag = results and results[1].etag
        return results, err
      end },
      { "under an ETag", function(w)
        local merge = { merge = e("a", 2), if_match = w.etag }
        return tbl(w):batch({ merge, { insert = e("c", 1) }, { delete = e "b" } }, w.o())
      end },
      { "of upserts", function(w) return tbl(w):batch({ { upsert = e("a", 3) }, { upsert = e("b", 3) } }, w.o()) end },
      { "of deletes", function(w)
        return tbl(w):batch({ { delete = e "a" }, { delete = e "b" } }, w.o())
      end, doubt = true },
    },
    state = entities_state,
  },
}

return stories
