-- process.lua: commands that are measured, servers that are measured against.

local json = require "cjson"

local TICK_MS = 10 -- what the kernel counts a process's time in, for others to see

local process = {
  folder = ".", -- for what commands write
}

local function quote(word)
  return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

local function words(list)
  local quoted = {}
  for i, word in ipairs(list) do quoted[i] = quote(word) end
  return table.concat(quoted, " ")
end

local function environment(env)
  local list = {}
  for name, value in pairs(env or {}) do list[#list + 1] = name .. "=" .. value end
  table.sort(list)
  return #list > 0 and "env " .. words(list) .. " " or ""
end

local function read(path)
  local file = io.open(path, "rb")
  local text = file and file:read("a") or ""
  if file then file:close() end
  return text
end

---@class bench.Measured
---@field wall_ms number[]
---@field cpu_ms number[]
---@field peak_kb number[]
---@field private_kb number[]
---@field switches number[]
---@field exit integer[]
---@field output string what all of them wrote to standard output

---@class bench.Command
---@field [integer] string the command and its arguments
---@field runs? integer one after another (1)
---@field copies? integer all at once
---@field sample? number with copies: seconds until their memory is read and they are ended
---@field timeout? number seconds (60)
---@field env? table<string, string>

--- Runs a command through bench/peers/meter.c. Raises when one of its runs fails.
---@param command bench.Command
---@return bench.Measured
function process.measure(command)
  local output = process.folder .. "/output"
  local options = { "build/bench/meter", "-o", output, "-t", command.timeout or 60 }
  if command.copies then
    options = table.move({ "-n", command.copies }, 1, 2, #options + 1, options)
    if command.sample then options = table.move({ "-s", command.sample }, 1, 2, #options + 1, options) end
  else
    options = table.move({ "-r", command.runs or 1 }, 1, 2, #options + 1, options)
  end
  options[#options + 1] = "--"
  local line = environment(command.env) .. words(options) .. " " .. words(command)
  local pipe = assert(io.popen("exec " .. line)) -- the meter ends with us, and its commands with it
  local answer = pipe:read("a")
  local ended = pipe:close()
  local text = read(output)
  os.remove(output)
  if not ended then error("bench: could not be measured: " .. words(command), 0) end
  local measured = json.decode(answer)
  measured.output = text
  for _, code in ipairs(measured.exit) do
    if code ~= (command.sample and 143 or 0) then
      error(("bench: exit code %d from: %s"):format(code, words(command)), 0)
    end
  end
  return measured
end

--- The JSON objects in what commands wrote, a line each; other lines are passed over.
---@param text string
---@return table[]
function process.objects(text)
  local list = {}
  for object in text:gmatch("{[^\n]*}") do list[#list + 1] = json.decode(object) end
  return list
end

--- Runs a command once and gives the JSON object it printed.
---@param command bench.Command
---@return table
function process.ask(command)
  local objects = process.objects(process.measure(command).output)
  if #objects ~= 1 then error("bench: no figures from: " .. words(command), 0) end
  return objects[1]
end

--- Runs a small helper and gives the line that it says.
---@param command bench.Command
---@return string
function process.say(command)
  local pipe = assert(io.popen("exec " .. words(command)))
  local line = pipe:read("l") or ""
  if not pipe:close() then error("bench: it failed: " .. words(command), 0) end
  return line
end

---@class bench.Server
---@field first string its first line
---@field pid string
local server = {}
server.__index = server

--- Ends it. Gives what it wrote since its first line.
---@return string
function server:stop()
  if not self.pipe then return "" end
  os.execute("kill -TERM " .. self.pid .. " 2>/dev/null")
  local rest = self.pipe:read("a")
  self.pipe:close()
  self.pipe = nil
  return rest
end

server.__close = server.stop

--- The processor's time that it has used so far.
---@return number ms
function server:cpu_ms()
  local fields = read("/proc/" .. self.pid .. "/stat"):match("%) (.*)")
  local ticks, field = 0, 2 -- the first of these is the third of all
  for value in (fields or ""):gmatch("%S+") do
    field = field + 1
    if field == 14 or field == 15 then ticks = ticks + tonumber(value) end
  end
  return ticks * TICK_MS
end

--- Starts a server, which ends with us at the latest, and waits for the first line that matches.
---@param command bench.Command
---@param pattern? string of the line that says it is ready; its first capture is `first` (the whole line)
---@param log? string a file that takes all it says; then no line is waited for
---@return bench.Server
function process.serve(command, pattern, log)
  local line = ("%sbuild/bench/meter -k -- sh -c 'echo $$; exec \"$@\"%s' %s %s"):format(environment(command.env),
    log and ' >"$0" 2>&1' or "", quote(log or "sh"), words(command))
  local pipe = assert(io.popen("exec " .. line))
  local self = setmetatable({ pipe = pipe, pid = pipe:read("l") }, server)
  if log then return self end
  for text in pipe:lines() do
    self.first = text:match(pattern or ".*")
    if self.first then return self end
  end
  self:stop()
  error("bench: it did not start: " .. line, 0)
end

--- Boot-time seconds, the clock that instances and peers agree on when to begin.
---@return number
function process.boot_time()
  return tonumber(read("/proc/uptime"):match("^[%d.]+"))
end

return process
