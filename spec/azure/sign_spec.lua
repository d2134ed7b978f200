-- Shared Key signatures, against known ones and against the official client.

local core = require "synod.core"
local azurite = require "spec.support.azurite"
local sh = require "spec.support.sh"

-- A key that was made public with its signatures, those of Microsoft's own .NET client (the tests of MicrosoftDX/Dash).
local ACCOUNT = "dashstorage1"
local KEY = "8jqRVtXUWiEthgIhR+dFwrB8gh3lFuquvJQ1v4eabObIj7okI1cZIuzY8zZHmEdpcC0f+XlUkbFwAhjTfyrLIg=="
local MD5 = "LHmMkMS8mTXh0bRP4e4Ptw=="

local function put(headers)
  headers["x-ms-version"] = "2014-02-14"
  headers["x-ms-blob-type"] = "BlockBlob"
  headers["Content-MD5"] = MD5
  return { account = ACCOUNT, key = KEY, method = "PUT", path = "/test/test.txt", headers = headers, length = 423 }
end

local function sign(request)
  local header, text = core.azure_signature(request)
  assert.is_string(header, tostring(text))
  return header:match("^SharedKey " .. request.account .. ":(.+)$"), text
end

describe("a Shared Key signature", function()
  it("is that of the .NET client for a plain write", function()
    assert.equal("mDTyDIDy8yt7D81qAmYEYiXH1X/bmBHJF2+ZPn/r74k=", (sign(put {
      ["x-ms-client-request-id"] = "82370d95-e820-4817-bd3f-6c266544ee8b",
      ["x-ms-date"] = "Thu, 30 Oct 2014 17:31:22 GMT",
    })))
  end)

  it("takes in every x-ms header, in order, and no other", function()
    assert.equal("ktMmzuta7Wsqtzyd3TBbd3zW4miedtJPkWWlW9DCRb0=", (sign(put {
      ["x-ms-client-request-id"] = "TestRequest1",
      ["x-ms-date"] = "Thu, 30 Oct 2014 19:48:43 GMT",
      ["x-ms-test"] = "testvalue",
      ["x-test"] = "differentvalue",
    })))
  end)

  it("takes in a condition on a date", function()
    assert.equal("21rAYhnoRQQu6MmxXj6W5Rx3YWI8OCjO50CNNniohAA=", (sign(put {
      ["x-ms-client-request-id"] = "d0863cd4-ae43-4dd4-aa27-eff01d30b5cf",
      ["x-ms-date"] = "Thu, 30 Oct 2014 20:15:46 GMT",
      ["If-Modified-Since"] = "Thu, 30 Oct 2014 20:15:41 GMT",
    })))
  end)

  it("takes in what describes the content, and a condition on an ETag", function()
    assert.equal("ZBQYgC9dgzldVfH6t06qIYZujSz/3blWrinuYePTMv8=", (sign(put {
      ["Content-Type"] = "application/octet-stream",
      ["Content-Language"] = "EN-US",
      ["Content-Encoding"] = "gzip",
      ["If-Match"] = "DummyETag",
      ["x-ms-client-request-id"] = "93399f8e-6ce2-4020-81a4-4f1f53f427fd",
      ["x-ms-date"] = "Thu, 30 Oct 2014 20:46:48 GMT",
    })))
  end)

  it("takes in the parameters, by name and decoded", function()
    assert.equal("C0mPsPAiMs+4qlDQXGXMXpRGUkQgyMLzOHBiCmoC4LE=", (sign {
      account = ACCOUNT, key = KEY, path = "/test",
      query = "restype=container&comp=list&prefix=te&INCLUDE=snapshots%2Cuncommittedblobs%2Cmetadata%2Ccopy",
      headers = {
        ["x-ms-version"] = "2014-02-14",
        ["x-ms-client-request-id"] = "9e51b5a3-2dff-4fb2-98f8-c7cfe05a223a",
        ["x-ms-date"] = "Thu, 30 Oct 2014 20:55:13 GMT",
      },
    }))
  end)

  it("is over the text of the service's documentation", function()
    local _, text = sign {
      account = "myaccount", key = KEY, path = "/mycontainer", query = "comp=metadata&restype=container&timeout=20",
      headers = { ["x-ms-version"] = "2015-02-21", ["x-ms-date"] = "Fri, 26 Jun 2015 23:39:12 GMT" },
    }
    assert.equal("GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
      .. "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20", text)
  end)

  it("sorts as the service does: an underscore before digits and letters", function()
    local _, text = sign {
      account = "a", key = KEY, path = "/c/b",
      headers = {
        ["x-ms-meta-ab"] = "4", ["x-ms-meta-a1"] = "3", ["x-ms-meta-a_b"] = "2", ["x-ms-meta-a"] = "1",
        ["x-ms-meta-B"] = "", ["x-ms-date"] = "D",
      },
    }
    assert.equal("x-ms-date:D\nx-ms-meta-a:1\nx-ms-meta-a_b:2\nx-ms-meta-a1:3\nx-ms-meta-ab:4\nx-ms-meta-b:\n",
      text:match("x%-ms.*\n"))
  end)

  it("is what the official JavaScript client makes of the same text", function()
    for _, key in ipairs { KEY, azurite.key, "YQ==", "YWI=", "YWJj" } do
      local mine, text = sign { account = "account", key = key, path = "/c/b", headers = { ["x-ms-date"] = "now" } }
      local theirs, code = sh.run("node spec/support/sdk.js sign " .. sh.quote(key) .. " " .. sh.quote(text))
      assert.equal(0, code)
      assert.equal(theirs:match("%S+"), mine)
    end
  end)

  it("can be made again and again", function()
    local request = put { ["x-ms-date"] = "Thu, 30 Oct 2014 17:31:22 GMT" }
    local first = sign(request)
    for _ = 1, 3 do assert.equal(first, (sign(request))) end
  end)

  it("is refused for a key that is no base64, without showing it", function()
    for _, key in ipairs { "secret", "sec!et==", "c2Vj=mV0", "c2VjcmV0=", string.rep("QUJD", 100) } do
      local header, err = core.azure_signature { account = "a", key = key, path = "/", headers = {} }
      assert.is_nil(header)
      assert.equal("InvalidInput", err.code)
      assert.is_nil(tostring(err):find(key, 1, true))
    end
  end)
end)
