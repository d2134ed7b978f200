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

local board = require "synod.board"
local core = require "synod.core"
local ledger = require "synod.ledger"
local net = require "synod.net"

local bonds = {}

local GIVE_BACK_S = 10    -- for each entry; a lease is over after 60 s anyway

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

--- Makes what ties this member to us; its settings say where it finds it.
---@param member table
---@param settings table<string, string|false>
---@param passed integer[]
---@return integer[] passed
function Bonds.join(_, member, settings, passed)
  local all = table.move(passed, 1, #passed, 1, {})
  member.ledger = core.slots_new()
  settings.SYNOD_LEDGER_FD, all[#all + 1] = tostring(member.ledger), member.ledger
  local socket, theirs = core.stream_pair(member.id)
  if socket then
    member.socket, member.theirs = socket, theirs
    settings.SYNOD_HUB_FD, all[#all + 1] = tostring(theirs), theirs
  else
    settings.SYNOD_HUB_FD = false
  end
  return all
end

--- The process has what it was given, or could not be started.
---@param member table
function Bonds:joined(member)
  if not member.socket then return end
  core.descriptor_close(member.theirs)
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
    done, err = require("synod.lease").give_back(blob, entry, { timeout = GIVE_BACK_S })
    if done then return end
  end
  require("synod.log").warn("what a dead instance held could not be given back: it runs out by itself",
    { name = entry.container .. "/" .. entry.name, error = err })
end

--- Its process is no more: what it held is given back, and who waits for it looks. May be called again when it was cut
--- short.
---@param member table
function Bonds:part(member)
  if not member.releases then
    member.releases = {}
    for i, entry in ipairs(ledger.read(member.ledger)) do
      member.releases[i] = core.spawn(give_back, self, entry)
    end
    core.descriptor_close(member.ledger)
  end
  for _, release in ipairs(member.releases) do release:join() end
  if member.seat then self.board:leave(member.seat) end
  member.seat = nil
end

return bonds
