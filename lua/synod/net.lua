-- TCP between instances: synod.listen and synod.connect.
--
-- Nothing is read before it is asked for and nothing is kept to be sent: a slow peer makes conn:write wait, and a slow
-- reader makes its peer wait.

local core = require "synod.core"
local options_of = require("synod.options").read

local net = {}

local CONNECT_S = 10         -- for the name and the connection, unless `timeout` says otherwise
local EACH_ADDRESS_S = 3     -- for one of several addresses, as long as there is another to try
local LINE_MAX = 1 << 20     -- bytes of a line, unless the second argument of read says otherwise
local BLOCK_MAX = 15 << 20   -- bytes of conn:read(n)
local PIECE_MAX = 1 << 18    -- bytes handed to the kernel at once
local CONNECTIONS_MAX = 1024 -- of one listener; the others wait until one of these has ended
local ACCEPT_AGAIN_S = 1     -- after an accept that failed (no descriptor is left)

local CONNECT_OPTIONS = { timeout = "seconds" }
local READ_OPTIONS = { timeout = "seconds", max = "count" }

--- "host:port", "[::1]:port", ":port" into the host (nil: none) and the port.
local function split(address)
  if type(address) ~= "string" then return nil end
  local host, port = address:match("^%[([%x:.%%%w]+)%]:(%d+)$")
  if not host then host, port = address:match("^([^:%[%]%s]*):(%d+)$") end
  if not host or tonumber(port) > 65535 then return nil end
  return host, port
end

--- Whether it has the form of an address: for those that come from elsewhere.
---@param address any
---@return boolean
function net.is_address(address)
  return split(address) ~= nil
end

local function parse(address, what, level)
  local host, port = split(address)
  if not host then
    local form = "%s: %q is no address; one is \"host:port\", \"[::1]:port\" or \":port\""
    error(form:format(what, tostring(address)), level)
  end
  return host ~= "" and host or nil, port
end

local function new_error(code, operation, target, message)
  return core.new_error { code = code, operation = operation, target = target, message = message }
end

---@class synod.Conn
---@field peer string     the other end, such as "10.0.0.7:51234"
---@field address string  this end
local Conn = {}
Conn.__index = Conn
Conn.__name = "synod.Conn"

local function new_conn(socket)
  return setmetatable({ socket = socket, peer = socket:name(true), address = socket:name(false) }, Conn)
end

--- The stream has ended, or failed, before all that was asked for had come.
local function ended(conn, err)
  if err then return nil, err end
  local held = conn.socket:held()
  if held == 0 then return nil end
  local message = ("it ended after %d bytes of what was asked for"):format(held)
  return nil, new_error("ConnectionLost", "read from", conn.peer, message)
end

local function read_line(conn, max, seconds)
  while true do
    local line = conn.socket:line()
    if line and #line <= max then return line end
    if line or conn.socket:held() > max then
      conn:close() -- the rest of the line must not pass for the next one
      return nil, new_error("LineTooLong", "read from", conn.peer, ("a line is longer than %d bytes"):format(max))
    end
    local more, err = conn.socket:fill(seconds)
    if not more then return ended(conn, err) end
  end
end

local function read_block(conn, n, seconds)
  while true do
    local block = conn.socket:block(n)
    if block then return block end
    local more, err = conn.socket:fill(seconds)
    if not more then return ended(conn, err) end
  end
end

local function read_some(conn, seconds)
  while true do
    local data = conn.socket:some()
    if data then return data end
    local more, err = conn.socket:fill(seconds)
    if not more then return ended(conn, err) end
  end
end

---@class synod.net.ReadOptions
---@field timeout? number  seconds without anything coming; then nil, err (Timeout), and what has come stays
---@field max? integer     bytes that a line may have (1 MiB)

--- Waits for a line (without its newline), for n bytes, or for "some". nil at the end of the stream; nil, err when it
--- fails, and when it ends in the middle of what was asked for (ConnectionLost). A line that is too long closes the
--- connection. After a cancel what has come can still be read.
---@param what "line"|"some"|integer
---@param options? synod.net.ReadOptions
---@return string|nil, table? err
function Conn:read(what, options)
  if options then options = options_of("conn:read", options, READ_OPTIONS) end
  local seconds = options and options.timeout
  if what == "line" then return read_line(self, options and options.max or LINE_MAX, seconds) end
  if what == "some" then return read_some(self, seconds) end
  if math.type(what) ~= "integer" or what < 0 or what > BLOCK_MAX then
    error(("conn:read: \"line\", \"some\" or a number of bytes up to %d is expected"):format(BLOCK_MAX), 2)
  end
  return read_block(self, what, seconds)
end

--- for line in conn:lines() do ... end; what fails is raised.
function Conn:lines()
  return function()
    local line, err = self:read("line")
    if err then error(err, 2) end
    return line
  end
end

--- Waits until the kernel has taken all of it. After a cancel a part of it may have been sent.
---@param ... string|number
---@return true|nil, table? err
function Conn:write(...)
  for i = 1, select("#", ...) do
    local kind = type((select(i, ...)))
    if kind ~= "string" and kind ~= "number" then
      error(("bad argument #%d to 'write' (string expected, got %s)"):format(i, kind), 2)
    end
  end
  local text = table.concat({ ... })
  local from = 1
  while from <= #text do
    local piece = text
    local at = from
    if #text > PIECE_MAX then piece, at = text:sub(from, from + PIECE_MAX - 1), 1 end
    local n, err = self.socket:send(piece, at)
    if not n then return nil, err end
    from = from + n
  end
  return true
end

--- What was written is still delivered, unless the peer had sent what nobody read (TCP resets the connection then).
--- Those who wait for the connection get nil, err.
function Conn:close() self.socket:close() end

Conn.__close = Conn.close

function Conn:__tostring() return ("connection to %s"):format(self.peer) end

--- Connects to the first address that answers. To be closed: local conn <close> = assert(synod.connect(...))
---@param address string "host:port", "[::1]:port", ":port" (this machine)
---@param options? { timeout?: number } seconds for all of it (10)
---@return synod.Conn|nil, table? err
function net.connect(address, options)
  local host, port = parse(address, "synod.connect", 3)
  local deadline = core.now() + (options_of("synod.connect", options, CONNECT_OPTIONS).timeout or CONNECT_S)
  local addresses, err = core.stream_resolve(host, port, false, deadline - core.now())
  if not addresses then return nil, err end
  for i, one in ipairs(addresses) do
    local left = math.max(0, deadline - core.now())
    local socket
    socket, err = core.stream_connect(one, address, i < #addresses and math.min(left, EACH_ADDRESS_S) or left)
    if socket then return new_conn(socket) end
  end
  return nil, err
end

--- A connection over a socket of the core's, such as one that a parent handed down.
---@param socket any
---@return synod.Conn
function net.of_socket(socket)
  return new_conn(socket)
end

---@class synod.Listener
---@field address string  where it listens, with the port chosen for port 0
local Listener = {}
Listener.__index = Listener
Listener.__name = "synod.Listener"

--- Takes no more connections; those that are open go on.
function Listener:close()
  self.socket:close()
  self.room:set()
end

Listener.__close = Listener.close

--- One connection, from its beginning to its end.
local function serve(listener, socket, fn)
  local _ <close> = setmetatable({}, {
    __close = function()
      listener.open = listener.open - 1
      listener.room:set()
    end,
  })
  local conn <close> = new_conn(socket)
  fn(conn)
end

local function accept_all(listener, fn, spawn)
  while not listener.socket:is_closed() do
    while listener.open >= CONNECTIONS_MAX and not listener.socket:is_closed() do
      listener.room:clear()
      listener.room:wait()
    end
    local socket, err = listener.socket:accept()
    if socket then
      listener.open = listener.open + 1
      spawn(serve, listener, socket, fn)
    elseif err then
      require("synod.log").warn("a connection was not accepted", { address = listener.address, error = err })
      core.sleep(ACCEPT_AGAIN_S)
    end
  end
end

local function listen_at_first(addresses, address)
  local socket, err
  for _, one in ipairs(addresses) do
    socket, err = core.stream_listen(one, address)
    if socket then return socket end
  end
  return nil, err
end

local function listen(address, fn, spawn)
  local host, port = parse(address, "synod.listen", 3)
  if type(fn) ~= "function" then error("synod.listen: a function is expected, got " .. type(fn), 2) end
  local addresses, err = core.stream_resolve(host, port, true, CONNECT_S)
  if not addresses then return nil, err end
  local socket
  socket, err = listen_at_first(addresses, address)
  if not socket then return nil, err end
  local listener = setmetatable({
    socket = socket, address = socket:name(false), open = 0, room = core.event(),
  }, Listener)
  spawn(accept_all, listener, fn, spawn)
  return listener
end

--- Calls fn(conn) in a task of its own for each connection, and closes conn when fn has returned. The listener
--- holds the instance until it is closed.
---@param address string "host:port", "[::1]:port", ":port" (all addresses of this machine); port 0: any free one
---@param fn fun(conn: synod.Conn)
---@return synod.Listener|nil, table? err
function net.listen(address, fn)
  return listen(address, fn, core.spawn)
end

--- The same for what serves the whole instance: neither the listener nor its connections hold the run, and they
--- belong to no guard.
---@param address string
---@param fn fun(conn: synod.Conn)
---@return synod.Listener|nil, table? err
function net.listen_apart(address, fn)
  return core.spawn_apart(listen, address, fn, core.spawn_apart):join() -- what a guarded task opens is its guard's
end

return net
