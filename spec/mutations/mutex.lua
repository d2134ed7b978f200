-- Mistakes that a mutex could have, each a change of one line, and the spec that finds it out.

local SPEC = "spec/mutex_spec.lua"
local MUTEX, SEAT, LINE = "lua/synod/mutex.lua", "lua/synod/seat.lua", "lua/synod/mutex/line.lua"

return {
  { why = "the body is not guarded", file = SEAT, spec = SPEC,
    from = "if not stop then return held:guard(fn, ...) end", to = "if not stop then return fn(...) end" },
  { why = "the lock is given back before what the body started has ended", file = MUTEX, spec = SPEC,
    from = "return seat.run(held.lease, nil, fn, held)",
    to = "return seat.run(held.lease, nil, function(h) held:unlock() return fn(h) end, held)" },
  { why = "the lock is not given back at the end of the block", file = MUTEX, spec = SPEC,
    from = [[function Lock:__close()
  self.lease:release()]], to = [[function Lock:__close()
  _ = self]] },
  { why = "a wait goes on though its time is over", file = SEAT, spec = SPEC,
    from = "end, self:place(timeout, hint))", to = "end, self:place(timeout and timeout * 2, hint))" },
  { why = "times with which two could hold are let pass", file = SEAT, spec = SPEC,
    from = "local timing, why = core.lease_timing(o.ttl, o.renew, o.try)",
    to = "local timing, why = core.lease_timing(o.ttl)" },
  { why = "who comes last is served first", file = LINE, spec = SPEC,
    from = "entries[#entries + 1] = { nonce = nonce, who = self.who }",
    to = "table.insert(entries, 1, { nonce = nonce, who = self.who })" },
  { why = "one who died in the line is waited for", file = MUTEX, spec = SPEC,
    from = "place:overtake(entries[1].nonce, watch.patience)", to = "" },
  { why = "who comes does not look whether others wait", file = MUTEX, spec = SPEC,
    from = "if #entries == 0 then", to = "if true then" },
  { why = "a place is kept by who has given up", file = MUTEX, spec = SPEC,
    from = "local place <close>, refusal", to = "local place, refusal" },
  { why = "one that is cancelled as it leaves the line keeps the lock", file = MUTEX, spec = SPEC,
    only = "whenever that is", from = "if problem ~= nil and won then won:release() end", to = "" },
}
