-- The rows of spec/azure/differences.lua that a random walk meets: walk = { on =, method =, state =,
-- ours =, azurite =, mend = }, of patterns; the methods are words.
--
--   pair.expected = differences.expected
--   differences.used      how often each row was met

local rows = require "spec.azure.differences"

local differences = { used = {} }

local function is_meant(w, call, ours, theirs, state)
  return w.on == (call.on[1] or call.on.what)
    and (not w.method or (" " .. w.method .. " "):find(" " .. call.method .. " "))
    and ours:find(w.ours) and theirs:find(w.azurite) and (not w.state or state():find(w.state))
end

--- For walk.lua: nil for a difference that nobody knows. `state` tells what our store says now of a blob or container.
function differences.expected(call, ours, theirs, state)
  for _, row in ipairs(rows) do
    if row.walk and is_meant(row.walk, call, ours, theirs, state) then
      differences.used[row] = (differences.used[row] or 0) + 1
      return row.walk.mend and "mend" or "fine"
    end
  end
end

return differences
