-- What the meter says of requests over HTTP, whatever comes back.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local servers = require "spec.support.server"

--- The outcomes of reading the blob of that name once, from a server that answers as no server should.
local function outcomes_of(server, word)
  return core.main(function()
    local store <close> = assert(core.open_store(azurite.string_for(server.port)))
    store:container("abc"):blob(word):get { retries = 0, timeout = 1 }
    return store:usage { outcomes = true }.GetBlob
  end)
end

describe("usage over HTTP", function()
  local CASES = {
    ok = "done", busy = "throttled", many = "throttled", ["new-code"] = "refused", ["wrong-clock"] = "denied",
    html = "failed", gateway = "failed", redirect = "failed", ["bad-length"] = "failed", smtp = "failed",
    reset = "lost", close = "lost", half = "lost", slow = "lost", ["half-head"] = "lost",
  }
  local server
  setup(function() server = servers.start("spec/support/odd_server.js") end)
  teardown(function() server:stop() end)

  for word, outcome in pairs(CASES) do
    it("calls " .. word .. " " .. outcome, function()
      assert.same({ [outcome] = 1 }, outcomes_of(server, word))
    end)
  end

  it("calls what nobody takes unsent", function()
    assert.same({ unsent = 1 }, outcomes_of({ port = 1 }, "ok"))
  end)
end)
