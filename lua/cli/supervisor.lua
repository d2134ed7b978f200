-- synod run -n N: N processes of one script, watched by this one.
--
--   start: every instance is a process group of its own, told who it is by its environment
--   run:   whole lines of its output are passed on with its name before them; nothing is restarted
--   stop:  SIGINT and SIGTERM are passed on once, to the groups; then we wait for all to end
--
-- Instances end with us in whatever way we end (the kernel kills them), and so do their own commands.

local bonds = require "cli.bonds"
local core = require "synod.core"
local exec = require "synod.exec"

local supervisor = {}

local LINE_MAX = 64 * 1024   -- bytes; a longer line is passed on in pieces
local STOP_S = 32            -- after TERM, before KILL: an instance has 30 s for its own stop
local DRAIN_ROUNDS = 10      -- how long a pipe that outlives the instance (a daemon holds it) is still read:
local DRAIN_ROUND_S = 0.1    -- in all a second
local DESCRIPTORS_EACH = 7   -- of an instance
local DESCRIPTORS_OWN = 64
local SIGTERM, SIGKILL = 15, 9
local SIGNAL_NAMES = { [1] = "HUP", [2] = "INT", [3] = "QUIT", [4] = "ILL", [6] = "ABRT", [7] = "BUS", [8] = "FPE",
  [9] = "KILL", [11] = "SEGV", [13] = "PIPE", [14] = "ALRM", [15] = "TERM" }
local COLORS = { 36, 33, 32, 35, 34, 96, 93, 92, 95, 94 }
local EXIT_FAILED = 1

---@class cli.Supervisor
---@field options table        what the command line said
---@field members table[]      the instances: id, process, color
---@field stopping? integer    the signal that was passed on
---@field code integer         the exit code of the first failure in time, 0 while there is none
---@field ending? boolean      this run is being ended: by a signal, or because nobody reads our output any more
local Supervisor = {}
Supervisor.__index = Supervisor

--- Says it as everything on standard error is said: as text, or as a JSON line.
local function say(options, ...)
  local text = table.concat({ ... })
  if options.log_format == "json" then
    core.log_configure { format = "json", instance = "synod" }
    return core.log_write("error", text, {})
  end
  core.output_write(2, "synod: " .. text .. "\n")
end

-- ---- what an instance is told ----

--- The variables that are the same for all, and the descriptors that go with them.
local function shared_settings(options)
  local vars, passed = {
    SYNOD_INSTANCES = tostring(options.n),
    SYNOD_DEPLOYMENT = options.deployment or require("synod.generation").new_of_one_run(),
    SYNOD_LOG_FORMAT = options.log_format, SYNOD_LOG_LEVEL = options.log_level,
    SYNOD_STORE = options.store, SYNOD_HINTS = options.hints,
    SYNOD_SUPERVISED = "1", -- its name stands before each line, and need not stand in it
  }, {}
  if options.memory_limit then vars.SYNOD_MEMORY_LIMIT = ("%dK"):format((options.memory_limit + 1023) // 1024) end
  if options.store and exec.is_secret(options.store) then
    local fd = core.process_secret(options.store)
    vars.SYNOD_STORE, vars.SYNOD_STORE_FD, passed[1] = false, tostring(fd), fd
  end
  if options.usage_fd then
    vars.SYNOD_USAGE_FD, passed[#passed + 1] = tostring(options.usage_fd), options.usage_fd
  end
  return vars, passed
end

--- Our environment with these changes (false: taken away).
local function environment(changes)
  local list = {}
  for _, text in ipairs(core.environment()) do
    if changes[text:match("^[^=]*")] == nil then list[#list + 1] = text end
  end
  for name, value in next, changes do
    if value then list[#list + 1] = name .. "=" .. value end
  end
  return list
end

local function command(options)
  local args = { "synod", "run" }
  if options.pass_credentials then args[#args + 1] = "--pass-credentials" end
  args[#args + 1] = "--"
  return table.move(options.args, 1, #options.args, #args + 1, args)
end

-- ---- its output ----

--- Whether this stream is to be coloured.
local function colors_on(fd)
  local plain, term = os.getenv("NO_COLOR"), os.getenv("TERM")
  return core.output_terminal(fd) and not (plain and plain ~= "") and term ~= nil and term ~= "dumb"
end

local function prefix_of(member, mark, colored)
  local text = ("%s%s %s "):format(member.id, (" "):rep(member.width - #member.id), mark)
  return colored and ("\27[%dm%s\27[0m"):format(member.color, text) or text
end

--- A function that takes what was read and returns it as whole lines with the prefix, or "" while there is none.
--- nil: the end.
local function liner(member, fd, json)
  local colored = colors_on(fd)
  local first = prefix_of(member, "|", colored)
  local later = prefix_of(member, "+", colored)
  local rest, begun = "", false -- of a line: what is not passed on yet; whether a piece of it was

  local function mark(line)
    if json and line:find("^{.*}\n$") then return nil end -- a log line says itself who it is from
    return first .. line
  end

  local function complete(lines)
    if not begun then return (lines:gsub("[^\n]*\n", mark)) end
    local piece, others = lines:match("^([^\n]*\n)(.*)$")
    begun = false
    return later .. piece .. others:gsub("[^\n]*\n", mark)
  end

  return function(data)
    if not data then return rest ~= "" and complete(rest .. "\n") or "" end
    rest = rest .. data
    local cut = rest:match("^.*()\n")
    local text = ""
    if cut then
      text = complete(rest:sub(1, cut))
      rest = rest:sub(cut + 1)
    end
    if #rest > LINE_MAX then
      text = text .. (begun and later or first) .. rest .. "\n"
      rest, begun = "", true
    end
    return text
  end
end

-- ---- the life of an instance ----

--- Calls a function that waits, and again when a cancel meets it: whatever ends this run, the instances end first.
function Supervisor:patiently(fn, ...)
  while true do
    local results = table.pack(pcall(fn, ...))
    if results[1] then return table.unpack(results, 2, results.n) end
    local err = results[2]
    if type(err) ~= "table" or err.code ~= "Cancelled" then error(err, 0) end
    self.ending = true
    self:stop(SIGTERM)
  end
end

--- Writes whole lines. Where that fails (the disk is full) the instances are stopped, and read to their end.
function Supervisor:emit(fd, text)
  if text == "" or self.broken then return end
  local ok, problem = pcall(function()
    repeat
      local taken = self:patiently(core.output_write, fd, text)
      if taken ~= true then self:patiently(core.output_wait, fd, not taken) end
    until taken
  end)
  if ok or self.broken then return end
  self.broken = true
  self.code = self.code == 0 and EXIT_FAILED or self.code
  say(self.options, tostring(problem), "; the instances are stopped")
  self:stop(SIGTERM)
end

function Supervisor:pass_on(member, stream, fd)
  local lines = liner(member, fd, fd == 2 and self.options.log_format == "json")
  repeat
    local data = self:patiently(member.process.read, member.process, stream)
    local text = lines(data)
    member.emitting = stream
    self:emit(fd, text)
    member.emitting = nil
  until not data
end

--- Passes a signal on to all groups, once.
function Supervisor:stop(signal)
  if self.stopping then return end
  self.stopping = signal
  for _, member in ipairs(self.members) do member.process:kill(signal) end
end

--- How it ended, in words; nil when there is nothing to say.
function Supervisor:describe(kind, number)
  if kind == "exited" then
    if number == 0 or (self.stopping and number == 128 + self.stopping) then return nil end
    return ("failed with exit code %d"):format(number)
  end
  if kind == "killed" then
    if number == self.stopping then return nil end
    local name = SIGNAL_NAMES[number]
    return ("was ended by signal %d%s"):format(number, name and " (SIG" .. name .. ")" or "")
  end
  return "could not be run: " .. tostring(number)
end

local function code_of(kind, number)
  if kind == "exited" then return number end
  if kind == "killed" then return 128 + number end
  return EXIT_FAILED
end

--- Waits until all that the ended process wrote has been passed on. A pipe on which nothing comes any more is held by
--- somebody else (a daemon it started); one that waits for our own output to be read is not.
function Supervisor:drain(member)
  for stream, reader in next, member.readers do
    local quiet = 0
    while not reader:ended() do
      self:patiently(reader.join, reader, DRAIN_ROUND_S)
      if member.emitting ~= stream then quiet = quiet + 1 end
      if quiet >= DRAIN_ROUNDS then member.process:shut(stream) end
    end
  end
end

function Supervisor:attend(member)
  local kind, number = self:patiently(member.process.wait, member.process)
  self:patiently(self.bonds.part, self.bonds, member)
  local code = code_of(kind, number)
  if self.code == 0 and not self.ending then self.code = code end
  if code ~= 0 and self.options.fail_fast and not self.stopping then self:fail_fast(member) end
  self:drain(member)
  local text = self:describe(kind, number)
  if text then say(self.options, member.id, " ", text) end
end

function Supervisor:fail_fast(member)
  say(self.options, member.id, " failed, the other instances are stopped (--fail-fast)")
  self:stop(SIGTERM)
  core.spawn(function()
    core.sleep(STOP_S)
    for _, other in ipairs(self.members) do other.process:kill(SIGKILL) end
  end):detach()
end

-- ---- start ----

--- nil, err when there can be no such process.
function Supervisor:start(ordinal, settings, passed)
  local member = { id = ("%s_IN_%d"):format(self.role, ordinal), color = COLORS[ordinal % #COLORS + 1] }
  member.width = #("%s_IN_%d"):format(self.role, self.options.n - 1)
  settings.SYNOD_INSTANCE = member.id
  local err
  passed = self.bonds:join(member, settings, passed)
  member.process, err = core.process_spawn {
    file = "/proc/self/exe", args = command(self.options), env = environment(settings), passed = passed,
    stdin = "null", stdout = "pipe", stderr = "pipe",
  }
  self.bonds:joined(member)
  if not member.process then return nil, err end
  self.members[#self.members + 1] = member
  member.readers = {
    stdout = core.spawn(self.pass_on, self, member, "stdout", 1),
    stderr = core.spawn(self.pass_on, self, member, "stderr", 2),
  }
  member.watcher = core.spawn(self.attend, self, member)
  return member
end

function Supervisor:start_all()
  local settings, passed = shared_settings(self.options)
  for ordinal = 0, self.options.n - 1 do
    if self.stopping then return end
    local member, err = self:start(ordinal, settings, passed)
    if not member then
      self.code = EXIT_FAILED
      local id = ("%s_IN_%d"):format(self.role, ordinal)
      say(self.options, id, " could not be started: ", tostring(err), "; the others are stopped")
      return self:stop(SIGTERM)
    end
    self:patiently(core.yield) -- what the first ones say is passed on meanwhile
  end
end

function Supervisor:wait()
  for _, member in ipairs(self.members) do self:patiently(member.watcher.join, member.watcher) end
end

--- Runs the instances to their end.
---@param options table  what `synod run` was told: n, args, fail_fast, store, deployment, log_format, ...
---@return integer|nil exit_code  that of the first failure in time; nil: that of this run
function supervisor.run(options)
  local needed = options.n * DESCRIPTORS_EACH + DESCRIPTORS_OWN
  local most = core.process_descriptors(needed)
  if most < needed then
    say(options, ("-n %d needs %d open files, and this user may have %d: raise the limit (ulimit -n) or start fewer")
      :format(options.n, needed, most))
    return EXIT_FAILED
  end
  local self = setmetatable({
    options = options, members = {}, code = 0, bonds = bonds.new(options),
    role = require("cli.instance").role_of(options.args[1]),
  }, Supervisor)
  core.on_stop(function(signal)
    self:stop(signal)
    self:wait()
  end)
  self:start_all()
  self:wait()
  if self.code == 0 and self.ending then return nil end
  return self.code
end

return supervisor
