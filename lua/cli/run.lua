-- synod run SCRIPT: as one instance in this process, or with -n as several supervised ones.

local common = require "cli.common"
local options = require "cli.options"

local run = {
  summary = "run a script as one instance, or with -n N as N supervised processes",
  usage = { "[OPTIONS] SCRIPT [ARG...]" },
  stop = true,
  options = common.join({
    { name = "n", short = "n", value = "N", kind = "count", meaning = "start N processes of the script" },
    { name = "fail-fast", meaning = "with -n: stop the others when one fails" },
  }, common.store, common.instance, {
    {
      name = "memory-limit", value = "SIZE", kind = "size", env = "SYNOD_MEMORY_LIMIT",
      meaning = "what the script's data may take, such as 64M", default = "no limit",
    },
    {
      name = "pass-credentials",
      meaning = "let commands that the script starts see AZURE_* and the store's connection string",
    },
  }, common.log),
  notes = "The script sees its arguments as `...` and in `arg`. What it requires is looked for beside it first.",
}

local MEMORY_MIN = 2 << 20

local function say(problem)
  io.stderr:write("synod: ", problem, "\n")
end

--- Modules beside the script come before those of the system; the built-in ones before both.
local function prepare_globals(script, args)
  require("synod.sandbox").apply(_G)
  _G.require = require("synod.loader").new(package, require("synod.core").event)
  local folder = script:match("^(.*/)") or "./"
  package.path = ("%s?.lua;%s?/init.lua;%s"):format(folder, folder, package.path)
  _G.arg = table.move(args, 2, #args, 1, { [0] = script })
end

---@param parsed table
---@return integer exit_code
function run.run(parsed)
  local script = parsed.args[1]
  if not script then return options.refuse("no script given: synod run SCRIPT [ARG...]", "run") end
  local limit = parsed.memory_limit
  if limit and limit < MEMORY_MIN then
    return options.refuse(("--memory-limit: %d bytes are too few, give 2M or more"):format(limit), "run")
  end
  if parsed.n and (parsed.instance or parsed.instances) then
    return options.refuse("-n makes and numbers the instances itself: leave --instance and --instances out", "run")
  end
  local process = require "cli.process"
  parsed.store = process.store or parsed.store
  local chunk, problem, code = require("cli.source").load(script)
  if not chunk then
    say(problem)
    return code
  end
  if parsed.n then
    parsed.script = script
    return require("cli.supervisor").run(parsed)
  end
  local who, wrong = require("cli.instance").of(parsed, script)
  if not who then return options.refuse(wrong, "run") end
  return run.here(chunk, parsed, who)
end

--- Runs the script in this task, as this instance.
---@param chunk function
---@param parsed table
---@param who cli.Instance
---@return integer exit_code
function run.here(chunk, parsed, who)
  local args = parsed.args
  prepare_globals(args[1], args)
  require("synod").instance = who
  require("synod.io").install(_G)
  require("synod.log").configure { format = parsed.log_format, level = parsed.log_level, instance = who.id }
  if parsed.pass_credentials then require("synod.exec").share_credentials(parsed.store) end
  if parsed.memory_limit then require("cli.process").limit_memory(parsed.memory_limit) end
  chunk(table.unpack(args, 2))
  return 0
end

return run
