-- generation: what the barriers of earlier deployments left behind, and when it may go.
--
-- A flag goes when all flags of its barrier are older than 7 days by the store's clock. Its gate stays: an instance
-- of a deployment that has run for longer and is restarted raises its flag again, finds the gate open and goes on. Only
-- the deployment of one `synod run -n`, whose instances are never restarted, loses its gates too. Else gates go with
-- everything else of a deployment that is known to have ended (generation.remove). What does not say that it is ours
-- (synod_v), and bare flags, are never touched; nor is what a newer synod wrote.

local new_nonce = require "synod.nonce"
local percent = require "synod.percent"
local sweep = require "synod.sweep"

local generation = {}

local OF_ONE_RUN = "run-" -- how the id of a deployment begins that was made for one `synod run -n`
local RUN_ID_BYTES = 8

--- Which barrier of which deployment this belongs to, if it may go by its age.
local function place_of(name)
  local deployment, key = name:match("^([^/]+)/([^/]+/[^/]+)_%d+$")
  if deployment then return deployment, key end
  deployment, key = name:match("^([^/]+)/([^/]+/[^/]+)%.gate$")
  if deployment and deployment:sub(1, #OF_ONE_RUN) == OF_ONE_RUN then return deployment, key end
end

--- Takes away flags that are old, except those of the deployment `own`.
---@param container synod.Container
---@param own string   a deployment's part of the name
---@param now integer  the store's time, seconds since 1970
---@return integer removed, synod.Error? err  what stopped it
function generation.clean(container, own, now)
  return sweep.old(container, now, {
    group_of = function(name)
      local deployment, key = place_of(name)
      return deployment and deployment ~= own and deployment .. "/" .. key or nil
    end,
  })
end

--- The same in the background, where it can neither delay nor fail anything.
---@param container synod.Container
---@param own string
---@param now integer
function generation.clean_later(container, own, now)
  sweep.later("old flags", generation.clean, container, own, now)
end

--- Takes away everything of a deployment that has ended: flags and gates.
---@param container synod.Container
---@param deployment string  its id
---@return integer|nil removed, synod.Error? err
function generation.remove(container, deployment)
  local names = {}
  for item in container:list { prefix = generation.part(deployment) .. "/", metadata = true } do
    local is_named_so = item.name:find("_%d+$") or item.name:find("%.gate$")
    if is_named_so and sweep.is_ours(item) then names[#names + 1] = item.name end
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
  return OF_ONE_RUN .. new_nonce(RUN_ID_BYTES)
end

--- A deployment or role as part of a name.
---@param text string
---@return string
function generation.part(text)
  return percent.encode(text, "[%%/\\?#%c]")
end

return generation
