-- Many instances in one run on the virtual clock, each a task with an identity of its own, over one store.
--
--   fleet.run(function(store)
--     local passed = fleet.meet(3, { store = store, name = "startup" }, { 0, 1, 2 })   -- each begins at its second
--   end)

local core = require "synod.core"
local synod = require "synod"
local barrier = require "synod.barrier"

local fleet = {}

--- Runs fn(store) on the virtual clock, with a store in memory (or another) that has no faults (or these).
---@param fn fun(store: synod.Store)
---@param options? { seed?: integer, url?: string, faults?: table[] }
function fleet.run(fn, options)
  options = options or {}
  return core.main(function()
    local store <close> = assert(core.open_store(options.url or "memory:", { faults = options.faults }))
    return fn(store)
  end, { clock = "virtual", seed = options.seed or 1 })
end

--- Options with an identity: instance `ordinal` of `count` of role "worker" in deployment "d1".
---@param ordinal integer
---@param count integer
---@param options table  name, and what else; `deployment` and `role` go into the identity
function fleet.options(ordinal, count, options)
  local o = {}
  for name, value in next, options do o[name] = value end
  o.instance = {
    id = ("worker_IN_%d"):format(ordinal), ordinal = ordinal, count = count, role = "worker", deployment = "d1",
  }
  return o
end

---@return synod.Barrier
function fleet.barrier(ordinal, count, options)
  return barrier.new(fleet.options(ordinal, count, options))
end

---@class spec.Outcome
---@field at number      when wait returned
---@field passed? table
---@field err? table

--- Lets `count` instances arrive, each at its second of `starts` (an instance without one stays away), and gives what
--- became of each. A cancel is a crash of all of them.
---@return spec.Outcome[]  by ordinal
function fleet.meet(count, options, starts, timeout)
  local lives, outcomes = {}, {}
  for ordinal, start in next, starts do
    lives[#lives + 1] = function()
      synod.sleep(start)
      local passed, err = fleet.barrier(ordinal, count, options):arrive_and_wait { timeout = timeout or 1000 }
      outcomes[ordinal] = { at = synod.now(), passed = passed, err = err }
    end
  end
  synod.all(lives)
  return outcomes
end

--- fleet.starts(0, 1, 5) has instance 0 begin at 0, 1 at 1 and 2 at 5.
function fleet.starts(...)
  local list = {}
  for i, start in ipairs { ... } do list[i - 1] = start end
  return list
end

--- A flag of another client: nothing but the blob.
function fleet.foreign(store, name)
  assert(store:container("flags"):create())
  assert(store:container("flags"):blob(name):put("", { type = "page", size = 512, if_none_match = "*" }))
end

function fleet.each(outcomes, fn)
  for ordinal, outcome in next, outcomes do fn(outcome, ordinal) end
end

--- The keys in order.
function fleet.sorted(items)
  local names = {}
  for name in next, items do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- The names in container flags, with metadata.
---@return table<string, synod.Item>
function fleet.names(store, prefix)
  local items = {}
  for item in store:container("flags"):list { prefix = prefix, metadata = true } do items[item.name] = item end
  return items
end

return fleet
