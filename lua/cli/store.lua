-- synod store ls|get|put|rm|head|lease|queue|table: look at and mend a store by hand.

local common = require "cli.common"
local core = require "synod.core"
local options = require "cli.options"
local show = require "cli.show"

local TYPES = { "block", "page", "append" }
local PAGE_BLOB_MAX = 8 << 40 -- bytes, the service's limit
local PIECE = 1 << 20       -- bytes of a file read at once
local GARBAGE_PERCENT = 110 -- collect when the heap has grown so far: pieces of files are large garbage

--- An option of these actions alone.
local function of(actions, row)
  row.of, row.meaning = actions, table.concat(actions, ", ") .. ": " .. row.meaning
  return row
end

local store = {
  summary = "look at a store and mend it by hand",
  usage = {
    "ls [CONTAINER[/PREFIX]] [--json]",
    "get CONTAINER/BLOB [-o FILE]",
    "put CONTAINER/BLOB [FILE]      without FILE, or with -: standard input",
    "rm CONTAINER[/BLOB]...         BLOB* is every blob whose name begins so",
    "head CONTAINER[/BLOB] [--json]",
    "lease show|break|release CONTAINER[/BLOB] [--json]",
    "queue peek|clear|requeue NAME  requeue: from NAME-poison back to NAME",
    "table ls [TABLE[/PARTITION]] [--filter FILTER] [--json]",
  },
  options = common.join(common.store, {
    {
      name = "json", of = { "ls", "put", "rm", "head", "lease", "queue", "table" },
      meaning = "all but get: what is told, as one JSON object a line",
    },
    of({ "table ls" }, { name = "filter", value = "FILTER", meaning = "only what it takes, such as \"age ge 18\"" }),
    of({ "get" }, {
      name = "output", short = "o", value = "FILE", meaning = "write the content there", default = "standard output",
    }),
    of({ "put" }, {
      name = "type", value = "TYPE", choices = TYPES, meaning = "block, page or append", default = "block",
    }),
    of({ "put" }, { name = "size", value = "BYTES", kind = "bytes", meaning = "of a page blob, a multiple of 512" }),
    of({ "put" }, { name = "content-type", value = "TYPE", meaning = "the content's media type" }),
    of({ "put" }, { name = "metadata", value = "NAME=VALUE", many = true, meaning = "may be given several times" }),
    of({ "put" }, {
      name = "if-none-match", value = "ETAG", meaning = "only if it has another ETag; *: only if it does not exist",
    }),
    of({ "put" }, { name = "create", meaning = "make the container when it is not there" }),
    of({ "put", "rm" }, { name = "if-match", value = "ETAG", meaning = "only if it has this ETag" }),
    of({ "lease release" }, { name = "id", value = "ID", meaning = "the lease's id" }),
    of({ "lease break" }, {
      name = "period", value = "SECONDS", kind = "seconds", meaning = "at most so long, 0 to 60",
    }),
    of({ "rm", "queue clear" }, { name = "yes", short = "y", meaning = "do not ask" }),
    of({ "queue peek" }, {
      name = "number", value = "N", kind = "count", meaning = "messages to look at, up to 32", default = "32",
    }),
    of({ "queue peek" }, { name = "base64", meaning = "the bodies are base64" }),
    { name = "timeout", value = "SECONDS", kind = "seconds", meaning = "for each request", default = "10" },
  }, common.instance, common.log),
  notes = "On a terminal rm asks before it removes more than one blob, and queue clear always. A failure gives exit\n"
    .. "code 1; a store that cannot be reached 3; one that does not answer in time 4.",
}

--- What a command was told wrongly: ends it with exit code 2.
local Wrong = {}

local function wrong(...) error(setmetatable({ problem = string.format(...) }, Wrong), 0) end

--- Any refusal of the store ends the command with its err table, which says everything.
local function must(...)
  local value, err = ...
  if value == nil then error(err, 0) end
  return ...
end

--- "flags/a/b" -> "flags", "a/b"; nil for what is not there.
local function split(text)
  local container, name = text:match("^([^/]*)/?(.*)$")
  local fault = core.name_fault("container", container)
  if fault then wrong("the container name '%s' %s", container, fault) end
  return container, name ~= "" and name or nil
end

local function blob_of(s, text)
  local container, name = split(text or "")
  if not name then wrong("'%s' names no blob; write CONTAINER/BLOB", text) end
  local fault = core.name_fault("blob", name)
  if fault then wrong("the blob name '%s' %s", name, fault) end
  return s:container(container):blob(name)
end

local function one_target(parsed, least, most)
  local count = #parsed.args - 1
  if count < least then wrong("store %s: CONTAINER/BLOB is missing", parsed.args[1]) end
  if count > most then wrong("store %s: unexpected argument '%s'", parsed.args[1], parsed.args[most + 2]) end
end

-- ls

local function lease_text(item)
  if not item.lease_state or item.lease_state == "available" then return "-" end
  return item.lease_duration and item.lease_state .. " (" .. item.lease_duration .. ")" or item.lease_state
end

local function blob_row(item)
  return {
    item.name, item.type or "-", tostring(item.length or "-"), show.date(item.last_modified), lease_text(item),
  }
end

local function container_row(item) return { item.name, show.date(item.last_modified), lease_text(item) } end

local function print_items(parsed, heading, row_of, ...)
  local rows = {}
  for item in ... do
    if parsed.json then
      io.write(show.json(item), "\n")
    else
      rows[#rows + 1] = row_of(item)
    end
  end
  if #rows > 0 then io.write(show.columns(heading, rows, { LENGTH = true })) end
end

local actions = {}

function actions.ls(s, parsed)
  one_target(parsed, 0, 1)
  local asked = { metadata = parsed.json, timeout = parsed.timeout }
  if not parsed.args[2] then
    print_items(parsed, { "CONTAINER", "MODIFIED", "LEASE" }, container_row, s:containers(asked))
    return
  end
  local container
  container, asked.prefix = split(parsed.args[2])
  print_items(parsed, { "BLOB", "TYPE", "LENGTH", "MODIFIED", "LEASE" }, blob_row, s:container(container):list(asked))
end

-- get and put

local function open_file(path, mode, purpose, beside)
  local file, problem = io.open(beside or path, mode)
  if not file then error(("cannot %s %s: %s"):format(purpose, path, problem:gsub("^.*: ", "")), 0) end
  return file
end

--- Writes the pieces to an open file.
local function write_pieces(file, path, pieces, piece)
  local ok, problem = true, nil
  while piece and ok do
    ok, problem = file:write(piece)
    piece = pieces()
  end
  if ok then ok, problem = file:flush() end
  if not ok then error(("cannot write %s: %s"):format(path, problem), 0) end
end

--- Writes the pieces to a file, once the first one has come. It is made beside the place that it takes when it is
--- complete: a failure leaves there what was there. A device or pipe takes them as they come.
local function write_file(path, pieces)
  local piece, target = pieces(), core.file_target(path)
  if not target then
    local file <close> = open_file(path, "wb", "write")
    write_pieces(file, path, pieces, piece)
    return
  end
  local part = ("%s.%016x.part"):format(target, string.unpack("I8", core.random_bytes(8)))
  local file <close> = open_file(path, "wb", "write", part)
  local _ <close> = setmetatable({}, { __close = function() os.remove(part) end })
  write_pieces(file, path, pieces, piece)
  local ok, problem = core.file_replace(part, target)
  if not ok then error(("cannot write %s: %s"):format(path, problem), 0) end
end

function actions.get(s, parsed)
  one_target(parsed, 1, 1)
  local pieces = blob_of(s, parsed.args[2]):reader { timeout = parsed.timeout }
  if parsed.output and parsed.output ~= "-" then return write_file(parsed.output, pieces) end
  for piece in pieces do io.write(piece) end
end

--- A file's content piece by piece, for a put.
local function pieces_of(path)
  local file = path and path ~= "-" and open_file(path, "rb", "read") or io.stdin
  local name = path or "standard input"
  return function()
    local piece, problem = file:read(PIECE)
    if problem then error(("cannot read %s: %s"):format(name, problem), 0) end
    if not piece and file ~= io.stdin then file:close() end
    return piece
  end
end

local function metadata_of(list)
  local metadata, spelled = {}, {}
  for _, pair in ipairs(list or {}) do
    local name, value = pair:match("^([%a_][%w_]*)=(.*)$")
    if not name then wrong("--metadata: '%s' is not NAME=VALUE with a NAME of letters, digits and _", pair) end
    if value:find("[^\32-\126]") or value:find("^ ") or value:find(" $") then
      wrong("--metadata: the value of '%s' may hold only printable ASCII without blanks at its ends", name)
    end
    local before = spelled[name:lower()]
    if before then
      wrong("--metadata: '%s' is given twice%s", name, before ~= name and ", as '" .. before .. "'" or "")
    end
    spelled[name:lower()] = name
    metadata[name] = value
  end
  return metadata
end

function actions.put(s, parsed)
  one_target(parsed, 1, 2)
  local kind = parsed.type or "block"
  if kind == "page" and not parsed.size then wrong("--type page needs --size BYTES, a multiple of 512") end
  if kind ~= "page" and parsed.size then wrong("--size is only for --type page") end
  if parsed.size and parsed.size > PAGE_BLOB_MAX then wrong("--size: at most %d bytes (8 TiB)", PAGE_BLOB_MAX) end
  if parsed.size and parsed.size % 512 ~= 0 then wrong("--size: %d is not a multiple of 512", parsed.size) end
  if kind ~= "block" and parsed.args[3] then wrong("--type %s makes an empty blob: give no FILE", kind) end
  collectgarbage("incremental", GARBAGE_PERCENT)
  local b = blob_of(s, parsed.args[2])
  local metadata = metadata_of(parsed.metadata)
  if parsed.create then must(s:container((split(parsed.args[2]))):create { timeout = parsed.timeout }) end
  local props = must(b:put(kind == "block" and pieces_of(parsed.args[3]) or "", {
    type = kind, size = parsed.size, content_type = parsed.content_type, metadata = metadata,
    if_none_match = parsed.if_none_match, if_match = parsed.if_match, timeout = parsed.timeout,
  }))
  if parsed.json then
    props.name = parsed.args[2]
    io.write(show.json(props), "\n")
  end
end

-- rm

--- On a terminal a person is asked, there, wherever the output goes; elsewhere whoever wrote the command has decided.
local function confirmed(question)
  local person = core.output_terminal(2) or core.input_terminal()
  local answers <close> = person and io.open("/dev/tty", "r") or nil
  local questions <close> = answers and io.open("/dev/tty", "w") or nil
  if not questions then return true end
  questions:write(question, " [y/N] ")
  questions:flush()
  return (answers:read("l") or ""):lower():match("^%s*y") ~= nil
end

--- What the words name: blobs to remove one by one, containers to remove as a whole, and how many blobs that are.
---@return { name: string, place: synod.Blob }[] blobs, { name: string, place: synod.Container }[] containers
---@return integer count
local function collect(s, parsed)
  local blobs, containers, count = {}, {}, 0
  for i = 2, #parsed.args do
    local container, name = split(parsed.args[i])
    local c = s:container(container)
    local prefix = name and name:match("^(.*)%*$")
    if not name and parsed.args[i] ~= container then
      wrong("'%s' names no blob; the container with all that is in it is '%s'", parsed.args[i], container)
    end
    if name and not prefix then
      blobs[#blobs + 1] = { name = parsed.args[i], place = blob_of(s, parsed.args[i]) }
      count = count + 1
    else
      for item in c:list { prefix = prefix, timeout = parsed.timeout } do
        if prefix then
          blobs[#blobs + 1] = { name = container .. "/" .. item.name, place = c:blob(item.name) }
        end
        count = count + 1
      end
      if not prefix then containers[#containers + 1] = { name = container, place = c } end
    end
  end
  return blobs, containers, count
end

function actions.rm(s, parsed)
  one_target(parsed, 1, math.huge)
  local blobs, containers, count = collect(s, parsed)
  if parsed.if_match and containers[1] then
    wrong("--if-match is for blobs: '%s' is a container", containers[1].name)
  end
  local things = ("%d blob%s"):format(count, count == 1 and "" or "s")
  if #containers > 0 then
    things = ("%d container%s with %s"):format(#containers, #containers == 1 and "" or "s", things)
  end
  if not parsed.yes and (count > 1 or #containers > 0) and not confirmed("Remove " .. things .. "?") then
    io.stderr:write("synod: nothing was removed\n")
    return 1
  end
  local asked = { if_match = parsed.if_match, timeout = parsed.timeout }
  for _, list in ipairs { blobs, containers } do
    for _, each in ipairs(list) do
      must(each.place:delete(list == blobs and asked or { timeout = parsed.timeout }))
      if parsed.json then io.write(show.json { name = each.name, removed = true }, "\n") end
    end
  end
end

-- queue

function actions.queue(s, parsed)
  return require "cli.store_queue"(s, parsed, { wrong = wrong, must = must, confirmed = confirmed })
end

-- head

local function place_of(s, text)
  local container, name = split(text)
  return name and blob_of(s, text) or s:container(container)
end

local SHOWN = {
  "type", "length", "content_type", "etag", "last_modified", "lease_state", "lease_status", "lease_duration",
  "committed_block_count",
}

function actions.head(s, parsed)
  one_target(parsed, 1, 1)
  local props = must(place_of(s, parsed.args[2]):head { timeout = parsed.timeout })
  if parsed.json then
    io.write(show.json(props), "\n")
    return
  end
  local fields = {}
  for _, field in ipairs(SHOWN) do
    local value = props[field]
    if field == "last_modified" and value then value = show.date(value) end
    if value then fields[#fields + 1] = { field, tostring(value) } end
  end
  local names = {}
  for metadata_name in pairs(props.metadata or {}) do names[#names + 1] = metadata_name end
  table.sort(names)
  for _, metadata_name in ipairs(names) do
    fields[#fields + 1] = { "metadata " .. metadata_name, props.metadata[metadata_name] }
  end
  io.write(show.fields(fields))
end

function actions.lease(s, parsed)
  local function place(text) return place_of(s, text) end
  require("cli.store_lease").run(parsed, { place = place, wrong = wrong, must = must })
end

-- tables

function actions.table(s, parsed)
  local tables = require "cli.store_table"
  local fault = tables.fault(parsed.args)
  if fault then wrong("%s", fault) end
  tables.run(s, parsed)
end

local function action_named(word)
  local words = {}
  for name in pairs(actions) do words[#words + 1] = name end
  table.sort(words)
  if not word then wrong("store: say what to do: %s", table.concat(words, ", ")) end
  if not actions[word] then
    local near = options.nearest(word, words)
    wrong("store: unknown action '%s'%s", word,
      near and (", did you mean '" .. near .. "'?") or "; there are " .. table.concat(words, ", "))
  end
  return actions[word]
end

--- An option that the action would pass over was meant to do something.
local function check_options(parsed)
  local word = parsed.args[1]
  local words = word .. " " .. (parsed.args[2] or "")
  for _, row in ipairs(store.options) do
    local fits = not row.of or parsed[row.name:gsub("%-", "_")] == nil
    for _, action in ipairs(row.of or {}) do fits = fits or action == word or action == words end
    if not fits then
      wrong("store %s: --%s is only for store %s", word, row.name, table.concat(row.of, ", "))
    end
  end
end

---@param parsed table
---@return integer exit_code
function store.run(parsed)
  require("synod.io").install(_G) -- output that cannot be written is raised
  local problem = common.become(parsed, "store")
  if problem then return options.refuse(problem, "store") end
  local stores = require "synod.store"
  stores.configure(parsed.store)
  local ok, result = pcall(function()
    local action = action_named(parsed.args[1])
    check_options(parsed)
    return action(stores.default(), parsed)
  end)
  if ok then return result or 0 end
  if getmetatable(result) == Wrong then return options.refuse(result.problem, "store") end
  error(result, 0)
end

return store
