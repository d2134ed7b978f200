-- generation: what the barriers of earlier deployments left behind, and when it may go.
--
-- A flag goes when all flags of its barrier are older than 7 days by the store's clock. Its gate stays: an instance
-- of a deployment that has run for longer and is restarted raises its flag again, finds the gate open and goes on. Only
-- the deployment of one `synod run -n`, whose instances are never restarted, loses its gates too. Else gates go with
-- everything else of a deployment that is known to have ended (generation.remove). What does not say that it is ours
-- (synod_v), and bare flags, are never touched; nor is what a newer synod wrote.

local core = require "synod.core"

local generation = {}

local LAYOUT = "1" -- synod_v of what may be taken away
local AGE_MAX_S = 7 * 24 * 3600
local NAMES_MAX = 5000   -- looked at in one go: one request
local DELETES_MAX = 200  -- flags taken away in one go
local OF_ONE_RUN = "run-" -- how the id of a deployment begins that was made for one `synod run -n`
local RUN_ID_BYTES = 8

---@class synod.generation.Group  the flags of one barrier
---@field newest integer  seconds since 1970
---@field flags synod.Item[]

local function is_ours(item)
  return item.metadata ~= nil and item.metadata.synod_v == LAYOUT
end

--- Which barrier of which deployment this belongs to, if it may go by its age.
local function place_of(name)
  local deployment, key = name:match("^([^/]+)/([^/]+/[^/]+)_%d+$")
  if deployment then return deployment, key end
  deployment, key = name:match("^([^/]+)/([^/]+/[^/]+)%.gate$")
  if deployment and deployment:sub(1, #OF_ONE_RUN) == OF_ONE_RUN then return deployment, key end
end

--- The flags by barrier, in the order of the list. A group that the limit may have cut is left out.
---@return synod.generation.Group[]
local function groups(container, own)
  local found, by_key, seen = {}, {}, 0
  local last
  for item in container:list { page = NAMES_MAX, metadata = true } do
    seen = seen + 1
    local deployment, key = place_of(item.name)
    if deployment and deployment ~= own and is_ours(item) then
      key = deployment .. "/" .. key
      last = by_key[key]
      if not last then
        last = { newest = 0, flags = {} }
        by_key[key], found[#found + 1] = last, last
      end
      last.newest = math.max(last.newest, item.last_modified)
      last.flags[#last.flags + 1] = item
    end
    if seen == NAMES_MAX then
      if found[#found] == last then found[#found] = nil end
      break
    end
  end
  return found
end

--- Takes away flags that are old, except those of the deployment `own`.
---@param container synod.Container
---@param own string   a deployment's part of the name
---@param now integer  the store's time, seconds since 1970
---@return integer removed, synod.Error? err  what stopped it
function generation.clean(container, own, now)
  local removed = 0
  for _, group in ipairs(groups(container, own)) do
    if now - group.newest > AGE_MAX_S then
      for _, flag in ipairs(group.flags) do
        if removed == DELETES_MAX then return removed end
        local gone, err = container:blob(flag.name):delete { if_match = flag.etag }
        if gone then
          removed = removed + 1
        elseif err.code ~= "BlobNotFound" and err.code ~= "ConditionNotMet" then
          return removed, err
        end
      end
    end
  end
  return removed
end

--- The same in the background, where it can neither delay nor fail anything.
---@param container synod.Container
---@param own string
---@param now integer
function generation.clean_later(container, own, now)
  core.spawn(function()
    local ok, removed, err = pcall(generation.clean, container, own, now)
    if not ok then err = removed end
    if err then require("synod.log").debug("old flags are left where they are", { why = tostring(err) }) end
  end):detach()
end

--- Takes away everything of a deployment that has ended: flags and gates.
---@param container synod.Container
---@param deployment string  its id
---@return integer|nil removed, synod.Error? err
function generation.remove(container, deployment)
  local names = {}
  for item in container:list { prefix = generation.part(deployment) .. "/", metadata = true } do
    local is_named_so = item.name:find("_%d+$") or item.name:find("%.gate$")
    if is_named_so and is_ours(item) then names[#names + 1] = item.name end
  end
  for _, name in ipairs(names) do
    local gone, err = container:blob(name):delete()
    if not gone and err.code ~= "BlobNotFound" then return nil, err end
  end
  return #names
end

--- The id of a deployment that lives for one run.
---@return string
function generation.new_of_one_run()
  return OF_ONE_RUN .. core.random_bytes(RUN_ID_BYTES):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
end

--- A deployment or role as part of a name.
---@param text string
---@return string
function generation.part(text)
  return (text:gsub("[%%/\\?#%c]", function(c) return ("%%%02X"):format(c:byte()) end))
end

return generation
