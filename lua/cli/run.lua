-- synod run SCRIPT: as one instance in this process, or with -n as several supervised ones.

local common = require "cli.common"
local options = require "cli.options"

local run = {
  summary = "run a script as one instance, or with -n N as N supervised processes",
  usage = { "[OPTIONS] SCRIPT [ARG...]" },
  stop = true,
  options = common.join({
    { name = "n", short = "n", value = "N", kind = "count", meaning = "start N processes of the script" },
    { name = "usage", meaning = "say at the end what was asked of the stores, and what that would cost" },
    {
      name = "prices", value = "FILE", meaning = "with --usage: a Lua file that returns prices",
      default = "an example",
    },
    { name = "fail-fast", meaning = "with -n: stop the others when one fails" },
  }, common.store, common.instance, common.hints, {
    {
      name = "memory-limit", value = "SIZE", kind = "size", env = "SYNOD_MEMORY_LIMIT",
      meaning = "what the script's data may take, such as 64M", default = "no limit",
    },
    {
      name = "pass-credentials",
      meaning = "let commands that the script starts see AZURE_* and the store's connection string",
    },
  }, common.log),
  notes = "Options may also stand directly behind SCRIPT. Its own arguments begin with the first word there that is "
    .. "none of these, or was given already, or behind `--`; it sees them as `...` and in `arg`. What it requires is "
    .. "looked for beside it first.",
}

local MEMORY_MIN = 2 << 20

--- Why nothing was run, in the form that was asked for.
local function say(parsed, problem)
  local core, text = require "synod.core", require("cli.redact")(problem)
  if parsed.log_format ~= "json" then return io.stderr:write("synod: ", text, "\n") end
  core.log_configure { format = "json", instance = parsed.instance or "synod" }
  core.log_write("error", text, {})
end

--- Modules beside the script come before those of the system; the built-in ones before both.
local function prepare_globals(script, args)
  local core = require "synod.core"
  require("synod.sandbox").apply(_G)
  require("synod.io").install(_G)
  _G.require = require("synod.loader").new(package, core.event, core.task_id)
  local folder = script:match("^(.*/)") or "./"
  package.path = ("%s?.lua;%s?/init.lua;%s"):format(folder, folder, package.path)
  _G.arg = table.move(args, 2, #args, 1, { [0] = script })
end

--- What a supervisor hands down, in a descriptor because arguments and environment can be read by others.
local function inherited_store()
  local fd = math.tointeger(tonumber(os.getenv("SYNOD_STORE_FD")))
  return fd and require("synod.core").process_reveal(fd)
end

--- Whether it can be read more than once: a pipe cannot.
local function is_file(path)
  local file <close> = io.open(path)
  return not file or file:seek("set", 0) ~= nil
end

--- What can be seen to be wrong before anything is started.
---@return string|nil problem
local function problem_with(parsed)
  local limit = parsed.memory_limit
  if not parsed.args[1] then return "no script given: synod run SCRIPT [ARG...]" end
  if limit and limit < MEMORY_MIN then
    return ("--memory-limit: %d bytes are too few to run anything, give 2M or more"):format(limit)
  end
  if parsed.n and (parsed.instance or parsed.instances) then
    return "-n makes and numbers the instances itself: leave --instance and --instances out"
  end
  if parsed.n and parsed.n > 1 and parsed.store and parsed.store:find("^memory:") then
    return "--store memory: is for one instance: several share a file, leave --store out or give embedded:PATH"
  end
  if parsed.n and parsed.n > 1 and parsed.hints and not parsed.hints:find(":0$") then
    return "--hints with -n: the instances cannot all listen at one port; give port 0, as in --hints :0"
  end
  if parsed.prices and not parsed.usage then return "--prices is for --usage: give that too" end
  if parsed.n and not is_file(parsed.args[1]) then
    return parsed.args[1] .. ": each instance reads the script itself, and this can be read only once; use a file"
  end
  if parsed.fail_fast and not parsed.n then return "--fail-fast is for several instances: give -n N too" end
end

---@param parsed table
---@return integer exit_code
function run.run(parsed)
  local wrong = problem_with(parsed)
  if wrong then return options.refuse(wrong, "run") end
  local script = parsed.args[1]
  local chunk, problem, code = require("cli.source").load(script)
  if not chunk then
    say(parsed, problem)
    return code
  end
  parsed.store = inherited_store() or parsed.store
  if parsed.usage or os.getenv("SYNOD_USAGE_FD") then
    parsed.usage_fd = parsed.n and require("synod.core").report_new()
    wrong = require("cli.usage").tell_at_end(parsed, parsed.usage_fd)
    if wrong then return options.refuse(wrong, "run") end
  end
  if parsed.n then
    parsed.script = script
    return require("cli.supervisor").run(parsed)
  end
  local who
  who, problem = require("cli.instance").of(parsed, script)
  if not who then return options.refuse(problem, "run") end
  return run.here(chunk, parsed, who)
end

--- Runs the script in this task, as this instance.
---@param chunk function
---@param parsed table
---@param who cli.Instance
---@return integer exit_code
function run.here(chunk, parsed, who)
  local core, args = require "synod.core", parsed.args
  local process = require "cli.process"
  process.instance, process.log_format = who.id, parsed.log_format
  core.log_configure { format = parsed.log_format, level = parsed.log_level, instance = who.id }
  prepare_globals(args[1], args)
  require("synod").instance = who
  if parsed.store then require("synod.store").configure(parsed.store) end
  if parsed.hints then require("synod.hints").configure(parsed.hints) end
  if parsed.pass_credentials then require("synod.exec").share_credentials(parsed.store) end
  if parsed.memory_limit then core.limit_memory(parsed.memory_limit) end
  chunk(table.unpack(args, 2))
  return 0
end

return run
