-- registry: who is up, and where it can be reached.
--
--   synod run -n 3 registry.lua [SECONDS]          each joins, answers at its address, and shows who else is there (5)
--   synod run --store azure --instance auto registry.lua SECONDS HOST      on each machine of a fleet; HOST: its own
--                                                  name or address, as the others can reach it (127.0.0.1)
--
-- Each instance listens at a port of its own and tells the others by its entry; each greets every newcomer. An instance
-- that dies without leaving disappears after its time to live, judged by its entry not changing. Exit codes: 0; 5 this
-- instance was cut off for so long that the others took it for dead; 3 no store.

local synod = require "synod"
local membership = require "synod.membership"

local seconds, host = tonumber((...)) or 5, select(2, ...) or "127.0.0.1"
local me = synod.instance

local listener <close> = assert(synod.listen(host .. ":0", function(conn)
  local who = conn:read "line"
  if who then print(who .. " says hello") end
end))

local up <close> = membership.new { name = "registry", ttl = 10 }

local function greet(member)
  local conn <close>, err = synod.connect(member.info.address, { timeout = 2 })
  if not conn then return print(("%s does not answer: %s"):format(member.id, err)) end
  conn:write(me.id, "\n")
end

local function show(members, changes)
  local names, joined = {}, {}
  for _, id in ipairs(changes.joined) do joined[id] = true end
  for i, member in ipairs(members) do
    names[i] = ("%s at %s"):format(member.id, member.info.address)
    if joined[member.id] and member.id ~= me.id then synod.spawn(greet, member) end
  end
  for _, id in ipairs(changes.left) do print(id .. " is gone") end
  print("up: " .. table.concat(names, ", "))
end

assert(up:join { info = { address = listener.address, role = me.role } })
local watching = up:watch(show)
local lost = up:wait_lost(seconds)
watching:cancel()
if lost then
  print("cut off: " .. tostring(lost))
  os.exit(5)
end
