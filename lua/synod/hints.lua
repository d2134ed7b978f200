-- hints: instances tell each other when to look at a store that cannot tell of changes.
--
--   local hint = hints.on(store, "locks/election/boss")       the one who waits
--   hint:toward(address_of_the_holder)                        as its metadata say (synod_hints), or nil
--   hint:wait(hint:standing() and 30 or 1)                    true: look now
--
--   local holding <close> = hints.holding(store, "locks/election/boss")     the one who holds; closed: it resigned
--   hints.tell(store, "queues/tasks")                                       something was put there
--
-- Where they meet: under `synod run -n` at the supervisor, by a socket that each instance has from it; across machines
-- at the holder itself, which listens (--hints ADDRESS) and says where in the metadata of what it holds. While a hint
-- stands, the end of the holding will be told, and the store need be looked at only now and then; when the connection
-- ends the hint no longer stands, and it is time to look. A hint is never trusted: it moves the next look, no more.
--
-- docs/reference/hints.md is the manual, board.lua the other side.

local core = require "synod.core"
local generation = require "synod.generation"

local hints = {}

local TRY_AGAIN_S = 10    -- an address that could not be reached is not tried again for so long
local CONNECT_S = 3
local LINES_MAX = 20000   -- to be sent on one connection
local LINE_MAX = 4096     -- bytes
local LINKS_MAX = 64      -- connections to holders

local address   -- where this instance listens: as the command line says
local state     -- of the run that is going on: links, own board

--- What is the same for every instance that means this place in this store.
local function key_of(store, name)
  return (generation.part(store:name() .. "/" .. name):gsub("%s", "+"))
end

---------------------------------------------------------------- a connection, from the side of who asks

---@class synod.hints.Link
---@field handles table<string, table<synod.Hint, boolean>>  by key
---@field standing table<string, boolean>
---@field lines string[]  still to be sent
---@field up boolean
local Link = {}
Link.__index = Link

local function new_link()
  return setmetatable({ handles = {}, standing = {}, lines = {}, more = core.event(), up = true }, Link)
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

function Link:hear(line)
  local word, key, how = line:match("^(%l+) (%S+) ?(%l*)$")
  if word == "look" then
    self.standing[key] = how == "standing" or nil
    for hint in next, self.handles[key] or {} do hint.told:set() end
  elseif word == "standing" or word == "free" then
    self.standing[key] = word == "standing" or nil
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

local function send_all(link, conn)
  while link.up do
    local lines = link.lines
    link.lines = {}
    link.more:clear()
    if #lines == 0 then
      link.more:wait()
    elseif not conn:write(table.concat(lines)) then
      return
    end
  end
end

--- A link lives in two tasks of its own, which hold nobody: it ends with the run.
local function live(link, connect)
  local _ <close> = setmetatable({}, { __close = function() link:fall() end })
  local conn <close> = connect()
  if not conn then
    state.tried[link.address] = core.now()
    return
  end
  link.conn = conn
  core.spawn_apart(send_all, link, conn)
  repeat
    local line = conn:read("line", { max = LINE_MAX })
    if line then link:hear(line) end
  until not line or not link.up
end

---------------------------------------------------------------- this run's

local function fresh()
  return { run = core.run_number(), links = {}, count = 0, tried = {} }
end

--- What the supervisor gave us: a socket, once for the whole process.
local function connect_to_supervisor()
  local fd = math.tointeger(tonumber(os.getenv("SYNOD_HUB_FD")))
  local socket = fd and core.stream_adopt(fd, "the supervisor")
  return socket and require("synod.net").of_socket(socket)
end

local function begin()
  state = fresh()
  if os.getenv("SYNOD_HUB_FD") then
    state.hub = new_link()
    core.spawn_apart(live, state.hub, connect_to_supervisor)
  end
  return state
end

local function current()
  return state and state.run == core.run_number() and state or begin()
end

local function serve(run, conn)
  local member = run.board:join()
  local _ <close> = setmetatable({}, { __close = function() run.board:leave(member) end })
  run.board:serve(member, conn)
end

--- Listens, once there is something to tell.
local function open(run)
  if run.board or not address then return end
  run.board = require("synod.board").new()
  run.own = run.board:join()
  local listener, err = require("synod.net").listen_apart(address, function(conn) serve(run, conn) end)
  if not listener then
    require("synod.log").warn("others will not be told by this instance when to look",
      { address = address, error = err })
    return
  end
  run.listener = listener
  local host, port = address:match("^(.*):(%d+)$")
  if host == "" or host == "0.0.0.0" or host == "[::]" then host = core.host_name() end
  run.told_address = ("%s:%s"):format(host, port == "0" and listener.address:match(":(%d+)$") or port)
end

--- The command line's --hints.
---@param where string|nil  "host:port" at which this instance listens, as others can reach it
function hints.configure(where)
  address = where
end

--- Where this instance can be asked, for the metadata of what it holds; nil: nowhere.
---@return string|nil
function hints.address()
  if not address then return nil end
  local run = current()
  open(run)
  return run.told_address
end

---------------------------------------------------------------- who waits

---@class synod.Hint
---@field key string
---@field told synod.Event
local Hint = {}
Hint.__index = Hint
Hint.__close = function(self) self:close() end

--- A handle for a place: what is done there will be told, as far as there is anybody to tell.
---@param store synod.Store
---@param name string  container and blob, or what else names the place
---@return synod.Hint
function hints.on(store, name)
  local hint = setmetatable({ key = key_of(store, name), told = core.event() }, Hint)
  local run = current()
  if run.hub then run.hub:watch(hint) end
  return hint
end

--- The holder can be asked there, as the metadata say; nil: nobody knows.
---@param where string|nil
function Hint:toward(where)
  if self.link and self.link.up and self.link.address == where then return end
  if self.link then self.link:unwatch(self) end
  self.link = nil
  local run = current()
  if not where or where == run.told_address then return end
  local link = run.links[where]
  if not (link and link.up) then
    local tried = run.tried[where]
    if tried and core.now() - tried < TRY_AGAIN_S or run.count >= LINKS_MAX then return end
    link = new_link()
    link.address, run.links[where], run.count = where, link, run.count + 1
    core.spawn_apart(function()
      local _ <close> = setmetatable({}, { __close = function()
        run.count = run.count - 1
        if run.links[where] == link then run.links[where] = nil end
      end })
      live(link, function() return require("synod.net").connect(where, { timeout = CONNECT_S }) end)
    end)
  end
  self.link = link
  link:watch(self)
end

--- Whether the end of the holding will be told.
---@return boolean
function Hint:standing()
  local hub = current().hub
  return hub ~= nil and hub.standing[self.key] == true or self.link ~= nil and self.link.standing[self.key] == true
end

--- Waits until it is told to look, or the time is over. What was told since the last wait counts.
---@param seconds number
---@return boolean told
function Hint:wait(seconds)
  local told = self.told:wait(seconds) ~= nil
  self.told:clear()
  return told
end

function Hint:close()
  local hub = current().hub
  if hub then hub:unwatch(self) end
  if self.link then self.link:unwatch(self) end
  self.link = nil
end

---------------------------------------------------------------- who holds

local Holding = {}
Holding.__index = Holding

function Holding:close()
  if self.closed then return end
  self.closed = true
  local run = current()
  if run.hub then run.hub:say("drop", self.key) end
  if run.board then run.board:hear(run.own, "drop " .. self.key) end
end

Holding.__close = Holding.close

--- Says that this instance holds what the name means, until it is closed or the process ends.
---@param store synod.Store
---@param name string
---@return { close: fun(self) }
function hints.holding(store, name)
  local holding = setmetatable({ key = key_of(store, name) }, Holding)
  local run = current()
  if run.hub then run.hub:say("hold", holding.key) end
  open(run)
  if run.board then run.board:hear(run.own, "hold " .. holding.key) end
  return holding
end

--- Something has happened there: whoever watches it looks now.
---@param store synod.Store
---@param name string
function hints.tell(store, name)
  local run, key = current(), key_of(store, name)
  if run.hub then run.hub:say("tell", key) end
  if run.board then run.board:hear(run.own, "tell " .. key) end
end

return hints
