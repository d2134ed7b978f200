-- The scripts in README.md and the guide run as they stand, and do what the text around them says. The reference names
-- every option there is, and no module that is not; its examples want for nothing.

local program = require "spec.support.program"
local sh = require "spec.support.sh"

--- The one script of a document that has this text in it.
local function block(path, part)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  local found
  for each in text:gmatch("```lua\n(.-)```") do
    if each:find(part, 1, true) then
      assert.is_nil(found, "two scripts have it: " .. part)
      found = each
    end
  end
  return assert(found, part)
end

local function run(text, args)
  local words = table.move(args or {}, 1, #(args or {}), 2, { "run" })
  words[#words + 1] = "script.lua"
  return program.run(words, { files = { ["script.lua"] = text } })
end

local function count(text, part)
  local _, n = text:gsub(part, "")
  return n
end

describe("README.md", function()
  it("shows a policy that works for three instances", function()
    local r = run(block("README.md", "-- startup.lua"), { "-n", "3" })
    assert.equal(0, r.code, r.err)
    assert.equal(3, count(r.out, "all 3 are ready"))
    assert.truthy(r.out:find("ready, as number 2.*all 3 are ready"), r.out)
  end)
end)

describe("docs/guide.md", function()
  local GUIDE = "docs/guide.md"

  it("begins with one instance", function()
    local r = run(block(GUIDE, "-- hello.lua"))
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find("^I am script@"), r.out)
  end)

  it("goes on with five that wait for each other", function()
    local r = run(block(GUIDE, "-- startup.lua"), { "-n", "5" })
    assert.equal(0, r.code, r.err)
    assert.equal(5, count(r.out, "all 5 are ready"))
  end)

  it("shows a start with fewer, which waits for all while it may", function()
    local r = run(block(GUIDE, "at_least = 4"), { "-n", "5" })
    assert.equal(0, r.code, r.err)
    assert.equal(5, count(r.out, "5 are here; missing: \n"))
  end)

  it("shows a hundred rounds in step", function()
    local r = run(block(GUIDE, "round = round"), { "-n", "3" })
    assert.equal(0, r.code, r.err)
  end)

  it("counts under a lock, and loses nothing", function()
    local folder <close> = sh.folder()
    -- on a busy machine two seconds may pass a holder by
    local text = block(GUIDE, "-- balance.lua"):gsub("ttl = 2 }", "ttl = 60 }"):gsub("timeout = 10 ", "timeout = 50 ")
    folder:write("balance.lua", text)
    local output, code = sh.run("$SYNOD run -n 4 $DIR/balance.lua && $SYNOD store get accounts/main", {
      dir = folder.path, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" },
    })
    assert.same({ "4", 0 }, { output, code })
  end)

  it("ends on the virtual clock, as it says", function()
    local folder <close> = sh.folder()
    folder:write("hour.lua", block(GUIDE, 'clock = "virtual"'))
    local file <close> = assert(io.open(GUIDE))
    local command = assert(file:read("a"):match("\n    (LUA_PATH=[^\n]+ lua5.4) hour%.lua\n"))
    local started = os.time()
    local said, code = sh.run(command .. " $DIR/hour.lua", { dir = folder.path })
    assert.same({ "", 0 }, { said, code })
    assert.is_true(os.time() - started < 60)
  end)
end)

local function text_of(path)
  local file <close> = assert(io.open(path))
  return (file:read "a")
end

local function lines_of(command)
  local pipe <close> = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  return list
end

describe("docs/reference/", function()
  local REFERENCE = "docs/reference/"
  local PAGES = { -- where a command's options stand; those that several commands take stand in command-line.md
    run = {}, explain = { "explain" }, lock = { "shell" }, lead = { "shell" }, wait = { "shell" }, status = { "shell" },
    store = { "store", "queues", "leases", "tables" }, help = {}, version = {},
  }
  local SHARED = "--store --instance --instances --deployment --hints --pass-credentials --log-format --log-level "

  it("names every command and its options", function()
    local all = text_of(REFERENCE .. "command-line.md")
    local help = program.run({ "help" }).out:match "commands:\n(.-)\n\n"
    for command in ("\n" .. help):gmatch "\n  (%l+) +%l" do
      assert.is_table(PAGES[command], command .. " is a command without pages")
      assert.is_truthy(all:find("%f[%w]" .. command .. "%f[%W]"), command .. " is not in command-line.md")
      local text = command == "run" and all or ""
      for _, page in ipairs(PAGES[command]) do text = text .. text_of(REFERENCE .. page .. ".md") end
      for line in program.run({ "help", command }).out:gmatch "[^\n]+" do
        for option in (line:match "^  (%-[^ ]*,? ?%-*[%w-]*)" or ""):gmatch "%-+[%w-]+" do
          local found = SHARED:find(option .. " ", 1, true) and all or text
          assert.is_truthy(found:find("%f[^%s`|[(]" .. option:gsub("%-", "%%-") .. "%f[^%w-]"),
            ("%s of synod %s is in no page"):format(option, command))
        end
      end
    end
  end)

  it("names no module that is not", function()
    for _, line in ipairs(lines_of("grep -oh 'require *(\\?\"synod[a-z._]*\"' README.md docs/*.md docs/*/*.md")) do
      require(line:match '"(.*)"')
    end
  end)

  for _, page in ipairs(lines_of("grep -l '^```lua' " .. REFERENCE .. "*.md")) do
    it(page:match "[^/]+$" .. " has an example in which nothing is missing", function()
      for script in text_of(page):gmatch "```lua\n(.-)```" do
        local path = os.tmpname()
        local file <close> = assert(io.open(path, "w"))
        file:write(script)
        file:close()
        local listing = lines_of("luac5.4 -p -l -l " .. path .. " 2>&1")
        os.remove(path)
        assert.is_nil(listing[1]:find("^luac"), listing[1])
        for _, line in ipairs(listing) do
          local name = line:match '; _ENV "([%w_]+)"'
          assert.is_truthy(name == nil or _G[name] ~= nil, page .. ": " .. tostring(name) .. " is made nowhere")
        end
      end
    end)
  end
end)
