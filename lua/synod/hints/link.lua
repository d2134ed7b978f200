-- link: a connection to a board (board.lua), from the side of who asks: what it says, and what it is told.
--
--   local link = link.new(address)                  -- nil: the supervisor, whose connection stays when nobody asks
--   link:watch(hint)  link:say("tell", key)         -- also before it is connected: it is sent then
--   link.live(link, connect)                        -- in a task of its own: from the connection to its end

local core = require "synod.core"

local link = {}

local LINES_MAX = 20000   -- to be sent on one connection
local LINE_MAX = 4096     -- bytes

---@class synod.hints.Link
---@field address? string
---@field handles table<string, table<synod.Hint, boolean>>  by key
---@field standing table<string, boolean>
---@field lines string[]  still to be sent
---@field up boolean
local Link = {}
Link.__index = Link

---@param address? string
---@return synod.hints.Link
function link.new(address)
  return setmetatable({
    address = address, handles = {}, standing = {}, lines = {}, more = core.event(), up = true,
  }, Link)
end

function Link:say(word, key)
  if not self.up then return end
  if #self.lines >= LINES_MAX then return self:fall() end
  self.lines[#self.lines + 1] = ("%s %s\n"):format(word, key)
  self.more:set()
end

--- It is over: whoever relied on it looks now.
function Link:fall()
  if not self.up then return end
  self.up, self.standing, self.lines = false, {}, {}
  self.more:set()
  if self.conn then self.conn:close() end
  for _, handles in next, self.handles do
    for hint in next, handles do hint.told:set() end
  end
  self.handles = {}
end

--- What was done before the other knew of us was told to nobody: who relies on several looks once more.
local function begin_to_stand(self, key)
  for hint in next, self.handles[key] or {} do
    if hint.all then hint.told:set() end
  end
end

function Link:hear(line)
  local word, key, how = line:match("^(%l+) (%S+) ?(%l*)$")
  if word == "look" then
    self.standing[key] = how == "standing" or nil
    for hint in next, self.handles[key] or {} do hint.told:set() end
  elseif word == "standing" or word == "free" then
    local before = self.standing[key]
    self.standing[key] = word == "standing" or nil
    if self.standing[key] and not before then begin_to_stand(self, key) end
  end
end

function Link:watch(hint)
  local handles = self.handles[hint.key]
  if not handles then
    handles = {}
    self.handles[hint.key] = handles
    self:say("watch", hint.key)
  end
  handles[hint] = true
end

function Link:unwatch(hint)
  local handles = self.handles[hint.key]
  if not (handles and handles[hint]) then return end
  handles[hint] = nil
  if next(handles) then return end
  self.handles[hint.key], self.standing[hint.key] = nil, nil
  self:say("unwatch", hint.key)
  if self.address and next(self.handles) == nil then self:fall() end -- nobody needs it any more
end

local function send_all(self, conn)
  while self.up do
    local lines = self.lines
    self.lines = {}
    self.more:clear()
    if #lines == 0 then
      self.more:wait()
    elseif not conn:write(table.concat(lines)) then
      return
    end
  end
end

--- A link lives in two tasks of its own, which hold nobody: it ends with the run.
---@param self synod.hints.Link
---@param connect fun(): synod.Conn|nil
---@return boolean met  there was a connection
function link.live(self, connect)
  local _ <close> = setmetatable({}, { __close = function() self:fall() end })
  local conn <close> = connect()
  if not conn then return false end
  self.conn = conn
  core.spawn_apart(send_all, self, conn)
  repeat
    local line = conn:read("line", { max = LINE_MAX })
    if line then self:hear(line) end
  until not line or not self.up
  return true
end

return link
