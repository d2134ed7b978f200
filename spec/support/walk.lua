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
-- given. `pair.expected(call, ours, theirs, state)` tells of known differences: "fine", or "mend" when the stores are
-- not alike any more. `pair.over()`, asked before each call, ends a walk, and a store's `leave(store, tag)` tidies up.

local bodies = require "spec.support.walk_bodies"
local calls = require "spec.support.walk_calls"
local core = require "synod.core"
local ends = require "spec.support.walk_ends"
local shorter = require "spec.support.walk_shorter"
local shown = require "spec.support.walk_answers"
require "synod.store"

local walk = {}

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

--- A container, blob, queue or table of a client, or what a script says for it (number 0).
local function place_of(self, client, on, which)
  if which == 0 then
    local text = ("s[%d]:%s(%q)"):format(client, on[1] == "blob" and "container" or on[1], on[2])
    return on[3] and ("%s:blob(%q)"):format(text, on[3]) or text
  end
  local store = self.stores[which][client]
  local place = store[on[1] == "blob" and "container" or on[1]](store, named(self, on[2]))
  return on[3] and place:blob(on[3]) or place
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
  elseif kind == calls.place then
    return place_of(self, client, value, which)
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
  if on[1] ~= "store" then return place_of(self, call.client, on, which) end
  return which == 0 and ("s[%d]"):format(call.client) or self.stores[which][call.client]
end

--- A list, of which the account's tables also have others' names.
local function all_of(self, place, method, list)
  local found = {}
  for item in place[method](place, table.unpack(list, 1, list.n)) do
    if method ~= "tables" or item.name:find("^" .. self.tag) then found[#found + 1] = item end
  end
  return found
end

local function perform(self, call, which)
  local place, list = object(self, call, which), arguments(self, call, which)
  local before, after = self.pair[which].before, self.pair[which].after
  if before then before(call, list) end
  local outcome = call.all and table.pack(pcall(all_of, self, place, call.method, list))
    or table.pack(pcall(bodies[call.method] or place[call.method], place, table.unpack(list, 1, list.n)))
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
  if bodies[call.method] then
    return ("r[%d] = show(%d, %s(%s, %s))"):format(step, step, call.method, object(self, call, 0), words)
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

-- walking

local SLOW_MS = 2500 -- a real attempt gets three seconds
local SHORTER_S = 120 -- in real time, for a shorter way
local IS_OVER = { expired = true, broken = true }

--- The container or blob that a call is about, also that of a lease.
local function about(self, call, which)
  local container, blob = call.on[2], call.on[3]
  if call.on.what == "lease" then container, blob = call.on.key:match "^([^/]*)/?(.*)$" end
  local place = self.stores[which][call.client]:container(named(self, container))
  return (blob or "") == "" and place or place:blob(blob)
end

--- What the first store says of a call's blob or container: "leased", or the code of a refusal.
local function state(self, call)
  local props, err = about(self, call, 1):head()
  return props and props.lease_state or err.code
end

--- Makes the stores alike again after a known difference in what a call has done to a blob, container or message.
local function mend(self, call)
  for which = 1, 2 do
    if call.on.what == "message" then
      self.stores[which][1]:queue(named(self, call.on.key)):clear()
    else
      local place = about(self, call, which)
      place:break_lease(0)
      if place.put then place:put("") end -- of what were sent blocks only, too
      place:delete()
    end
  end
end

--- Whether the emulator has done to the blob what is not in its answer: blocks that were sent in vain pass for a
--- blob there and end the memory of a lease; a copy does not end it, and has its blocks in common with its source: what
--- is appended to one is counted in the other.
local function has_parted(self, call, answer)
  if call.method ~= "write" and call.method ~= "copy_from" then return false end
  local ours = object(self, call, 1):head()
  if not ours then return call.method == "write" end
  if call.method == "copy_from" and answer and ours.type == "append" then return true end
  if call.method == "write" and not IS_OVER[ours.lease_state] then return false end
  local theirs = object(self, call, 2):head()
  return theirs ~= nil and ours.lease_state ~= theirs.lease_state
end

--- Goes one step: whether the stores still agree, and its line; nil when the rest cannot be compared, since a real
--- server or this machine was too slow: what was sent again may be done twice.
local function step_of(self, call, step)
  if call.sleep then return true, self.ends:sleep(call) end
  if not object(self, call, 1) then return true end
  if self.live then self.ends:keep_clear(call) end
  local line, begun = line_of(self, call, step), ends.now()
  local answers, texts, known_names = {}, {}, {}
  for which = 1, 2 do
    known_names[which] = #self.names[which].list
    answers[which] = perform(self, call, which)
    local told = shown.text(self.names[which], answers[which], self)
    -- the seconds left are told by two clocks
    texts[which] = self.live and call.method == "break_lease" and told:gsub("^integer %d+", "seconds") or told
  end
  if self.live and (self.ends:crossed(call, begun) or ends.now() - begun > SLOW_MS) then return nil, line, texts end
  self.made = self.made + 1
  self.pair.made = (self.pair.made or 0) + 1
  if texts[1] ~= texts[2] then
    local function now() return state(self, call) end
    local known = self.pair.expected and self.pair.expected(call, texts[1], texts[2], now)
    if not known then return false, line, texts end
    for which = 1, 2 do shown.forget(self.names[which], known_names[which]) end
    if known == "mend" then mend(self, call) end
  else
    note(self, call, answers, step)
    self.ends:note(call, begun)
  end
  if self.live and has_parted(self, call, answers[1][2]) then mend(self, call) end
  if self.live and ends.now() - begun > SLOW_MS then return nil, line, texts end
  return true, line, texts
end

local function go(self, list)
  local lines = {}
  for i, call in ipairs(list) do
    if self.pair.over and self.pair.over() then return nil end
    local same, line, texts = step_of(self, call, i)
    lines[#lines + 1] = line
    if same == nil then return nil end
    if not same then return { step = i, texts = texts, lines = lines } end
  end
  return nil
end

--- Makes the calls on new stores: nil, or where they first differ. For a task.
---@param pair table
---@param list table[]
---@return { step: integer, texts: string[], lines: string[] }|nil fault
---@return integer made
function walk.here(pair, list)
  local self = setmetatable({ pair = pair, tag = pair.tag and pair.tag() or "w", stores = {}, names = {}, memory = {},
    ends = ends.new(pair.live), made = 0, live = pair.live }, walk_type)
  for which = 1, 2 do
    self.stores[which], self.names[which] = pair[which].open(), shown.names()
  end
  for client = 1, calls.CLIENTS do self.memory[client] = {} end
  local fault = go(self, list)
  for which = 1, 2 do
    if pair[which].leave then pair[which].leave(self.stores[which][1], self.tag) end
    for _, store in ipairs(self.stores[which]) do store:close() end
  end
  return fault, self.made
end

--- The same as a run of its own.
function walk.along(pair, list)
  return core.main(walk.here, { clock = not pair.live and "virtual" or nil, seed = 1 }, pair, list)
end

--- The shortest way to a difference that was found in these calls, with a script for `synod run`.
---@param pair table
---@param list table[]
---@param fault table
---@return { calls: table[], texts: string[], script: string }
function walk.shortened(pair, list, fault)
  local finish = os.time() + (pair.live and SHORTER_S or math.huge)
  list, fault = shorter.list(list, fault, 600, function(part)
    return os.time() < finish and walk.along(pair, part) or nil
  end)
  return { calls = list, texts = fault.texts, script = shorter.script(pair, fault) }
end

--- Draws calls, makes them, and shortens the way to a difference: nil, or the shortest one.
---@param pair table
---@param options { seed: integer, calls: integer }
---@return { calls: table[], texts: string[], script: string }|nil fault
---@return integer made
function walk.random(pair, options)
  local list = calls.draw(options.seed, options.calls)
  local fault, made = walk.along(pair, list)
  return fault and walk.shortened(pair, list, fault), made
end

return walk
