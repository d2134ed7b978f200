-- `require` for scripts: like Lua's, and what a module does while it is loaded may wait.
--
-- Lua's own `require` calls the module from C, where nothing can wait. A module that is being loaded is loaded once:
-- another task that requires it waits for it. One that requires itself, directly or through others, is refused.

local loader = {}

---@class synod.Loading   a load under way
---@field owner any       who runs it: a task
---@field done? table     an event, once another task waits

local function search(name, searchers, level)
  local tried = {}
  for _, searcher in ipairs(searchers) do
    local load, from = searcher(name)
    if type(load) == "function" then return load, from end
    if type(load) == "string" then tried[#tried + 1] = load:gsub("^\n\t", "") end
  end
  error(("module '%s' not found:\n\t%s"):format(name, table.concat(tried, "\n\t")), level + 1)
end

--- Who waits for whom, from `name` on, when that leads back to this task.
local function cycle(loading, waits, name, me)
  local chain = { name }
  local at = loading[name]
  while at and at.owner ~= me do
    local next_name = waits[at.owner]
    if not next_name then return nil end
    chain[#chain + 1] = next_name
    at = loading[next_name]
  end
  if not at then return nil end
  return #chain == 1 and "" or " (" .. table.concat(chain, " -> ") .. ")"
end

--- Makes a `require` over these parts of the package library.
---@param package table        searchers and loaded
---@param new_event fun(): table  synod.event
---@param running fun(): any  what tells one task from another
---@return fun(name: string): any, any
function loader.new(package, new_event, running)
  local loaded = package.loaded
  local loading = {} ---@type table<string, synod.Loading>
  local waits = {} ---@type table<any, string>  what a task waits for, while it does

  local function wait_for(name, me)
    local chain = cycle(loading, waits, name, me)
    if chain then error(("module '%s' requires itself while it is being loaded%s"):format(name, chain), 3) end
    local other = loading[name]
    other.done = other.done or new_event()
    waits[me] = name
    local _ <close> = setmetatable({}, { __close = function() waits[me] = nil end })
    other.done:wait()
  end

  local function run(name, me)
    local load, from = search(name, package.searchers, 3)
    local mine = { owner = me }
    loading[name] = mine
    -- Also when the load fails or is cancelled: who waits then loads it anew, and meets the error itself.
    local _ <close> = setmetatable({}, {
      __close = function()
        loading[name] = nil
        if mine.done then mine.done:set(true) end
      end,
    })
    local value = load(name, from)
    if value ~= nil then loaded[name] = value end
    if loaded[name] == nil then loaded[name] = true end
    return loaded[name], from
  end

  return function(name)
    if type(name) ~= "string" then error("require: the name of a module expected, got " .. type(name), 2) end
    local me = running()
    while loaded[name] == nil do
      if not loading[name] then
        local value, from = run(name, me) -- no tail call: errors name the caller's line
        return value, from
      end
      wait_for(name, me)
    end
    return loaded[name]
  end
end

return loader
