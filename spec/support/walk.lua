-- Walks over the calls of spec/support/walk_calls.lua: the same ones on two stores at once, every answer compared.
--
--   local pair = { { name = "memory:", open = fn }, { name = "embedded:", open = fn } }      fn() -> three stores
--   local fault = walk.random(pair, { seed = 7, calls = 500 })       nil, or where the two differ
--   fault.script                                                     the shortest way there, as a script
--
-- What must differ is compared by its shape: ETags, ids, receipts by the order in which they first came. Instants are
-- equal on the virtual clock; on a real one (pair.live) they are left out, and no call is made while one comes.
--
-- A fault can be planted in a store: `before(call, arguments)` and `after(call, outcome)` may change what they are
-- given. `pair.expected(call, ours, theirs)` tells of known differences: "fine", or "mend" when the stores are not
-- alike any more.

local calls = require "spec.support.walk_calls"
local core = require "synod.core"
local shorter = require "spec.support.walk_shorter"
local shown = require "spec.support.walk_answers"

local walk = {}

local LOOK_AHEAD_S = 1.2  -- a real wait is not longer
local MARGIN_S = 0.12     -- from a real call to the next end

---@class walk.Walk
local walk_type = {}
walk_type.__index = walk_type

--- A name on the stores: nobody else's there.
local function named(self, name) return self.tag .. name end

local function remember(self, client, key, values, from)
  local all = self.memory[client]
  all[key] = all[key] or {}
  table.insert(all[key], 1, { values = values, from = from })
end

local function recall(self, client, ref)
  local list = self.memory[client][ref.what .. " " .. ref.key] or {}
  return list[math.min(ref.nth, #list)]
end

local NEVER_GIVEN = { values = { '"0x0000000000000002"', '"0x0000000000000002"' }, from = [['"0x0000000000000002"']] }
local ANY = { values = { "*", "*" }, from = '"*"' }

local function recall_etag(self, client, ref)
  local found = recall(self, client, ref)
  if not found then return #ref.key:gsub("[^/]", "") == 2 and ANY or NEVER_GIVEN end
  return shown.is_shared(self.names[2], found.values[2]) and ANY or found
end

--- An argument as it is for the store of that number, and as a script says it (number 0).
local function argument(self, client, value, which)
  local kind = getmetatable(value)
  if kind == calls.reference then
    local found = recall_etag(self, client, value)
    return which == 0 and found.from or found.values[which]
  elseif kind == calls.typed then
    local name = value[1] == "time" and "time_value" or value[1]
    if which ~= 0 then return core[name](value[2]) end
    return ("synod.%s(%q)"):format(value[1], value[2])
  elseif type(value) ~= "table" then
    return which == 0 and ("%q"):format(value) or value
  end
  local copy, words, names = {}, {}, {}
  for name in pairs(value) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do
    copy[name] = argument(self, client, value[name], which)
    words[#words + 1] = (math.type(name) and "" or name .. " = ") .. tostring(copy[name])
  end
  return which == 0 and "{ " .. table.concat(words, ", ") .. " }" or copy
end

local function arguments(self, call, which)
  local list = { n = call.args.n or #call.args }
  for i = 1, list.n do list[i] = argument(self, call.client, call.args[i], which) end
  if which > 0 and call.on[1] == "store" and list[1] then -- a list of all containers: those of this walk
    list[1].prefix = named(self, list[1].prefix)
  end
  return list
end

--- What a call is made on, or nil when there is no such thing yet.
local function object(self, call, which)
  local on = call.on
  if getmetatable(on) == calls.reference then
    local found = recall(self, call.client, on)
    if not found or which == 0 then return found and found.from end
    return found.values[which]
  end
  if which == 0 then
    local text = ("s[%d]"):format(call.client)
    if on[1] == "store" then return text end
    text = ("%s:%s(%q)"):format(text, on[1] == "blob" and "container" or on[1], on[2])
    return on[3] and ("%s:blob(%q)"):format(text, on[3]) or text
  end
  local store = self.stores[which][call.client]
  if on[1] == "store" then return store end
  local place = store[on[1] == "blob" and "container" or on[1]](store, named(self, on[2]))
  return on[3] and place:blob(on[3]) or place
end

local function all_of(place, method, list)
  local found = {}
  for item in place[method](place, table.unpack(list, 1, list.n)) do found[#found + 1] = item end
  return found
end

local function perform(self, call, which)
  local place, list = object(self, call, which), arguments(self, call, which)
  local before, after = self.pair[which].before, self.pair[which].after
  if before then before(call, list) end
  local outcome = call.all and table.pack(pcall(all_of, place, call.method, list))
    or table.pack(pcall(place[call.method], place, table.unpack(list, 1, list.n)))
  if after then after(call, outcome) end
  return outcome
end

local function line_of(self, call, step)
  local list = arguments(self, call, 0)
  local words = table.concat(list, ", ", 1, list.n)
  if call.all then
    return ("r[%d] = all(%d, %s, %q%s)"):format(step, step, object(self, call, 0), call.method,
      list.n > 0 and ", " .. words or "")
  end
  return ("r[%d] = show(%d, %s:%s(%s))"):format(step, step, object(self, call, 0), call.method, words)
end

-- what is kept of the answers

local function key_of(call)
  local on = call.on
  if on[1] == "table" then
    local e = type(call.args[1]) == "table" and call.args[1] or { partition = call.args[1], row = call.args[2] }
    return ("%s/%s/%s"):format(on[2], e.partition, e.row)
  end
  return on[3] and on[2] .. "/" .. on[3] or on[2]
end

local function note_etags(self, call, first, second, step)
  for place, values in ipairs { first, second } do
    local ours, theirs = values[1], values[2]
    if type(ours) == "table" and type(theirs) == "table" and ours.etag and theirs.etag then
      if call.on[1] == "table" and not ours.row then shown.note_write(self.names[2], theirs.etag) end
      remember(self, call.client, "etag " .. key_of(call), { ours.etag, theirs.etag },
        ("r[%d][%d].etag"):format(step, place))
    end
  end
end

local function note_batch(self, call, ours, theirs, step)
  for i, operation in ipairs(call.args[1]) do
    if type(theirs[i]) == "table" and theirs[i].etag then
      local e = operation.insert or operation.replace or operation.merge or operation.upsert
      shown.note_write(self.names[2], theirs[i].etag)
      remember(self, call.client, ("etag %s/%s/%s"):format(call.on[2], e.partition, e.row),
        { ours[i].etag, theirs[i].etag }, ("r[%d][1][%d].etag"):format(step, i))
    end
  end
end

local function note(self, call, answers, step)
  local first, second = { answers[1][2], answers[2][2] }, { answers[1][3], answers[2][3] }
  if not (answers[1][1] and answers[2][1] and first[1] and first[2]) then return end
  if call.method == "lease" then
    remember(self, call.client, "lease " .. key_of(call), first, ("r[%d][1]"):format(step))
  elseif call.on[1] == "queue" and call.method == "put" then
    remember(self, call.client, "message " .. call.on[2], first, ("r[%d][1]"):format(step))
  elseif call.on[1] == "queue" and call.method == "get" then
    for i = 1, math.min(#first[1], #first[2]) do
      remember(self, call.client, "message " .. call.on[2], { first[1][i], first[2][i] },
        ("r[%d][1][%d]"):format(step, i))
    end
  elseif call.method == "batch" then
    note_batch(self, call, first[1], first[2], step)
  elseif call.on[1] == "blob" or call.on[1] == "container" or call.on[1] == "table" then
    if not call.all then note_etags(self, call, first, second, step) end
  end
end

-- time

--- The seconds after which something may end that the call has begun.
local function spans(call)
  local list = {}
  for _, value in ipairs { call.args[1] or false, call.args[2] or false } do
    if type(value) == "number" and call.method == "break_lease" then list[#list + 1] = value end
    if type(value) == "table" then
      for _, name in ipairs { "duration", "visibility", "delay", "ttl" } do list[#list + 1] = value[name] end
    end
  end
  if call.method == "renew" then table.move(calls.DURATIONS, 1, #calls.DURATIONS, #list + 1, list) end
  if call.method == "get" and call.on[1] == "queue" then list[#list + 1] = 30 end
  return list
end

--- Instants are in milliseconds.
local function now_ms() return math.floor(core.now() * 1000 + 0.5) end

local function note_ends(self, call, begun)
  for _, seconds in ipairs(spans(call)) do
    if seconds > 0 then
      table.insert(self.ends, { math.floor(begun + seconds * 1000), math.floor(now_ms() + seconds * 1000) })
    end
  end
end

--- The ends to come, the next one first.
local function ends_ahead(self, from)
  local left = {}
  for _, span in ipairs(self.ends) do
    if span[2] > from then left[#left + 1] = span end
  end
  table.sort(left, function(a, b) return a[1] < b[1] end)
  self.ends = left
  return left
end

local function sleep(self, call)
  local now = now_ms()
  local ahead = ends_ahead(self, now)
  local chosen = ahead[math.min(call.sleep, #ahead)]
  local ms = chosen and chosen[1] + call.by - now or 1000
  if ms <= 0 or (self.pair.live and ms > LOOK_AHEAD_S * 1000) then return nil end
  core.sleep(ms / 1000)
  return ("synod.sleep(%s)"):format(ms / 1000)
end

--- On a real clock no call is made while something ends: the two stores are not asked at one instant.
local function keep_clear(self)
  local margin = MARGIN_S * 1000
  for _, span in ipairs(ends_ahead(self, now_ms() - margin // 2)) do
    local now = now_ms()
    if now + margin > span[1] and now < span[2] + margin // 2 then core.sleep((span[2] + margin // 2 - now) / 1000) end
  end
end

--- Was it too late for keep_clear to have been of use?
local function crossed(self, begun)
  for _, span in ipairs(self.ends) do
    if span[1] >= begun and span[1] <= now_ms() then return true end
  end
  return false
end

-- walking

--- Makes the stores alike again after a known difference in what a call has done to a blob.
local function mend(self, call)
  for which = 1, 2 do
    local place = object(self, { on = { call.on[1], call.on[2], call.on[3] }, client = call.client }, which)
    place:break_lease(0)
    place:delete()
  end
end

--- Goes one step: whether the stores still agree, and its line; nil when it cannot be made.
local function step_of(self, call, step)
  if call.sleep then return true, sleep(self, call) end
  if not object(self, call, 1) then return true end
  if self.pair.live then keep_clear(self) end
  local line, begun = line_of(self, call, step), now_ms()
  local answers, texts = {}, {}
  for which = 1, 2 do
    answers[which] = perform(self, call, which)
    texts[which] = shown.text(self.names[which], answers[which], self)
  end
  self.made = self.made + 1
  if self.pair.live and crossed(self, begun) then return nil, line, texts end
  if texts[1] ~= texts[2] then
    local known = self.pair.expected and self.pair.expected(call, texts[1], texts[2])
    if not known then return false, line, texts end
    if known == "mend" then mend(self, call) end
  end
  note(self, call, answers, step)
  note_ends(self, call, begun)
  return true, line, texts
end

local function go(self, list)
  local lines = {}
  for i, call in ipairs(list) do
    local same, line, texts = step_of(self, call, i)
    lines[#lines + 1] = line
    if same == nil then return nil end
    if not same then return { step = i, texts = texts, lines = lines } end
  end
  return nil
end

--- Makes the calls on new stores: nil, or where they first differ.
---@param pair table
---@param list table[]
---@return { step: integer, texts: string[], lines: string[] }|nil fault
---@return integer made
function walk.along(pair, list)
  local fault, made
  core.main(function()
    local self = setmetatable({ pair = pair, tag = pair.tag and pair.tag() or "w", stores = {}, names = {}, memory = {},
      ends = {}, made = 0, live = pair.live }, walk_type)
    for which = 1, 2 do
      self.stores[which], self.names[which] = pair[which].open(), shown.names()
    end
    for client = 1, calls.CLIENTS do self.memory[client] = {} end
    fault, made = go(self, list), self.made
    for which = 1, 2 do
      for _, store in ipairs(self.stores[which]) do store:close() end
    end
  end, { clock = pair.live and "real" or "virtual", seed = 1 })
  return fault, made
end

--- Draws calls, makes them, and shortens the way to a difference: nil, or the shortest one with a script for `synod
--- run`.
---@param pair table
---@param options { seed: integer, calls: integer }
---@return { calls: table[], texts: string[], script: string }|nil fault
---@return integer made
function walk.random(pair, options)
  local list = calls.draw(options.seed, options.calls)
  local fault, made = walk.along(pair, list)
  if not fault then return nil, made end
  list, fault = shorter.list(list, fault, function(part) return (walk.along(pair, part)) end)
  return { calls = list, texts = fault.texts, script = shorter.script(pair, fault) }, made
end

return walk
