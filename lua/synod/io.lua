-- What of Lua's own input and output, and of `os`, would stand in the way of the other tasks, replaced by versions that
-- do not: print, io.write, io.read, io.lines(), io.input, io.output, io.stdin, io.stdout, io.stderr, io.popen,
-- os.execute, os.exit.
--
-- A task that prints more than is read waits, and nothing is lost; one that reads waits for input. Files opened with
-- io.open stay Lua's own.

local core = require "synod.core"
local reader = require "synod.reader"

local replacement = {}

local PIECE_MAX = 1 << 20 -- bytes handed on at once
local NAMES = { [0] = "stdin", [1] = "stdout", [2] = "stderr" }

local function put_piece(fd, piece)
  repeat
    local taken = core.output_write(fd, piece)
    if taken ~= true then core.output_wait(fd, not taken) end
  until taken
end

local function put(fd, text)
  if #text <= PIECE_MAX then return put_piece(fd, text) end
  for from = 1, #text, PIECE_MAX do put_piece(fd, text:sub(from, from + PIECE_MAX - 1)) end
end

---@class synod.io.Stream: file*
local Stream = {}
Stream.__index = Stream
Stream.__name = "FILE*"

function Stream:__tostring() return ("file (%s)"):format(NAMES[self.fd]) end

--- As file:write; waits while nobody reads. That it cannot be written is raised.
function Stream:write(...)
  if self.input then return nil, "Bad file descriptor", 9 end
  local parts = table.pack(...)
  for i = 1, parts.n do
    local kind = type(parts[i])
    if kind ~= "string" and kind ~= "number" then
      error(("bad argument #%d to 'write' (string expected, got %s)"):format(i, kind), 2)
    end
    parts[i] = tostring(parts[i])
  end
  put(self.fd, table.concat(parts))
  return self
end

--- Waits until all of it has gone to the file, the terminal, or the pipe.
function Stream:flush()
  if self.input then return self end
  core.output_flush(self.fd)
  return self
end

function Stream.setvbuf() return true end

function Stream.seek() return nil, "Illegal seek", 29 end

--- As file:read; waits for input.
function Stream:read(...)
  if not self.input then return nil, "Bad file descriptor", 9 end
  return self.input:read(...)
end

function Stream:lines(...)
  if not self.input then error(NAMES[self.fd] .. " cannot be read", 2) end
  return self.input:lines(...)
end

-- As in Lua itself: the standard streams stay open.
function Stream.close() return nil, "cannot close standard file" end

local function is_stream(value) return getmetatable(value) == Stream end

local function print_to(stream)
  return function(...)
    local parts = table.pack(...)
    for i = 1, parts.n do parts[i] = tostring(parts[i]) end
    put(stream.fd, table.concat(parts, "\t") .. "\n")
  end
end

local function replace_output(library, stdout)
  local plain_output, current = library.output, stdout

  function library.output(target)
    if target == nil then return current end
    current = is_stream(target) and target or plain_output(target)
    return current
  end

  function library.write(...) return current:write(...) end

  function library.close(file)
    if file == nil then file = current end
    return file:close()
  end
end

local function replace_input(library, stdin)
  local plain_input, plain_lines, current = library.input, library.lines, stdin

  function library.input(source)
    if source == nil then return current end
    current = is_stream(source) and source or plain_input(source)
    return current
  end

  function library.read(...) return current:read(...) end

  function library.lines(name, ...)
    if name ~= nil then return plain_lines(name, ...) end
    return current:lines(...)
  end
end

local function replace_files(library)
  local plain_type = library.type

  function library.type(value)
    if is_stream(value) then return "file" end
    return require("synod.shell").type(value) or plain_type(value)
  end

  function library.popen(command, mode) return require("synod.shell").popen(command, mode) end
end

local function replace_os(library)
  function library.execute(command)
    if command == nil then return true end
    return require("synod.shell").execute(command)
  end

  --- Ends the run: every task is cancelled, to-be-closed variables run, then the process ends with the code.
  function library.exit(code)
    if code == nil or code == true then code = 0 end
    if code == false then code = 1 end
    if not math.tointeger(code) then
      error("bad argument #1 to 'exit' (a whole number or a boolean expected, got " .. type(code) .. ")", 2)
    end
    core.exit(code)
  end
end

--- Replaces them in these globals; once is enough.
---@param globals table the _G of the state
function replacement.install(globals)
  if is_stream(globals.io.stdout) then return end
  globals.io.stdout:flush()
  local stdin = setmetatable({ fd = 0, input = reader.new(core.input_read) }, Stream)
  local stdout, stderr = setmetatable({ fd = 1 }, Stream), setmetatable({ fd = 2 }, Stream)
  globals.io.stdin, globals.io.stdout, globals.io.stderr = stdin, stdout, stderr
  globals.print = print_to(stdout)
  replace_input(globals.io, stdin)
  replace_output(globals.io, stdout)
  replace_files(globals.io)
  replace_os(globals.os)
end

return replacement
