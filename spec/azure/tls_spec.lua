-- HTTPS: a server is believed only when its certificate is known and its name is right.

local servers = require "spec.support.server"
local sh = require "spec.support.sh"

local SCRIPT = [[
local synod = require "synod"
for _, url in ipairs { ... } do
  local status, err, body = synod.http { url = url, timeout = 1 }
  print(status, status and body or err.code, status and "" or err.message, status and "" or err.retryable)
end
]]

describe("over TLS", function()
  local folder, server

  setup(function()
    folder = sh.folder()
    local said, code = sh.run([[openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
      -keyout "$DIR/key" -out "$DIR/certificate" -subj /CN=localhost -addext subjectAltName=DNS:localhost]],
      { dir = folder.path })
    assert.equal(0, code, said)
    folder:write("get.lua", SCRIPT)
    server = servers.start("spec/support/tls_server.js", folder.path .. "/key", folder.path .. "/certificate")
  end)
  teardown(function()
    server:stop()
    folder:close()
  end)

  local function get(trust, ...) -- true: the server's certificate; a text: that file; nil: the system's
    local urls = {}
    for i, url in ipairs { ... } do urls[i] = sh.quote(url) end
    local env = trust and { SSL_CERT_FILE = trust == true and folder.path .. "/certificate" or trust } or nil
    local command = '$SYNOD run "$DIR/get.lua" ' .. table.concat(urls, " ")
    local output, code = sh.run(command, { dir = folder.path, env = env })
    assert.equal(0, code, output)
    return output
  end

  it("a known certificate is trusted, for its own name", function()
    local name, address = "https://localhost:" .. server.port, "https://127.0.0.1:" .. server.port
    local output = get(true, name, name, address)
    assert.matches("^200\thello\t\t\n200\thello\t\t\nnil\tUnreachable\t"
      .. "no trusted connection to 127.0.0.1:%d+ could be made: [^\t]+\tfalse\n$", output)
  end)

  it("an unknown certificate is not", function()
    assert.matches("^nil\tUnreachable\tno trusted connection to localhost:%d+ could be made: [^\t]*self.signed[^\t]*"
      .. "\tfalse\n$", get(false, "https://localhost:" .. server.port))
  end)

  it("an empty SSL_CERT_FILE names no file: the system's certificates are trusted", function()
    assert.matches("[^\t]*self.signed[^\t]*\tfalse\n$", get("", "https://localhost:" .. server.port))
  end)

  it("a server that never says a word of it is given up", function()
    local plain <close> = servers.start("spec/support/odd_server.js")
    assert.equal(("nil\tUnreachable\tno connection to localhost:%d could be made in time\ttrue\n"):format(plain.port),
      get(true, "https://localhost:" .. plain.port .. "/"))
  end)
end)
