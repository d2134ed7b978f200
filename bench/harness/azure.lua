-- azure.lua: services on the loopback that stand for the cloud's.

local process = require "harness.process"

local azure = {}

-- The emulator's account and key are the same everywhere, and public.
local ACCOUNT = "devstoreaccount1"
local KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

--- What a client is told to find the service at this port.
---@param port string|integer
---@return string
function azure.connection_string(port)
  return ("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=http://127.0.0.1:%s/%s")
    :format(ACCOUNT, KEY, port, ACCOUNT)
end

--- The stub that answers without thinking; its first line is the port.
---@return bench.Server
function azure.stub()
  return process.serve { "build/bench/stub" }
end

--- The storage emulator, in memory; its first line is the port.
---@return bench.Server
function azure.emulator()
  return process.serve({
    "node", "node_modules/azurite/dist/src/blob/main.js", "--blobPort", "0", "--inMemoryPersistence",
    "--disableTelemetry", "--silent", "--skipApiVersionCheck",
  }, "http://127%.0%.0%.1:(%d+)")
end

return azure
