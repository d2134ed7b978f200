-- synod lock NAME -- COMMAND...: one COMMAND at a time, wherever it is started.

local command = require "cli.command"
local core = require "synod.core"
local held = require "cli.held"
local options = require "cli.options"

local EXIT_TIMEOUT, EXIT_LOST = 4, 5

local lock = {
  summary = "run a command while holding a lock: one at a time, on one machine or many",
  usage = { "NAME [OPTIONS] -- COMMAND [ARG...]" },
  options = command.options {
    {
      name = "timeout", value = "S", kind = "seconds",
      meaning = "give up when the lock is not free within S seconds; 0: look once", default = "wait for ever",
    },
    {
      name = "ttl", value = "S", kind = "seconds", default = "15",
      meaning = "how long the lock outlives a crash: 15 to 60, or 0.5 to below 15 for more requests",
    },
    command.exit_option("timeout-exit", "exit code when the lock was not had in time", "4"),
    command.exit_option("lost-exit", "exit code when the lock was lost and COMMAND was stopped", "5"),
  },
  notes = "COMMAND runs in its own process group, gets the signals that synod gets, and its exit code is passed on "
    .. "(128 + n when signal n ended it; 127 and 126 when it cannot be found or run). It finds SYNOD_FENCE, a number "
    .. "that grows with each holder, and SYNOD_INSTANCE in its environment. The lock is released when COMMAND and its "
    .. "group have ended. When the lock cannot be kept, COMMAND gets TERM, and KILL before anybody else can have the "
    .. "lock, even if synod itself is killed or stopped. Who holds it: synod status NAME. Example: synod lock "
    .. "nightly --timeout 0 -- ./backup.sh",
}

local function give_up(parsed, err)
  local name, code = parsed.args[1], parsed.timeout_exit or EXIT_TIMEOUT
  local time = parsed.timeout == 0 and "is not free" or ("was not free within %g s"):format(parsed.timeout)
  command.say(parsed, "error", ("the lock '%s' %s: %s; COMMAND was not run"):format(name, time, held.who(err)))
  return code
end

--- Takes the lock; says once to a person at a terminal whom it waits for.
local function take(parsed, seat)
  local said = parsed.timeout == 0 or not core.output_terminal(2)
  return seat:take(parsed.timeout, function(err)
    if not said then
      command.say(parsed, "info", ("waiting for the lock '%s', %s"):format(parsed.args[1], held.who(err)))
      said = true
    end
  end)
end

---@param parsed table
---@return integer exit_code
function lock.run(parsed)
  local problem = command.problem_with(parsed, "lock") or command.label("NAME", parsed.args[1])
  if problem then return options.refuse(problem, "lock") end
  return command.attend(parsed, function(runner)
    local who, seat
    who, problem = command.become(parsed, "lock")
    if who then seat, problem = held.seat(parsed, "mutex") end
    if not seat then return options.refuse(problem, "lock") end
    local lease, err = take(parsed, seat)
    if not lease and err.code == "LeaseAlreadyPresent" then return give_up(parsed, err) end
    if not lease then error(err, 0) end
    local code = held.run(runner, lease, ("the lock '%s'"):format(parsed.args[1]))
    return code or parsed.lost_exit or EXIT_LOST
  end)
end

return lock
