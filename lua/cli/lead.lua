-- synod lead NAME -- COMMAND...: COMMAND runs wherever the leader is.

local command = require "cli.command"
local held = require "cli.held"
local options = require "cli.options"

local lead = {
  summary = "run a command whenever this instance leads",
  usage = { "NAME [OPTIONS] -- COMMAND [ARG...]" },
  options = command.options {
    {
      name = "ttl", value = "S", kind = "seconds", default = "15",
      meaning = "how long leadership outlives a crash: 15 to 60, or 0.5 to below 15 for more requests",
    },
    command.exit_option("lost-exit", "end with this exit code when leadership was lost", "stand for election again"),
  },
  notes = "Start it on each machine that may lead: one leads and runs COMMAND, the others wait. When leadership cannot "
    .. "be kept, COMMAND gets TERM, and KILL before another can lead, even if synod itself is killed or stopped; "
    .. "then this instance stands for election again. When COMMAND ends by itself, this instance resigns and ends "
    .. "with its exit code. COMMAND runs in its own process group, gets the signals that synod gets, and finds "
    .. "SYNOD_FENCE, a number that grows with each leader, and SYNOD_INSTANCE in its environment. Who leads: synod "
    .. "status NAME. Example: synod lead scheduler -- ./scheduler --once-only",
}

---@param parsed table
---@return integer exit_code
function lead.run(parsed)
  local problem = command.problem_with(parsed, "lead") or command.label("NAME", parsed.args[1])
  if problem then return options.refuse(problem, "lead") end
  return command.attend(parsed, function(runner)
    local who, seat
    who, problem = command.become(parsed, "lead")
    if who then seat, problem = held.seat(parsed, "election") end
    if not seat then return options.refuse(problem, "lead") end
    while true do
      runner.over = false
      local lease, err = seat:take()
      if not lease then error(err, 0) end
      local code = held.run(runner, lease, ("leadership of '%s'"):format(parsed.args[1]))
      code = code or parsed.lost_exit or runner.told and 128 + runner.told
      if code then return code end
    end
  end)
end

return lead
