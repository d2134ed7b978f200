-- A random walk over all calls on a queue, on two stores at once: every outcome is the same. Times are 0 or far away,
-- so that the walk does not depend on how fast it goes.

local core = require "synod.core"
local sh = require "spec.support.sh"

local STEPS = 400
local FAR = 100000

--- Numbers that look drawn by lot and are the same on every machine.
local function sequence(seed)
  local state = seed
  return function(n)
    state = (state * 1103515245 + 12345) % 2147483648
    return state // 65536 % n + 1
  end
end

local function code_of(value, err)
  if value == nil then return err.code end
  return true
end

--- One store's side of the walk: its queue and all messages it ever gave, under every receipt they had; and what is
--- done before and after each call.
local function side(store, name, between)
  local q = store:queue(name)
  assert(q:create())
  return { q = q, given = {}, between = between or function() end }
end

local function keep(self, msg)
  local copy = {}
  for field, value in pairs(msg) do copy[field] = value end
  self.given[#self.given + 1] = setmetatable(copy, getmetatable(msg))
end

local function shown(self, list, receipts)
  local words = {}
  for i, msg in ipairs(assert(list)) do
    words[i] = ("%s/%d"):format(msg.body, msg.dequeue_count)
    if receipts then keep(self, msg) end
  end
  return table.concat(words, " ")
end

--- What is done, by two numbers drawn; the same on each side.
local STEPS_OF = {
  put = function(self, a, b, step)
    local msg = assert(self.q:put("m" .. step, { delay = a % 4 == 0 and FAR or 0, ttl = b % 5 == 0 and -1 or 2 * FAR }))
    keep(self, msg)
    return true
  end,
  get = function(self, a) return shown(self, self.q:get { n = a % 6 + 1, visibility = FAR }, true) end,
  peek = function(self, a) return shown(self, self.q:peek(a % 32 + 1)) end,
  count = function(self) return self.q:count() end,
  clear = function(self, a)
    if a % 12 ~= 0 then return false end
    return self.q:clear()
  end,
  update = function(self, a, b, step)
    local msg = self.given[#self.given > 0 and a % #self.given + 1 or 1]
    if not msg then return false end
    local outcome = code_of(msg:update { visibility = b % 2 * FAR, body = b % 3 == 0 and "u" .. step or nil })
    if outcome == true then keep(self, msg) end
    return outcome
  end,
  delete = function(self, a)
    local msg = self.given[#self.given > 0 and a % #self.given + 1 or 1]
    if not (msg and msg.receipt) then return false end
    local receipt = msg.receipt
    local outcome = code_of(msg:delete())
    msg.receipt = receipt
    return outcome
  end,
}

local WORDS = { "put", "put", "put", "get", "get", "peek", "count", "update", "update", "delete", "clear" }

local function take(self, word, ...)
  self.between()
  local outcome = STEPS_OF[word](self, ...)
  self.between()
  return outcome
end

local function walk(first, second, seed)
  local draw = sequence(seed)
  for step = 1, STEPS do
    local word, a, b = WORDS[draw(#WORDS)], draw(10000), draw(10000)
    local ours, theirs = take(first, word, a, b, step), take(second, word, a, b, step)
    assert(ours == theirs, ("seed %d, step %d: %s gives %s and %s"):format(seed, step, word, ours, theirs))
  end
end

describe("a random walk over a queue", function()
  for seed = 1, 8 do
    it("is the same in memory and in a file, seed " .. seed, function()
      local folder <close> = sh.folder()
      core.main(function()
        local memory <close> = assert(core.open_store("memory:"))
        local file <close> = assert(core.open_store("embedded:" .. folder.path .. "/s.db?relaxed"))
        walk(side(memory, "walk"), side(file, "walk"), seed)
      end)
    end)
  end

  it("is the same in memory and on Azurite", function()
    local azurite = require "spec.support.azurite"
    core.main(function()
      local memory <close> = assert(core.open_store("memory:"))
      local server <close> = assert(core.open_store(azurite.connection_string()))
      walk(side(memory, "walk"), side(server, azurite.fresh "walk", azurite.tick), 9)
    end)
  end)
end)
