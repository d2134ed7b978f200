-- The reader: what Lua's own files give, however the bytes come, without copying them again and again.

local reader = require "synod.reader"

--- A reader of these pieces.
local function of(pieces)
  local i = 0
  return reader.new(function()
    i = i + 1
    return pieces[i]
  end)
end

--- Draws whole numbers, from 1 or `least` on: the same ones for the same seed.
local function drawer(seed)
  local state = seed
  return function(most, least)
    state = (state * 1103515245 + 12345) % 0x80000000
    least = least or 1
    return least + (state >> 8) % (most - least + 1)
  end
end

--- KiB that fn allocates.
local function allocated(fn)
  collectgarbage()
  collectgarbage "stop"
  local before = collectgarbage "count"
  fn()
  local after = collectgarbage "count"
  collectgarbage "restart"
  return after - before
end

describe("a reader", function()
  it("gives what a file of the same bytes gives, wherever they are cut", function()
    local WORDS = { "12", " ", "\n", "x", "-3.5e2", "\t", "a longer word", "\n\n", "7" }
    local FORMATS = { "l", "L", "n", 0, 1, 3, 40 }
    for seed = 1, 300 do
      local draw, parts = drawer(seed), {}
      for i = 1, draw(60) do parts[i] = WORDS[draw(#WORDS)] .. (draw(2) == 1 and " " or "\n") end
      local text, pieces, at = table.concat(parts), {}, 1
      while at <= #text do
        local n = draw(25, 0)
        pieces[#pieces + 1], at = text:sub(at, at + n - 1), at + n
      end
      local file <close> = assert(io.tmpfile())
      file:write(text)
      file:seek "set"
      local r = of(pieces)
      for step = 1, 40 do
        local format = step == 40 and "a" or FORMATS[draw(#FORMATS)]
        local expected = file:read(format)
        assert.equal(expected, r:read(format), ("seed %d, step %d, %s"):format(seed, step, format))
        if format == "n" and expected == nil then break end -- how much of a word is gone is Lua's own affair
      end
    end
  end)

  it("keeps what had come when it is stopped in the middle of a line", function()
    local pieces, i = { "a be", "ginning", error, " and an end\n" }, 0
    local r = reader.new(function()
      i = i + 1
      if pieces[i] == error then error("stopped", 0) end
      return pieces[i]
    end)
    assert.same({ false, "stopped" }, { pcall(r.read, r, "l") })
    assert.equal("a beginning and an end", r:read "l")
  end)

  it("copies a line of many pieces, and a piece of many lines, a few times at most", function()
    local piece = ("x"):rep(4096)
    local pieces = {}
    for i = 1, 512 do pieces[i] = piece end
    local kib = 512 * 4
    for _, format in ipairs { "l", "a", 512 * 4096 } do
      assert.is_true(allocated(function() of(pieces):read(format) end) < 4 * kib, format)
    end
    local lines = of { (("y"):rep(63) .. "\n"):rep(32768) }
    assert.is_true(allocated(function()
      for line in lines:lines() do assert(#line == 63) end
    end) < 20 * kib)
  end)
end)
