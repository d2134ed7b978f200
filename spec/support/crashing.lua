-- A store that kills its user: at its n-th request, before the store has got it or after the store has done it.
--
--   local mortal = crashing.store(store, { at = 3, after = true })   -- the third is done, and then raises CRASH
--   mortal.requests()                                                -- how many were begun

local crashing = {}

crashing.CRASH = setmetatable({}, { __tostring = function() return "a crash that the spec has asked for" end })

--- Wraps what makes requests: methods of blobs and containers.
local function wrap(inner, methods, request)
  return setmetatable({}, {
    __index = function(_, name)
      local method = inner[name]
      return function(_, ...)
        if not methods[name] then return method(inner, ...) end
        return request(method, inner, ...)
      end
    end,
  })
end

local BLOB = { put = true, get = true, head = true, delete = true }
local CONTAINER = { create = true, list = true }

---@param store synod.Store
---@param when { at: integer, after?: boolean }
---@return table store
function crashing.store(store, when)
  local count = 0
  local function request(method, ...)
    count = count + 1
    if count ~= when.at then return method(...) end
    if when.after then method(...) end
    error(crashing.CRASH, 0)
  end
  local mortal = wrap(store, {}, request)
  rawset(mortal, "requests", function() return count end)
  rawset(mortal, "container", function(_, name)
    local container = wrap(store:container(name), CONTAINER, request)
    rawset(container, "blob", function(_, blob) return wrap(store:container(name):blob(blob), BLOB, request) end)
    return container
  end)
  return mortal
end

return crashing
