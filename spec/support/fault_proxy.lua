-- A line between the specs and the storage emulator that does harm to the requests it is told of.
--
--   local proxy <close> = require("spec.support.fault_proxy").start()
--   local store = core.open_store(proxy:connection_string())
--   proxy:plan("flags-7/", 2, "reset-answer")      the second request with this in its path, from now on
--   proxy:passed "flags-7/"                        what came, in order: { request = "PUT /...", fault = "none" }
--
-- The faults are those of fault_proxy.js: "drop-request" and "reset" lose a request, "late" brings it after its
-- repetition; "drop-answer", "reset-answer", "cut-head", "truncate", "reset-body", "garbage", "garbage-body" spoil the
-- answer of one that was carried out, "delay" and "garbage-behind" give it; "busy", "busy-long", "many" and "portal"
-- carry nothing out, "error-after" does. Plans are made inside core.main, like calls on stores.

local azurite = require "spec.support.azurite"
local cjson = require "cjson"
local core = require "synod.core"
local servers = require "spec.support.server"

local fault_proxy = {}

local SETTLE_S = 10
local LOOK_AGAIN_S = 0.05

---@class spec.FaultProxy
---@field server spec.Server
---@field ports { Blob: integer, Queue: integer, Table: integer }
local proxy = {}
proxy.__index = proxy

--- Starts it, and the emulator when it does not run yet.
---@return spec.FaultProxy
function fault_proxy.start()
  local services = { "Blob", "Queue", "Table" }
  local targets, ports, count = {}, {}, 0
  for i, service in ipairs(services) do targets[i] = tostring(azurite.port(service)) end
  local server = servers.start("spec/support/fault_proxy.js", table.unpack(targets))
  for port in server:wait("port ([%d ]+)\n"):gmatch "%d+" do
    count = count + 1
    ports[services[count]] = tonumber(port)
  end
  return setmetatable({ server = server, ports = ports }, proxy)
end

---@return string
function proxy:connection_string()
  return azurite.string_for(self.ports)
end

local function ask(self, what, part, more)
  local url = ("http://127.0.0.1:%d/-/%s?part=%s%s"):format(self.ports.Blob, what, part, more or "")
  local status, _, body = core.http { url = url }
  assert(status == 200, ("the proxy refuses %s: %s"):format(url, tostring(body)))
  return cjson.decode(body)
end

--- Counts, from now on, the requests with this part in their path; the one of that number meets the fault.
---@param part string
---@param number integer
---@param fault string
---@param ever? boolean  all after it too
function proxy:plan(part, number, fault, ever)
  ask(self, "plan", part, ("&from=%d&fault=%s%s"):format(number, fault, ever and "&ever" or ""))
end

--- What came, once all of it is done with.
---@param part string
---@return { request: string, fault: string }[]
function proxy:passed(part)
  local finish = core.now() + SETTLE_S
  repeat
    local plan = ask(self, "passed", part)
    if plan.pending == 0 then return plan.passed end
    core.sleep(LOOK_AGAIN_S)
  until core.now() > finish
  error("requests of " .. part .. " are still under way")
end

--- Ends a plan.
---@param part string
function proxy:forget(part)
  ask(self, "forget", part)
end

--- Ends it. May be called twice.
function proxy:stop()
  self.server:stop()
end
proxy.__close = proxy.stop

return fault_proxy
