-- What ties a supervisor and its instances, beside their output: the hints that pass between them, and what each holds.
--
--   local all = bonds.new(options)
--   passed = all:join(member, settings, passed)     before a process is started: what it is given
--   all:joined(member)                              after: it has it
--   all:part(member)                                when its process has been reaped
--
-- When an instance has died, what it held is given back in its name, at once, and then the others are told to look: a
-- leader that crashes is replaced without anybody waiting for its lease to end. Only a process that we have reaped is
-- treated so. What cannot be given back (the store does not answer) runs out by itself.

local board = require "synod.hints.board"
local core = require "synod.core"
local ledger = require "synod.lease.ledger"
local net = require "synod.net"

local bonds = {}

local GIVE_BACK_S = 10    -- for each entry; a lease is over after 60 s anyway
local LAST_S = 3          -- how long its commands are waited for, which their leashes kill

---@class cli.Bonds
---@field board synod.Board
---@field stores table<string, synod.Store>  by URL; "": the default one
local Bonds = {}
Bonds.__index = Bonds

---@param options table  what `synod run` was told
---@return cli.Bonds
function bonds.new(options)
  local self = setmetatable({ options = options, board = board.new(), stores = {} }, Bonds)
  self.board.on_hold = function()
    self.board.on_hold = nil
    core.spawn_apart(self.warm, self)
  end
  return self
end

--- Has the store open and its connection made before it is needed in a hurry.
function Bonds:warm()
  local store = self:store ""
  if store and store:kind() == "azure" then store:container("locks"):head { retries = 0 } end
end

--- A connection whose other end the member finds by this variable.
function Bonds.pair(_, member, variable, settings, passed)
  local socket, theirs = core.stream_pair(member.id)
  settings[variable] = socket and tostring(theirs) or false
  if not socket then return nil end
  member.theirs[#member.theirs + 1], passed[#passed + 1] = theirs, theirs
  return socket
end

--- Makes what ties this member to us; its settings say where it finds it.
---@param member table
---@param settings table<string, string|false>
---@param passed integer[]
---@return integer[] passed
function Bonds:join(member, settings, passed)
  local all = table.move(passed, 1, #passed, 1, {})
  member.ledger = core.slots_new()
  settings.SYNOD_LEDGER_FD, all[#all + 1] = tostring(member.ledger), member.ledger
  member.theirs = {}
  member.socket = self:pair(member, "SYNOD_HUB_FD", settings, all)
  member.life = self:pair(member, "SYNOD_LIFE_FD", settings, all)
  return all
end

--- The process has what it was given, or could not be started.
---@param member table
function Bonds:joined(member)
  for _, fd in ipairs(member.theirs) do core.descriptor_close(fd) end
  if not member.socket then return end
  local conn = net.of_socket(member.socket)
  member.seat = self.board:join()
  core.spawn_apart(function()
    self.board:serve(member.seat, conn)
    conn:close()
  end)
end

--- The store of an entry, opened when it is first needed.
function Bonds:store(url)
  local store = self.stores[url]
  if not (store and store:is_open()) then
    local address = url ~= "" and url or self.options.store or require("synod.store").url()
    local err
    store, err = core.open_store(address)
    if not store then return nil, err end
    self.stores[url] = store
  end
  return store
end

local function give_back(self, entry)
  local store, err = self:store(entry.url)
  if store then
    local blob = store:container(entry.container):blob(entry.name)
    local done
    done, err = require("synod.lease.estate").give_back(blob, entry, { timeout = GIVE_BACK_S })
    if done then return end
  end
  require("synod.log").warn("what a dead instance held could not be given back: it runs out by itself",
    { name = entry.container .. "/" .. entry.name, error = err })
end

--- Whether all that it ran under its leases is gone as well: the leashes keep its end of this open for so long.
local function is_over(member)
  if not member.life then return false end
  local more, err = member.life:fill(LAST_S)
  return more == nil and (err == nil or err.code ~= "Timeout")
end

--- Its process is no more: what it held is given back, and who waits for it looks. May be called again when it was cut
--- short.
---@param member table
function Bonds:part(member)
  if not member.releases then
    local entries = ledger.read(member.ledger)
    local over = #entries == 0 or is_over(member)
    member.releases = {}
    for i, entry in ipairs(over and entries or {}) do member.releases[i] = core.spawn(give_back, self, entry) end
    core.descriptor_close(member.ledger)
    if member.life then member.life:close() end
  end
  for _, release in ipairs(member.releases) do release:join() end
  if member.seat then self.board:leave(member.seat) end
  member.seat = nil
end

return bonds
