-- turns.lua: what processes that hold a lock by turns have told of it.
--
--   turns.handovers { { who = 0, asked = 1.0, locked = 1.1, unlocking = 1.3 }, ... }      -- in seconds of one clock

local turns = {}

---@class bench.Turn
---@field who integer
---@field asked number      when it called lock
---@field locked number     when that had returned
---@field unlocking number  when it called unlock

--- How long each hand-over took, in ms: from the unlock in one to the return of the lock in another who was waiting by
--- then. Raises when two had it at once, or when less than half of the turns tell something.
---@param told bench.Turn[]  in any order
---@return number[]
function turns.handovers(told)
  local list = table.move(told, 1, #told, 1, {})
  table.sort(list, function(a, b) return a.locked < b.locked end)
  local took = {}
  for i = 2, #list do
    local before, now = list[i - 1], list[i]
    if now.locked < before.unlocking then error("bench: two had the lock at once", 0) end
    if now.who ~= before.who and now.asked < before.unlocking then
      took[#took + 1] = (now.locked - before.unlocking) * 1e3
    end
  end
  if #took < #list // 2 then error("bench: the lock was hardly ever handed over", 0) end
  return took
end

return turns
