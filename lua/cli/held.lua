-- A lock or leadership that a COMMAND runs under: what synod lock and synod lead have in common.

local command = require "cli.command"

local held = {}

--- The place of <kind>/<name>, as the policies of that kind have it; nil and what is wrong.
---@param parsed table
---@param kind "mutex"|"election"
---@return synod.Seat|nil, string? problem
function held.seat(parsed, kind)
  local seat = require "synod.seat"
  local o, problem = seat.complete({
    name = parsed.args[1], ttl = parsed.ttl, purpose = parsed.args[2]:match("[^/]+$") or parsed.args[2],
  }, "nightly")
  if problem then return nil, "--ttl: " .. problem end
  return seat.new(o, kind .. "/" .. o.name)
end

--- "held by a@host on node-1 (process 4711) since 2026-11-21T11:22:33Z", as far as it is told.
---@param err synod.Error
---@return string
function held.who(err)
  local parts = { "held by " .. (err.holder or "somebody who does not say who it is") }
  if err.host then parts[#parts + 1] = "on " .. err.host end
  if err.pid then parts[#parts + 1] = ("(process %d)"):format(err.pid) end
  if err.since then parts[#parts + 1] = "since " .. err.since end
  return table.concat(parts, " ")
end

--- Runs COMMAND while the lease is held, and gives the lease back when it has ended.
---@param runner cli.Runner
---@param lease synod.Held
---@param what string  "the lock 'backup'", for messages
---@return integer|nil code  nil: it was lost, and COMMAND was stopped
function held.run(runner, lease, what)
  local ok, code = pcall(lease.guard, lease, function()
    return runner:run { SYNOD_FENCE = tostring(lease.fence) }
  end)
  runner.over = true
  local released, err = lease:release()
  if not ok and type(code) == "table" and code.code == "LeaseLost" then
    command.say(runner.parsed, "error", what, " was lost, and COMMAND was stopped: ", tostring(code))
    return nil
  end
  if not ok then error(code, 0) end
  if not released then
    command.say(runner.parsed, "warn", what, " could not be given back, and is free when its lease has run out: ",
      tostring(err))
  end
  return code
end

return held
