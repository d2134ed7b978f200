-- servers.lua: the services that others coordinate by, one of each on a free port of the loopback, as far as they are
-- installed. tools/deps bench installs them; none of them is needed.

local process = require "harness.process"

local servers = {}

local START_S = 30
local TICK_MS = 1000     -- of ZooKeeper, whose sessions last two of these at least
local JARS = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar"

---@class bench.Peer: bench.Server
---@field port string

local function is_there(program)
  return os.execute("command -v " .. program .. " >/dev/null 2>&1")
end

local function has(path)
  local file = io.open(path)
  return file ~= nil and file:close()
end

--- Starts a server whose files are in a folder of its own.
---@param name string
---@param command fun(folder: string, port: string): bench.Command
---@return bench.Peer
local function start(name, command)
  local port = process.say { "build/bench/port", "free" }
  local folder = ("%s/%s-%s"):format(process.folder, name, port)
  process.say { "mkdir", "-p", folder }
  local server = process.serve(command(folder, port), nil, folder .. "/log")
  server.port = port
  if not os.execute(("build/bench/port wait %s %d"):format(port, START_S)) then
    server:stop()
    error(("bench: %s did not start: see what it says when started by hand"):format(name), 0)
  end
  return server
end

--- etcd, alone in its cluster; what it says it has written has reached the disk.
---@return bench.Peer|nil, string? why
function servers.etcd()
  if not is_there "etcd" then return nil, "etcd is not installed (etcd-server)" end
  return start("etcd", function(folder, port)
    local clients, members = "http://127.0.0.1:" .. port, "http://127.0.0.1:1" -- no other member is ever asked
    return {
      "etcd", "--name", "bench", "--data-dir", folder .. "/data", "--listen-client-urls", clients,
      "--advertise-client-urls", clients, "--listen-peer-urls", "http://127.0.0.1:0",
      "--initial-advertise-peer-urls", members, "--initial-cluster", "bench=" .. members,
    }
  end)
end

--- ZooKeeper, alone; what it says it has written has reached the disk. Its clients are kazoo's.
---@return bench.Peer|nil, string? why
function servers.zookeeper()
  if not is_there "java" or not has "/usr/share/java/zookeeper.jar" then
    return nil, "ZooKeeper is not installed (zookeeper)"
  elseif not os.execute "/usr/bin/python3 -c 'import kazoo' 2>/dev/null" then
    return nil, "ZooKeeper's client is not installed (python3-kazoo)"
  end
  return start("zookeeper", function(folder, port)
    local file = assert(io.open(folder .. "/zoo.cfg", "w"))
    file:write(("tickTime=%d\ndataDir=%s/data\nclientPort=%s\nclientPortAddress=127.0.0.1\n"):format(TICK_MS, folder,
      port), "admin.enableServer=false\nmaxClientCnxns=0\n")
    file:close()
    return { "java", "-cp", JARS, "org.apache.zookeeper.server.quorum.QuorumPeerMain", folder .. "/zoo.cfg" }
  end)
end

--- redis: in memory alone, or with each command's record on the disk before its answer.
---@param durable boolean
---@return bench.Peer|nil, string? why
function servers.redis(durable)
  if not is_there "redis-server" then return nil, "redis is not installed (redis-server)" end
  return start(durable and "redis-disk" or "redis", function(folder, port)
    return {
      "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--daemonize", "no",
      "--appendonly", durable and "yes" or "no", "--appendfsync", "always",
    }
  end)
end

--- The client of ZooKeeper, by Debian's Python, which has kazoo.
---@param server bench.Peer
---@param ... string|number
---@return bench.Command
function servers.kazoo(server, ...)
  return { "/usr/bin/python3", "bench/peers/zookeeper.py", server.port, ... }
end

--- Starts what is installed of these, and says what is not.
---@param context bench.Context
---@param names string[]  "etcd", "zookeeper", "redis" (in memory), "redis-disk"
---@return table<string, bench.Peer> servers  to be closed
function servers.start(context, names)
  local all = setmetatable({}, { __close = function(all)
    for _, server in pairs(all) do server:stop() end
  end })
  for _, name in ipairs(names) do
    local make = name:find "^redis" and servers.redis or servers[name]
    local server, why = make(name == "redis-disk")
    if server then all[name] = server else context.skip(why) end
  end
  return all
end

return servers
