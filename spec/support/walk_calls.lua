-- Calls drawn at random, as data: each kind of call that a store knows, by three clients.
--
--   local list = calls.draw(seed, 500)
--   list[7]      { client = 2, on = { "blob", "flags", "a" }, method = "put", args = { "x", { if_match = ETag } } }
--   list[8]      { sleep = 1, by = -1 }: to a millisecond before the next instant at which something ends
--
-- What only the answers of earlier calls can tell (an ETag, a lease, a message) is a reference, and means "the newest
-- that this client has of it", or the n-th newest: a call keeps its meaning when others are left out.

local calls = {}

calls.CLIENTS = 3

--- What has this metatable stands for a value: { what = "etag", key = "flags/a", nth = 1 }.
calls.reference = {}
--- The same for a typed value of an entity: { "int32", 5 }.
calls.typed = {}
--- The same for a blob of the client: { "blob", "flags", "a" }.
calls.place = {}

local CONTAINERS, BLOBS = { "flags", "jobs" }, { "a", "b", "d/x" }
local QUEUES, TABLES = { "mail", "todo" }, { "Nodes", "Seats" }
local PARTITIONS, ROWS = { "p", "p q", "ü" }, { "a", "b", "c'd", "e" }
local DATES = { 1000000000, 2000000000 }
local IDS = {
  "aaaaaaaa-0000-4000-8000-00000000000a", "{BBBBBBBB-0000-4000-8000-00000000000B}", "cccccccc00004000800000000000000c",
}
calls.DURATIONS = { 15, 20, 60 } -- of leases, in seconds

--- The same numbers for the same seed, whatever the machine.
local function dice(seed)
  local state = seed * 2654435761 % 4294967296
  local d = {}
  function d.number(n)
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n + 1
  end
  function d.pick(list) return list[d.number(#list)] end
  function d.one_in(n) return d.number(n) == 1 end
  return d
end

local function reference(what, key, nth)
  return setmetatable({ what = what, key = key, nth = nth or 1 }, calls.reference)
end

-- conditions and leases

local function etag(d, key)
  if d.one_in(6) then return "*" end
  if d.one_in(8) then return '"0x0000000000000001"' end
  return reference("etag", key, d.one_in(3) and d.number(4) or 1)
end

--- The options that every call on a blob takes.
local function conditions(d, client, key, options)
  local kind = d.number(14)
  if kind <= 3 then options.if_match = etag(d, key) end
  if kind == 3 or kind == 4 or kind == 5 then options.if_none_match = etag(d, key) end
  if kind == 1 or kind == 6 then options.if_modified_since = d.pick(DATES) end
  if kind == 4 or kind == 7 then options.if_unmodified_since = d.pick(DATES) end
  if d.one_in(3) then options.lease = d.one_in(4) and d.pick(IDS) or IDS[client] end
  return options
end

local function metadata(d)
  return d.pick { {}, { a = "1" }, { a = "2", B = "x y" } }
end

-- blobs and containers

local blob = {}

function blob.put(d, options)
  options.type = d.pick { "block", "block", "append", "page" }
  options.size = options.type == "page" and 512 * (d.number(8) - 1) or nil
  options.metadata = d.one_in(2) and metadata(d) or nil
  options.content_type = d.one_in(5) and "text/plain" or nil
  return { options.type == "block" and ("z"):rep(d.number(12) - 1) or "", options }
end

function blob.get(d, options)
  options.offset = d.one_in(3) and d.number(d.one_in(3) and 40 or 8) - 1 or nil
  options.length = d.one_in(3) and d.number(d.one_in(3) and 40 or 8) or nil
  return { options }
end

--- In pieces (see walk_bodies.lua): a few bytes in small ones, or all.
function blob.read(d, options)
  blob.get(d, options)
  options.chunk = d.pick { 3, 8, 500 }
  if options.chunk < 500 then options.length = options.length or 12 * d.number(4) end
  return { options }
end

--- In blocks of a few bytes, or in one put when it fits into one.
function blob.write(d, options)
  options.metadata = d.one_in(2) and metadata(d) or nil
  options.content_type = d.one_in(5) and "text/plain" or nil
  options.block, options.parallel = d.pick { 4, 7, 16 }, d.pick { 1, 4 }
  return { ("0123456789abcdef"):rep(3):sub(1, d.number(40) - 1), options }
end

function blob.copy_from(d, options)
  local container, name = d.pick(CONTAINERS), d.pick(BLOBS)
  options.metadata = d.one_in(3) and metadata(d) or nil
  options.source_if_match = d.one_in(4) and reference("etag", container .. "/" .. name, d.number(2)) or nil
  return { setmetatable({ "blob", container, name }, calls.place), options }
end

function blob.head(_, options) return { options } end
blob.delete = blob.head

function blob.set_metadata(d, options) return { metadata(d), options } end

function blob.append(d, options)
  options.position = d.one_in(4) and d.number(8) - 1 or nil
  return { ("k"):rep(d.number(8)), options }
end

local function lease_options(d, client, options)
  options.lease = nil
  options.duration = d.pick { 15, 20, -1 }
  options.id = not d.one_in(5) and (d.one_in(4) and d.pick(IDS) or IDS[client]) or nil
  return options
end

function blob.lease(d, options, client) return { lease_options(d, client, options) } end

function blob.break_lease(d, options)
  options.lease = nil
  return table.pack(d.pick { false, 0, 1, 7, 60 } or nil, options)
end

local function on_blob(method)
  return function(d, client)
    local container, name = d.pick(CONTAINERS), d.pick(BLOBS)
    local options = conditions(d, client, container .. "/" .. name, {})
    return { on = { "blob", container, name }, method = method, args = blob[method](d, options, client) }
  end
end

--- The options of a container: it knows a lease and one of the conditions.
local function container_options(d, client, method)
  local options = {}
  if method ~= "head" and d.one_in(5) then options.if_modified_since = d.pick(DATES) end
  if method == "delete" and d.one_in(5) then options.if_unmodified_since = d.pick(DATES) end
  if d.one_in(3) then options.lease = d.one_in(4) and d.pick(IDS) or IDS[client] end
  return options
end

local container = {}

function container.create(d) return { { metadata = d.one_in(2) and metadata(d) or nil } } end
function container.delete(d, client) return { container_options(d, client, "delete") } end
function container.head(d, client) return { container_options(d, client, "head") } end
function container.set_metadata(d, client) return { metadata(d), container_options(d, client, "set_metadata") } end
function container.lease(d, client) return { lease_options(d, client, {}) } end
function container.break_lease(d) return { d.pick { false, 0, 1, 7, 60 } or nil } end

function container.list(d)
  return { { prefix = d.pick { "", "d/", "a" }, metadata = d.one_in(2), page = d.number(4) } }
end

local function on_container(method)
  return function(d, client)
    return { on = { "container", d.pick(CONTAINERS) }, method = method, all = method == "list",
      args = container[method](d, client) }
  end
end

local function on_lease(method)
  return function(d, client)
    local where = d.pick(CONTAINERS)
    local key = d.one_in(4) and where or where .. "/" .. d.pick(BLOBS)
    local args = { method == "change" and (d.one_in(3) and d.pick(IDS) or IDS[client]) or nil }
    return { on = reference("lease", key, d.one_in(4) and 2 or 1), method = method, args = args }
  end
end

-- queues

local queue = {}

function queue.create(d) return { { metadata = d.one_in(4) and metadata(d) or nil } } end
function queue.delete() return {} end
queue.clear, queue.count = queue.delete, queue.delete

function queue.put(d)
  local options = { delay = d.pick { false, false, 0, 1, 4 } or nil, ttl = d.pick { false, false, -1, 1, 2, 9 } or nil }
  return { d.pick { "", "x", "a <b> & 'c'", "ü\n" .. ("y"):rep(d.number(90)) }, options }
end

function queue.get(d)
  return { { n = d.pick { false, 1, 2, 32 } or nil, visibility = d.pick { false, 1, 1, 2, 9 } or nil } }
end

function queue.peek(d) return { d.pick { false, 1, 2, 32 } or nil } end

local function on_queue(method)
  return function(d)
    return { on = { "queue", d.pick(QUEUES) }, method = method, args = queue[method](d) }
  end
end

local function on_message(method)
  return function(d)
    local options = method == "update"
      and { visibility = d.pick { 0, 0, 1, 3 }, body = d.one_in(2) and "u" .. d.number(9) or nil } or {}
    return { on = reference("message", d.pick(QUEUES), d.number(4)), method = method, args = { options } }
  end
end

-- tables

-- What is filtered for has one type (see spec/azure/differences.lua): the place of its maker below.
local NAMES, TYPES = { "n", "s", "flag", "at", "_x1" }, { n = 1, s = 3, flag = 4, at = 6 }
local FILTERS = {
  "n eq 1L", "s eq 'x'", "flag eq true", "at lt datetime'1970-01-01T00:30:00Z'", "RowKey gt 'b'", "PartitionKey ne 'p'",
  "RowKey ge 'a' and RowKey lt 'c'", "not (RowKey eq 'a')", "PartitionKey eq 'p' or RowKey eq 'e'",
}

local function typed(...) return setmetatable({ ... }, calls.typed) end

local VALUES = {
  function(d) return d.number(11) - 6 end,
  function(d) return d.one_in(3) and d.number(11) - 5.5 or d.number(4) - 1.0 end,
  function(d) return d.pick { "", "x", "ü'\"", "5", "long " .. ("y"):rep(d.number(200)) } end,
  function(d) return d.one_in(2) end,
  function(d) return typed("int32", d.number(11) - 6) end,
  function(d) return typed("time", (d.number(4) - 1) * 1000) end,
  function(d) return typed("guid", ("%032x"):format(d.number(4) - 1)) end,
  function(d) return typed("binary", d.pick { "", "\0", "ab" }) end,
}

local function entity(d, partition)
  local e = { partition = partition or d.pick(PARTITIONS), row = d.pick(ROWS) }
  for _ = 1, d.number(4) - 1 do
    local name = d.pick(NAMES)
    e[name] = VALUES[TYPES[name] or d.number(#VALUES)](d)
  end
  return e
end

local function version(d, name, e)
  local kind = d.number(4)
  if kind == 1 then return nil end
  return kind == 2 and "*" or reference("etag", ("%s/%s/%s"):format(name, e.partition, e.row), d.one_in(3) and 2 or 1)
end

local tables = {}

function tables.create() return {} end
tables.drop = tables.create
function tables.insert(d) return { entity(d) } end
function tables.upsert(d) return { entity(d), { mode = d.pick { "replace", "merge" } } } end

function tables.replace(d, name)
  local e = entity(d)
  return { e, { if_match = version(d, name, e) } }
end
tables.merge = tables.replace

function tables.delete(d, name)
  local e = entity(d)
  return { e.partition, e.row, { if_match = version(d, name, e) } }
end

function tables.get(d)
  return { d.pick(PARTITIONS), d.pick(ROWS), { select = d.one_in(3) and { d.pick(NAMES), d.pick(NAMES) } or nil } }
end

function tables.query(d)
  return { { page = d.pick { 1, 2, 1000 }, partition = d.pick { "p", "ü", false } or nil,
    from = d.pick { "a", "b", false } or nil, to = d.pick { "b", "c'd", false } or nil,
    filter = d.one_in(2) and d.pick(FILTERS) or nil } }
end

function tables.batch(d, name)
  local partition, list = d.pick(PARTITIONS), {}
  for i = 1, d.number(4) do
    local verb, e = d.pick { "insert", "replace", "merge", "upsert", "delete" }, entity(d, partition)
    list[i] = { [verb] = e, mode = verb == "upsert" and d.pick { "replace", "merge" } or nil,
      if_match = verb ~= "insert" and verb ~= "upsert" and version(d, name, e) or nil }
  end
  return { list }
end

local function on_table(method)
  return function(d)
    local name = d.pick(TABLES)
    return { on = { "table", name }, method = method, all = method == "query", args = tables[method](d, name) }
  end
end

local function on_store(method, key)
  return function()
    return { on = { "store" }, method = method, all = true, args = key and { { prefix = key, metadata = true } } or {} }
  end
end

-- all of them

local function sleep(d) return { sleep = d.number(3), by = d.pick { -1, 0, 0, 0, 1 } } end

--- Each with how often it is drawn, beside the others.
local KINDS = {
  { 9, on_blob "put" }, { 4, on_blob "get" }, { 4, on_blob "head" }, { 3, on_blob "delete" },
  { 4, on_blob "set_metadata" }, { 5, on_blob "append" }, { 5, on_blob "write" }, { 3, on_blob "read" },
  { 5, on_blob "copy_from" }, { 6, on_blob "lease" }, { 4, on_blob "break_lease" },
  { 4, on_container "create" }, { 1, on_container "delete" }, { 2, on_container "head" },
  { 1, on_container "set_metadata" }, { 3, on_container "list" }, { 2, on_container "lease" },
  { 1, on_container "break_lease" }, { 1, on_store("containers", "") },
  { 4, on_lease "renew" }, { 3, on_lease "change" }, { 3, on_lease "release" },
  { 3, on_queue "create" }, { 1, on_queue "delete" }, { 9, on_queue "put" }, { 8, on_queue "get" },
  { 3, on_queue "peek" }, { 2, on_queue "count" }, { 1, on_queue "clear" }, { 1, on_store("queues", "") },
  { 5, on_message "update" }, { 5, on_message "delete" },
  { 3, on_table "create" }, { 1, on_table "drop" }, { 4, on_table "insert" }, { 3, on_table "get" },
  { 4, on_table "replace" }, { 4, on_table "merge" }, { 4, on_table "upsert" }, { 3, on_table "delete" },
  { 4, on_table "query" }, { 4, on_table "batch" }, { 1, on_store "tables" },
  { 6, sleep },
}

local BAG = {}
for _, kind in ipairs(KINDS) do
  for _ = 1, kind[1] do BAG[#BAG + 1] = kind[2] end
end

--- What the calls are made on is there at the beginning.
local function first_calls()
  local list = {}
  for _, name in ipairs(CONTAINERS) do list[#list + 1] = { "container", name } end
  for _, name in ipairs(QUEUES) do list[#list + 1] = { "queue", name } end
  for _, name in ipairs(TABLES) do list[#list + 1] = { "table", name } end
  for i, on in ipairs(list) do list[i] = { client = 1, on = on, method = "create", args = {} } end
  return list
end

---@param seed integer
---@param count integer
---@return table[]
function calls.draw(seed, count)
  local d, list = dice(seed), first_calls()
  while #list < count do
    local client = d.number(calls.CLIENTS)
    local call = d.pick(BAG)(d, client)
    call.client = client
    list[#list + 1] = call
  end
  return list
end

return calls
