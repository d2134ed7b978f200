-- guard: runs a function that must not outlive what it is guarded by, a lease.
--
--   local results = guard.run(scope, fn, ...)
--
-- The function is a task of its own. What it starts (tasks, connections, commands) belongs to the scope, and is gone
-- when `run` returns: what is left of it when the function has ended, or when the caller is cancelled, is cancelled,
-- again each second, and after DRAIN_S stopped the hard way. A loss is the scope's own affair: see
-- docs/reference/guards.md.

local core = require "synod.core"

local guard = {}

local CANCEL_AGAIN_S = 1
local DRAIN_S = 10 -- what was started inside has for its clean-up, in all

---@class synod.ScopeOptions
---@field soft? integer     instant (core.instant) at which LeaseLost is raised; none when absent
---@field hard? integer     instant at which nothing goes on
---@field slice? number     seconds from there until the process is ended; 0.1 when absent
---@field name? string      what is guarded, for messages
---@field blob? synod.Blob  writes on it are sent with `lease`
---@field lease? string     a lease id

---@class synod.Scope
---@field move fun(self, soft: integer, hard: integer)  new deadlines; no effect after a loss
---@field stop fun(self, err?: synod.Refusal)           the loss, at once
---@field stopped fun(self): synod.Refusal|nil         how it was lost
---@field spawn fun(self, fn: function, ...: any): synod.Task
---@field cancel fun(self, err: any, again?: boolean)
---@field idle fun(self, timeout?: number): boolean     waits until no task is left in it
---@field finish fun(self)                              the hard stop
---@field close fun(self)

--- A scope for deadlines that are found in Lua, such as those of a majority of leases.
---@param options? synod.ScopeOptions
---@return synod.Scope
function guard.scope(options)
  return core.scope(options or {})
end

--- Ends what is left. A stop that has begun is not disturbed: those inside have been told, and the hard one ends them.
--- Cancels of the caller that come meanwhile are kept for the end.
---@return any  such a cancel
local function drain(scope, err)
  local reason = type(err) == "table" and err.code == "Cancelled" and err
    or core.new_error { code = "Cancelled", message = "its guard has ended" }
  local begun = core.now()
  local told, cancelled = 0, nil
  while true do
    local now = core.now()
    if not scope:stopped() and now >= begun + told * CANCEL_AGAIN_S then
      scope:cancel(reason, told > 0)
      told = told + 1
      if now >= begun + DRAIN_S then scope:finish() end
    end
    local ok, result = pcall(scope.idle, scope, math.max(0.001, begun + told * CANCEL_AGAIN_S - now))
    if ok and result then return cancelled end
    if not ok then cancelled = result end
  end
end

local running_type = {
  __close = function(running, err)
    local scope, body = running.scope, running.body
    local cancelled
    if not scope:idle(0) then cancelled = drain(scope, err) end
    scope:close()
    if body and err ~= nil then pcall(body.join, body) end -- its error, if any, has come too late to be told
    if cancelled ~= nil and err == nil then error(cancelled, 0) end
  end,
}

--- Runs fn in the scope, which must be new, and waits until it and all that it has started have ended.
---@param scope synod.Scope
---@param fn function
---@param ... any  its arguments
---@return ...  fn's results; its error is raised, LeaseLost too
function guard.run(scope, fn, ...)
  if type(fn) ~= "function" then error("guard: a function expected, got " .. type(fn), 3) end
  local running <close> = setmetatable({ scope = scope }, running_type)
  local lost = scope:stopped()
  if lost then error(lost, 0) end
  local body = scope:spawn(fn, ...)
  running.body = body
  local results = table.pack(body:join())
  if body:failed() then error(results[2], 0) end
  return table.unpack(results, 1, results.n)
end

return guard
