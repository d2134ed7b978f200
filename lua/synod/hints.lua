-- hints: instances tell each other when to look at a store that cannot tell of changes.
--
--   local hint = hints.on(store, "locks/election/boss")       the one who waits
--   hint:toward(address_of_the_holder)                        as its metadata say (synod_hints), or nil
--   hint:toward { address, address }                          or those of several, all of whom are to be heard
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
-- docs/reference/hints.md is the manual; link.lua is a connection from the side of who asks, board.lua the other side,
-- bell.lua how those who push to a queue are found.

local core = require "synod.core"
local generation = require "synod.generation"
local links = require "synod.hints.link"

local hints = {}

local TRY_AGAIN_S = 10    -- an address that could not be reached is not tried again for so long
local CONNECT_S = 3
local LINKS_MAX = 64      -- connections to holders
local DESCRIPTORS = 2048  -- more than a listener has connections: they leave the store's calls theirs

local address   -- where this instance listens: as the command line says
local state     -- of the run that is going on: links, own board

--- What is the same for every instance that means this place in this store.
local function key_of(store, name)
  return (generation.part(store:name() .. "/" .. name):gsub("%s", "+"))
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
    state.hub = links.new()
    core.spawn_apart(links.live, state.hub, connect_to_supervisor)
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
  run.board = require("synod.hints.board").new()
  run.own = run.board:join()
  local listener, err = require("synod.net").listen_apart(address, function(conn) serve(run, conn) end)
  if not listener then
    require("synod.log").warn("others will not be told by this instance when to look",
      { address = address, error = err })
    return
  end
  core.process_descriptors(DESCRIPTORS)
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
---@field links table<string, synod.hints.Link>  by address
---@field all? string[]  the addresses that are all to be heard
local Hint = {}
Hint.__index = Hint
Hint.__close = function(self) self:close() end

--- A handle for a place: what is done there will be told, as far as there is anybody to tell.
---@param store synod.Store
---@param name string  container and blob, or what else names the place
---@return synod.Hint
function hints.on(store, name)
  local hint = setmetatable({ key = key_of(store, name), told = core.event(), links = {} }, Hint)
  local run = current()
  if run.hub then run.hub:watch(hint) end
  return hint
end

--- The connection to an address that all hints of this run share; nil: not now.
local function link_to(run, where)
  local link = run.links[where]
  if link and link.up then return link end
  local tried = run.tried[where]
  if tried and core.now() - tried < TRY_AGAIN_S or run.count >= LINKS_MAX then return nil end
  if not require("synod.net").is_address(where) then return nil end -- somebody else has written it
  link = links.new(where)
  run.links[where], run.count = link, run.count + 1
  core.spawn_apart(function()
    local _ <close> = setmetatable({}, { __close = function()
      run.count = run.count - 1
      if run.links[where] == link then run.links[where] = nil end
    end })
    local met = links.live(link, function() return require("synod.net").connect(where, { timeout = CONNECT_S }) end)
    if not met then run.tried[where] = core.now() end
  end)
  return link
end

local function leave(hint, where)
  hint.links[where]:unwatch(hint)
  hint.links[where] = nil
end

--- Who can be asked: the holder's address, as the metadata say, or nil: nobody knows. A list is of those who are all to
--- be heard: the hint stands only while each of them says so, and it is told when one begins to.
---@param where string|string[]|nil
function Hint:toward(where)
  local run, wanted = current(), {}
  self.all = type(where) == "table" and where or nil
  for _, address_there in ipairs(self.all or { where }) do
    if address_there ~= run.told_address then wanted[address_there] = true end
  end
  for known, link in next, self.links do
    if not (wanted[known] and link.up) then leave(self, known) end
  end
  for new in next, wanted do
    if not self.links[new] then
      self.links[new] = link_to(run, new)
      if self.links[new] then self.links[new]:watch(self) end
    end
  end
end

--- Whether the one who listens there says that it holds. This instance itself is asked nothing.
---@param where string
---@return boolean
function Hint:hears(where)
  local link = self.links[where]
  return link ~= nil and link.standing[self.key] == true or where == current().told_address
end

--- Whether the end of the holding will be told.
---@return boolean
function Hint:standing()
  local hub = current().hub
  local by_hub = hub ~= nil and hub.standing[self.key] == true
  if self.all then
    for _, where in ipairs(self.all) do
      if not self:hears(where) then return false end
    end
    return by_hub or self.all[1] ~= nil
  end
  local _, link = next(self.links)
  return by_hub or link ~= nil and link.standing[self.key] == true
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
  for where in next, self.links do leave(self, where) end
  self.all = nil
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
