-- ledger: what this instance holds, for a supervisor that gives it back when it has seen this process die.
--
--   local line = ledger.hold { url = "", container = "locks", name = "mutex/x", kind = "service", id = id, fence = 7 }
--   line:drop()                                                     the child's side; nil where there is no supervisor
--
--   for _, entry in ipairs(ledger.read(fd)) do estate.give_back(blob_of(entry), entry) end          the supervisor's
--
-- The entries lie in memory that both have (SYNOD_LEDGER_FD), so that nothing has to be on its way when a process is
-- killed. They are as good as the leases themselves and are seen by nobody else.

local core = require "synod.core"
local percent = require "synod.percent"

local ledger = {}

local ENTRIES_MAX = 16384 -- held at once; what is beyond runs out by itself

local FIELDS = { "kind", "id", "fence", "url", "container", "name" }

---@class synod.lease.ledger.Entry
---@field kind "service"|"record"
---@field id string         the lease id; of a record ""
---@field fence integer     0: none
---@field url string        of the store, which may hold a secret; "": the instance's default store
---@field container string
---@field name string

local function encode(entry)
  local words = {}
  for i, field in ipairs(FIELDS) do
    words[i] = percent.encode(tostring(entry[field]), "[%%%s%c]")
  end
  return table.concat(words, " ")
end

local function decode(text)
  local words = {}
  for word in (text .. " "):gmatch("(%S*) ") do
    words[#words + 1] = percent.decode(word)
  end
  local entry = {}
  for i, field in ipairs(FIELDS) do entry[field] = words[i] end
  entry.fence = math.tointeger(tonumber(entry.fence))
  return #words == #FIELDS and entry.fence and entry or nil
end

local fd      -- nil: not looked for yet; false: there is no supervisor
local free, used = {}, 0

local function descriptor()
  if fd == nil then fd = math.tointeger(tonumber(os.getenv("SYNOD_LEDGER_FD"))) or false end
  return fd
end

local Line = {}
Line.__index = Line

--- It is held no longer.
function Line:drop()
  if not self.slot then return end
  core.slot_write(descriptor(), self.slot, "")
  free[#free + 1], self.slot = self.slot, nil
end

--- Notes what is held from now on. nil: nobody would read it.
---@param entry synod.lease.ledger.Entry
---@return { drop: fun(self) }|nil
function ledger.hold(entry)
  if not descriptor() then return nil end
  local text = encode(entry)
  local slot = table.remove(free)
  if not slot and used < ENTRIES_MAX then
    used = used + 1
    slot = used
  end
  if not slot or not pcall(core.slot_write, descriptor(), slot, text) then return nil end
  return setmetatable({ slot = slot }, Line)
end

--- What a process that has ended left behind.
---@param of integer  the descriptor
---@return synod.lease.ledger.Entry[]
function ledger.read(of)
  local list = {}
  for _, text in next, core.slots_read(of) do list[#list + 1] = decode(text) end
  return list
end

return ledger
