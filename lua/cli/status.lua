-- synod status NAME: why not me.
--
-- A look at what a lock, an election, a semaphore or a quorum of this name left in the store: it takes nothing. A
-- service lease says itself whether it is held; a record (ttl below 15 s) is alive while it changes, so it is watched
-- until it does, or its ttl has passed (synod.sight).

local backoff = require "synod.backoff"
local command = require "cli.command"
local common = require "cli.common"
local core = require "synod.core"
local options = require "cli.options"
local show = require "cli.show"
local sight = require "synod.sight"

local CONTAINER = "locks"
local KINDS = { "mutex", "election", "quorum" }
local PERMITS = "semaphore" -- each permit is a blob of its own
local LOOK_PART = 10        -- looks at a record in its ttl
local EXIT_HELD, EXIT_FREE = 0, 1
local GONE = { BlobNotFound = true, ContainerNotFound = true }
local WRITTEN = { "holder", "host", "pid", "since", "purpose", "fence", "next" }

local status = {
  summary = "say who holds a lock or leads, since when, and why this instance does not",
  usage = { "NAME [--json] [--timeout S]" },
  options = common.join({
    { name = "json", meaning = "one JSON object a line" },
    { name = "timeout", value = "S", kind = "seconds", meaning = "for each request", default = "10" },
  }, common.store, common.instance, common.log),
  notes = "Looks at the mutex, the election, the quorum and the permits of the semaphore of this name, and takes "
    .. "nothing. Exit code: 0 when somebody holds one of them, 1 when nobody does. A lease of the service tells "
    .. "itself whether it is held; for one below 15 s synod looks until it is renewed, at most its ttl. Example: "
    .. "synod status nightly || echo free",
}

---@class cli.Status
---@field name string          "mutex/backup"
---@field state string         "held", "expired", "released", "breaking", ...
---@field held boolean
---@field kind? "lease"|"record"  what is there; of a lease that is over nothing tells it any more
---@field seen string          when this was so, by our clock
---@field written string       when the blob was last written, by the store's clock
---@field renewed? string      of a record: when it was last renewed
---@field ttl? number          of a record, seconds

local function utc(seconds) return tostring(os.date("!%Y-%m-%dT%H:%M:%SZ", math.floor(seconds))) end

local function head(blob, parsed)
  local props, err = blob:head { timeout = parsed.timeout }
  if props then return props end
  if GONE[err.code] then return nil end
  error(err, 0)
end

--- Looks until it is clear whether somebody holds it: whoever holds a record changes it.
---@return boolean|nil held, synod.Mark mark, string|nil state, number|nil ttl  nil: there is no such thing. The state
---  is what the service calls that of its lease, and the ttl that of a record
local function watch(blob, name, parsed)
  local view, held, mark, state = sight.new(), nil, nil, nil
  local function look()
    local asked = core.now()
    local props = head(blob, parsed)
    if not props then return false end
    held, mark = view:look(props, asked)
    if held == nil then error(mark, 0) end
    state = props.lease_state
    return true
  end
  if not look() then return nil end
  if mark.kind ~= "record" then return held, mark, state end
  local first, pause = mark, mark.ttl / LOOK_PART
  backoff.poll(function()
    local is_there = look()
    held = is_there and held
    return not held or mark.etag ~= first.etag
  end, {
    store = require("synod").store, container = CONTAINER, prefix = name, min = pause, max = pause, recheck = pause,
  })
  return held, mark, nil, first.ttl
end

--- How it is called where somebody may hold it.
local function word_of(held, mark, state)
  if held then return state == "breaking" and state or "held" end
  if mark.kind == "record" then return "expired" end
  if state and state ~= "available" then return state end
  return mark.holder and "released" or "free"
end

---@return cli.Status|nil  nil: there is no such thing
local function look(name, parsed)
  local blob = require("synod").store:container(CONTAINER):blob(name)
  local held, mark, state, ttl = watch(blob, name, parsed)
  if held == nil then return nil end
  local written = utc(mark.modified)
  local found = {
    name = name, held = held, state = word_of(held, mark, state), ttl = ttl,
    kind = ttl and "record" or held and "lease" or nil,
    renewed = ttl and written, written = written, seen = utc(core.time()),
  }
  for _, field in ipairs(WRITTEN) do
    local value = mark[field]
    found[field] = type(value) == "string" and value:gsub("%c", "?") or value -- it is shown on a terminal
  end
  return found
end

--- The permits of a semaphore, in their order.
local function permits(name, parsed)
  local prefix, list = ("%s/%s/"):format(PERMITS, name), {}
  local ok, err = pcall(function()
    for item in require("synod").store:container(CONTAINER):list { prefix = prefix, timeout = parsed.timeout } do
      if item.name:find("^%d+$", #prefix + 1) then list[#list + 1] = item.name end -- beside them stands their number
    end
  end)
  if not ok and not (type(err) == "table" and GONE[err.code]) then error(err, 0) end
  return list
end

local function kind_text(found)
  if found.kind == "lease" then return "a lease of the service" end
  return ("a record, over when not renewed for %g s"):format(found.ttl)
end

local function as_text(found)
  local who = found.holder or "somebody who does not say who it is"
  local title = found.held and ("%s: held by %s"):format(found.name, who)
    or ("%s: nobody holds it (%s)"):format(found.name, found.state)
  local rows = {}
  local function row(name, value) if value then rows[#rows + 1] = { "  " .. name, tostring(value) } end end
  if not found.held then row("last holder", found.holder) end
  row("host", found.host)
  row("process", found.pid)
  row("since", found.since)
  row("purpose", found.purpose)
  row("fence", found.fence)
  row("handed to", found.next)
  if found.kind then row("kind", kind_text(found)) end
  row("last renewal", found.renewed)
  row(found.held and "seen held" or "seen free", found.seen)
  if not found.held then row("last written", found.written) end
  return title .. "\n" .. show.fields(rows)
end

---@param parsed table
---@return integer exit_code
function status.run(parsed)
  local name = parsed.args[1]
  if not name then return options.refuse("status: NAME is missing", "status") end
  if parsed.args[2] then
    return options.refuse(("status: unexpected argument '%s'"):format(parsed.args[2]), "status")
  end
  local fault = command.label("NAME", name)
  if fault then return options.refuse(fault, "status") end
  local _, problem = command.become(parsed, "status")
  if problem then return options.refuse(problem, "status") end
  local names, any, held = {}, false, false
  for i, kind in ipairs(KINDS) do names[i] = kind .. "/" .. name end
  for _, permit in ipairs(permits(name, parsed)) do names[#names + 1] = permit end
  for _, each in ipairs(names) do
    local found = look(each, parsed)
    if found then
      any, held = true, held or found.held
      io.write(parsed.json and show.json(found) .. "\n" or as_text(found))
    end
  end
  if not any and not parsed.json then
    io.write(("%s: nothing of this name is in the store: nobody has ever held it there\n"):format(name))
  end
  return held and EXIT_HELD or EXIT_FREE
end

return status
