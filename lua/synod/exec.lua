-- Commands: synod.exec runs one to its end without blocking the other tasks.
--
-- A command is the leader of its own process group, and what is left of the group is killed when the command has ended,
-- when it is cancelled, and when this process ends in whatever way. It sees neither AZURE_*, IDENTITY_* nor a
-- connection string in SYNOD_STORE, unless the run was given --pass-credentials.

local core = require "synod.core"

local exec = {}

local OUTPUT_MAX = 16 << 20 -- bytes of stdout, and of stderr, unless max_output says otherwise
local TERM_TO_KILL_S = 5    -- what a command that is out of time has for its clean-up
local DRAIN_ROUNDS = 10     -- how long a pipe that outlives the command (a daemon holds it) is still read,
local DRAIN_ROUND_S = 0.1   -- in all a second
local SIGTERM, SIGKILL = 15, 9

local SECRET_MARKS = { "accountkey=", "sharedaccesssignature=", "sig=" } -- in whatever case: stores take them so
-- What is between the supervisor and us. Nobody else gets these descriptors: to a command that is a synod itself, the
-- numbers would mean files of its own, its store's among them, which it would write over.
local OURS = { SYNOD_STORE_FD = true, SYNOD_USAGE_FD = true, SYNOD_SUPERVISED = true, SYNOD_HUB_FD = true,
  SYNOD_LEDGER_FD = true, SYNOD_LIFE_FD = true }
-- Where App Service and Container Apps give tokens to who knows a secret.
local PRIVATE = { IDENTITY_ENDPOINT = true, IDENTITY_HEADER = true, MSI_ENDPOINT = true, MSI_SECRET = true }
local STDIO = { pipe = true, inherit = true, null = true }
local KNOWN = {
  env = true, cwd = true, stdin = true, stdout = true, stderr = true, timeout = true, max_output = true,
}

-- What --pass-credentials lets commands have: nil, or the variables to add.
local shared

--- Lets commands see the credentials (--pass-credentials).
---@param store? string the store's URL, where it is not in the environment
function exec.share_credentials(store)
  shared = { SYNOD_STORE = store }
end

--- Whether the address of a store holds a secret.
local function is_secret(url)
  for _, mark in ipairs(SECRET_MARKS) do
    if url:lower():find(mark, 1, true) then return true end
  end
  return false
end
exec.is_secret = is_secret

--- What a command must not see: what is between the supervisor and us, and credentials that are not shared.
local function is_hidden(name, value)
  if OURS[name] then return true end
  if shared then return false end
  if name:find("^AZURE_") or PRIVATE[name] then return true end
  return name == "SYNOD_STORE" and is_secret(value)
end

--- The environment of a command, as a list of NAME=value.
---@param changes? table<string, string|false> false takes a variable away
---@return string[]
function exec.environment(changes)
  local vars, order = {}, {}
  local function set(name, value)
    if vars[name] == nil then order[#order + 1] = name end
    vars[name] = value
  end
  for _, text in ipairs(core.environment()) do
    local name, value = text:match("^([^=]+)=(.*)$")
    if name and not is_hidden(name, value) then set(name, value) end
  end
  for name, value in next, shared or {} do set(name, value) end
  for name, value in next, changes or {} do set(name, value) end
  table.sort(order)
  local list = {}
  for _, name in ipairs(order) do
    if vars[name] then list[#list + 1] = name .. "=" .. tostring(vars[name]) end
  end
  return list
end

--- The end of a process in the terms of a shell.
---@return integer code, integer|nil signal
local function code_of(kind, number)
  if kind == "killed" then return 128 + number, number end
  return number, nil
end

--- To be closed with a command: one that is stopped with its guard has until the hard stop for
--- its clean-up, and is waited for. TERM and KILL are its leash's.
local function patience(process)
  return setmetatable({}, {
    __close = function(_, err)
      if type(err) == "table" and err.code == "LeaseLost" then pcall(process.wait, process) end
    end,
  })
end
exec.patience = patience

--- Asks the group to end, and makes it end.
local function stop(process)
  process:kill(SIGTERM)
  if process:wait(TERM_TO_KILL_S) == "running" then
    process:kill(SIGKILL)
    process:wait()
  end
end

local function feed(process, text)
  local from = 1
  while from <= #text do
    local n = process:write(text, from)
    if not n then break end -- it reads no more, which is its own affair
    from = from + n
  end
  process:shut("stdin")
end

--- Reads a stream to its end. What is more than `max` ends the command and is dropped.
local function collect(process, stream, max)
  local parts, size = {}, 0
  while true do
    local data = process:read(stream)
    if not data then break end
    size = size + #data
    if size <= max then
      parts[#parts + 1] = data
    else
      process:kill(SIGKILL)
    end
  end
  return table.concat(parts), size > max
end

--- What a reader has collected, once the command has ended.
local function collected(process, stream, reader)
  if not reader then return nil, false end
  for _ = 1, DRAIN_ROUNDS do
    if reader:ended() then break end
    reader:join(DRAIN_ROUND_S)
  end
  if not reader:ended() then process:shut(stream) end
  local text, too_large = reader:join()
  return text, too_large
end

local function check_text(options, field)
  local value = options[field]
  if value ~= nil and type(value) ~= "string" then
    error(("synod.exec: %s must be a string, not a %s"):format(field, type(value)), 4)
  end
  return value
end

local function check_stdio(options, field)
  local value = options[field] or "pipe"
  if not STDIO[value] then
    error(("synod.exec: %s must be \"pipe\", \"inherit\" or \"null\""):format(field), 4)
  end
  return value
end

local function check_names(options)
  for name in next, options do
    if math.type(name) ~= "integer" and not KNOWN[name] then
      error(("synod.exec: unknown option '%s'"):format(name), 4)
    end
  end
end

local function check_environment(changes)
  if changes ~= nil and type(changes) ~= "table" then
    error(("synod.exec: env must be a table, not a %s"):format(type(changes)), 4)
  end
  for name, value in next, changes or {} do
    if type(name) ~= "string" or name == "" or name:find("[=%z]") then
      error("synod.exec: env may hold only names without '=' and zero bytes", 4)
    end
    if value and tostring(value):find("%z") then
      error(("synod.exec: env.%s holds a zero byte"):format(name), 4)
    end
  end
end

local function check(options)
  if type(options) ~= "table" or #options == 0 then
    error("synod.exec: a command is expected: synod.exec{\"cmd\", argument...}", 3)
  end
  check_names(options)
  check_environment(options.env)
  local args = {}
  for i, arg in ipairs(options) do
    if type(arg) ~= "string" and type(arg) ~= "number" then
      error(("synod.exec: argument %d must be a string, not a %s"):format(i, type(arg)), 3)
    end
    args[i] = tostring(arg)
    if args[i]:find("%z") then error(("synod.exec: argument %d holds a zero byte"):format(i), 3) end
  end
  if options.timeout ~= nil and not (type(options.timeout) == "number" and options.timeout >= 0) then
    error("synod.exec: timeout must be a number of seconds, not negative", 3)
  end
  local most = options.max_output
  if most ~= nil and not (type(most) == "number" and math.tointeger(most) and most >= 0) then
    error("synod.exec: max_output must be a whole number of bytes, not negative", 3)
  end
  local stdin = check_text(options, "stdin")
  return {
    file = args[1], args = args, guarded = true,
    env = exec.environment(options.env), directory = check_text(options, "cwd"),
    stdin = stdin and "pipe" or "null",
    stdout = check_stdio(options, "stdout"), stderr = check_stdio(options, "stderr"),
  }
end

--- Whoever shares our standard output must not come before what was printed earlier.
local function flush_inherited(spawn)
  if spawn.stdout == "inherit" then core.output_flush(1) end
  if spawn.stderr == "inherit" then core.output_flush(2) end
end

local function too_large(command, max)
  return core.new_error {
    code = "OutputTooLarge", operation = "exec", target = command,
    message = ("the command wrote more than %d bytes and was ended"):format(max),
  }
end

local function timed_out(command, seconds)
  return core.new_error {
    code = "Timeout", operation = "exec", target = command,
    message = ("the command did not end within %g s and was ended"):format(seconds),
  }
end

---@class synod.exec.Options
---@field [integer] string   the command, looked for in PATH, and its arguments; no shell is involved
---@field env? table<string, string|false> variables to add, to change or (false) to take away
---@field cwd? string        the directory it runs in
---@field stdin? string      what it reads; nothing by default
---@field stdout? "pipe"|"inherit"|"null"  "pipe" (the default) puts it into the result
---@field stderr? "pipe"|"inherit"|"null"
---@field timeout? number    seconds; after them TERM, and 5 s later KILL
---@field max_output? integer bytes of stdout, and of stderr, that the result may hold (16 MiB)

---@class synod.exec.Result
---@field ok boolean         it ended with code 0
---@field code integer       its exit code, 128 + n when signal n ended it
---@field signal? integer    the signal that ended it
---@field stdout? string
---@field stderr? string

--- Runs a command to its end. A command that fails is a result (ok = false); nil, err is for one that could not be
--- run (CommandNotFound, CommandNotRun), had no more time (Timeout) or wrote too much (OutputTooLarge). A cancel kills
--- its group and returns when it has ended.
---@param options synod.exec.Options
---@return synod.exec.Result|nil, table? err
function exec.exec(options)
  local spawn = check(options)
  local max = options.max_output or OUTPUT_MAX
  flush_inherited(spawn)
  local process <close>, err = core.process_spawn(spawn)
  if not process then return nil, err end
  local _ <close> = patience(process)
  local out = spawn.stdout == "pipe" and core.spawn(collect, process, "stdout", max)
  local errors = spawn.stderr == "pipe" and core.spawn(collect, process, "stderr", max)
  local feeder = options.stdin and core.spawn(feed, process, options.stdin)
  local kind, number = process:wait(options.timeout)
  local late = kind == "running"
  if late then stop(process) end
  if not kind then err = number end
  local stdout, much = collected(process, "stdout", out)
  local stderr, more = collected(process, "stderr", errors)
  if feeder then
    process:shut("stdin")
    feeder:join()
  end
  if not kind then return nil, err end
  if late then return nil, timed_out(spawn.file, options.timeout) end
  if much or more then return nil, too_large(spawn.file, max) end
  local code, signal = code_of(kind, number)
  return { ok = code == 0, code = code, signal = signal, stdout = stdout, stderr = stderr }
end

return exec
