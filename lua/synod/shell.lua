-- os.execute and io.popen as Lua has them, without blocking the other tasks. The command runs as one of synod.exec
-- does: in a group of its own that ends with it and with us, and without the credentials.

local core = require "synod.core"
local exec = require "synod.exec"
local reader = require "synod.reader"

local shell = {}

local TERM_TO_KILL_S = 5
local SIGTERM, SIGKILL = 15, 9

local function spawn(command, streams)
  if type(command) ~= "string" then error("a command is expected, got " .. type(command), 3) end
  core.output_flush(1)
  core.output_flush(2)
  return core.process_spawn {
    file = "/bin/sh", args = { "sh", "-c", command }, env = exec.environment(), foreground = true, guarded = true,
    stdin = streams.stdin or "inherit", stdout = streams.stdout or "inherit", stderr = "inherit",
  }
end

--- As os.execute and file:close give it.
local function how(kind, number)
  if kind == "exited" then return number == 0 or nil, "exit", number end
  if kind == "killed" then return nil, "signal", number end
  return nil, tostring(number), 127
end

--- Runs the command in a shell, with our standard streams. A cancel kills its group.
---@param command string
---@return true|nil, "exit"|"signal", integer
function shell.execute(command)
  local process <close>, err = spawn(command, {})
  if not process then return nil, tostring(err), 127 end
  local _ <close> = exec.patience(process)
  return how(process:wait())
end

---@class synod.shell.File
local File = {}
File.__index = File
File.__name = "FILE*"

local function check_open(file)
  if file.closed then error("attempt to use a closed file", 3) end
end

function File:read(...)
  check_open(self)
  if self.mode ~= "r" then return nil, "Bad file descriptor", 9 end
  return self.reader:read(...)
end

function File:lines(...)
  check_open(self)
  return self.reader:lines(...)
end

function File:write(...)
  check_open(self)
  if self.mode ~= "w" then return nil, "Bad file descriptor", 9 end
  local text = table.concat({ ... })
  local from = 1
  while from <= #text do
    local n = self.process:write(text, from)
    if not n then return nil, "Broken pipe", 32 end
    from = from + n
  end
  return self
end

function File:flush() return self end

function File.setvbuf() return true end

function File.seek() return nil, "Illegal seek", 29 end

--- Waits for the command's end. One that still writes is not waited for to finish: it gets SIGPIPE.
function File:close()
  check_open(self)
  self.closed = true
  self.process:shut("stdin")
  self.process:shut("stdout")
  local kind, number = self.process:wait()
  self.process:close()
  return how(kind, number)
end

--- Left without close: the command is ended.
function File:__close()
  if self.closed then return end
  self.closed = true
  local process <close> = self.process
  process:shut("stdin")
  process:shut("stdout")
  process:kill(SIGTERM)
  if process:wait(TERM_TO_KILL_S) == "running" then process:kill(SIGKILL) end
end

function File:__tostring() return self.closed and "file (closed)" or "file (command)" end

--- As io.popen: a file from which the command's output is read ("r"), or to which its input is written ("w").
---@param command string
---@param mode? "r"|"w"
---@return synod.shell.File|nil, string? problem, integer? errno
function shell.popen(command, mode)
  mode = mode or "r"
  if mode ~= "r" and mode ~= "w" then error("bad argument #2 to 'popen' (invalid mode)", 2) end
  local process, err = spawn(command, mode == "r" and { stdout = "pipe" } or { stdin = "pipe" })
  if not process then return nil, tostring(err), 11 end
  local input = reader.new(function() return process:read("stdout") end)
  return setmetatable({ process = process, mode = mode, reader = input, closed = false }, File)
end

--- Whether this is such a file: "file", "closed file", or nil.
function shell.type(value)
  if getmetatable(value) ~= File then return nil end
  return value.closed and "closed file" or "file"
end

return shell
