-- JSON texts: what is written can be read, by others too, and what is none is refused.

local json = require "synod.json"

local cjson = require "cjson"

describe("json.encode", function()
  it("writes names in order, integers and floats apart, and empty lists where they are marked", function()
    assert.equal('{"a":[],"b":{},"c":[1,2.5,1.0],"d":"x"}',
      json.encode { d = "x", c = { 1, 2.5, 1.0 }, b = {}, a = json.array {} })
  end)

  it("escapes what JSON must, and keeps UTF-8", function()
    assert.equal([["a\"b\\c\nd\u0001é€😀\u007f"]], json.encode("a\"b\\c\nd\1é€😀\127"))
  end)

  it("writes numbers that are read as the same", function()
    for _, n in ipairs { 0, -1, math.maxinteger, math.mininteger, 0.1, 1 / 3, 1e300, -2.5e-300, 100.0 } do
      local read = json.decode(json.encode(n))
      assert.equal(n, read)
      assert.equal(math.type(n), math.type(read))
    end
  end)

  it("says null for nil and json.null", function()
    assert.equal("null", json.encode(nil))
    assert.equal("[1,null]", json.encode { 1, json.null })
  end)

  it("raises what JSON cannot say", function()
    for value, text in pairs {
      [print] = "a function has no JSON text", ["\xff"] = "no UTF-8 (byte 1)", [0 / 1 + math.huge] = "JSON has no inf",
      [{ 1, x = 2 }] = "neither a list nor an object", [{ [1.5] = 1 }] = "neither a list nor an object",
    } do
      local ok, err = pcall(json.encode, value)
      assert.is_false(ok)
      assert.matches(text, err, 1, true)
    end
    local loop = {}
    loop.loop = loop
    assert.matches("nested more than 64 deep", select(2, pcall(json.encode, loop)), 1, true)
  end)
end)

describe("json.decode", function()
  it("reads what another library writes, and the other way round", function()
    local value = { name = "é\n\"", list = { 1, 2, { deep = true } }, n = 1.5, empty = "" }
    assert.same(value, json.decode(cjson.encode(value)))
    assert.same(value, cjson.decode(json.encode(value)))
  end)

  it("reads escapes, surrogate pairs and white space", function()
    assert.same({ a = { "😀/\b", false } }, json.decode(' {\t"a" : [ "\\ud83d\\ude00\\/\\b" , false ] }\n'))
  end)

  it("gives json.null for null, so that nil is a refusal", function()
    assert.equal(json.null, json.decode("null"))
    assert.same({ a = json.null }, json.decode('{"a":null}'))
  end)

  it("says what is wrong, and where", function()
    for text, why in pairs {
      [""] = "a value expected at byte 1", ["{"] = "a name expected at byte 2",
      ["[1"] = "',' or ']' expected at byte 3",
      ['{"a" 1}'] = "':' expected at byte 6", ['"a'] = "a string without an end at byte 1",
      ['"\\x"'] = "an unknown escape at byte 2", ['"\\ud83d"'] = "half of a surrogate pair",
      ["1 2"] = "more text at byte 3", ["01"] = "a leading zero",
      ["[1e999]"] = "a number that is too large at byte 2", ["-1e999"] = "a number that is too large at byte 1",
      ['"\n"'] = "a control character", ["nil"] = "a value expected", ["\xff"] = "no UTF-8 at byte 1",
      ["[1,]"] = "a value expected at byte 4", [("["):rep(65)] = "nested more than 64 deep at byte 65",
    } do
      local value, err = json.decode(text)
      assert.is_nil(value, text)
      assert.matches(why, err, 1, true)
    end
  end)
end)
