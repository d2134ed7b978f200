-- outage: the word that a store does not answer, from those who wait for it as long as it takes.
--
--   local silence = outage.new("cron")
--   silence:note(err, { name = "report" })      after each look: its err, or nil when the store has answered
--
-- One line when it begins and one when it is over, so that a wrong address is seen, and a long outage fills no disk.

local core = require "synod.core"
local log = require "synod.log"

local outage = {}

---@class synod.Outage
---@field who string      what waits
---@field since? number   core.now() of the first look that failed
local Outage = {}
Outage.__index = Outage

---@param who string
---@return synod.Outage
function outage.new(who)
  return setmetatable({ who = who }, Outage)
end

---@param err? synod.Error  nil: the store has answered
---@param fields? table     what the lines say besides
function Outage:note(err, fields)
  if (err ~= nil) == (self.since ~= nil) then return end
  local shown = {}
  for name, value in next, fields or {} do shown[name] = value end
  if err then
    self.since, shown.why = core.now(), tostring(err)
    log.warn(self.who .. " waits for the store until it answers", shown)
  else
    shown.after = math.floor(core.now() - self.since)
    self.since = nil
    log.info(self.who .. " goes on: the store answers again", shown)
  end
end

return outage
