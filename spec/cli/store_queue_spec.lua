-- `synod store queue` as a person uses it: the real program on a file of its own.

local sh = require "spec.support.sh"

local function run(script)
  local folder <close> = sh.folder()
  folder:write("fill.lua", [[
    local store = require("synod").store
    for _, name in ipairs { "tasks", "tasks-poison" } do assert(store:queue(name):create()) end
    for i = 1, 40 do assert(store:queue "tasks-poison":put(("job %d\n%s"):format(i, ("ü"):rep(i * 3)))) end
    assert(store:queue("tasks", { base64 = true }):put "a\0b")]])
  return sh.run("SYNOD=$(readlink -f \"$SYNOD\"); cd \"$DIR\" && $SYNOD run fill.lua && " .. script, {
    dir = folder.path, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db", TZ = "UTC" },
  })
end

describe("synod store queue", function()
  it("peeks for people and for programs", function()
    local output, code = run [[$SYNOD store queue peek tasks-poison --number 30;
      $SYNOD store queue peek tasks-poison --number 1 --json; $SYNOD store queue peek tasks --base64 --json]]
    assert.equal(0, code)
    assert.matches("^ID +TAKEN  INSERTED +EXPIRES +BODY\n%x+%-[%x-]+ +0  [%d-]+ [%d:]+  [%d-]+ [%d:]+  job 1 üüü\n",
      output)
    assert.matches("job 30 [^\n]+%.%.%.\n", output)
    assert.matches('\n{"body":"job 1\\nüüü","dequeue_count":0,"expires":%d+,"id":"[%x-]+","inserted":%d+}\n', output)
    assert.matches('{"body":"a\\u0000b",', output, 1, true)
  end)

  it("moves back what was poison", function()
    local output, code = run [[$SYNOD store queue requeue tasks; $SYNOD store queue requeue tasks --json;
      $SYNOD store queue peek tasks | wc -l; $SYNOD store queue clear tasks --json]]
    assert.same({ '40 moved from tasks-poison to tasks\n{"requeued":0}\n33\n{"cleared":41}\n', 0 }, { output, code })
  end)

  it("asks before it clears on a terminal", function()
    local output = run [[echo n | script -qefc "$SYNOD store queue clear tasks" /dev/null; echo "code $?";
      echo y | script -qefc "$SYNOD store queue clear tasks" /dev/null; echo "code $?";
      $SYNOD store queue clear tasks-poison --yes --json </dev/null]]
    assert.matches("Remove 1 message from tasks%? %[y/N%].*nothing was removed.*code 1.*code 0", output)
    assert.matches('{"cleared":40}', output, 1, true)
  end)

  it("says what is wrong", function()
    for _, case in ipairs {
      { "", 2, "store queue: say what to do: clear, peek, requeue" },
      { "drop tasks", 2, "store queue: unknown action 'drop'; there are clear, peek, requeue" },
      { "peek", 2, "store queue peek: the queue's name is missing" },
      { "peek tasks x", 2, "unexpected argument 'x'" },
      { "peek No", 2, "the queue name 'No' must have 3 to 63 characters" },
      { "peek tasks --number 33", 2, "--number: at most 32 can be looked at" },
      { "peek absent", 1, "QueueNotFound" },
      { "requeue absent", 1, "absent-poison: the queue does not exist" },
    } do
      local output, code = run("$SYNOD store queue " .. case[1] .. " 2>&1")
      assert.equal(case[2], code, output)
      assert.matches(case[3], output, 1, true)
    end
  end)
end)
