-- heat: a rod cools down, cut into as many pieces as there are instances.
--
--   synod run -n 4 heat.lua [STEPS]        20 steps by default
--
-- In each step every instance publishes the temperatures at the two ends of its piece, waits at the barrier of that
-- round until all have, and computes the next step with its neighbours' ends. The whole is a double barrier: nobody
-- begins before all are there, and nobody removes what it has published before number 0 has read it.

local synod = require "synod"
local barrier = require "synod.barrier"

local CELLS, RATE, HOT, COLD = 8, 0.25, 100, 0 -- cells of a piece; how much flows in a step; degrees

local me, steps = synod.instance, tonumber((...)) or 20
local pieces = synod.store:container "heat"
local work = barrier.new { name = "heat" }
local published = {}

--- The rod at the beginning: one hot end, and the rest cold.
local function fresh(cells)
  local rod = {}
  for i = 1, cells do rod[i] = i == 1 and HOT or COLD end
  return rod
end

--- One step of a piece between the temperatures on its left and on its right.
local function step(rod, left, right)
  local next_rod = {}
  for i, t in ipairs(rod) do
    next_rod[i] = t + RATE * ((rod[i - 1] or left) - 2 * t + (rod[i + 1] or right))
  end
  return next_rod
end

local function blob_of(what, ordinal)
  return pieces:blob(("%s/%s/%d"):format(me.deployment, what, ordinal))
end

local function publish(what, numbers)
  local blob = blob_of(what, me.ordinal)
  local parts = {}
  for i, number in ipairs(numbers) do parts[i] = ("%.17g"):format(number) end
  assert(blob:put(table.concat(parts, " ")))
  published[#published + 1] = blob
end

local function read(what, ordinal)
  local numbers = {}
  for word in assert(blob_of(what, ordinal):get()):gmatch("%S+") do numbers[#numbers + 1] = tonumber(word) end
  return numbers
end

assert(pieces:create())
assert(work:enter { timeout = 60 })
local rod = fresh(CELLS)
if me.ordinal > 0 then rod[1] = COLD end
for round = 1, steps do
  publish(round, { rod[1], rod[#rod] })
  assert(barrier.new { name = "step", round = round }:arrive_and_wait { timeout = 60 })
  local left = me.ordinal == 0 and rod[1] or read(round, me.ordinal - 1)[2]
  local right = me.ordinal == me.count - 1 and rod[#rod] or read(round, me.ordinal + 1)[1]
  rod = step(rod, left, right)
end
publish("end", rod)
print(("from %.3f to %.3f degrees after %d steps"):format(rod[1], rod[#rod], steps))
assert(barrier.new { name = "step", round = "end" }:arrive_and_wait { timeout = 60 })

if me.ordinal == 0 then
  local together, alone = {}, fresh(CELLS * me.count)
  for ordinal = 0, me.count - 1 do table.move(read("end", ordinal), 1, CELLS, #together + 1, together) end
  for _ = 1, steps do alone = step(alone, alone[1], alone[#alone]) end
  for i, t in ipairs(alone) do assert(t == together[i], "cell " .. i .. " differs from what one instance computes") end
  print(("%d cells, the same as one instance alone computes"):format(#alone))
end
assert(work:leave { timeout = 60 })
for _, blob in ipairs(published) do assert(blob:delete()) end
