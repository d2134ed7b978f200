-- Real processes, real signals, and a witness that belongs to none of them: for specs that kill, stop and continue.
--
--   witness.run(function(w)                                  -- on the real clock, in a folder of its own
--     local a = w:start { "run", w:script("x.lua", LUA), w.pipe }      -- arguments of synod
--     local e = w:await(20, function(e) return e.what == "leads" and e.who == "a" end)
--     a:kill "KILL"                                          -- the instant at which it was sent
--     w:events "x"                                           -- all that was said of x, in the order in which it was
--   end)
--
-- A process says what it does by a line to the pipe: WHAT NAME WHO PID FENCE CONFIRMED HARD, the last two in seconds of
-- synod.now(). The witness (witness.c) keeps the order and stamps each line with the boot-time clock. All that was
-- started has ended when `run` returns.

local core = require "synod.core"
local sh = require "spec.support.sh"

local witness = {}

local LOOK_S = 0.004
local SIGNALS = { KILL = 9, TERM = 15, CONT = 18, STOP = 19 }
local LINE = "^(%d+) (%l+) (%S+) (%S+) (%d+) (%d+) (%S+) (%S+)$"

--- How many rounds a spec makes: SYNOD_ROUNDS asks for all that the shows are about; few where everything is tested.
---@param few integer
---@return integer
function witness.rounds(few)
  return math.tointeger(tonumber(os.getenv "SYNOD_ROUNDS")) or few
end

--- Whether the rounds are run to be measured: then one kind after the other, and what was measured is said.
witness.measured = os.getenv "SYNOD_ROUNDS" ~= nil

---@class spec.Said
---@field at number         seconds, as synod.now(): when it reached the witness
---@field what string
---@field name string
---@field who string
---@field pid integer
---@field fence integer
---@field confirmed number  when the last renewal that was confirmed was sent
---@field hard number       the hard stop that follows from it

---@class spec.Witness
---@field path string  its folder
---@field pipe string
local Witness = {}
Witness.__index = Witness

local Process = {}
Process.__index = Process

--- Sends a signal.
---@param name "KILL"|"TERM"|"CONT"|"STOP"
---@return number at  as synod.now(), just before
function Process:kill(name)
  local at = core.now()
  self.process:kill(SIGNALS[name])
  return at
end

function Process:wait(seconds)
  return self.process:wait(seconds)
end

local function spawn(self, file, args, stdin)
  local words = { "exec", sh.quote(file) }
  for _, word in ipairs(args) do words[#words + 1] = sh.quote(tostring(word)) end
  words[#words + 1] = ">>" .. sh.quote(self.path .. "/output") .. " 2>&1"
  local env = {}
  for _, text in ipairs(core.environment()) do
    if not text:find "^SYNOD_[SI]" then env[#env + 1] = text end
  end
  env[#env + 1] = "XDG_STATE_HOME=" .. self.path
  local process = assert(core.process_spawn {
    file = "sh", args = { "sh", "-c", table.concat(words, " ") }, env = env, stdin = stdin or "null",
    stdout = "null", stderr = "inherit",
  })
  local started = setmetatable({ process = process, pid = process:pid() }, Process)
  self.processes[#self.processes + 1] = started
  return started
end

--- Starts synod with these arguments.
---@param args table
function Witness:start(args)
  return spawn(self, sh.synod, args)
end

--- Starts another program, with a standard input that ends with us.
---@param file string
---@param args table
function Witness:start_program(file, args)
  return spawn(self, file, args, "pipe")
end

---@return string path
function Witness:script(name, text)
  return self.folder:write(name, text)
end

--- What the processes have printed.
---@return string
function Witness:output()
  return self.folder:read "output" or ""
end

local function read_more(self)
  local file <close> = io.open(self.path .. "/log")
  if not file then return end
  file:seek("set", self.offset)
  for line in file:lines "L" do
    if line:sub(-1) ~= "\n" then break end
    self.offset = self.offset + #line
    local at, what, name, who, pid, fence, confirmed, hard = line:sub(1, -2):match(LINE)
    assert(at, "the witness was told: " .. line)
    local said = {
      at = tonumber(at) / 1e9, what = what, name = name, who = who, pid = math.tointeger(pid),
      fence = math.tointeger(fence), confirmed = tonumber(confirmed), hard = tonumber(hard),
    }
    self.names[name] = self.names[name] or {}
    table.insert(self.names[name], said)
  end
end

--- All that was said of a name so far.
---@return spec.Said[]
function Witness:events(name)
  read_more(self)
  return self.names[name] or {}
end

--- The first thing said of a name, after the first `from` ones, for which fn is true.
---@return spec.Said
function Witness:await(name, seconds, fn, from)
  local stop, i = core.now() + seconds, from or 0
  while true do
    local events = self:events(name)
    while i < #events do
      i = i + 1
      if fn(events[i]) then return events[i] end
    end
    if core.now() > stop then
      error(("nothing of the kind was said of %s in %g s; the processes: %s"):format(name, seconds, self:output()), 2)
    end
    core.sleep(LOOK_S)
  end
end

local function close(self)
  for _, p in ipairs(self.processes) do
    if p.process:wait(0) == "running" then
      p:kill "CONT"
      p:kill "KILL"
      p.process:wait()
    end
    p.process:close()
  end
  self.folder:close()
end

--- Runs fn(w) on the real clock.
---@param fn fun(w: spec.Witness): ...
function witness.run(fn)
  local folder = sh.folder()
  local program = folder.path .. "/witness"
  local said, code = sh.run(("cc -O1 -D_GNU_SOURCE -o %s spec/support/witness.c"):format(sh.quote(program)))
  assert(code == 0, said)
  return core.main(function()
    local w <close> = setmetatable({
      folder = folder, path = folder.path, pipe = folder.path .. "/pipe", processes = {}, names = {}, offset = 0,
    }, { __index = Witness, __close = close })
    w:start_program(program, { w.pipe, folder.path .. "/log" })
    while not io.open(folder.path .. "/log") do core.sleep(LOOK_S) end
    core.sleep(0.05)
    return fn(w)
  end)
end

---------------------------------------------------------------- judging

--- What is wrong with what was said of one name, as sentences: an older fence after a newer one, or something done by
--- a holder after the end of its lease by the earliest account: `ttl` after the last confirmed attempt was sent.
---@param events spec.Said[]
---@param ttl number
---@return string[] faults, number late  the most seconds after a hard stop at which something was done
function witness.faults(events, ttl)
  local found, newest, late = {}, 0, -math.huge
  for _, e in ipairs(events) do
    if e.fence < newest then
      found[#found + 1] = ("%s %s with the fence %d after %d was told"):format(e.who, e.what, e.fence, newest)
    end
    if e.at > e.confirmed + ttl then
      found[#found + 1] = ("%s %s %.3f s after its lease was over"):format(e.who, e.what, e.at - e.confirmed - ttl)
    end
    newest, late = math.max(newest, e.fence), math.max(late, e.at - e.hard)
  end
  return found, late
end

--- "median [least - most] unit" of numbers.
---@param numbers number[]
---@param unit string
---@param factor? number
---@return string
function witness.spread(numbers, unit, factor)
  if #numbers == 0 then return "nothing" end
  local sorted = table.move(numbers, 1, #numbers, 1, {})
  table.sort(sorted)
  local f, n = factor or 1, #sorted
  local median = (sorted[(n + 1) // 2] + sorted[n // 2 + 1]) / 2
  return ("%.4g [%.4g - %.4g] %s"):format(median * f, sorted[1] * f, sorted[n] * f, unit)
end

--- Says what was measured, where that was asked for.
function witness.tell(format, ...)
  if witness.measured then io.stderr:write("  ", format:format(...), "\n") end
end

return witness
