-- sweep: takes away what is old in a container, in groups that belong together.
--
--   sweep.old(container, now, { prefix = "a/", group_of = function(name) return name:match("^a/[^/]+/") end })
--
-- A group goes when all of it is older than 7 days by the store's clock. What does not say that it is ours (synod_v) is
-- never touched; nor is what a newer synod wrote.

local core = require "synod.core"

local sweep = {}

local LAYOUT = "1" -- synod_v of what may be taken away
local AGE_MAX_S = 7 * 24 * 3600
local NAMES_MAX = 5000  -- looked at in one go: one request
local DELETES_MAX = 200 -- taken away in one go

---@class synod.sweep.Group
---@field newest integer  seconds since 1970
---@field items synod.Item[]

---@class synod.sweep.Options
---@field prefix? string  of the names looked at
---@field group_of fun(name: string): string|nil  what belongs together; nil: it is left alone

---@param item synod.Item
---@return boolean
function sweep.is_ours(item)
  return item.metadata ~= nil and item.metadata.synod_v == LAYOUT
end

--- The groups in the order of the list. One that the limit may have cut is left out.
---@return synod.sweep.Group[]
local function groups(container, o)
  local found, by_key, seen = {}, {}, 0
  local last
  for item in container:list { prefix = o.prefix, page = NAMES_MAX, metadata = true } do
    seen = seen + 1
    local key = sweep.is_ours(item) and o.group_of(item.name)
    if key then
      last = by_key[key]
      if not last then
        last = { newest = 0, items = {} }
        by_key[key], found[#found + 1] = last, last
      end
      last.newest = math.max(last.newest, item.last_modified)
      last.items[#last.items + 1] = item
    end
    if seen == NAMES_MAX then
      if found[#found] == last then found[#found] = nil end
      break
    end
  end
  return found
end

--- Takes away the groups that are old.
---@param container synod.Container
---@param now integer  the store's time, seconds since 1970
---@param o synod.sweep.Options
---@return integer removed, synod.Error? err  what stopped it
function sweep.old(container, now, o)
  local removed = 0
  for _, group in ipairs(groups(container, o)) do
    for _, item in ipairs(now - group.newest > AGE_MAX_S and group.items or {}) do
      if removed == DELETES_MAX then return removed end
      local gone, err = container:blob(item.name):delete { if_match = item.etag }
      if gone then
        removed = removed + 1
      elseif err.code ~= "BlobNotFound" and err.code ~= "ConditionNotMet" and err.code ~= "LeaseIdMissing" then
        return removed, err
      end
    end
  end
  return removed
end

--- Sweeps in the background, where it can neither delay nor fail anything.
---@param what string  for the log
---@param fn fun(...): integer, synod.Error?
---@param ... any      its arguments
function sweep.later(what, fn, ...)
  core.spawn(function(...)
    local ok, removed, err = pcall(fn, ...)
    if not ok then err = removed end
    if err then require("synod.log").debug(what .. " are left where they are", { why = tostring(err) }) end
  end, ...):detach()
end

return sweep
