-- synod store queue peek|clear|requeue: look at a queue, empty it, give what failed another chance.

local core = require "synod.core"
local queues = require "synod.queue"
local show = require "cli.show"

local SHOWN_MAX = 60 -- characters of a body that are shown to people
local MOST = 32      -- messages of one look, the service's limit

--- One line of a body.
local function first_line(body)
  local text = body:gsub("[%c\127]", " ")
  if not utf8.len(text) then return ("(%d bytes)"):format(#body) end
  if utf8.len(text) <= SHOWN_MAX then return text end
  return text:sub(1, utf8.offset(text, SHOWN_MAX) - 1) .. "..."
end

local function row_of(msg)
  return {
    msg.id, tostring(msg.dequeue_count), show.date(msg.inserted), msg.expires and show.date(msg.expires) or "never",
    first_line(msg.body),
  }
end

local FIELDS = { "id", "body", "raw", "dequeue_count", "inserted", "expires" }

local actions = {}

function actions.peek(s, parsed, name, help)
  local count = parsed.number or MOST
  if count > MOST then help.wrong("--number: at most %d can be looked at", MOST) end
  local q = s:queue(name, { base64 = parsed.base64 })
  local rows = {}
  for i, msg in ipairs(help.must(q:peek(count, { timeout = parsed.timeout }))) do
    if parsed.json then
      local fields = {}
      for _, field in ipairs(FIELDS) do fields[field] = msg[field] end
      io.write(show.json(fields), "\n")
    else
      rows[i] = row_of(msg)
    end
  end
  if #rows > 0 then
    io.write(show.columns({ "ID", "TAKEN", "INSERTED", "EXPIRES", "BODY" }, rows, { TAKEN = true }))
  end
end

function actions.clear(s, parsed, name, help)
  local q = s:queue(name)
  local count = help.must(q:count { timeout = parsed.timeout })
  local question = ("Remove %d message%s from %s?"):format(count, count == 1 and "" or "s", name)
  if not parsed.yes and not help.confirmed(question) then
    io.stderr:write("synod: nothing was removed\n")
    return 1
  end
  help.must(q:clear { timeout = parsed.timeout })
  if parsed.json then io.write(show.json { cleared = count }, "\n") end
end

function actions.requeue(s, parsed, name, help)
  local from = s:queue(queues.poison(name))
  local moved, err, before = queues.move(from, s:queue(name), { timeout = parsed.timeout })
  if not moved and before > 0 then
    io.stderr:write(("synod: %d moved before it failed\n"):format(before))
  end
  help.must(moved, err)
  if parsed.json then
    io.write(show.json { requeued = moved }, "\n")
  else
    io.write(("%d moved from %s to %s\n"):format(moved, queues.poison(name), name))
  end
end

--- Runs `queue ACTION NAME`. `help` has what all actions of `store` share: wrong, must, confirmed.
---@param s synod.Store
---@param parsed table
---@param help table
---@return integer|nil exit_code
return function(s, parsed, help)
  local word, name = parsed.args[2], parsed.args[3]
  local action = actions[word]
  if not action then
    help.wrong("store queue: %s", word and ("unknown action '%s'; there are clear, peek, requeue"):format(word)
      or "say what to do: clear, peek, requeue")
  end
  if not name then help.wrong("store queue %s: the queue's name is missing", word) end
  if parsed.args[4] then help.wrong("store queue %s: unexpected argument '%s'", word, parsed.args[4]) end
  local checked = word == "requeue" and queues.poison(name) or name
  local fault = core.name_fault("queue", checked)
  if fault then help.wrong("the queue name '%s' %s", checked, fault) end
  return action(s, parsed, name, help)
end
