-- A real storage emulator for specs: one for the whole run of busted, in memory, on a free port.
--
--   local azurite = require "spec.support.azurite"
--   azurite.connection_string()       starts it when it does not run yet
--   azurite.fresh("flags")            a container or queue name that nobody used
--   azurite.fresh("flags", "")        a table name
--   azurite.sdk("list", "flags")      what the official JavaScript client sees (its lines)
--   azurite.tick()                    a later millisecond than any before: the order of its messages is told by it
--   azurite.ticker()                  such a function of one's own, where several go on at once

local core = require "synod.core"
local server = require "spec.support.server"
local sh = require "spec.support.sh"

local azurite = {}

azurite.account = "devstoreaccount1"
-- The emulator's key is public: it is the same everywhere.
azurite.key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

local STEP_BACK_S = 5    -- how far the machine's clock may have been set back
local LOOK_AGAIN_S = 0.0005

local running = {} -- by its extra argument
local count = 0

local function start(extra)
  if not running[extra] then
    local started = server.start("spec/support/azurite.js", table.unpack(extra == "" and {} or { extra }))
    local ports = {}
    for _, service in ipairs { "Blob", "Queue", "Table" } do
      ports[service] = tonumber(started:wait(service .. " service is successfully listening at http://[%w.]+:(%d+)"))
    end
    running[extra] = { server = started, ports = ports }
  end
  return running[extra]
end

--- A connection string for ports, and with another key when one is given.
---@param ports integer|{ Blob: integer, Queue: integer?, Table: integer? }  one port: the same for all services
---@param key? string
---@return string
function azurite.string_for(ports, key)
  local words = { "DefaultEndpointsProtocol=http", "AccountName=" .. azurite.account,
    "AccountKey=" .. (key or azurite.key) }
  for _, service in ipairs { "Blob", "Queue", "Table" } do
    local port = type(ports) == "table" and ports[service] or ports
    words[#words + 1] = ("%sEndpoint=http://127.0.0.1:%d/%s"):format(service, port, azurite.account)
  end
  return table.concat(words, ";") .. ";"
end

--- The port of a service: "Blob" (when nothing is said), "Queue" or "Table".
---@param service? string
---@return integer
function azurite.port(service)
  return start("").ports[service or "Blob"]
end

---@param key? string
---@return string
function azurite.connection_string(key)
  return azurite.string_for(start("").ports, key)
end

---@param stem string
---@param separator? string  "-" when absent; tables take none
---@return string
function azurite.fresh(stem, separator)
  count = count + 1
  return ("%s%s%d"):format(stem, separator or "-", count)
end

--- Gives a function that waits until the wall clock, which the emulator shares, shows a later millisecond than when it
--- was last called. Messages that show from one millisecond on come in any order, and a clock that is set back puts the
--- later one first: with a tick before and after each call on a queue neither happens.
---@return fun()
function azurite.ticker()
  local last_ms = 0
  return function()
    local finish = core.now() + STEP_BACK_S
    while core.time() * 1000 // 1 <= last_ms do
      assert(core.now() < finish, ("the wall clock has been set back by more than %d s"):format(STEP_BACK_S))
      core.sleep(LOOK_AGAIN_S)
    end
    last_ms = core.time() * 1000 // 1
  end
end

azurite.tick = azurite.ticker()

local function ticked(...)
  azurite.tick()
  return ...
end

--- Until it is closed, each call on a queue or a message is made between two ticks.
---@param queue synod.Queue  an empty one
---@return table closable
function azurite.apart(queue)
  local kept = {}
  for _, object in ipairs { queue, (assert(queue:put "")) } do
    local methods = getmetatable(object).__index
    kept[methods] = {}
    for name, method in pairs(methods) do
      kept[methods][name] = method
      methods[name] = function(...)
        azurite.tick()
        return ticked(method(...))
      end
    end
  end
  assert(queue:clear())
  return setmetatable({}, { __close = function()
    for methods, originals in pairs(kept) do
      for name, method in pairs(originals) do methods[name] = method end
    end
  end })
end

--- A second server, which also speaks with clients newer than itself: the official one is.
---@return string connection_string
function azurite.lenient()
  return azurite.string_for(start("--skipApiVersionCheck").ports)
end

local function run_client(script, ...)
  local words = { "node", script }
  for _, word in ipairs { ... } do words[#words + 1] = sh.quote(word) end
  local env = { AZURE_STORAGE_CONNECTION_STRING = azurite.lenient(), NO_PROXY = "127.0.0.1,localhost" }
  local output, code = sh.run(table.concat(words, " "), { env = env })
  assert(code == 0, output)
  local lines = {}
  for line in output:gmatch("[^\n]+") do lines[#lines + 1] = line end
  return lines
end

--- Runs the official JavaScript client against the lenient server: the lines that it prints.
---@param ... string
---@return string[]
function azurite.sdk(...)
  return run_client("spec/support/sdk.js", ...)
end

--- The same with the client of tables.
---@param ... string
---@return string[]
function azurite.sdk_tables(...)
  return run_client("spec/support/sdk_tables.js", ...)
end

--- The same for queues.
---@param ... string
---@return string[]
function azurite.sdk_queues(...)
  return run_client("spec/support/sdk_queues.js", ...)
end

return azurite
