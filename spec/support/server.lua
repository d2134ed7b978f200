-- A server written for node, as a child of the spec: it listens on a free port, says so, and ends with us.
--
--   local server <close> = require("spec.support.server").start("spec/support/odd_server.js")
--   server.port
--
-- The child ends when its standard input does, so that nothing is left behind however the specs end.

local sh = require "spec.support.sh"

local server = {}

local START_TIMEOUT_S = 30
local LOOK_AGAIN_S = 0.05
local ENDED = "--ended--"

---@class spec.Server
---@field port integer
---@field script string
---@field out string          the file with its output
---@field leash file*?
local server_type = {}
server_type.__index = server_type

--- Ends it. May be called twice.
function server_type:stop()
  if self.leash then
    self.leash:close()
    self.leash = nil
    os.remove(self.out)
  end
end
server_type.__close = server_type.stop
server_type.__gc = server_type.stop

--- Everything it has printed.
---@return string
function server_type:output()
  local file <close> = assert(io.open(self.out))
  return file:read("a")
end

--- Waits until its output matches one of the patterns.
---@param ... string
---@return string capture
function server_type:wait(...)
  for _ = 1, START_TIMEOUT_S / LOOK_AGAIN_S do
    local said = self:output()
    for _, pattern in ipairs { ... } do
      local found = said:match(pattern)
      if found then return found end
    end
    if said:find(ENDED, 1, true) then break end
    os.execute("sleep " .. LOOK_AGAIN_S)
  end
  local said = self:output()
  self:stop()
  error(("the server %s did not say %q: %s"):format(self.script, (...), said))
end

--- Starts a script and waits until it has printed an address or "port N".
---@param script string
---@param ... string  arguments
---@return spec.Server
function server.start(script, ...)
  local out = os.tmpname()
  local words = { "node", sh.quote(script) }
  for _, word in ipairs { ... } do words[#words + 1] = sh.quote(word) end
  local leash = assert(io.popen(("{ %s; echo %s; } >%s 2>&1"):format(table.concat(words, " "), ENDED, out), "w"))
  local self = setmetatable({ script = script, leash = leash, out = out }, server_type)
  self.port = tonumber(self:wait("listen%a+ %a%a https?://[%w.]+:(%d+)", "port (%d+)"))
  return self
end

return server
