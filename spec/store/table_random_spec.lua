-- A seeded random walk over all calls on tables, on the embedded store and on a real server at once: every result is
-- equal.
--
--   TABLE_WALK=20000 lua5.4 /usr/bin/busted spec/store/table_random_spec.lua      a longer one

local core = require "synod.core"

local CALLS = tonumber(os.getenv "TABLE_WALK") or 1500
local SEED = tonumber(os.getenv "TABLE_SEED") or 1

local PARTITIONS, ROWS = { "p", "p q", "ü" }, { "a", "b", "c'd", "e" }
local NAMES = { "n", "s", "flag", "at", "_x1" }
-- What is filtered for has one type (see spec/azure/differences.lua): the place of its maker below.
local TYPES = { n = 1, s = 3, flag = 4, at = 6 }

local function pick(list) return list[math.random(#list)] end

local VALUES = {
  function() return math.random(-5, 5) end,
  function() return math.random() < 0.3 and math.random(-5, 5) + 0.5 or math.random(0, 3) * 1.0 end,
  function() return pick { "", "x", "ü'\"", "5", "long " .. ("y"):rep(math.random(200)) } end,
  function() return math.random() < 0.5 end,
  function() return core.int32(math.random(-5, 5)) end,
  function() return core.time_value(math.random(0, 3) * 1000) end,
  function() return core.guid(("%032x"):format(math.random(0, 3))) end,
  function() return core.binary(pick { "", "\0", "ab" }) end,
}

local function entity(partition)
  local e = { partition = partition or pick(PARTITIONS), row = pick(ROWS) }
  for _ = 1, math.random(0, 3) do
    local name = pick(NAMES)
    e[name] = VALUES[TYPES[name] or math.random(#VALUES)]()
  end
  return e
end

local FILTERS = {
  "n eq 1L", "s eq 'x'", "flag eq true", "at lt datetime'1970-01-01T00:30:00Z'", "RowKey gt 'b'", "PartitionKey ne 'p'",
  "RowKey ge 'a' and RowKey lt 'c'", "not (RowKey eq 'a')", "PartitionKey eq 'p' or RowKey eq 'e'",
}

--- Two stores in step: what each call gives, without what must differ (ETags, timestamps).
local walker = {}
walker.__index = walker

function walker.new(stores)
  return setmetatable({ stores = stores, etags = {}, given = {} }, walker)
end

--- The emulator makes ETags from a clock that is too coarse at times: one that it gave to two writes is no use.
function walker:note_write(which, etag)
  if which == 2 and etag then self.given[etag] = (self.given[etag] or 0) + 1 end
end

--- An ETag is named by the order in which it came, the same for each store: "*", a remembered one, or none.
function walker:if_match()
  local kind = math.random(4)
  if kind == 1 then return nil end
  if kind == 2 or #self.etags == 0 then return "*" end
  local chosen = math.max(1, #self.etags - math.random(0, 8))
  return (self.given[self.etags[chosen][2]] or 1) == 1 and chosen or "*"
end

local function match_of(self, which, chosen)
  if type(chosen) ~= "number" then return chosen end
  return self.etags[chosen][which]
end

local function shown(value)
  if type(value) ~= "table" then return tostring(value) .. ":" .. (math.type(value) or type(value)) end
  local words = {}
  for name, v in pairs(value) do
    if name ~= "etag" and name ~= "timestamp" then
      words[#words + 1] = name .. "=" .. tostring(v) .. ":" .. (math.type(v) or type(v))
    end
  end
  table.sort(words)
  return "{" .. table.concat(words, " ") .. "}"
end

--- Makes a call on both stores: both outcomes, as texts.
function walker:both(make)
  local outcomes, etags = {}, {}
  for which, store in ipairs(self.stores) do
    local value, err = make(store, which)
    if value == nil then
      outcomes[which] = ("%s %d %s"):format(err.code, err.status, tostring(err.index))
    elseif type(value) == "table" and value.etag then
      etags[which] = value.etag
      if not value.row then self:note_write(which, value.etag) end
      outcomes[which] = shown(value)
    else
      outcomes[which] = shown(value)
    end
  end
  if etags[1] and etags[2] then self.etags[#self.etags + 1] = etags end
  return outcomes
end

local function query_all(tbl, options)
  local list = {}
  local ok, err = pcall(function()
    for e in tbl:query(options) do list[#list + 1] = shown(e) end
  end)
  if not ok then return nil, err end
  return table.concat(list, "\n")
end

local ACTIONS = {
  function(w)
    local e = entity()
    return "insert", w:both(function(t) return t:insert(e) end)
  end,
  function(w)
    local e, m = entity(), w:if_match()
    return "replace", w:both(function(t, i) return t:replace(e, { if_match = match_of(w, i, m) }) end)
  end,
  function(w)
    local e, m = entity(), w:if_match()
    return "merge", w:both(function(t, i) return t:merge(e, { if_match = match_of(w, i, m) }) end)
  end,
  function(w)
    local e, mode = entity(), pick { "replace", "merge" }
    return "upsert " .. mode, w:both(function(t) return t:upsert(e, { mode = mode }) end)
  end,
  function(w)
    local p, r, m = pick(PARTITIONS), pick(ROWS), w:if_match()
    return "delete", w:both(function(t, i) return t:delete(p, r, { if_match = match_of(w, i, m) }) end)
  end,
  function(w)
    local p, r = pick(PARTITIONS), pick(ROWS)
    local select = math.random(3) == 1 and { pick(NAMES), pick(NAMES) } or nil
    return "get", w:both(function(t) return t:get(p, r, { select = select }) end)
  end,
  function(w)
    local options = { page = pick { 1, 2, 1000 }, partition = pick { "p", "ü", false }, from = pick { "a", "b", false },
      to = pick { "b", "c'd", false }, filter = pick { pick(FILTERS), false } }
    for name, value in pairs(options) do options[name] = value or nil end
    return "query " .. tostring(options.filter), w:both(function(t) return query_all(t, options) end)
  end,
  function(w)
    local partition, list = pick(PARTITIONS), {}
    for i = 1, math.random(4) do
      local verb = pick { "insert", "replace", "merge", "upsert", "delete" }
      list[i] = { verb = verb, entity = entity(partition),
        mode = verb == "upsert" and pick { "replace", "merge" } or nil,
        match = verb ~= "insert" and verb ~= "upsert" and w:if_match() or nil }
    end
    return "batch", w:both(function(t, which)
      local operations = {}
      for i, op in ipairs(list) do
        operations[i] = { [op.verb] = op.entity, mode = op.mode, if_match = match_of(w, which, op.match) }
      end
      local results, err = t:batch(operations)
      for _, result in ipairs(results or {}) do w:note_write(which, result ~= true and result.etag or nil) end
      return results and #results, err
    end)
  end,
}

describe("a random walk over all calls on tables", function()
  it("gives the same on the embedded store and on a real server, from seed " .. SEED, function()
    local azurite = require "spec.support.azurite"
    math.randomseed(SEED)
    core.main(function()
      local memory <close> = assert(core.open_store "memory:")
      local server <close> = assert(core.open_store(azurite.connection_string()))
      local tables = {}
      for i, store in ipairs { memory, server } do
        tables[i] = store:table(azurite.fresh("Walk" .. SEED .. "x", ""))
        assert(tables[i]:create())
      end
      local w = walker.new(tables)
      for step = 1, CALLS do
        local name, outcomes = pick(ACTIONS)(w)
        assert.equal(outcomes[2], outcomes[1], ("step %d: %s"):format(step, name))
      end
    end)
  end)
end)
