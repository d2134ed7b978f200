-- Several instances on one file, each with a store of its own, so that one of them can die: on the virtual clock.
--
--   rivals.run({ "a", "b" }, function(a, b)      -- a.store, a.who
--     ...
--     a.store:close()                            -- dies: nothing more is sent, and what it held is left to its fate
--   end)

local core = require "synod.core"
local sh = require "spec.support.sh"

local rivals = {}

---@class spec.Rival
---@field store synod.Store
---@field who table  an identity, for option `instance`

---@param names string[]
---@param fn fun(...: spec.Rival)
---@param options? { seed?: integer, faults?: table<string, table[]> }  by name
function rivals.run(names, fn, options)
  options = options or {}
  local folder <close> = sh.folder()
  local url = ("embedded:%s/rivals.db?relaxed"):format(folder.path)
  return core.main(function()
    local all = {}
    for i, name in ipairs(names) do
      all[i] = {
        store = assert(core.open_store(url, { faults = (options.faults or {})[name] })),
        who = { id = name, ordinal = i - 1, count = #names, role = "rival", deployment = "d1" },
      }
    end
    return fn(table.unpack(all))
  end, { clock = "virtual", seed = options.seed or 1 })
end

--- Who is inside, and how many there were at most at one instant.
function rivals.room()
  local room = { inside = 0, most = 0, visits = {} }
  function room.enter(name)
    room.inside = room.inside + 1
    room.most = math.max(room.most, room.inside)
    room.visits[#room.visits + 1] = name
    return setmetatable({}, { __close = function() room.inside = room.inside - 1 end })
  end
  return room
end

return rivals
