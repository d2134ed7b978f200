-- What proves that we may use an account: tokens of every kind, and signatures that others have made (SAS), against
-- a real emulator that takes tokens (over TLS), and endpoints that give them well and badly.

local azurite = require "spec.support.azurite"
local differences = require "spec.azure.differences"
local servers = require "spec.support.server"
local sh = require "spec.support.sh"

local CLIENT, SECRET = "client-of-the-spec", "secret/of+the spec"
local HEADER, ASSERTION = "header-of-the-spec", "eyJhc3NlcnRpb24"
local ENCODED_SECRET = "secret%2Fof%2Bthe%20spec"
-- Words that stand in no output: the secrets, and how every token begins.
local FORBIDDEN = { SECRET, ENCODED_SECRET, HEADER, ASSERTION, "eyJ0eXAi", "c2lnbmF0dXJl" }

local SCRIPT = [[
  local synod = require "synod"
  local made, err = synod.store:container(arg[1]):create()
  print(made and "made" or err, made or err.code, made or err.status)
]]

-- What the emulator says in a case, where it is not what the service says.
local function emulators(case)
  for _, row in ipairs(differences) do
    if row.spec == "spec/azure/credentials_spec.lua" and row.case == case then return row.azurite end
  end
  error("no such row: " .. case)
end

describe("credentials of Azure", function()
  local folder, emulator, tokens, revoking
  local ports = {}
  local count = 0

  setup(function()
    folder = sh.folder()
    local said, code = sh.run([[openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
      -keyout "$DIR/key" -out "$DIR/certificate" -subj /CN=localhost \
      -addext "subjectAltName=DNS:localhost,DNS:*.blob.storage.example,IP:127.0.0.1"
      openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
      -keyout "$DIR/other-key" -out "$DIR/other" -subj /CN=other]], { dir = folder.path })
    assert.equal(0, code, said)
    folder:write("make.lua", SCRIPT)
    folder:write("assertion", ASSERTION .. "\n")
    local key, certificate = folder.path .. "/key", folder.path .. "/certificate"
    emulator = servers.start("spec/support/azurite.js", "--oauth", "basic", "--key", key, "--cert", certificate)
    for _, service in ipairs { "Blob", "Queue", "Table" } do
      ports[service] = emulator:wait(service .. " service is successfully listening at https://[%w.]+:(%d+)")
    end
    tokens = servers.start("spec/support/token_server.js")
    revoking = servers.start("spec/support/revoking_server.js", key, certificate, ports.Blob)
  end)
  teardown(function()
    for _, server in ipairs { emulator, tokens, revoking } do server:stop() end
    folder:close()
  end)

  local function fresh()
    count = count + 1
    return "case" .. count
  end

  -- Where tokens come from: a name of this case's own, with what the endpoint is to do.
  local function base(name, options)
    return ("http://127.0.0.1:%d/name=%s%s"):format(tokens.port, name, options and "," .. options or "")
  end

  -- How many tokens were asked for under a name, and the last request's kind and client.
  local function asked(name)
    local times, last = 0, nil
    for kind in tokens:output():gmatch("%f[^\n%z]" .. name .. " %d+ ([^\n]+)") do
      times, last = times + 1, kind
    end
    return times, last
  end

  local KINDS = {
    imds = function(name, options) return { AZURE_POD_IDENTITY_AUTHORITY_HOST = base(name, options) } end,
    ["app-service"] = function(name, options)
      return { IDENTITY_ENDPOINT = base(name, options) .. "/msi/token", IDENTITY_HEADER = HEADER }
    end,
    secret = function(name, options)
      return { AZURE_AUTHORITY_HOST = base(name, options) .. "/", AZURE_TENANT_ID = "tenant-of-the-spec",
        AZURE_CLIENT_ID = CLIENT, AZURE_CLIENT_SECRET = SECRET }
    end,
    ["workload " .. ASSERTION] = function(name, options)
      return { AZURE_AUTHORITY_HOST = base(name, options), AZURE_TENANT_ID = "tenant-of-the-spec",
        AZURE_CLIENT_ID = CLIENT, AZURE_FEDERATED_TOKEN_FILE = folder.path .. "/assertion" }
    end,
  }

  local function endpoints(sas)
    local words = {}
    for _, service in ipairs { "Blob", "Queue", "Table" } do
      words[#words + 1] = ("%sEndpoint=https://localhost:%s/%s"):format(service, ports[service], azurite.account)
    end
    if sas then words[#words + 1] = "SharedAccessSignature=" .. sas end
    return table.concat(words, ";")
  end

  -- An account whose server refuses tokens that were revoked.
  local function revocable()
    return ("BlobEndpoint=https://localhost:%d/%s"):format(revoking.port, azurite.account)
  end

  local function clean(output)
    for _, word in ipairs(FORBIDDEN) do
      assert.is_nil(output:find(word, 1, true), "a secret is shown: " .. output)
    end
    return output
  end

  -- Runs a script with an account and an identity: `env` beside what every run has.
  local function run(env, command)
    local all = { SSL_CERT_FILE = folder.path .. "/certificate", AZURE_STORAGE_CONNECTION_STRING = endpoints() }
    for name, value in pairs(env) do all[name] = value or nil end
    for name, value in pairs(env) do if not value then all[name] = nil end end
    local output, code = sh.run(command or '$SYNOD run --store azure "$DIR/make.lua" ' .. fresh(),
      { dir = folder.path, env = all })
    return clean(output), code
  end

  -- A script's text, run under a name.
  local function run_text(env, text)
    folder:write("text.lua", text)
    return run(env, '$SYNOD run --store azure "$DIR/text.lua" ' .. fresh())
  end

  local function has(part, output)
    assert.truthy(output:find(part, 1, true), ("%q is not in %q"):format(part, output))
  end

  describe("a token", function()
    for kind, environment in pairs(KINDS) do
      it("of the kind \"" .. kind .. "\" opens the account, and is asked for once", function()
        local name = fresh()
        local output, code = run_text(environment(name), [[
          local synod = require "synod"
          local store = synod.store
          local c = store:container(arg[1])
          assert(c:create())
          assert(c:blob("a"):put("x"))
          assert(c:blob("a"):head())
          local t = store:table("t" .. arg[1])
          assert(t:create())
          assert(t:insert { partition = "p", row = "r", n = 1 })
          local q = store:queue(arg[1])
          assert(q:create())
          assert(q:put("text"))
          assert(#assert(q:get()) == 1)
          for item in c:list() do print(item.name) end
        ]])
        assert.equal("a\n", output)
        assert.equal(0, code)
        local client = (kind == "imds" or kind == "app-service") and "-" or CLIENT
        assert.same({ 1, kind .. " " .. client }, { asked(name) })
      end)
    end

    it("of one of several managed identities is chosen by AZURE_CLIENT_ID", function()
      for _, kind in ipairs { "imds", "app-service" } do
        local name = fresh()
        local env = KINDS[kind](name)
        env.AZURE_CLIENT_ID = "second-one"
        assert.equal("made\ttrue\ttrue\n", (run(env)))
        assert.same({ 1, kind .. " second-one" }, { asked(name) })
      end
    end)

    it("is chosen: workload identity, then client secret, then the managed identity of the app, then of the machine",
      function()
        local names, env = {}, {}
        local function add(kind)
          names[#names + 1] = fresh()
          for key, value in pairs(KINDS[kind](names[#names])) do env[key] = value end
          assert.equal("made\ttrue\ttrue\n", (run(env)))
          assert.equal(1, (asked(names[#names])), kind)
        end
        for _, kind in ipairs { "imds", "app-service", "secret", "workload " .. ASSERTION } do add(kind) end
        local _, last = asked(names[4])
        assert.equal("workload " .. ASSERTION .. " " .. CLIENT, last)
      end)

    it("goes with an account that is named by its address, in the environment and as the store", function()
      local address = ("https://localhost:%s/%s"):format(ports.Blob, azurite.account)
      local env = KINDS.imds(fresh())
      env.AZURE_STORAGE_CONNECTION_STRING, env.AZURE_STORAGE_ACCOUNT = false, address
      assert.equal("made\ttrue\ttrue\n", (run(env)))
      env.AZURE_STORAGE_ACCOUNT = false
      assert.equal("made\ttrue\ttrue\n",
        (run(env, ("$SYNOD run --store %s/ \"$DIR/make.lua\" %s"):format(address, fresh()))))
    end)

    it("is asked for once however many calls wait for it", function()
      local name = fresh()
      local output = run_text(KINDS.imds(name, "slow=300"), [[
        local synod = require "synod"
        local c = synod.store:container(arg[1])
        local tasks = {}
        for i = 1, 100 do tasks[i] = synod.spawn(function() return c:create() end) end
        for _, task in ipairs(tasks) do assert(task:join()) end
        print "all"
      ]])
      assert.equal("all\n", output)
      assert.equal(1, (asked(name)))
    end)

    it("is waited for inside each call's own deadline", function()
      local name = fresh()
      local output = run_text(KINDS.imds(name, "hang"), [[
        local synod = require "synod"
        local c = synod.store:container(arg[1])
        local start = synod.now()
        local tasks = {}
        for i, seconds in ipairs { 0.2, 0.6 } do
          tasks[i] = synod.spawn(function()
            local ok, err = c:create { timeout = seconds, try_timeout = seconds }
            local took = synod.now() - start
            print(ok, took >= seconds and took < seconds + 0.3, err)
          end)
        end
        for _, task in ipairs(tasks) do task:join() end
      ]])
      local line = "nil\ttrue\tcreate the container case%d+: the managed identity of this machine got no token: "
        .. "127.0.0.1:" .. tokens.port .. " did not answer in time[^\n]*set AZURE_STORAGE_CONNECTION_STRING[^\n]*\n"
      assert.matches("^" .. line .. line .. "$", output)
      assert.equal(1, (asked(name)))
    end)

    it("may be waited for in vain: a call is cancelled, and a store closed, while it waits", function()
      local name = fresh()
      local output = run_text(KINDS.imds(name, "hang"), [[
        local synod = require "synod"
        local store = assert(synod.open "azure")
        local c = store:container(arg[1])
        local tasks = {}
        for i = 1, 3 do tasks[i] = synod.spawn(function() return c:create() end) end
        synod.sleep(0.2)
        tasks[1]:cancel()
        print(select(2, tasks[1]:join()).code)
        print(next(store:usage())) -- nothing went out
        store:close()
        for i = 2, 3 do
          local _, ok, err = pcall(function() return assert(tasks[i]:join()) end)
          print(i, (err or ok).code)
        end
      ]])
      assert.equal("Cancelled\nnil\n2\tCancelled\n3\tCancelled\n", output)
      assert.equal(1, (asked(name)))
    end)

    it("that fails for a moment is asked for again, with back-off", function()
      local name = fresh()
      assert.equal("made\ttrue\ttrue\n", (run(KINDS.secret(name, "fail=2"))))
      assert.equal(3, (asked(name)))
    end)

    it("that the endpoint does not give for long is told, with what to do, and exit code 3", function()
      local output, code = run_text(KINDS["app-service"](fresh(), "status=503"),
        "assert(require('synod').store:container(arg[1]):create { timeout = 1 })")
      has("the managed identity of this app got no token: 127.0.0.1:" .. tokens.port .. " answered with status 503",
        output)
      has("give the app an identity, or name one of its own by AZURE_CLIENT_ID", output)
      assert.equal(3, code)
    end)

    it("that is refused for good is told at once, and not asked for again and again", function()
      local name = fresh()
      local output = run_text(KINDS.secret(name, "deny"), [[
        local synod = require "synod"
        local start = synod.now()
        for _ = 1, 5 do
          local ok, err = synod.store:container(arg[1]):create()
          print(ok, err.code, err.status, err.retryable, err.message)
        end
        print(synod.now() - start < 0.4)
      ]])
      local line = "nil\tUnauthorized\t401\tfalse\tthe client secret got no token: 127%.0%.0%.1:%d+ answered with "
        .. "status 401, invalid_client; check AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, and that the "
        .. "secret has not expired\n"
      assert.matches("^" .. line:rep(5) .. "true\n$", output)
      assert.equal(1, (asked(name)))
    end)

    for _, body in ipairs { "hello", "{}", "%7B%22access_token%22", "%5B%5D", '{"access_token":"eyJ0eXAi"}',
      '{"access_token":"eyJ0eXAi","expires_in":"soon"}', '{"access_token":"eyJ0eXAi","expires_in":-1}',
      '{"access_token":"","expires_in":60}', '{"access_token":"eyJ0eXAi x","expires_in":60}',
      '{"access_token":{"eyJ0eXAi":1},"expires_in":60}',
      '{"access_token":"eyJ0eXAi","token_type":"pop","expires_in":60}',
    } do
      it("is none that is good: " .. body, function()
        body = body:gsub("[,\" ]", { [","] = "%2C", ['"'] = "%22", [" "] = "%20" })
        local output, code = run(KINDS.imds(fresh(), "body=" .. body))
        has("got no token: the answer of 127.0.0.1:" .. tokens.port .. " holds none that is good", output)
        assert.equal(0, code)
      end)
    end

    it("for somebody else, or one that has expired, is refused by the account", function()
      local said = emulators "a token that is not good here"
      for i, option in ipairs { "stale", "audience=https:%2F%2Fvault.azure.net" } do
        local output = run(KINDS.imds(fresh(), option))
        has("the token of the managed identity of this machine was refused (AuthenticationFailed)", output)
        has("\t" .. said[i]:gsub(" ", "\t") .. "\n", output)
      end
    end)

    it("that was revoked is replaced once, at the account's challenge, for all calls", function()
      local name = fresh()
      local env = KINDS.imds(name, "revoke=1")
      env.AZURE_STORAGE_CONNECTION_STRING = revocable()
      local output = run_text(env, [[
        local synod = require "synod"
        local c = synod.store:container(arg[1])
        local tasks = {}
        for i = 1, 20 do tasks[i] = synod.spawn(function() return c:create { retries = 0 } end) end
        for _, task in ipairs(tasks) do assert(task:join()) end
        print "all"
      ]])
      assert.equal("all\n", output)
      assert.equal(2, (asked(name)))
    end)

    it("of an identity that was revoked is not replaced without end", function()
      local name = fresh()
      local env = KINDS.imds(name, "revoke=100")
      env.AZURE_STORAGE_CONNECTION_STRING = revocable()
      local output = run_text(env, [[
        for _ = 1, 5 do print(select(2, require("synod").store:container(arg[1]):create()).code) end
      ]])
      assert.equal(("Unauthorized\n"):rep(5), output)
      assert.equal(2, (asked(name)))
    end)
  end)

  describe("a token's life", function()
    -- On the virtual clock, which stands still while a request is on its way.
    local no_sanitizer = os.getenv("SYNOD_ASAN") and "lua5.4 itself is not built for the sanitizers"

    local function virtual(env, text)
      folder:write("virtual.lua", ([[
        package.path, package.cpath = "lua/?.lua;lua/?/init.lua", %q
        require("synod.core").main(function()
          local synod = require "synod"
          %s
        end, { clock = "virtual" })
      ]]):format((os.getenv("SYNOD_LIB") or "build/lib") .. "/?.so", text))
      return run(env, 'lua5.4 "$DIR/virtual.lua"')
    end

    it("is used until shortly before its end: a new one is fetched ahead, while the old one serves", function()
      if no_sanitizer then return pending(no_sanitizer) end
      for _, kind in ipairs { "imds", "app-service" } do
        local name = fresh()
        local env = KINDS[kind](name, kind == "imds" and "life=3600" or "life=3600,on")
        local container = fresh()
        local output, code = virtual(env, ([[
          local c = assert(synod.open "azure"):container %q
          assert(c:create())
          synod.sleep(2990)
          assert(c:head())
          synod.sleep(20)          -- ten minutes before its end
          assert(c:head())
          synod.sleep(1)
          assert(c:head())
          print "done"
        ]]):format(container))
        assert.equal("done\n", output)
        assert.equal(0, code)
        assert.equal(2, (asked(name)), kind)
      end
    end)

    it("goes on while the next one cannot be had, and then the reason is told", function()
      if no_sanitizer then return pending(no_sanitizer) end
      local output = virtual(KINDS.imds(fresh(), "once"), ([[
        local c = assert(synod.open "azure"):container %q
        assert(c:create())
        synod.sleep(3001)
        for _ = 1, 5 do
          assert(c:head())
          synod.sleep(100)
        end
        synod.sleep(100)
        local start = synod.now()
        local ok, err = c:head()
        print(ok, err, synod.now() - start <= 10)
      ]]):format(fresh()))
      assert.matches("^nil\t[^\n]*the managed identity of this machine got no token: 127.0.0.1:%d+ answered with "
        .. "status 503; [^\n]*%(Unreachable, 503%)[^\n]*\ttrue\n$", output)
    end)

    it("begins when the endpoint allows it: its Retry-After is kept", function()
      if no_sanitizer then return pending(no_sanitizer) end
      local name = fresh()
      local output = virtual(KINDS.secret(name, "fail=1,retry=5"), ([[
        local start = synod.now()
        assert(assert(synod.open "azure"):container(%q):create())
        print(synod.now() - start >= 5, synod.now() - start < 6)
      ]]):format(fresh()))
      assert.equal("true\ttrue\n", output)
      assert.equal(2, (asked(name)))
    end)

    it("that is over makes calls wait for the next one", function()
      if no_sanitizer then return pending(no_sanitizer) end
      local name = fresh()
      local output = virtual(KINDS.secret(name, "life=100"), ([[
        local c = assert(synod.open "azure"):container %q
        assert(c:create())
        for _ = 1, 3 do
          synod.sleep(100)
          assert(c:head())
        end
        print "done"
      ]]):format(fresh()))
      assert.equal("done\n", output)
      assert.equal(4, (asked(name)))
    end)

    it("reads the assertion of a workload identity anew each time", function()
      if no_sanitizer then return pending(no_sanitizer) end
      local name = fresh()
      folder:write("rotated", "eyJmaXJzdA")
      local env = KINDS["workload " .. ASSERTION](name, "life=100")
      env.AZURE_FEDERATED_TOKEN_FILE = folder.path .. "/rotated"
      local output = virtual(env, ([[
        local c = assert(synod.open "azure"):container %q
        assert(c:create())
        local file <close> = io.open(%q, "w")
        file:write("eyJzZWNvbmQ\n")
        file:close()
        synod.sleep(100)
        assert(c:head())
        print "done"
      ]]):format(fresh(), folder.path .. "/rotated"))
      assert.equal("done\n", output)
      assert.same({ 2, "workload eyJzZWNvbmQ " .. CLIENT }, { asked(name) })
    end)
  end)

  describe("an environment that is incomplete", function()
    local function refused(env, why, exit)
      local output, code = run(env)
      has(why, output)
      assert.equal(exit or 3, code, output)
    end

    it("is refused by the name of what is missing", function()
      refused({ AZURE_STORAGE_CONNECTION_STRING = false }, "needs AZURE_STORAGE_CONNECTION_STRING")
      refused({ AZURE_CLIENT_SECRET = SECRET },
        "AZURE_CLIENT_SECRET is set in the environment and AZURE_TENANT_ID is not")
      refused({ AZURE_CLIENT_SECRET = SECRET, AZURE_TENANT_ID = "t" }, "and AZURE_CLIENT_ID is not")
      refused({ AZURE_FEDERATED_TOKEN_FILE = "/x" },
        "AZURE_FEDERATED_TOKEN_FILE is set in the environment and AZURE_TENANT_ID")
      refused({ IDENTITY_ENDPOINT = base "x" },
        "IDENTITY_ENDPOINT is set in the environment and IDENTITY_HEADER is not")
      refused({ AZURE_CLIENT_SECRET = SECRET, AZURE_TENANT_ID = "t/../u", AZURE_CLIENT_ID = "c" },
        "AZURE_TENANT_ID in the environment is no tenant's id")
      refused({ AZURE_CLIENT_SECRET = SECRET, AZURE_TENANT_ID = "t", AZURE_CLIENT_ID = "c",
        AZURE_AUTHORITY_HOST = "http://login.example" }, "a secret is only sent over https")
    end)

    it("is refused where a token would cross the network in the clear, or the account is none", function()
      refused({ AZURE_STORAGE_CONNECTION_STRING = "BlobEndpoint=http://storage.example/a" },
        "BlobEndpoint begins with http://, and without a key requests carry a token", 2)
      refused({ AZURE_STORAGE_CONNECTION_STRING = "BlobEndpoint=http://127.0.0.1.example/a" },
        "only sent over https", 2)
      refused({ AZURE_STORAGE_CONNECTION_STRING = "BlobEndpoint=http://localhost@storage.example/a" },
        "BlobEndpoint is not an address", 2)
      refused({ AZURE_STORAGE_CONNECTION_STRING = false, AZURE_STORAGE_ACCOUNT = "No Name" },
        "AZURE_STORAGE_ACCOUNT in the environment is neither", 2)
    end)

    it("tells of an assertion's file that cannot be read", function()
      local env = KINDS["workload " .. ASSERTION](fresh())
      for path, why in pairs { ["/nowhere/token"] = "No such file or directory", ["/dev/null"] = "Invalid argument" } do
        env.AZURE_FEDERATED_TOKEN_FILE = path
        local output = run(env)
        has("the file that AZURE_FEDERATED_TOKEN_FILE names cannot be used: " .. why, output)
      end
    end)
  end)

  describe("a SAS", function()
    -- Made by the official client's rules for an account's SAS, with the emulator's key.
    local function make(options)
      local words = { "node", "spec/support/sas.js" }
      for name, value in pairs(options or {}) do words[#words + 1] = name .. "=" .. value end
      local output, code = sh.run(table.concat(words, " "))
      assert.equal(0, code, output)
      return output:match("^%S+")
    end

    local function with(connection)
      return run { AZURE_STORAGE_CONNECTION_STRING = connection }
    end

    it("opens the account from the connection string, from an endpoint, and from an address", function()
      local sas = make()
      assert.equal("made\ttrue\ttrue\n", (with(endpoints(sas))))
      assert.equal("made\ttrue\ttrue\n", (with(endpoints("?" .. sas) .. ";AccountName=" .. azurite.account)))
      local address = ("https://localhost:%s/%s?%s"):format(ports.Blob, azurite.account, sas)
      assert.equal("made\ttrue\ttrue\n", (with("BlobEndpoint=" .. address)))
      local env = { AZURE_STORAGE_CONNECTION_STRING = false, AZURE_STORAGE_ACCOUNT = address }
      assert.equal("made\ttrue\ttrue\n", (run(env)))
      env.AZURE_STORAGE_ACCOUNT = false
      assert.equal("made\ttrue\ttrue\n",
        (run(env, ("$SYNOD run --store '%s' \"$DIR/make.lua\" %s"):format(address, fresh()))))
    end)

    it("serves every kind of call", function()
      local made = run_text({ AZURE_STORAGE_CONNECTION_STRING = endpoints(make()) }, [[
        local store = require("synod").store
        local t, q = store:table("t" .. arg[1]), store:queue(arg[1])
        assert(t:create())
        assert(t:insert { partition = "p p", row = "r", n = 1 })
        assert(t:batch { { insert = { partition = "p", row = "1" } }, { upsert = { partition = "p", row = "2" } } })
        assert(t:get("p p", "r").n == 1)
        assert(q:create())
        assert(q:put("text"))
        local message = assert(q:get())[1]
        assert(message:delete())
        for e in t:query { partition = "p" } do print(e.row) end
      ]])
      assert.equal("1\n2\n", made)
      local output = run({ AZURE_STORAGE_CONNECTION_STRING = endpoints(make()) }, ([[
        $SYNOD store put %s/a/ä&b "$DIR/make.lua" && $SYNOD store ls %s && $SYNOD store get %s/a/ä&b | head -1
      ]]):gsub("%%s", (fresh())):gsub("%$SYNOD store", "$SYNOD store --store azure"):gsub("(%S+/a/ä&b)", '"%1"'))
      has("a/ä&b", output)
    end)

    local function refused(sas, why, code)
      local output = with(endpoints(sas))
      has(why, output)
      has("\t" .. code:gsub(" ", "\t") .. "\n", output)
      local signature = sas:match("sig=([^&]+)")
      assert.is_nil(output:find(signature, 1, true), output)
      local plain = signature:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
      assert.is_nil(output:find(plain, 1, true), output)
    end

    it("that has expired, does not permit it, or was changed is refused with what to do", function()
      local said = emulators "a SAS that is no longer good"
      refused(make { expires = -3600 }, "the SAS expired at ", said[1])
      refused((make():gsub("sig=..", "sig=AA")), "it was changed", said[2])
      local permit = "the SAS does not permit it (Authorization%sMismatch)"
      refused(make { permissions = "r" }, permit:format "Permission", "Unauthorized 403")
      refused(make { types = "o" }, permit:format "ResourceType", "Unauthorized 403")
      refused(make { services = "q" }, permit:format "Service", "Unauthorized 403")
    end)

    it("that may write and not read leaves a lost answer in doubt, and calls nobody else the first", function()
      local name = fresh()
      local text = ([[
        local core = require "synod.core"
        local all <close> = assert(core.open_store "ALL")
        local blind <close> = assert(core.open_store("BLIND", { faults = {
          { kind = "lost-response", operation = "PutBlob" }, { kind = "lost-response", operation = "InsertEntity" },
          { kind = "lost-response", operation = "DeleteBlob" },
        } }))
        assert(all:container "NAME":create())
        assert(all:table "NAME":create())
        local b, e = blind:container "NAME":blob "mark", { partition = "p", row = "r" }
        for _ = 1, 2 do
          print(select(2, b:put("", { if_none_match = "*" })).code, select(2, blind:table "NAME":insert(e)).code)
        end
        local etag = assert(all:container "NAME":blob "mark":head()).etag
        print(select(2, b:delete { if_match = etag }).code)
      ]]):gsub("%u%u%u+", { ALL = endpoints(make()), BLIND = endpoints(make { permissions = "wadc" }), NAME = name })
      assert.equal("AnswerLost\tAnswerLost\nBlobAlreadyExists\tEntityAlreadyExists\nAnswerLost\n",
        (run_text({}, text)))
    end)

    it("of one service serves no other, and says so", function()
      local text = [[
        local synod = require "synod"
        local c, t = synod.store:container(arg[1]), synod.store:table("t" .. arg[1])
        print(c:create())
        print(t:create())
      ]]
      local address = ("BlobEndpoint=https://localhost:%s/%s?%s"):format(ports.Blob, azurite.account, make())
      local output = run_text({ AZURE_STORAGE_CONNECTION_STRING = address }, text)
      assert.matches("^true\nnil\t[^\n]*the account has no address for tables: name it", output)
      address = ("%s;TableEndpoint=https://localhost:%s/%s"):format(address, ports.Table, azurite.account)
      output = run_text({ AZURE_STORAGE_CONNECTION_STRING = address }, text)
      assert.matches("^true\nnil\t[^\n]*the connection string has a SAS for another service, and none for tables",
        output)
    end)

    it("repeated by a server is not shown", function()
      local signature = "sv=1&sig=a%2Bc2VjcmV0c2lnbmF0dXJl"
      local echo <close> = servers.start("spec/support/echo_server.js")
      local output = with(("BlobEndpoint=http://127.0.0.1:%d/a?%s"):format(echo.port, signature))
      has("InvalidQueryParameterValue", output)
      assert.is_nil(output:find("c2VjcmV0c2ln", 1, true), output)
    end)

    it("that is malformed is refused where the store is opened, without being shown", function()
      for _, sas in ipairs { "sv=2020", "sig=", "sig", "sv=1&sig=secretsignature&", "sv=1&&sig=secretsignature",
        "sv=1&sig=secret signature", "sig=secretsignature" .. ("x"):rep(5000) } do
        local output, code = with(endpoints(sas))
        has("the SAS is malformed", output)
        assert.is_nil(output:find("secretsig", 1, true), output)
        assert.equal(2, code)
      end
      local output, code = with("AccountName=a;AccountKey=" .. azurite.key
        .. ";SharedAccessSignature=sig=secretsignature")
      has("AccountKey cannot stand beside a SharedAccessSignature", output)
      assert.equal(2, code)
    end)

    it("on the command line is overwritten there", function()
      folder:write("shown.lua", "print(io.open('/proc/self/cmdline'):read('a'))")
      local output = run({}, [[$SYNOD run --store 'https://localhost:1/a?sv=1&sig=secretsignature' "$DIR/shown.lua"]])
      has("***", output)
      assert.is_nil(output:find("secretsignature", 1, true), output)
    end)
  end)

  describe("a connection", function()
    it("to a server whose certificate is not known is refused, and says so", function()
      local env = KINDS.imds(fresh())
      env.SSL_CERT_FILE = folder.path .. "/other"
      local output = run(env)
      has(("no trusted connection to localhost:%s could be made"):format(ports.Blob), output)
      env.SSL_CERT_FILE = "/nowhere/certificates"
      output = run(env)
      has("no trusted connection", output)
      has("/nowhere/certificates", output)
    end)

    it("goes through the proxy of the environment, but for those that NO_PROXY names; never to an identity", function()
      local proxy = "http://127.0.0.1:" .. revoking:output():match("proxy (%d+)")
      local env = KINDS.imds(fresh())
      env.AZURE_STORAGE_CONNECTION_STRING = "BlobEndpoint=https://devstoreaccount1.blob.storage.example"
      env.https_proxy, env.http_proxy = proxy, proxy
      assert.equal("made\ttrue\ttrue\n", (run(env)))
      assert.truthy(revoking:output():find("CONNECT devstoreaccount1.blob.storage.example:443", 1, true))
      env.AZURE_POD_IDENTITY_AUTHORITY_HOST = "http://identity.example"
      has("got no token: the name in identity.example is unknown here", (run(env)))
      assert.is_nil(revoking:output():find("identity.example", 1, true))
      for name, value in pairs(KINDS.imds(fresh())) do env[name] = value end
      env.NO_PROXY = "storage.example"
      has("the name in devstoreaccount1.blob.storage.example is unknown here", (run(env)))
    end)
  end)

  it("are not seen by commands that a script starts", function()
    local env = {}
    for _, environment in pairs(KINDS) do
      for key, value in pairs(environment(fresh())) do env[key] = value end
    end
    local output = run_text(env, [[print(require("synod").exec { "env" }.stdout)]])
    assert.is_nil(output:find("AZURE_", 1, true), output)
    assert.is_nil(output:find("IDENTITY_", 1, true), output)
  end)
end)
