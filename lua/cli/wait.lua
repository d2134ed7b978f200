-- synod wait NAME --parties N [-- COMMAND...]: a barrier from the shell.

local command = require "cli.command"
local options = require "cli.options"

local EXIT_TIMEOUT = 4

local wait = {
  summary = "wait until N parties have arrived: a barrier from the shell",
  usage = { "NAME --parties N [OPTIONS] [-- COMMAND [ARG...]]" },
  options = command.options {
    { name = "parties", value = "N", kind = "count", meaning = "how many there are", default = "--instances" },
    {
      name = "ordinal", value = "K", kind = "number",
      meaning = "which of them this is, from 0", default = "that of --instance",
    },
    {
      name = "timeout", value = "S", kind = "seconds",
      meaning = "give up when not all have arrived within S seconds", default = "wait for ever",
    },
    { name = "round", value = "R", meaning = "which turn of a loop this is" },
    { name = "bare", meaning = "flags are NAME_K, with nothing that tells those of an earlier use" },
    command.exit_option("timeout-exit", "exit code when not all arrived in time", "4"),
  },
  notes = "Every party says which one it is: --ordinal 0 to N-1, or --instance ROLE_IN_K, or --instance auto on hosts "
    .. "that are numbered (worker-2). A party that is started again is the same party: it passes when the gate is "
    .. "open, and else counts once. What tells this meeting from the last one under the same name is --round, or "
    .. "--deployment (SYNOD_DEPLOYMENT) among instances of one role, the same for all: a commit, a date, a job's id. "
    .. "When all have arrived COMMAND runs, if there is one; its exit code is passed on. Example: synod wait "
    .. "migrated --parties 3 --ordinal 0 --round $JOB -- ./serve",
}

--- The instance with the ordinal of --ordinal.
local function number(who, parsed)
  if parsed.ordinal then
    if who.ordinal and who.ordinal ~= parsed.ordinal then
      return ("--ordinal %d: --instance %s says %d"):format(parsed.ordinal, who.id, who.ordinal)
    end
    who.ordinal, who.role = parsed.ordinal, who.role or "wait"
    if not parsed.instance then who.id = ("wait_IN_%d"):format(parsed.ordinal) end
  end
  local parties = parsed.parties or parsed.instances
  if not parties then return "--parties N is missing: how many there are" end
  if not who.ordinal then
    return "which party this is is not known: give --ordinal 0 to N-1, or --instance ROLE_IN_K (or auto)"
  end
  if who.ordinal >= parties then
    return ("this is party %d, and %d parties are numbered 0 to %d"):format(who.ordinal, parties, parties - 1)
  end
  if not (parsed.round or parsed.bare or parsed.deployment) then
    return "what tells this meeting from an earlier one of the same name is missing: give --round R or "
      .. "--deployment ID, the same for all parties"
  end
end

local function pass(parsed)
  return require("synod.barrier").new {
    name = parsed.args[1], parties = parsed.parties or parsed.instances, round = parsed.round, bare = parsed.bare,
  }:arrive_and_wait { timeout = parsed.timeout }
end

---@param parsed table
---@return integer exit_code
function wait.run(parsed)
  local problem = command.problem_with(parsed, "wait", true) or command.label("NAME", parsed.args[1])
    or command.label("--round", parsed.round)
  if problem then return options.refuse(problem, "wait") end
  return command.attend(parsed, function(runner)
    local who
    who, problem = command.become(parsed, "wait")
    problem = problem or number(who, parsed)
    if problem then return options.refuse(problem, "wait") end
    local passed, err = pass(parsed)
    if not passed and err.code == "Timeout" and err.missing then
      command.say(parsed, "error", tostring(err))
      return parsed.timeout_exit or EXIT_TIMEOUT
    end
    if not passed then error(err, 0) end
    return parsed.args[2] and runner:run {} or 0
  end)
end

return wait
