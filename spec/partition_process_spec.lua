-- The partition between real processes over one file: one of them is killed, one is stopped in a controlled way.

local sh = require "spec.support.sh"

--- Tells what happens here in lines of one file, in the order in which it happens.
local SCRIPT = [[
local synod = require "synod"
local out = assert(io.open(arg[1], "a"))
local me = synod.instance.id
local function tell(what, item)
  out:write(("%s %s %s\n"):format(what, me, item))
  out:flush()
end
local p = require("synod.partition").new {
  name = "shards", ttl = tonumber(arg[2]),
  on_leaving = function(item) tell("leaving", item) end, on_left = function(item) tell("left", item) end,
}
assert(p:run({ "i1", "i2", "i3", "i4", "i5", "i6" }, function(item)
  local _ <close> = setmetatable({}, { __close = function() tell("stop", item) end })
  tell("start", item)
  synod.sleep(1e6)
end))
tell("over", "-")
]]

--- Who runs what after all lines; asserts that no item was run by two at once.
local function read_log(text)
  local runs, events = {}, {}
  for what, who, item in text:gmatch "(%S+) (%S+) (%S+)\n" do
    events[#events + 1] = ("%s %s %s"):format(what, who, item)
    if what == "start" then
      assert.is_nil(runs[item], text)
      runs[item] = who
    elseif what == "stop" then
      assert.equal(who, runs[item], text)
      runs[item] = nil
    elseif what == "killed" then
      for one, by in next, runs do runs[one] = by ~= who and by or nil end
    end
  end
  return runs, events
end

--- Shell: waits until the log has so many lines that match.
local WAIT = [[
  seen() { # COUNT PATTERN
    for _ in $(seq 150); do
      [ "$(grep -c "$2" $DIR/log)" -ge "$1" ] && return
      sleep 0.1
    done
    echo "not $1 of $2 in 15 s"; cat $DIR/log
  }
  touch $DIR/log
]]

describe("a partition of processes", function()
  it("has the items of one that was killed run by the others, and of one that is stopped before it ends", function()
    local folder <close> = sh.folder()
    folder:write("run.lua", SCRIPT)
    local output, code = sh.run(WAIT .. [[
      for i in a b c; do
        $SYNOD run --instance $i $DIR/run.lua $DIR/log 2 & eval $i=\$!
      done
      seen 6 '^start'
      for i in a b c; do seen 2 "^start $i"; done
      kill -9 $b; wait $b
      echo "killed b -" >> $DIR/log
      began=$(grep -c '^start' $DIR/log) # more than six, when shares were balanced meanwhile
      seen $((began + 2)) '^start'
      sleep 0.5
      kill -TERM $a; wait $a; echo "a ended with $?"
      sleep 0.3
      cp $DIR/log $DIR/last
      kill -TERM $c; wait $c; echo "c ended with $?"
    ]], { dir = folder.path, timeout = 60, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" } })
    assert.equal(0, code, output)
    assert.matches("a ended with 0", output, 1, true)
    assert.matches("c ended with 0", output, 1, true)
    local text = folder:read "last"
    local runs, events = read_log(text)
    for i = 1, 6 do assert.equal("c", runs["i" .. i], output .. text) end
    local steps = {}
    for _, event in ipairs(events) do
      local what, who, item = event:match "(%S+) (%S+) (%S+)"
      if who == "a" then steps[item] = (steps[item] or "") .. " " .. what end
    end
    local handed = 0
    for item, all in next, steps do
      if item ~= "-" and all:find "leaving stop left$" then handed = handed + 1 end
    end
    assert.is_true(handed >= 2, output .. text)
    assert.matches("over a -", text, 1, true)
    runs = read_log(folder:read "log")
    assert.is_nil(next(runs), "the last one stops everything")
  end)

  it("has the items of one that was killed run by the others at once where one supervisor has started them", function()
    local folder <close> = sh.folder()
    folder:write("run.lua", SCRIPT)
    local output, code = sh.run(WAIT .. [[
      $SYNOD run -n 3 $DIR/run.lua $DIR/log 15 > $DIR/out 2>&1 & all=$!
      for i in 0 1 2; do seen 2 "^start run_IN_$i"; done
      for p in $(pgrep -P $all); do
        tr '\0' '\n' < /proc/$p/environ | grep -qx SYNOD_INSTANCE=run_IN_1 && second=$p
      done
      lines=$(wc -l < $DIR/log)
      kill -9 $second
      for _ in $(seq 60); do
        [ "$(tail -n +$((lines + 1)) $DIR/log | grep -c '^start')" -ge 2 ] && echo "run again" && break
        sleep 0.1
      done
      kill -TERM $all; wait $all; true
    ]], { dir = folder.path, timeout = 60, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" } })
    assert.equal(0, code, output)
    assert.equal("run again\n", output, folder:read "out")
  end)
end)
