-- A real storage emulator for specs: one for the whole run of busted, in memory, on a free port.
--
--   local azurite = require "spec.support.azurite"
--   azurite.connection_string()       starts it when it does not run yet
--   azurite.fresh("flags")            a container name that nobody used
--   azurite.sdk("list", "flags")      what the official JavaScript client sees (its lines)

local server = require "spec.support.server"
local sh = require "spec.support.sh"

local azurite = {}

azurite.account = "devstoreaccount1"
-- The emulator's key is public: it is the same everywhere.
azurite.key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

local running = {} -- by its extra argument
local count = 0

local function start(extra)
  if not running[extra] then
    running[extra] = server.start("spec/support/azurite.js", table.unpack(extra == "" and {} or { extra }))
  end
  return running[extra]
end

--- A connection string for a port, and with another key when one is given.
---@param port integer
---@param key? string
---@return string
function azurite.string_for(port, key)
  return ("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=http://127.0.0.1:%d/%s;"):format(
    azurite.account, key or azurite.key, port, azurite.account)
end

---@return integer
function azurite.port()
  return start("").port
end

---@param key? string
---@return string
function azurite.connection_string(key)
  return azurite.string_for(azurite.port(), key)
end

---@param stem string
---@return string
function azurite.fresh(stem)
  count = count + 1
  return ("%s-%d"):format(stem, count)
end

--- A second server, which also speaks with clients newer than itself: the official one is.
---@return string connection_string
function azurite.lenient()
  return azurite.string_for(start("--skipApiVersionCheck").port)
end

--- Runs the official JavaScript client against the lenient server: the lines that it prints.
---@param ... string
---@return string[]
function azurite.sdk(...)
  local words = { "node", "spec/support/sdk.js" }
  for _, word in ipairs { ... } do words[#words + 1] = sh.quote(word) end
  local env = { AZURE_STORAGE_CONNECTION_STRING = azurite.lenient(), NO_PROXY = "127.0.0.1,localhost" }
  local output, code = sh.run(table.concat(words, " "), { env = env })
  assert(code == 0, output)
  local lines = {}
  for line in output:gmatch("[^\n]+") do lines[#lines + 1] = line end
  return lines
end

return azurite
