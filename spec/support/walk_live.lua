-- Walks beside the storage emulator, several at once: most of a walk in real time is waiting.
--
--   local live = require "spec.support.walk_live"
--   local made, fault = live.walk { seed = 1, calls = 100000, seconds = 270 }
--   made.calls, made.walks       how far it has come
--   fault.script, fault.seed     nil, or where the stores differ, as walk.random tells it

local azurite = require "spec.support.azurite"
local calls = require "spec.support.walk_calls"
local core = require "synod.core"
local differences = require "spec.support.walk_differences"
local walk = require "spec.support.walk"

local live = {}

local AT_ONCE = 8    -- the emulator has one thread, and with so many hardly rests
local EPISODE = 2000 -- calls on the same stores: long enough for leases to expire

--- One for all three clients: it is in memory.
local function open_memory()
  local store = assert(core.open_store "memory:")
  return { store, store, store }
end

local function open_azurite()
  local stores = {}
  for client = 1, calls.CLIENTS do stores[client] = assert(core.open_store(azurite.connection_string())) end
  return stores
end

--- Takes away what a walk has made: the emulator goes through all that there is.
local function clear(store, tag)
  for item in store:containers { prefix = tag } do
    local container = store:container(item.name)
    container:break_lease(0)
    container:delete()
  end
  for item in store:queues { prefix = tag } do store:queue(item.name):delete() end
  for item in store:tables() do
    if item.name:find("^" .. tag) then store:table(item.name):drop() end
  end
end

local function leave(...) pcall(clear, ...) end -- not a part of the walk

--- The two stores of one walk at a time. The order of messages and the versions of entities are made from a clock in
--- the emulator.
local function new_pair(over)
  local next_ms = azurite.ticker()
  local function tick(call)
    local what = call.on.what or call.on[1]
    if what == "message" or what == "queue" or what == "table" then next_ms() end
  end
  return {
    { name = "memory:", open = open_memory },
    { name = "azurite:", open = open_azurite, before = tick, after = tick, leave = leave },
    live = true, expected = differences.expected, over = over, made = 0,
    tag = function() return azurite.fresh("walk", "") .. "x" end,
  }
end

--- Makes so many calls, or as many as fit into the time, or up to a difference.
---@param options { seed: integer, calls: integer, seconds: number }
---@return { calls: integer, walks: integer } made
---@return { calls: table[], texts: string[], script: string, seed: integer }|nil fault
function live.walk(options)
  azurite.connection_string() -- starts it
  local made, pairs_at_once, finish, found = { calls = 0, walks = 0 }, {}, os.time() + options.seconds, nil

  local function over()
    made.calls = 0
    for _, pair in ipairs(pairs_at_once) do made.calls = made.calls + pair.made end
    return found or made.calls >= options.calls or os.time() >= finish
  end

  local function walk_on(pair)
    while not over() do
      local seed = options.seed + made.walks
      made.walks = made.walks + 1
      local list = calls.draw(seed, EPISODE)
      local fault = walk.here(pair, list)
      if fault then found = found or { seed = seed, list = list, fault = fault } end
    end
    return true
  end

  core.main(function()
    local tasks = {}
    for i = 1, AT_ONCE do pairs_at_once[i] = new_pair(over) end
    for i, pair in ipairs(pairs_at_once) do tasks[i] = core.spawn(walk_on, pair) end
    for _, task in ipairs(tasks) do assert(task:join()) end
  end)
  if not found then return made end
  local fault = walk.shortened(new_pair(), found.list, found.fault)
  fault.seed = found.seed
  return made, fault
end

return live
