-- The options that several commands take, declared once.

local common = {}

---@type cli.Option[]
common.store = {
  {
    name = "store", value = "URL", env = "SYNOD_STORE",
    meaning = "embedded:PATH, memory:, azure, https://ACCOUNT.blob.core.windows.net, or a connection string",
    default = "embedded: a file of this user's",
  },
}

---@type cli.Option[]
common.instance = {
  {
    name = "instance", value = "ID", env = "SYNOD_INSTANCE",
    meaning = "who this is, as ROLE_IN_ORDINAL (Worker_IN_2); auto: from the host name (worker-2)",
  },
  {
    name = "instances", value = "N", kind = "count", env = "SYNOD_INSTANCES",
    meaning = "how many instances the deployment has",
  },
  {
    name = "deployment", value = "ID", env = "SYNOD_DEPLOYMENT",
    meaning = "what separates the generations of barriers",
    default = "a new one for each run with -n, else none",
  },
}

---@type cli.Option[]
common.hints = {
  {
    name = "hints", value = "ADDRESS", kind = "address", env = "SYNOD_HINTS",
    meaning = "listen there, as others can reach it, to tell them when to look; port 0: any",
    default = "among the instances of one run only",
  },
}

---@type cli.Option[]
common.log = {
  {
    name = "log-format", value = "FORMAT", choices = { "text", "json" }, env = "SYNOD_LOG_FORMAT",
    meaning = "text, or json: one object a line", default = "text",
  },
  {
    name = "log-level", value = "LEVEL", choices = { "debug", "info", "warn", "error" }, env = "SYNOD_LOG_LEVEL",
    meaning = "the least that is logged", default = "info",
  },
}

---@type cli.Option[]
common.help = { { name = "help", short = "h", meaning = "print this" } }

--- One list of several.
---@param ... cli.Option[]
---@return cli.Option[]
function common.join(...)
  local all = {}
  for _, rows in ipairs({ ... }) do table.move(rows, 1, #rows, #all + 1, all) end
  return all
end

--- Makes this process the instance that the options name, and has it log as they say.
---@param parsed table
---@param called string  what an instance without a name is called by
---@return string|nil problem, cli.Instance? who
function common.become(parsed, called)
  local who, problem = require("cli.instance").of(parsed, called)
  if not who then return problem end
  local process = require "cli.process"
  process.instance, process.log_format = who.id, parsed.log_format
  require("synod.core").log_configure { format = parsed.log_format, level = parsed.log_level, instance = who.id }
  require("synod").instance = who
  return nil, who
end

return common
