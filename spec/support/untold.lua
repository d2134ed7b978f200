-- A store that tells of no change, as Azure does not: who waits there has to look.
--
--   local quiet = untold.store(store)

local untold = {}

---@param store synod.Store
---@return synod.Store
function untold.store(store)
  local quiet = {
    mark = function() return nil end,
    changed = function() return false, "poll" end,
  }
  return setmetatable(quiet, {
    __index = function(_, name)
      return function(_, ...) return store[name](store, ...) end
    end,
  })
end

return untold
