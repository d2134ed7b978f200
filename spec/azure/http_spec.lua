-- synod.http: against a server that answers as told, also wrongly.

local core = require "synod.core"
local synod = require "synod"
local servers = require "spec.support.server"
local sh = require "spec.support.sh"

local server, base, folder

local function get(word, options)
  options = options or {}
  options.url = base .. word
  return synod.http(options)
end

--- Runs the body of a test as the main task.
local function run(fn)
  return function() core.main(fn) end
end

local function count(word)
  local _, _, body = get("count/" .. word)
  return tonumber(body)
end

describe("synod.http", function()
  setup(function()
    server = servers.start("spec/support/odd_server.js")
    base = ("http://127.0.0.1:%d/"):format(server.port)
    folder = sh.folder()
  end)
  teardown(function()
    server:stop()
    folder:close()
  end)

  it("gives the status, the headers in lower case and the body", run(function()
    local status, headers, body = get("ok")
    assert.equal(200, status)
    assert.equal("2021-12-02", headers["x-ms-version"])
    assert.equal("hello", body)
  end))

  it("joins the values of one header", run(function()
    local _, headers = get("repeated")
    assert.equal("1", headers["x-one"])
    assert.equal("a, b", headers["x-two"])
  end))

  it("takes any status for an answer", run(function()
    assert.equal(404, (get("absent")))
    assert.equal(503, (get("busy")))
  end))

  it("sends method, headers and body as they are", run(function()
    for _, method in ipairs { "POST", "PUT", "PATCH", "DELETE", "GET" } do
      local fields = { ["X-A"] = "b c", N = 7, E = "" }
      local _, headers, body = get("echo", { method = method, headers = fields, body = "x\0y" })
      assert.equal(method, headers["x-method"])
      assert.truthy(body:find("\r\nX-A: b c\r\n", 1, true))
      assert.truthy(body:find("\r\nN: 7\r\n", 1, true))
      assert.truthy(body:find("\r\nE:\r\n", 1, true))
      assert.truthy(body:find("\r\nContent-Length: 3\r\n", 1, true))
      assert.falsy(body:find("Content-Type", 1, true))
      assert.equal("x\0y", body:sub(-3))
    end
  end))

  it("sends a body of several megabytes without asking first", run(function()
    local big = ("0123456789abcdef"):rep(1 << 17)
    local _, _, body = get("echo", { method = "PUT", body = big })
    assert.falsy(body:find("Expect", 1, true))
    assert.equal(big, body:sub(-#big))
  end))

  it("sends a length of 0 where a body belongs and there is none", run(function()
    for _, method in ipairs { "PUT", "POST" } do
      local _, _, body = get("echo", { method = method })
      assert.truthy(body:find("Content-Length: 0\r\n", 1, true))
    end
    local _, _, body = get("echo", { method = "DELETE" })
    assert.falsy(body:find("Content-Length", 1, true))
  end))

  it("understands a HEAD, which has no body, between others", run(function()
    for _ = 1, 2 do
      local status, headers, body = get("ok", { method = "HEAD" })
      assert.equal(200, status)
      assert.equal("5", headers["content-length"])
      assert.equal("", body)
      local _, _, again = get("ok")
      assert.equal("hello", again)
    end
  end))

  it("uses a connection again", run(function()
    local _, _, before = get("connections")
    for _ = 1, 20 do assert.equal(200, (get("ok"))) end
    local _, _, after = get("connections")
    assert.equal(before, after)
  end))

  it("has no more than 64 requests on the way, and answers all of 300", run(function()
    local _, _, before = get("connections")
    local tasks = {}
    for i = 1, 300 do tasks[i] = synod.spawn(function() return (get("late")) end) end
    for i = 1, 300 do assert.equal(200, (tasks[i]:join())) end
    local _, _, after = get("connections")
    assert.is_true(after - before <= 64)
  end))

  it("follows the redirects of a read, and not without end", run(function()
    local status, _, body = get("to-ok")
    assert.equal(200, status)
    assert.equal("hello", body)
    local none, err = get("round")
    assert.is_nil(none)
    assert.equal("BadAnswer", err.code)
    assert.truthy(err.message:find("redirected more than 10 times", 1, true))
  end))

  it("does not follow those of a write", run(function()
    assert.equal(302, (get("to-ok", { method = "PUT", body = "x" })))
  end))

  it("ends at its timeout, wherever it stands", run(function()
    for _, word in ipairs { "slow", "drip" } do
      local start = synod.now()
      local status, err = get(word, { timeout = 0.15 })
      assert.is_nil(status)
      assert.equal("Timeout", err.code)
      assert.truthy(err.message:find("did not answer in time", 1, true))
      local took = synod.now() - start
      assert.is_true(took >= 0.15 and took < 1)
    end
  end))

  it("is not sent when there is no time", run(function()
    local before = count("ok")
    local status, err = get("ok", { timeout = 0 })
    assert.is_nil(status)
    assert.equal("no time is left for the request", err.message)
    assert.equal(before, count("ok"))
  end))

  it("works while the clock is virtual, which stands still meanwhile", function()
    core.main(function()
      local start = synod.now()
      assert.equal(200, (get("late")))
      assert.equal(start, synod.now())
    end, { clock = "virtual" })
  end)

  it("goes through the proxy of the environment, but not to this machine itself", function()
    local script = folder:write("proxy.lua", [[
      local synod = require "synod"
      for _, url in ipairs { "http://name.example/a/echo", (...), "http://name.example/b/echo" } do
        local _, _, body = synod.http { url = url }
        print(body)
      end
    ]])
    local env = { http_proxy = "http://127.0.0.1:" .. server.port }
    local output = sh.run(("$SYNOD run %s %secho"):format(sh.quote(script), base), { env = env })
    assert.truthy(output:find("GET http://name.example/a/echo HTTP/1.1\r\n", 1, true), output)
    assert.truthy(output:find("GET /echo HTTP/1.1\r\n", 1, true), output)
    assert.truthy(output:find("GET http://name.example/b/echo HTTP/1.1\r\n", 1, true), output)
  end)

  it("says that it may have been the proxy who refused", function()
    local script = folder:write("refused.lua",
      [[print(select(2, require("synod").http { url = "http://name.example/" }).message)]])
    local env = { http_proxy = "http://127.0.0.1:1" }
    assert.equal("name.example, or the proxy of the environment, refuses connections\n",
      (sh.run("$SYNOD run " .. sh.quote(script), { env = env })))
  end)

  it("says what a proxy answered that makes no tunnel", function()
    local script = folder:write("tunnel.lua", [[
      for _, name in ipairs { "login", "forbidden", "broken" } do
        local _, err = require("synod").http { url = "https://" .. name .. ".example/" }
        print(err.code, err.status, err.retryable, err.message)
      end
    ]])
    local env = { https_proxy = "http://user:opensesame@127.0.0.1:" .. server.port }
    assert.equal("Unreachable\t407\tfalse\ta proxy on the way to login.example wants credentials\n"
      .. "Unreachable\t403\tfalse\ta proxy on the way to forbidden.example does not let us through: "
      .. "it answered with status 403\n"
      .. "Unreachable\t502\ttrue\ta proxy on the way to broken.example does not let us through: "
      .. "it answered with status 502\n", (sh.run("$SYNOD run " .. sh.quote(script), { env = env })))
  end)

  it("lets other tasks run meanwhile", run(function()
    local ticks = 0
    local ticker = synod.every(0.01, function() ticks = ticks + 1 end)
    get("slow", { timeout = 0.2 })
    ticker:cancel()
    assert.is_true(ticks >= 10)
  end))

  it("is abandoned by a cancel", run(function()
    local task = synod.spawn(function() return get("slow") end)
    synod.sleep(0.05)
    task:cancel("enough")
    local result, err = task:join(1)
    assert.is_nil(result)
    assert.equal("Cancelled", err.code)
    assert.equal(200, (get("ok")))
  end))

  it("tells a lost connection from an answer", run(function()
    for _, word in ipairs { "reset", "close", "half", "half-head" } do
      local status, err = get(word)
      assert.is_nil(status, word)
      assert.equal("Unreachable", err.code)
      assert.is_true(err.retryable)
      assert.truthy(err.message:find("127.0.0.1:" .. server.port, 1, true))
    end
  end))

  it("never repeats a write on its own when a kept connection breaks", run(function()
    for _ = 1, 2 do get("once", { method = "PUT", body = "x" }) end -- fine at first, then broken
    assert.equal(2, count("once"))
    assert.equal(200, (get("ok")))
  end))

  it("does repeat a read, on a new connection", run(function()
    local before = count("once")            -- on a connection that is kept: the next request on it breaks it
    assert.equal(200, (get("once")))
    assert.equal(200, (get("once")))
    assert.equal(before + 4, count("once")) -- each broke a connection and was sent again on a new one
  end))

  it("does not mind that the server closes a kept connection", run(function()
    assert.equal(200, (get("last")))
    synod.sleep(0.15)
    assert.equal(200, (get("ok", { method = "PUT", body = "x" })))
  end))

  it("refuses what is no HTTP", run(function()
    local status, err = get("smtp")
    assert.is_nil(status)
    assert.equal("BadAnswer", err.code)
    assert.truthy(err.message:find("did not answer in HTTP", 1, true))
  end))

  it("takes no more of an answer than it is told, or than it can", run(function()
    local status, err = get("ok", { max_body = 4 })
    assert.is_nil(status)
    assert.equal("AnswerTooLarge", err.code)
    assert.truthy(err.message:find("larger than 4 bytes", 1, true))
    assert.equal("hello", select(3, get("ok", { max_body = 5 })))
    local _, headers_err = get("many-headers")
    assert.equal("AnswerTooLarge", headers_err.code)
  end))

  it("says whom it could not reach, and shows neither password nor query", run(function()
    local status, err = synod.http { url = "http://user:password@127.0.0.1:1/path?sig=secret" }
    assert.is_nil(status)
    assert.equal("Unreachable", err.code)
    assert.equal("127.0.0.1:1 refuses connections", err.message)
    assert.equal("GET http://127.0.0.1:1/path", err.target)
    assert.falsy(tostring(err):find("secret", 1, true))
    assert.falsy(tostring(err):find("password", 1, true))
  end))

  it("raises what the caller got wrong, at the caller's line", run(function()
    local function refused(options, text)
      local ok, err = pcall(function() synod.http(options) end)
      assert.is_false(ok)
      assert.truthy(tostring(err):find(text, 1, true), tostring(err))
      assert.truthy(tostring(err):find("http_spec.lua", 1, true), tostring(err))
    end
    refused({}, "url must begin with http:// or https://")
    refused({ url = "ftp://x/" }, "url must begin with http:// or https://")
    refused({ url = "http://x/a b" }, "url must be percent-encoded")
    refused({ url = "http://x/", timout = 5 }, "unknown option 'timout'")
    local made = setmetatable({}, { __index = function(_, name) return name == "url" and base or nil end })
    refused(made, "url must begin with http:// or https://")
    refused({ url = base, method = "get" }, "capital letters")
    refused({ url = base, headers = { ["a b"] = "c" } }, "header a b cannot be sent")
    refused({ url = base, headers = { a = "b\r\nX: y" } }, "header a cannot be sent")
    refused({ url = base, headers = { a = {} } }, "must be a string or number")
    refused({ url = base, headers = 7 }, "headers must be a table")
    refused({ url = base, timeout = -1 }, "timeout")
    refused({ url = base, max_body = -1 }, "max_body")
  end))

  it("tries every address of a name", run(function()
    for _ = 1, 3 do -- ::1 refuses first, where the name has it
      assert.equal(200, (synod.http { url = ("http://localhost:%d/ok"):format(server.port), timeout = 2 }))
    end
  end))

  it("keeps its head with hundreds of all kinds at once, many given up", run(function()
    local words = { "ok", "late", "slow", "drip", "reset", "close", "half", "half-head", "smtp", "last", "once",
      "to-ok", "round", "repeated", "many-headers", "echo" }
    local methods = { "GET", "HEAD", "PUT", "DELETE" }
    math.randomseed(7)
    local tasks, ended = {}, 0
    for i = 1, 600 do
      local options = { method = methods[math.random(#methods)], timeout = math.random() * 0.6 }
      local word = words[math.random(#words)]
      tasks[i] = synod.spawn(function()
        local status, err = get(word, options)
        assert(status or err.code)
        ended = ended + 1
      end)
      if math.random(2) == 1 then
        local task = tasks[i]
        synod.spawn(function()
          synod.sleep(math.random() * 0.05)
          task:cancel("enough")
        end)
      end
      if i % 50 == 0 then synod.sleep(0.02) end
    end
    local cancelled = 0
    for i = 1, #tasks do
      local _, err = tasks[i]:join(5)
      if err then
        assert.equal("Cancelled", err.code)
        cancelled = cancelled + 1
      end
    end
    assert.equal(600, ended + cancelled)
    assert.is_true(ended > 300 and cancelled > 10, ended .. " ended")
    assert.equal(200, (get("ok")))
  end))

  it("leaves nothing behind when a run ends with requests on the way", function()
    core.main(function()
      for _ = 1, 70 do synod.spawn(function() get("slow") end):detach() end
      synod.sleep(0.05)
    end)
    core.main(function() assert.equal(200, (get("ok"))) end)
  end)
end)
