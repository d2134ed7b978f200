-- COMMAND of synod lock, lead and wait: read from the command line, run with our standard streams, and told of every
-- signal that we are.
--
--   local parsed_ok, problem = command.check(parsed, "lock")
--   return command.attend(parsed, function(runner)
--     ... wait for something ...                          a signal ends this: exit code 128 + n
--     local code, err = runner:run({ SYNOD_FENCE = "7" })  a signal is COMMAND's
--     return code
--   end)
--
-- COMMAND has a leash (runtime/lease/leash.h). In a guard that knows the guard's deadlines: it gets TERM at the soft
-- stop and KILL at the hard one, also when we are stopped or killed.

local common = require "cli.common"
local core = require "synod.core"
local exec = require "synod.exec"

local command = {}

local SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGKILL = 2, 15, 1, 3, 10, 12, 9
local SIGNALS = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 }
local ENDING = { [SIGINT] = true, [SIGTERM] = true, [SIGHUP] = true, [SIGQUIT] = true }
local EXIT_BY = { CommandNotFound = 127, CommandNotRun = 126 } -- as shells, env and flock say it

---@type cli.Option[]
command.pass_credentials = {
  {
    name = "pass-credentials",
    meaning = "let COMMAND see AZURE_* and the store's connection string",
  },
}

--- What a command that takes a name and a COMMAND has beside its own options.
---@param own cli.Option[]
---@return cli.Option[]
function command.options(own)
  return common.join(own, command.pass_credentials, common.store, common.instance, common.hints, common.log)
end

--- An exit code of ours that COMMAND's own may stand in the way of.
---@param name string
---@param meaning string
---@param default string
---@return cli.Option
function command.exit_option(name, meaning, default)
  return { name = name, value = "N", kind = "number", meaning = meaning, default = default }
end

--- Splits the words into NAME and COMMAND.
---@param parsed table
---@param called string  "lock"
---@param optional? boolean  there may be no COMMAND
---@return string|nil problem
function command.problem_with(parsed, called, optional)
  local before = parsed.before_dashes or #parsed.args
  if before == 0 then return called .. ": NAME is missing" end
  if before > 1 then
    return ("%s: '%s' is one word too many; a command is given after --"):format(called, parsed.args[2])
  end
  if not optional and not parsed.args[2] then
    return ("%s: COMMAND is missing: synod %s %s -- COMMAND..."):format(called, called, parsed.args[1])
  end
  if parsed.args[2] == "" then return called .. ": COMMAND is empty" end
  for _, option in ipairs { "lost_exit", "timeout_exit" } do
    if (parsed[option] or 0) > 255 then
      return ("--%s: an exit code is at most 255"):format((option:gsub("_", "-")))
    end
  end
end

--- What names of policies are made of.
---@param option string
---@param text? string
---@return string|nil problem
function command.label(option, text)
  if text and (#text > 200 or not text:find("^[%w_-]+$")) then
    return ("%s '%s': letters, digits, '_' and '-' only, at most 200"):format(option, text)
  end
end

--- Makes this process the instance that it is, and opens no store yet.
---@param parsed table
---@param called string
---@return cli.Instance|nil, string? problem
function command.become(parsed, called)
  local problem, who = common.become(parsed, called)
  if not who then return nil, problem end
  if parsed.store then require("synod.store").configure(parsed.store) end
  if parsed.hints then require("synod.hints").configure(parsed.hints) end
  if parsed.pass_credentials then exec.share_credentials(parsed.store) end
  return who
end

--- Says it on standard error, as everything there is said.
---@param parsed table
---@param level "info"|"warn"|"error"
---@param ... string
function command.say(parsed, level, ...)
  local text = require("cli.redact")(table.concat({ ... }))
  if parsed.log_format == "json" then return core.log_write(level, text, {}) end
  core.output_write(2, "synod: " .. text .. "\n")
end

---@class cli.Runner
---@field parsed table
---@field process? userdata    COMMAND, while it runs
---@field signal? integer      what ended the waiting
---@field told? integer        the last signal that was meant to end COMMAND or us
---@field over? boolean        what is left is our own clean-up: no signal ends that
local Runner = {}
Runner.__index = Runner

--- COMMAND's, or the end of our waiting. Many programs take HUP as "read the configuration again": only when one ends
--- by it are we told to end.
local function pass_on(self, number, work)
  if ENDING[number] and not (number == SIGHUP and self.process) then self.told = number end
  if self.process then
    self.process:kill(number)
  elseif not self.over and not self.signal then
    self.signal = number
    work:cancel()
  end
end

local function is_loss(err) return type(err) == "table" and err.code == "LeaseLost" end

--- Waits for its end, whatever is raised in us meanwhile; the first such error comes back. A second loss is the hard
--- stop, at which its leash has killed it, and after which nothing waits.
local function await(process)
  local raised
  while true do
    local ok, kind, number = pcall(process.wait, process)
    if ok then return kind, number, raised end
    if is_loss(kind) and is_loss(raised) then return "killed", SIGKILL, raised end
    raised = is_loss(raised) and raised or kind
    if not is_loss(kind) then process:kill(SIGTERM) end
  end
end

--- Runs COMMAND to its end; raises what was raised in us meanwhile (LeaseLost), when it has ended.
---@param env table<string, string>  beside SYNOD_INSTANCE
---@return integer code  the exit code, as a shell has it; 126 and 127 when it cannot be run
function Runner:run(env)
  local words = table.move(self.parsed.args, 2, #self.parsed.args, 1, {})
  env.SYNOD_INSTANCE = require("synod").instance.id
  core.output_flush(1)
  core.output_flush(2)
  local process <close>, err = core.process_spawn {
    file = words[1], args = words, env = exec.environment(env), leash = true, foreground = true,
    stdin = "inherit", stdout = "inherit", stderr = "inherit",
  }
  local kind, number, raised = nil, err, nil
  if process then
    self.process = process
    kind, number, raised = await(process)
    self.process = nil
  end
  self.over = true
  if raised ~= nil then error(raised, 0) end
  if not kind then
    command.say(self.parsed, "error", tostring(number))
    return EXIT_BY[number.code] or 1
  end
  return kind == "killed" and 128 + number or number
end

--- Runs fn(runner) with the signals in hand, from now on.
---@param parsed table
---@param fn fun(runner: cli.Runner): integer
---@return integer exit_code
function command.attend(parsed, fn)
  local signals <close>, earlier = core.signals(SIGNALS)
  if earlier then return 128 + earlier end -- we are being stopped: nothing is begun
  local runner = setmetatable({ parsed = parsed }, Runner)
  local work = core.spawn(fn, runner)
  core.spawn(function()
    for number in signals.wait, signals do pass_on(runner, number, work) end
  end):detach()
  local code, err = work:join()
  if not work:failed() then return code end
  if runner.signal then return 128 + runner.signal end
  error(err, 0)
end

return command
