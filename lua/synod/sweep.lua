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
local PAGE = 5000
local NAMES_MAX = 100000 -- looked at in one go: a request for each page
local DELETES_MAX = 200  -- taken away in one go

---@class synod.sweep.Group
---@field young? boolean
---@field items synod.Item[]  as many as may be taken away, none once it is young

---@class synod.sweep.Options
---@field prefix? string  of the names looked at
---@field group_of fun(name: string): string|nil  what belongs together; nil: it is left alone

---@param item synod.Item
---@return boolean
function sweep.is_ours(item)
  return item.metadata ~= nil and item.metadata.synod_v == LAYOUT
end

local function add(group, item, now)
  if now - item.last_modified <= AGE_MAX_S then
    group.young, group.items = true, {}
  elseif not group.young and #group.items < DELETES_MAX then
    table.insert(group.items, { name = item.name, etag = item.etag })
  end
end

--- The groups in the order of the list. One that the limit may have cut is left out.
---@return synod.sweep.Group[]
local function groups(container, now, o)
  local found, by_key, seen = {}, {}, 0
  local last
  for item in container:list { prefix = o.prefix, page = PAGE, metadata = true } do
    seen = seen + 1
    local key = sweep.is_ours(item) and o.group_of(item.name)
    if key then
      last = by_key[key]
      if not last then
        last = { items = {} }
        by_key[key], found[#found + 1] = last, last
      end
      add(last, item, now)
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
  for _, group in ipairs(groups(container, now, o)) do
    for _, item in ipairs(group.items) do
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
