-- synod: what a script gets from `require "synod"`.
--
-- The calls of tasks and time are here at once. The rest is loaded when it is first used, so that a script
-- pays for nothing that it does not touch.

local core = require "synod.core"
local task = require "synod.task"

---@class synod
---@field time (fun(): number)|(fun(at: string|number): synod.Value)  wall-clock seconds since 1970; or, from
---       "2026-01-02T03:04:05.1234567Z" or seconds since 1970, a time as tables keep it
---@field instance synod.Instance   who this is
---@field store synod.Store         the default store
---@field log synod.Log
local synod = {
  spawn = core.spawn,
  sleep = core.sleep,
  yield = core.yield,
  now = core.now,
  time = core.time,
  event = core.event,
  timeout = task.timeout,
  all = task.all,
  race = task.race,
  every = task.every,
  on = task.on,
  instance = {},
}

---@class synod.Instance
---@field id? string             such as "worker_IN_2"
---@field ordinal? integer       2
---@field role? string           "worker"
---@field count? integer         how many instances the deployment has
---@field deployment? string
---@field fault_domain? integer
---@field update_domain? integer
---@field endpoints? table<string, string>

--- Runs fn as the main task of a run, for programs that are not started by the `synod` command. With
--- `clock = "virtual"` time moves only while every task waits; `seed` makes its random numbers.
---@param fn function
---@param options? { clock?: "virtual", seed?: integer }
---@param ... any  arguments of fn
---@return ...  fn's results; its error is raised
function synod.main(fn, options, ...)
  if type(fn) ~= "function" then error("synod.main: a function is expected, got " .. type(fn), 2) end
  if core.task_id() then
    error("synod.main: a run is on already: spawn a task, or give this file to lua5.4 in place of synod", 2)
  end
  if options ~= nil and type(options) ~= "table" then
    error("synod.main: a table of options expected, got " .. type(options), 2)
  end
  for name, value in next, options or {} do
    if name ~= "clock" and name ~= "seed" then
      error(("synod.main: unknown option '%s'; it takes clock and seed"):format(tostring(name)), 2)
    end
    if name == "clock" and value ~= "virtual" then
      error(("synod.main: option 'clock': \"virtual\" expected, got %s"):format(tostring(value)), 2)
    end
  end
  return core.main(fn, options, ...)
end

--- Field -> the module that has it, and the name there (nil: the module itself).
local LATER = {
  exec = { "synod.exec", "exec" },
  http = { "synod.http", "http" },
  listen = { "synod.net", "listen" },
  connect = { "synod.net", "connect" },
  log = { "synod.log" },
  open = { "synod.store", "open" },
  int32 = { "synod.table", "int32" },
  guid = { "synod.table", "guid" },
  binary = { "synod.table", "binary" },
}

return setmetatable(synod, {
  __index = function(_, name)
    if name == "store" then return require("synod.store").default() end -- each run has its own
    local from = LATER[name]
    if not from then return nil end
    local module = require(from[1])
    local value = module
    if from[2] then value = module[from[2]] end
    rawset(synod, name, value)
    return value
  end,
})
