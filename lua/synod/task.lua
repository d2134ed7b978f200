-- Tasks that belong together: what is started by one of these has ended when it returns.
--
-- Everything here is made of core.spawn, task:join and task:cancel. A task that is told to end is told
-- again each second until it does, because a script may catch the first Cancelled error.

local core = require "synod.core"

-- A stop must not be raised in the middle of the library's own code: this is how its chunks are named.
core.set_library((debug.getinfo(1, "S").source:gsub("synod/task%.lua$", "")))

local task = {}

local CANCEL_AGAIN = 1 -- seconds

---@class synod.Task
---@field join fun(self: synod.Task, timeout?: number): ...   its results, or nil, err
---@field cancel fun(self: synod.Task, reason?: any)
---@field detach fun(self: synod.Task): synod.Task
---@field ended fun(self: synod.Task): boolean
---@field failed fun(self: synod.Task): boolean

--- Waits for tasks to end. A cancel that meets us meanwhile does not end that: it is kept.
---@param tasks synod.Task[]
---@return any cancelled  for the caller to raise
function task.wait(tasks)
  local cancelled
  for _, t in ipairs(tasks) do
    while not t:ended() do
      local ok, why = pcall(t.join, t)
      if not ok then cancelled = why end
    end
  end
  return cancelled
end

--- Tells tasks to end, all at once, and again each second, and waits until they have. A cancel that meets us meanwhile
--- is kept.
---@param tasks synod.Task[]
---@param reason? any
---@return any cancelled  for the caller to raise
function task.stop(tasks, reason)
  local cancelled
  for _, t in ipairs(tasks) do t:cancel(reason) end
  for _, t in ipairs(tasks) do
    while not t:ended() do
      local ok, why = pcall(t.join, t, CANCEL_AGAIN)
      if not ok then cancelled = why end
      if not t:ended() then t:cancel(reason) end
    end
  end
  return cancelled
end

--- Ends every task of a group. What they failed with has been told, or comes too late. A cancel that met us meanwhile
--- is raised, unless an error is on its way already.
local function close_group(group, err)
  local cancelled = task.stop(group, group.reason)
  for _, t in ipairs(group) do pcall(t.join, t) end
  if cancelled ~= nil and err == nil then error(cancelled, 0) end
end

local group_type = { __close = close_group }

local function new_group(reason)
  return setmetatable({ reason = reason }, group_type)
end

local function check_functions(fns, name)
  if type(fns) ~= "table" then
    error(("%s: a list of functions expected, got %s"):format(name, type(fns)), 3)
  end
  for i, fn in ipairs(fns) do
    if type(fn) ~= "function" then error(("%s: number %d is no function"):format(name, i), 3) end
  end
end

--- What the task returned; its error is raised.
local function results_of(t)
  local results = table.pack(t:join())
  if t:failed() then error(results[2], 0) end
  return table.unpack(results, 1, results.n)
end

--- Runs fn and stops it when the time is over: it is cancelled and has ended when this returns.
---@param seconds number
---@param fn function
---@param ... any  its arguments
---@return ...  fn's results, or nil and an err with code Timeout; an error in fn is raised
function task.timeout(seconds, fn, ...)
  if type(seconds) ~= "number" or not (seconds >= 0) then
    error(("synod.timeout: a number of seconds from 0 on expected, got %s"):format(tostring(seconds)), 2)
  end
  if type(fn) ~= "function" then
    error(("synod.timeout: a function expected, got %s"):format(type(fn)), 2)
  end
  local group <close> = new_group("the time allowed has passed")
  local t = core.spawn(fn, ...)
  group[1] = t
  t:join(seconds)
  if not t:ended() then
    return nil, core.new_error { code = "Timeout", message = ("not done after %g s"):format(seconds) }
  end
  return results_of(t)
end

--- Starts the functions as tasks. `finished` is set by each that ends, with its task.
local function start(group, fns, finished)
  for i, fn in ipairs(fns) do
    local t
    t = core.spawn(function()
      local _ <close> = setmetatable({}, {
        __close = function(_, err)
          group.left = group.left - 1
          if err ~= nil and not group.failed then group.failed = t end
          group.first = group.first or t
          finished:set()
        end,
      })
      return fn()
    end)
    group[i] = t
  end
end

--- Runs all the functions at once. The first error cancels the rest and is raised when they have ended.
---@param fns function[]
---@return table results  the first result of each, in order; `n` is their number
function task.all(fns)
  check_functions(fns, "synod.all")
  local group <close> = new_group("another one failed")
  local finished = core.event()
  group.left = #fns
  start(group, fns, finished)
  while group.left > 0 and not group.failed do
    finished:wait()
    finished:clear()
  end
  if group.failed then results_of(group.failed) end
  local results = { n = #fns }
  for i, t in ipairs(group) do
    results[i] = results_of(t)
  end
  return results
end

--- Runs all the functions at once until the first has ended; the others are cancelled and have ended when
--- this returns.
---@param fns function[]
---@return ...  the results of the first; its error is raised
function task.race(fns)
  check_functions(fns, "synod.race")
  if #fns == 0 then error("synod.race: an empty list has no first one", 2) end
  local group <close> = new_group("another one was first")
  local finished = core.event()
  group.left = #fns
  start(group, fns, finished)
  finished:wait()
  return results_of(group.first)
end

local function check_period(seconds, name)
  if type(seconds) ~= "number" or not (seconds > 0) or seconds == math.huge then
    error(("%s: a number of seconds above 0 expected, got %s"):format(name, tostring(seconds)), 3)
  end
  return math.max(1, math.floor(seconds * 1e9 + 0.5))
end

--- Calls fn each `seconds`, the first time after as many. Instants are multiples of the period from now, so
--- that nothing drifts; one that comes while fn still runs is left out.
---@param seconds number  above 0
---@param fn fun()
---@return synod.Task  cancel it to end
function task.every(seconds, fn)
  local period = check_period(seconds, "synod.every")
  if type(fn) ~= "function" then error("synod.every: a function expected, got " .. type(fn), 2) end
  local start_at = core.instant()
  return core.spawn(function()
    local turn = 0
    while true do
      turn = math.max(turn + 1, (core.instant() - start_at + period - 1) // period)
      core.sleep_until(start_at + turn * period)
      fn()
    end
  end)
end

local handlers = {} ---@type function[]

--- All at once; their errors come up when all have ended.
local function run_handlers()
  local tasks = {}
  for i, fn in ipairs(handlers) do
    tasks[i] = core.spawn(fn)
  end
  local failed
  for _, t in ipairs(tasks) do
    t:join()
    if t:failed() then failed = failed or t end
  end
  if failed then results_of(failed) end
end

--- Registers fn to run at the beginning of a controlled stop (SIGTERM, SIGINT). Handlers have 10 s; then
--- every task is cancelled, again each second, and 30 s after the signal the process ends.
---@param event "stopping"
---@param fn fun()
function task.on(event, fn)
  if event ~= "stopping" then
    error(("synod.on: there is no event %q; \"stopping\" is one"):format(tostring(event)), 2)
  end
  if type(fn) ~= "function" then error("synod.on: a function expected, got " .. type(fn), 2) end
  handlers[#handlers + 1] = fn
  core.on_stop(run_handlers)
end

return task
