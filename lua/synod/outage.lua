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
---@field who string       what waits
---@field patience number  seconds that it says nothing
---@field since? number    core.now() of the first look that failed
---@field told? boolean
local Outage = {}
Outage.__index = Outage

---@param who string
---@param patience? number  seconds from the first look that fails until it is told (0)
---@return synod.Outage
function outage.new(who, patience)
  return setmetatable({ who = who, patience = patience or 0 }, Outage)
end

local function with(fields, name, value)
  local shown = { [name] = value }
  for each, what in next, fields or {} do shown[each] = what end
  return shown
end

---@param err? synod.Error  nil: the store has answered
---@param fields? table     what the lines say besides
function Outage:note(err, fields)
  if not err then
    local since = self.told and self.since
    self.since, self.told = nil, nil
    if since then
      log.info(self.who .. " goes on: the store answers again", with(fields, "after", math.floor(core.now() - since)))
    end
    return
  end
  self.since = self.since or core.now()
  if self.told or core.now() - self.since < self.patience then return end
  self.told = true
  log.warn(self.who .. " waits for the store until it answers", with(fields, "why", tostring(err)))
end

return outage
