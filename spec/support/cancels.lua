-- Cancels that come again and again, and what does not end at once when it is cancelled.

local synod = require "synod"

local cancels = {}

--- Waits, and takes three seconds to end once it is told to, whatever it is told meanwhile.
function cancels.stubborn()
  local _, why = pcall(synod.sleep, 1e6)
  local ends = synod.now() + 3
  while synod.now() < ends do pcall(synod.sleep, ends - synod.now()) end
  error(why, 0)
end

--- Cancels a task each half second until it has ended.
---@param task synod.Task
function cancels.often(task)
  while not task:ended() do
    task:cancel()
    task:join(0.5)
  end
  task:join()
end

return cancels
