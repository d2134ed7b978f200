-- The filter of the embedded store: what it parses, what it refuses and where, how it compares.

local core = require "synod.core"

--- Asks a table with these entities (rows 1, 2, ...); gives what fn(ask) gives. ask(filter) -> rows, or nil, err.
local function with_entities(list, fn)
  return core.main(function()
    local store <close> = assert(core.open_store "memory:")
    local tbl = store:table "Filtered"
    assert(tbl:create())
    for i, properties in ipairs(list) do
      properties.partition, properties.row = "p", tostring(i)
      assert(tbl:insert(properties))
    end
    return fn(function(filter)
      local rows = {}
      local ok, err = pcall(function()
        for each in tbl:query { filter = filter } do rows[#rows + 1] = each.row end
      end)
      if ok then return table.concat(rows, " ") end
      return nil, err
    end)
  end, { clock = "virtual" })
end

describe("a filter", function()
  it("binds and closer than or, not to what follows it", function()
    with_entities({ { a = true, b = false, c = false }, { a = false, b = true, c = true }, { a = true, b = false,
      c = true } },
      function(ask)
        for filter, rows in pairs {
          ["a or b and c"] = "1 2 3", ["(a or b) and c"] = "2 3", ["not a"] = "2", ["not a and c"] = "2",
          ["not (a and c)"] = "1 2", ["not not a"] = "1 3", ["a and b or c"] = "2 3", ["((((a))))"] = "1 3",
          [" a\tand\nnot b "] = "1 3", ["a eq b"] = "", ["b eq c"] = "1 2", ["a ne c"] = "1 2", ["true"] = "1 2 3",
          ["false or b"] = "2", ["'p' eq PartitionKey"] = "1 2 3", ["1 lt 2"] = "1 2 3",
        } do
          assert.equal(rows, ask(filter), filter)
        end
      end)
  end)

  it("compares numbers by value, exactly", function()
    local big = (1 << 53) + 1
    with_entities({ { n = 1 }, { n = 1.0 }, { n = core.int32(1) }, { n = big }, { n = big - 1 }, { n = 0 / 0 },
      { n = math.maxinteger }, { n = 1 / 0 }, { n = -0.5 } }, function(ask)
      for filter, rows in pairs {
        ["n eq 1"] = "1 2 3", ["n eq 1L"] = "1 2 3", ["n eq 1.0"] = "1 2 3", ["n eq 9007199254740993L"] = "4",
        ["n eq 9007199254740992.0"] = "5", ["n gt 9007199254740992.0"] = "4 7 8", ["n ge 9223372036854775808.0"] = "8",
        ["n lt 0"] = "9", ["n lt -0.25"] = "9", ["n lt -5e-1"] = "", ["n eq n"] = "1 2 3 4 5 7 8 9",
        ["n ne 1"] = "4 5 6 7 8 9",
        ["n gt -1 and n lt 1"] = "9", ["n le 9223372036854775807L and n gt 1"] = "4 5 7",
      } do
        assert.equal(rows, ask(filter), filter)
      end
    end)
  end)

  it("takes no property of another type, nor one that is absent", function()
    with_entities({ { v = 1 }, { v = "1" }, { v = true }, { v = core.time_value(1) }, { v = core.binary "1" },
    { w = 1 } },
      function(ask)
        for filter, rows in pairs {
          ["v eq 1"] = "1", ["v eq '1'"] = "2", ["v eq true"] = "3", ["v"] = "3",
          ["v eq datetime'1970-01-01T00:00:01Z'"] = "4", ["v eq X'31'"] = "5", ["v ne 2"] = "1", ["v ne '2'"] = "2",
          ["not (v eq 1)"] = "2 3 4 5 6", ["w eq 1 or v eq 1"] = "1 6", ["v lt 'z'"] = "2",
        } do
          assert.equal(rows, ask(filter), filter)
        end
      end)
  end)

  it("knows its literals", function()
    with_entities({ { s = "it's", g = core.guid "01234567-89ab-cdef-0123-456789abcdef", x = core.binary "\10\255",
      t = core.time_value "2026-01-02T03:04:05.5Z", ["ä"] = 1 } }, function(ask)
      for _, filter in ipairs {
        "s eq 'it''s'", "g eq guid'01234567-89AB-CDEF-0123-456789ABCDEF'", "x eq X'0aFF'", "x eq binary'0AFF'",
        "t eq datetime'2026-01-02T04:04:05.5+01:00'", "t gt datetime'2026-01-02T03:04:05.4999999Z'", "ä eq +1",
        "Timestamp gt datetime'1960-01-01T00:00:00Z'", "RowKey eq '1' and RowKey ge '' and RowKey lt '2'", "1 ge .5",
      } do
        assert.equal("1", ask(filter), filter)
      end
    end)
  end)

  it("that is malformed says where", function()
    with_entities({ { a = 1 } }, function(ask)
      for filter, where in pairs {
        [""] = "1: a property or a value expected", ["a eq"] = "5: a property or a value expected",
        ["a = 1"] = "3: and, or, or the end expected",
        ["(a eq 1"] = "8: a closing parenthesis expected", ["a eq 1)"] = "7: and, or, or the end expected",
        ["a eq 'x"] = "8: a quote that has no end", ["eq 1"] = "1: a property or a value expected",
        ["a eq 1 and"] = "11: a property or a value expected",
        ["a eq and 1"] = "6: a property or a value expected", ["not"] = "4: a property or a value expected",
        ["5"] = "2: a comparison expected",
        ["a eq 1x"] = "7: a number that is none", ["a eq 1.2.3"] = "9: and, or, or the end expected",
        ["a eq 99999999999999999999"] = "26: a number that is none",
        ["a eq datetime'yesterday'"] = "25: what stands before is not a value of its type",
        ["a eq X'0'"] = "10: what stands before",
        ["a eq guid'1'"] = "13: what stands before", ["a eq time'1'"] = "6: datetime, guid, X or binary expected",
        ["a eq -"] = "6: a number that is none", ["startswith(a,'x')"] = "11: and, or, or the end expected",
        ["a eq 1 b"] = "8: and, or, or the end expected",
      } do
        local rows, err = ask(filter)
        assert.is_nil(rows, filter)
        assert.same({ "InvalidInput", 400 }, { err.code, err.status })
        assert.matches("the filter is malformed at its character " .. where, err.message, 1, true)
      end
    end)
  end)

  it("is bounded in depth, parts and length", function()
    with_entities({ { a = true } }, function(ask)
      assert.equal("1", ask(("("):rep(60) .. "a" .. (")"):rep(60)))
      assert.matches("nested too deeply", select(2, ask(("("):rep(100) .. "a" .. (")"):rep(100))).message)
      assert.matches("nested too deeply", select(2, ask(("not "):rep(100) .. "a")).message)
      assert.equal("1", ask("a" .. (" and a"):rep(500)))
      assert.matches("too many parts", select(2, ask("a" .. (" and a"):rep(1000))).message)
      assert.matches("longer than 32 KiB", select(2, ask("a" .. (" "):rep(33000))).message)
    end)
  end)

  it("stands whatever it is given", function()
    math.randomseed(11)
    local pieces = { "a", "eq", "and", "or", "not", "(", ")", "'x'", "1", "1.5", "X'0a'", "guid'", "'",
      "datetime'2026", " ", "\255", "-" }
    with_entities({ { a = 1 } }, function(ask)
      for _ = 1, 3000 do
        local words = {}
        for i = 1, math.random(12) do words[i] = pieces[math.random(#pieces)] end
        local rows, err = ask(table.concat(words, math.random(2) == 1 and " " or ""))
        assert.is_true(rows == "" or rows == "1" or type(err) == "string" or err.code == "InvalidInput")
      end
    end)
  end)
end)
