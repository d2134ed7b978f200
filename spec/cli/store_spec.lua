-- `synod store` as a person uses it: the real program on a file of its own.

local json = require "cjson"
local sh = require "spec.support.sh"

--- Runs shell lines in a folder whose store is empty at first; gives the output and the exit code.
local function run(script, folder)
  local own = folder or sh.folder()
  local output, code = sh.run("cd \"$DIR\" && " .. script, {
    dir = own.path,
    env = { SYNOD_STORE = "embedded:" .. own.path .. "/store.db", SYNOD = sh.synod:sub(1, 1) == "/" and sh.synod
      or assert(os.getenv("PWD")) .. "/" .. sh.synod, TZ = "UTC" },
  })
  if not folder then own:close() end
  return output, code
end

--- A script of the library makes a container: the command line has no word for it.
local CREATE = [[echo 'assert(require("synod").store:container(...):create())' >create.lua &&
  $SYNOD create.lua flags && ]]

describe("synod store", function()
  it("puts and gets any bytes, by file and by pipe", function()
    local output, code = run(CREATE .. [[
      head -c 100000 /dev/urandom >in && $SYNOD store put flags/a in && $SYNOD store get flags/a -o out &&
      cmp in out &&
      $SYNOD store put flags/b - <in && $SYNOD store get flags/b | cmp - in && printf same]])
    assert.same({ "same", 0 }, { output, code })
  end)

  it("lists containers, blobs, and blobs that begin alike", function()
    local output, code = run(CREATE .. [[
      for n in a1 a2 b; do printf $n | $SYNOD store put flags/$n; done
      $SYNOD store put flags/page --type page --size 1024
      $SYNOD store ls; echo; $SYNOD store ls flags; echo; $SYNOD store ls flags/a]])
    assert.equal(0, code)
    local containers, blobs, alike = output:match("^(.-)\n\n(.-)\n\n(.-)\n$")
    assert.matches("^CONTAINER  MODIFIED             LEASE\nflags      %d+%-%d+%-%d+ [%d:]+  %-$", containers)
    assert.matches("^BLOB  TYPE   LENGTH  MODIFIED             LEASE\na1    block       2  ", blobs)
    assert.matches("\npage  page     1024  [%d%-]+ [%d:]+  %-$", blobs)
    assert.matches("\na1 .*\na2 [^\n]*$", alike)
    assert.is_nil(alike:find("\nb "))
  end)

  it("shows numbers with all their digits, and no controls of a terminal", function()
    local output, code = run([[
      echo 'local synod = require "synod"; local t = synod.store:table "People"; assert(t:create())
        local entity = { partition = "p", row = "r", sum = 0.1 + 0.2, least = 5e-324, zero = -0.0, one = 1.0,
          none = 0/0, text = "a\27[31mb\u{9B}31mc" }
        assert(t:upsert(entity))
        local c = synod.store:container "flags"; assert(c:create()); assert(c:blob "a\u{9B}31mb":put "")
        local q = synod.store:queue "tasks"; assert(q:create()); assert(q:put "a\u{9B}31mb")' >t.lua && $SYNOD t.lua
      $SYNOD store table ls People | tail -n 1 | sed 's/^[^a-z]*//'
      $SYNOD store table ls People --json; $SYNOD store ls flags | tail -n 1
      $SYNOD store queue peek tasks | tail -n 1]])
    assert.equal(0, code)
    assert.matches("  least=4.94065645841247e-324 none=NaN one=1.0 sum=0.30000000000000004 "
      .. "text=a [31mb 31mc zero=-0.0\n", output, 1, true)
    assert.matches('"least":4.94065645841247e-324,"none":"NaN","one":1.0,', output, 1, true)
    assert.matches('"sum":0.30000000000000004,', output, 1, true)
    assert.matches("\na 31mb  block  ", output, 1, true)
    assert.matches("  a 31mb\n$", output)
  end)

  it("lists tables and their entities", function()
    local output, code = run([[
      echo 'local synod = require "synod"; local t = synod.store:table "People"; assert(t:create())
        for i, name in ipairs { "Ada", "Zoë" } do
          assert(t:upsert { partition = "p" .. i, row = "r", name = name, age = 30 + i, at = synod.time(0),
            score = i == 1 and 0/0 or 1.5, small = synod.int32(7) })
        end' >t.lua && $SYNOD t.lua
      $SYNOD store table ls; $SYNOD store table ls --json; $SYNOD store table ls People
      $SYNOD store table ls people/p1 --json | sed 's/"etag":[^,]*"",//; s/"timestamp":"[^"]*"/T/'
      $SYNOD store table ls People --filter "age gt 31L" | wc -l
      $SYNOD store table ls None; echo $?; $SYNOD store table ls a-b; echo $?; $SYNOD store table; echo $?]])
    assert.equal(0, code)
    assert.matches('^People\n{"name":"People"}\nPARTITION  ROW  TIMESTAMP             PROPERTIES\n', output)
    assert.matches("\np2         r    %d+%-%d+%-%d+T[%d:]+Z  age=32 at=1970%-01%-01T00:00:00.0000000Z name=Zoë "
      .. "score=1.5 small=7\n", output)
    assert.matches('"age":31,"at":"1970-01-01T00:00:00.0000000Z",', output, 1, true)
    assert.matches('"name":"Ada","partition":"p1","row":"r","score":"NaN","small":7,T}\n2\n', output, 1, true)
    assert.matches("the table does not exist (TableNotFound, 404); create it first\n1\n", output, 1, true)
    assert.matches("the table name 'a-b' may hold only letters and digits, a letter first", output, 1, true)
    assert.matches("store table: say what to do: ls", output, 1, true)
    assert.matches("\n2\n$", output)
  end)

  it("prints JSON for programs", function()
    local output = run(CREATE .. [[
      $SYNOD store put flags/a --metadata 'quote="' --metadata n=1 </dev/null
      $SYNOD store ls flags --json; $SYNOD store head flags/a --json]])
    local item, props = output:match("^({[^\n]+})\n({[^\n]+})\n$")
    assert.matches('"metadata":{"n":"1","quote":"\\""},"name":"a","type":"block"}', item, 1, true)
    assert.matches('^{"content_type":"application/octet%-stream","etag":"\\"0x%x+\\"","last_modified":%d+,', props)
  end)

  it("prints JSON of what it wrote and removed, too", function()
    local output, code = run([[
      for n in a1 a2; do printf 12 | $SYNOD store put flags/$n --create --json; done
      $SYNOD store rm 'flags/a*' flags --json]])
    assert.equal(0, code)
    local lines = {}
    for line in output:gmatch("[^\n]+") do lines[#lines + 1] = json.decode(line) end
    assert.same({ "flags/a1", "flags/a2", "flags/a1", "flags/a2", "flags" },
      { lines[1].name, lines[2].name, lines[3].name, lines[4].name, lines[5].name })
    assert.matches('^"0x%x+"$', lines[1].etag)
    assert.same({ name = "flags", removed = true }, lines[5])
  end)

  it("prints JSON even of bytes that are no text", function()
    package.path = "lua/?.lua;" .. package.path
    local show = require "cli.show"
    for given, expected in pairs {
      ["a\255b"] = "a\u{FFFD}b", ["\195"] = "\u{FFFD}", ["é\0\127"] = "é\0\127",
      ["\237\160\128"] = ("\u{FFFD}"):rep(3),
    } do
      assert.equal(expected, json.decode(show.json(given)))
    end
  end)

  it("shows one blob or container", function()
    local output, code = run(CREATE .. [[
      printf 123 | $SYNOD store put flags/a --content-type text/plain --metadata k=v
      $SYNOD store head flags/a && $SYNOD store head flags]])
    assert.equal(0, code)
    assert.matches("^type +block\nlength +3\ncontent_type +text/plain\netag +\"0x%x+\"\nlast_modified +%d", output)
    assert.matches("\nlease_state +available\nlease_status +unlocked\nmetadata k +v\netag ", output)
  end)

  it("makes the container of a blob where it is told to", function()
    local output, code = run([[
      printf 1 | $SYNOD store put flags/a --create && printf 2 | $SYNOD store put flags/b --create &&
      $SYNOD store get flags/a && $SYNOD store get flags/b]])
    assert.same({ "12", 0 }, { output, code })
  end)

  it("takes files of any size, and gives them back", function()
    local output, code = run([[
      head -c 30000001 /dev/urandom >big && $SYNOD store put flags/big big --create &&
      $SYNOD store get flags/big -o again && cmp big again && $SYNOD store get flags/big | cmp - big &&
      $SYNOD store put flags/piped <big && $SYNOD store get flags/piped | cmp - big]])
    assert.same({ "", 0 }, { output, code })
  end)

  it("keeps to conditions", function()
    local output, code = run(CREATE .. [[
      $SYNOD store put flags/a --if-none-match '*' </dev/null &&
      $SYNOD store put flags/a --if-none-match '*' </dev/null]])
    assert.equal(1, code)
    assert.equal("synod: write the blob flags/a: the blob exists (BlobAlreadyExists, 409)\n", output)
  end)

  it("removes a blob, several, and a container", function()
    local output, code = run(CREATE .. [[
      for n in a1 a2 b c; do $SYNOD store put flags/$n </dev/null; done
      $SYNOD store rm flags/c && $SYNOD store rm 'flags/a*' && $SYNOD store ls flags --json | grep -o '"name":"[^"]*"'
      $SYNOD store rm flags && $SYNOD store ls]])
    assert.same({ '"name":"b"\n', 0 }, { output, code })
  end)

  local SCRIPTED = "script --version >/dev/null 2>&1"
  it("asks on a terminal before it removes more than one", function()
    if not os.execute(SCRIPTED) then return pending("the program `script` is not installed") end
    local folder <close> = sh.folder()
    run(CREATE .. "for n in a1 a2; do $SYNOD store put flags/$n </dev/null; done", folder)
    local output, code = run([[echo n | script -qec "$SYNOD store rm 'flags/a*'" /dev/null]], folder)
    assert.equal(1, code)
    assert.matches("Remove 2 blobs? [y/N]", output, 1, true)
    assert.matches("nothing was removed", output, 1, true)
    output, code = run([[echo y | script -qec "$SYNOD store rm 'flags/a*'" /dev/null; $SYNOD store ls flags]], folder)
    assert.equal(0, code)
    assert.is_nil(output:find("a1", 1, true))
    run("for n in x y; do $SYNOD store put flags/$n </dev/null; done", folder)
    for words, question in pairs {
      ["flags/x flags/y"] = "Remove 2 blobs? [y/N]", flags = "Remove 1 container with 2 blobs? [y/N]",
    } do
      output, code = run(([[script -qec "$SYNOD store rm %s" /dev/null </dev/null]]):format(words), folder)
      assert.equal(1, code)
      assert.matches(question, output, 1, true)
      assert.matches("nothing was removed", output, 1, true)
    end
    for _, redirected in ipairs { "2>/dev/null", "</dev/null", "</dev/null >/dev/null" } do
      output, code = run(([[echo n | script -qec "$SYNOD store rm flags %s" /dev/null]]):format(redirected), folder)
      assert.same({ 1, 1 }, { code, select(2, output:gsub("Remove 1 container with 2 blobs%? %[y/N%]", "")) })
    end
    output = run([[script -qec "$SYNOD store rm flags/x" /dev/null </dev/null]], folder)
    assert.equal("", output)
  end)

  it("takes the options of every command that touches a store", function()
    local folder <close> = sh.folder()
    local output, code = run("$SYNOD store get flags/a --instance w_IN_2 --instances 3 --deployment d "
      .. "--log-level error --log-format json", folder)
    assert.equal(1, code)
    local line = json.decode(output)
    assert.same({ "error", "w_IN_2" }, { line.level, line.instance })
    assert.matches("the container does not exist (ContainerNotFound, 404)", line.message, 1, true)
    output, code = run("SYNOD_INSTANCE=w_IN_2 SYNOD_LOG_FORMAT=json $SYNOD store get flags/a", folder)
    assert.equal(1, code)
    assert.equal("w_IN_2", json.decode(output).instance)
    output, code = run("$SYNOD store ls --instance w_IN_3 --instances 3", folder)
    assert.equal(2, code)
    assert.matches("--instance w_IN_3: the ordinal must be below --instances 3", output, 1, true)
  end)

  local REFUSED = {
    { "get flags/a", 1,
      "read the blob flags/a: the container does not exist (ContainerNotFound, 404); create it first" },
    { "", 2, "store: say what to do: get, head, lease, ls, put, queue, rm, table" },
    { "lst", 2, "store: unknown action 'lst', did you mean 'ls'?" },
    { "ls ab", 2, "the container name 'ab' must have 3 to 63 characters" },
    { "ls abc def", 2, "store ls: unexpected argument 'def'" },
    { "get", 2, "store get: CONTAINER/BLOB is missing" },
    { "get flags", 2, "'flags' names no blob; write CONTAINER/BLOB" },
    { "get flags/a/../b", 2, "the blob name 'a/../b' may have no part that is '.' or '..'" },
    { "put flags/a missing", 1, "cannot read missing: No such file or directory" },
    { "put flags/a --type pages", 2, "--type: 'pages' is not one of: block, page, append" },
    { "put flags/a --type page", 2, "--type page needs --size BYTES, a multiple of 512" },
    { "put flags/a --type page --size 5", 2, "--size: 5 is not a multiple of 512" },
    { "put flags/a --size 512", 2, "--size is only for --type page" },
    { "put flags/a x --type append", 2, "--type append makes an empty blob: give no FILE" },
    { "put flags/a --metadata x", 2, "--metadata: 'x' is not NAME=VALUE" },
    { "put flags/a --metadata Ab=1 --metadata aB=2", 2, "--metadata: 'aB' is given twice, as 'Ab'" },
    { "put flags/a --metadata x=1 --metadata x=2", 2, "--metadata: 'x' is given twice\n" },
    { "put flags/a --type page --size 8796093022720", 2, "--size: at most 8796093022208 bytes (8 TiB)" },
    { "table ls People/a/b", 2, "the partition 'a/b' may hold no control character and none of / \\ # ?" },
    { "put flags/a --metadata 'x= y'", 2, "--metadata: the value of 'x' may hold only printable ASCII" },
    { "ls --filter 'a eq 1'", 2, "store ls: --filter is only for store table ls" },
    { "get flags/a --json", 2, "store get: --json is only for store ls, put, rm, head, lease, queue, table" },
    { "rm flags/a --if-none-match '*'", 2, "store rm: --if-none-match is only for store put" },
    { "queue clear tasks --number 3", 2, "store queue: --number is only for store queue peek" },
    { "rm", 2, "store rm: CONTAINER/BLOB is missing" },
    { "rm flags/", 2, "'flags/' names no blob; the container with all that is in it is 'flags'" },
    { "ls --store nowhere", 2,
      "the store's address is none of embedded:PATH, memory:, azure, https://... or a connection string" },
    { "ls --store embedded:x?fast", 2, "the store's address has an unknown option \"?fast\"" },
    { "ls --store embedded:", 2, "the store's address names no file; write embedded:PATH" },
    { "ls --store azure", 3, "needs AZURE_STORAGE_CONNECTION_STRING in the environment" },
  }
  for _, case in ipairs(REFUSED) do
    it("refuses: " .. case[1], function()
      local output, code = run("unset AZURE_STORAGE_CONNECTION_STRING; $SYNOD store " .. case[1] .. " </dev/null")
      assert.matches(case[3], output, 1, true)
      assert.equal(case[2], code)
    end)
  end

  it("removes no container under a condition that is a blob's", function()
    local folder <close> = sh.folder()
    local output, code = run("$SYNOD store put --create flags/a </dev/null && $SYNOD store rm flags --if-match 0x1; "
      .. "e=$?; $SYNOD store ls flags --json; exit $e", folder)
    assert.equal(2, code)
    assert.matches("--if-match is for blobs: 'flags' is a container", output, 1, true)
    assert.matches('"name":"a"', output, 1, true)
  end)

  it("says that its output cannot be written, and goes quietly when nobody reads on", function()
    local folder <close> = sh.folder()
    run(CREATE .. "head -c 3000000 /dev/zero | $SYNOD store put flags/big", folder)
    for words, text in pairs {
      ["get flags/big >/dev/full"] = "synod: standard output cannot be written: No space left on device\n",
      ["ls >/dev/full"] = "synod: standard output cannot be written: No space left on device\n",
      ["get flags/big -o /dev/full"] = "synod: cannot write /dev/full: No space left on device\n",
      ["get flags/big >&-"] = "synod: standard output cannot be written: it is closed\n",
    } do
      local output, code = run("$SYNOD store " .. words, folder)
      assert.same({ text, 1 }, { output, code })
    end
    assert.equal("10\n", (run("$SYNOD store get flags/big | head -c 10 | wc -c", folder)))
    assert.equal("3000000\n", (run("$SYNOD store get flags/big | (sleep 0.2; wc -c)", folder)))
  end)

  it("leaves a file as it was when a get fails in the middle, and none where none was", function()
    local folder <close> = sh.folder()
    run(CREATE .. "head -c 5000000 /dev/zero | $SYNOD store put flags/big", folder)
    local output, code = run([[mkdir d && cd d && echo old >out && chmod 640 out && ln -s out link
      for f in out link new; do (ulimit -f 6000; trap '' XFSZ; $SYNOD store get flags/big -o $f); echo $?; done
      ls && cat out]], folder)
    local failed = "synod: cannot write %s: File too large\n1\n"
    assert.same({ failed:format("out") .. failed:format("link") .. failed:format("new") .. "link\nout\nold\n", 0 },
      { output, code })
    output = run([[cd d && $SYNOD store get flags/big -o link && $SYNOD store get flags/big -o new && ls &&
      readlink link && stat -c "%a %s" out && mkfifo pipe && (wc -c <pipe &
      $SYNOD store get flags/big -o pipe; wait) && $SYNOD store get flags/none -o none; ls;
      $SYNOD store get flags/big -o nowhere/x; $SYNOD store get flags/big -o .]], folder)
    assert.equal("link\nnew\nout\nout\n640 5000000\n5000000\nsynod: read the blob flags/none: the blob does not exist "
      .. "(BlobNotFound, 404)\nlink\nnew\nout\npipe\nsynod: cannot write nowhere/x: No such file or directory\n"
      .. "synod: cannot write .: Is a directory\n", output)
  end)

  it("says that nobody answers, with exit code 3 and without the key", function()
    local key = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
    local output, code = run(([[$SYNOD store ls --timeout 1 --store ]]
      .. [['DefaultEndpointsProtocol=http;AccountName=a;AccountKey=%s;BlobEndpoint=http://127.0.0.1:1/a']]):format(key))
    assert.equal(3, code)
    assert.matches("list the containers: 127.0.0.1:1 refuses connections", output, 1, true)
    assert.is_nil(output:find(key, 1, true))
  end)
end)

describe("synod store lease", function()
  local ID = "aaaaaaaa-0000-4000-8000-00000000000a"
  local LEASED = CREATE .. ([[
    echo 'local c = require("synod").store:container "flags"
          assert(c:blob("a"):lease { id = "%s" }); assert(c:lease { duration = -1 })' >lease.lua &&
    printf 1 | $SYNOD store put flags/a && $SYNOD lease.lua && ]]):format(ID)

  it("shows the lease of a blob and of a container", function()
    local output, code = run(LEASED .. "$SYNOD store lease show flags/a && $SYNOD store lease show flags --json")
    assert.equal("lease_state     leased\nlease_status    locked\nlease_duration  fixed\n"
      .. '{"lease_duration":"infinite","lease_state":"leased","lease_status":"locked","name":"flags"}\n', output)
    assert.equal(0, code)
  end)

  it("breaks it, and says how long its holder may still write", function()
    local output, code = run(LEASED .. [[$SYNOD store lease break flags/a --period 5; $SYNOD store lease show flags/a
      $SYNOD store lease break flags/a --period 0 --json; $SYNOD store lease break flags]])
    assert.matches("^the lease is broken in 5 s; until then its holder may write\nlease_state +breaking\n"
      .. 'lease_status +locked\n{"name":"flags/a","seconds":0}\nthe lease is broken\n$', output)
    assert.equal(0, code)
  end)

  it("releases it for who knows its id", function()
    local output, code = run(LEASED .. "$SYNOD store lease release flags/a --id " .. ID:upper()
      .. " && $SYNOD store lease show flags/a")
    assert.same({ "lease_state   available\nlease_status  unlocked\n", 0 }, { output, code })
    output, code = run(LEASED .. "$SYNOD store lease release flags/a --id " .. ID:gsub("a", "b"))
    assert.matches("LeaseIdMismatchWithLeaseOperation, 409", output)
    assert.equal(1, code)
  end)

  it("says what it was told wrongly", function()
    for words, problem in pairs {
      ["lease"] = "say show, break or release", ["lease brake flags"] = "not 'brake'",
      ["lease show"] = "CONTAINER%[/BLOB%] is missing", ["lease show flags a"] = "unexpected argument 'a'",
      ["lease release flags/a"] = "%-%-id is missing", ["lease release flags/a --id x"] = "'x' is no GUID",
      ["lease break flags/a --period 61"] = "a break takes 0 to 60 whole seconds",
      ["lease break flags/a --period 0.5"] = "a break takes 0 to 60 whole seconds",
      ["lease show FLAGS"] = "the container name 'FLAGS'",
    } do
      local output, code = run("$SYNOD store " .. words)
      assert.matches(problem, output)
      assert.equal(2, code)
    end
  end)
end)
