-- main.lua: runs the benchmarks that were asked for. bench/run is how to call it.

package.path = "bench/?.lua;" .. package.path

local report = require "harness.report"

local CASES = { "start", "blob", "lease", "many", "barrier", "tasks", "store", "records", "locks", "handover",
                "failover", "queue" }

---@class bench.Context
---@field work string a folder for files, gone at the end
---@field quick boolean
---@field say fun(message: string) progress, on standard error
---@field rounds fun(usual: integer, quick: integer): integer
---@field show fun(figure: table) the figure is of this benchmark
---@field skip fun(why: string) a peer is left out

local function fail(message)
  io.stderr:write("bench: ", message, "\n")
  os.exit(2)
end

local function parse(args)
  local options, chosen = { work = args[1] }, {}
  for i = 2, #args do
    local word = args[i]
    local flag = word:match("^%-%-(%l+)$")
    if flag == "quick" or flag == "json" or flag == "strict" then
      options[flag] = true
    elseif table.concat(CASES, " "):find("%f[%w]" .. word:gsub("%W", "%%%0") .. "%f[%W]") then
      chosen[#chosen + 1] = word
    else
      fail(("'%s' is unknown; give --quick, --json, --strict or any of: %s"):format(word, table.concat(CASES, ", ")))
    end
  end
  return options, #chosen > 0 and chosen or CASES
end

local function run(name, options)
  local case = require("cases." .. name)
  local context = { work = options.work, quick = options.quick or false }
  function context.say(message) io.stderr:write(("bench: %s: %s\n"):format(name, message)) end
  function context.rounds(usual, quick) return options.quick and quick or usual end
  function context.show(figure)
    figure.bench = name
    report.show(figure)
  end
  function context.skip(why) report.skip(name, why) end
  report.title(case.title)
  case.run(context)
end

local options, chosen = parse(arg)
report.json = options.json
require("harness.process").folder = options.work
local failed = 0
for _, name in ipairs(chosen) do
  local ok, problem = xpcall(run, function(e)
    return type(e) == "string" and e:find("^bench:") and e or debug.traceback(e)
  end, name, options)
  if not ok then
    if tostring(problem):find("interrupted") then os.exit(130) end
    io.stderr:write(problem, "\n")
    failed = failed + 1
  end
end
report.finish()
if failed > 0 then fail(failed .. " could not be measured") end
os.exit(options.strict and #report.missed > 0 and 1 or 0)
