-- board: who watches which key and who holds it, among those who are connected to one place.
--
-- The place is the supervisor of `synod run -n`, whose instances are its members, or an instance that listens for
-- others (--hints ADDRESS). What a member says, and is told, is one line:
--
--   watch KEY, unwatch KEY     from now on it is told of KEY; it is told at once how it stands
--   hold KEY, drop KEY         it has the lease that KEY names; it has no longer
--   tell KEY                   something has happened there: the others should look
--
--   standing KEY, free KEY     somebody here holds it; nobody does
--   look KEY standing|free     look now
--
-- Nothing said here is trusted by anyone: it only moves the moment of the next look at the store. A member that does
-- not read keeps nobody waiting: what it has still to be told is kept by key, the last state and whether to look.

local core = require "synod.core"

local board = {}

local KEYS_MAX = 10000   -- watched or held by one member
local KEY_MAX = 2048     -- bytes
local LINE_MAX = KEY_MAX + 64

---@class synod.Board.Member
---@field watching table<string, boolean>
---@field holding table<string, boolean>
---@field pending table<string, boolean>  what it has still to be told: true: to look
---@field wake synod.Event
---@field keys integer

---@class synod.Board
---@field watchers table<string, table<synod.Board.Member, boolean>>
---@field holders table<string, integer>  how many members hold it: two while one takes over from the other
---@field on_hold? fun()  called when somebody begins to hold something
local Board = {}
Board.__index = Board

---@return synod.Board
function board.new()
  return setmetatable({ watchers = {}, holders = {} }, Board)
end

---@return synod.Board.Member
function Board.join()
  return { watching = {}, holding = {}, pending = {}, wake = core.event(), keys = 0 }
end

local function inform(member, key, look)
  member.pending[key] = member.pending[key] or look
  member.wake:set()
end

local function inform_all(self, key, look, except)
  for member in next, self.watchers[key] or {} do
    if member ~= except then inform(member, key, look) end
  end
end

local function add(member, set, key)
  if set[key] or member.keys >= KEYS_MAX then return false end
  set[key], member.keys = true, member.keys + 1
  return true
end

local function remove(member, set, key)
  if not set[key] then return false end
  set[key], member.keys = nil, member.keys - 1
  return true
end

local said = {} -- by the first word of a line

function said.watch(self, member, key)
  if not add(member, member.watching, key) then return end
  self.watchers[key] = self.watchers[key] or {}
  self.watchers[key][member] = true
  inform(member, key, false)
end

function said.unwatch(self, member, key)
  if not remove(member, member.watching, key) then return end
  self.watchers[key][member] = nil
  if next(self.watchers[key]) == nil then self.watchers[key] = nil end
  member.pending[key] = nil
end

function said.hold(self, member, key)
  if not add(member, member.holding, key) then return end
  self.holders[key] = (self.holders[key] or 0) + 1
  if self.on_hold then self.on_hold() end
  inform_all(self, key, false)
end

function said.drop(self, member, key)
  if not remove(member, member.holding, key) then return end
  local left = self.holders[key] - 1
  self.holders[key] = left > 0 and left or nil
  inform_all(self, key, true, member)
end

function said.tell(self, member, key)
  inform_all(self, key, true, member)
end

--- What a member says. A line that is not understood is passed over: it may be a newer version's.
---@param member synod.Board.Member
---@param line string
function Board:hear(member, line)
  local word, key = line:match("^(%l+) (%S+)$")
  if key and #key <= KEY_MAX and said[word] then said[word](self, member, key) end
end

---@param key string
---@return boolean
function Board:stands(key)
  return self.holders[key] ~= nil
end

--- The member has gone: what it held may be had.
---@param member synod.Board.Member
function Board:leave(member)
  for key in next, member.watching do
    self.watchers[key][member] = nil
    if next(self.watchers[key]) == nil then self.watchers[key] = nil end
  end
  member.watching, member.pending = {}, {}
  local held = member.holding
  for key in next, held do said.drop(self, member, key) end
end

--- Takes what a member has still to be told: a list of lines, which may be empty.
---@param member synod.Board.Member
---@return string[]
function Board:take(member)
  local lines = {}
  local pending = member.pending
  member.pending = {}
  member.wake:clear()
  for key, look in next, pending do
    local state = self.holders[key] and "standing" or "free"
    lines[#lines + 1] = look and ("look %s %s\n"):format(key, state) or ("%s %s\n"):format(state, key)
  end
  return lines
end

local function deliver(self, member, conn)
  while not member.gone do
    member.wake:wait()
    local lines = self:take(member)
    if #lines > 0 and not conn:write(table.concat(lines)) then return end
  end
end

--- Serves a connection to its end, in this task. The member is still on the board then: the caller has it leave, at
--- the moment when what it held can be had.
---@param member synod.Board.Member
---@param conn synod.Conn
function Board:serve(member, conn)
  local sender = core.spawn(deliver, self, member, conn):detach()
  local _ <close> = setmetatable({}, { __close = function()
    member.gone = true
    member.wake:set()
    sender:cancel()
  end })
  repeat
    local line = conn:read("line", { max = LINE_MAX })
    if line then self:hear(member, line) end
  until not line
end

return board
