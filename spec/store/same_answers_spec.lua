-- The same random calls, with random conditions, on every kind of store: each answer must be the same, code and status,
-- content, props and lists. What the emulator is known to do unlike the service is left out where it says so.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local sh = require "spec.support.sh"

local SEEDS, CALLS = 4, 250
local NAMES = { "a", "b", "d/x", "d/y" }
local OPERATIONS = { "put", "put", "put", "get", "get", "head", "delete", "set_metadata", "append", "append", "list" }
local DATES = { 1000000000, 2000000000 }

local function sequence(seed)
  local state = seed
  return function(n)
    state = (state * 1103515245 + 12345) % 2147483648
    return state // 65536 % n + 1
  end
end

--- One call, drawn: the same for all stores, but for the ETags in it, which each has its own of.
local function draw_call(draw)
  local call = { operation = OPERATIONS[draw(#OPERATIONS)], name = NAMES[draw(#NAMES)], options = { retries = 0 } }
  local options, kind = call.options, draw(12)
  call.tag = ({ "none", "any", "seen" })[draw(3)]
  if kind == 1 or kind == 7 or kind == 8 then call.if_match = true end
  if kind == 2 or kind == 9 then call.if_none_match = true end
  if kind == 3 or kind == 9 then options.if_modified_since = DATES[draw(2)] end
  if kind == 4 or kind == 8 then options.if_unmodified_since = DATES[draw(2)] end
  if call.operation == "put" then
    options.type = ({ "block", "block", "append", "page" })[draw(4)]
    options.size = options.type == "page" and 512 * (draw(8) - 1) or nil
    options.metadata = draw(2) == 1 and { Aa = tostring(draw(9)), b = "x y" } or nil
    call.body = options.type == "block" and ("z"):rep(draw(12) - 1) or ""
  elseif call.operation == "get" then
    options.offset = draw(2) == 1 and draw(8) - 1 or nil
    options.length = options.offset and draw(2) == 1 and draw(8) or nil
  elseif call.operation == "set_metadata" then
    call.body = draw(2) == 1 and { q = "1" } or {}
  elseif call.operation == "append" then
    options.position = draw(4) == 1 and draw(8) - 1 or nil
    call.body = ("k"):rep(draw(8))
  elseif call.operation == "list" then
    call.options = { prefix = ({ "", "d/", "a" })[draw(3)], metadata = draw(2) == 1, page = draw(8) }
  end
  return call
end

--- An answer as text; the second result is the ETag in it.
local function text_of(first, second)
  if first == nil then return second.code .. " " .. tostring(second.status) end
  local props = type(first) == "table" and first or second
  if type(props) ~= "table" then return tostring(first) end
  local metadata = {}
  for name, value in pairs(props.metadata or {}) do metadata[#metadata + 1] = name .. "=" .. value end
  table.sort(metadata)
  return ("%s %s %s %s %s %s %s {%s}"):format(type(first) == "string" and first or "props", props.length, props.type,
    props.content_type, props.committed_block_count, props.append_offset, props.lease_state,
    table.concat(metadata, ",")), props.etag
end

local function list_text(container, options)
  local lines = {}
  for item in container:list(options) do lines[#lines + 1] = item.name .. ": " .. text_of(item) end
  return table.concat(lines, "\n")
end

--- Makes the call in one store; `seen` holds the last ETag of each of its blobs.
local function make(container, seen, call)
  if call.operation == "list" then return list_text(container, call.options) end
  local tags = { none = '"0x0000000000000001"', any = "*", seen = seen[call.name] or '"0x0000000000000002"' }
  local options = {}
  for name, value in pairs(call.options) do options[name] = value end
  options.if_match = call.if_match and tags[call.tag] or nil
  options.if_none_match = call.if_none_match and tags[call.tag] or nil
  local blob = container:blob(call.name)
  local text, etag
  if call.body then
    text, etag = text_of(blob[call.operation](blob, call.body, options))
  else
    text, etag = text_of(blob[call.operation](blob, options))
  end
  seen[call.name] = etag or seen[call.name]
  return text
end

--- The emulator makes a blob that is absent though it was to exist (if_match = "*"), and gives nothing for a range that
--- begins where the content ends, and for the first byte of nothing; the service refuses all of them.
local function is_left_out(container, call)
  local props = container:blob(call.name):head()
  if call.operation == "put" then return call.if_match and call.tag == "any" and not props end
  return call.operation == "get" and props and call.options.offset == props.length
end

describe("random calls", function()
  for seed = 1, SEEDS do
    it("have the same answers on every store, seed " .. seed, function()
      local folder <close> = sh.folder()
      core.main(function()
        local memory <close> = assert(core.open_store("memory:"))
        local file <close> = assert(core.open_store("embedded:" .. folder.path .. "/s.db?relaxed"))
        local azure <close> = assert(core.open_store(azurite.connection_string()))
        local name, draw = azurite.fresh("same"), sequence(seed)
        local places = {}
        for _, store in ipairs { memory, file, azure } do
          places[#places + 1] = { container = store:container(name), seen = {} }
          assert(store:container(name):create())
        end
        for i = 1, CALLS do
          local call = draw_call(draw)
          if not is_left_out(places[1].container, call) then
            local answers = {}
            for p, each in ipairs(places) do answers[p] = make(each.container, each.seen, call) end
            local what = ("call %d: %s %s"):format(i, call.operation, call.name)
            assert.equal(answers[3], answers[1], what)
            assert.equal(answers[3], answers[2], what)
          end
        end
      end)
    end)
  end
end)
