-- Who this process is: made from --instance, --instances and --deployment.

local instance = {}

---@class cli.Instance
---@field id string
---@field role? string
---@field ordinal? integer
---@field count? integer
---@field deployment? string

--- A StatefulSet's pod, a templated unit: worker-2, worker-2.workers.default.svc
local function from_host_name(host)
  local role, ordinal = host:match("^([^.]+)%-(%d+)%f[^%d]")
  if not role or #host:match("^[^.]+") ~= #role + 1 + #ordinal then
    return nil, ("--instance auto: the host name '%s' does not end in -ORDINAL (as in worker-2); "
      .. "name the instance yourself with --instance ROLE_IN_ORDINAL"):format(host)
  end
  return { id = ("%s_IN_%s"):format(role, ordinal), role = role, ordinal = math.tointeger(tonumber(ordinal)) }
end

local function named(id)
  local role, ordinal = id:match("^(.+)_IN_(%d+)$")
  if role then return { id = id, role = role, ordinal = math.tointeger(tonumber(ordinal)) } end
  if id:find("[%c/\\#?]") or #id > 255 then
    return nil, ("--instance: '%s' cannot be an instance's name; give one such as Worker_IN_2"):format(id)
  end
  return { id = id }
end

--- The name of a role whose script this is: barrier for dir/barrier.lua.
---@param script string
---@return string
function instance.role_of(script)
  local name = script:match("([^/]+)$"):gsub("%.lua$", "")
  return (name:gsub("[%c/\\#?]", "_"))
end

--- What the options say, or for nobody in particular a name that tells who it is in a log.
---@param parsed table
---@param script string
---@return cli.Instance|nil, string? problem
function instance.of(parsed, script)
  local core = require "synod.core"
  local who, problem
  if parsed.instance == "auto" then
    who, problem = from_host_name(core.host_name())
  elseif parsed.instance then
    who, problem = named(parsed.instance)
  else
    who = { id = ("%s@%s.%d"):format(instance.role_of(script), core.host_name(), core.process_id()) }
  end
  if not who then return nil, problem end
  who.count, who.deployment = parsed.instances, parsed.deployment
  if who.count and who.ordinal and who.ordinal >= who.count then
    return nil, ("--instance %s: the ordinal must be below --instances %d (ordinals start at 0)")
      :format(who.id, who.count)
  end
  return who
end

return instance
