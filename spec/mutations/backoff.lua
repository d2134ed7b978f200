-- Mistakes that the back-off and its polling loop could have, each a change of one line; the spec finds each out.

local SPEC = "spec/backoff_spec.lua"
local FILE = "lua/synod/backoff.lua"

return {
  { file = FILE, spec = SPEC, why = "those who began together come again together",
    from = "(math.min(self.max, last * self.factor) - self.min) * core.random()",
    to = "(math.min(self.max, last * self.factor) - self.min)" },
  { file = FILE, spec = SPEC, why = "a change between the look and the wait is missed",
    from = "container = o.container, prefix = o.prefix, since = mark, timeout = left,",
    to = "container = o.container, prefix = o.prefix, timeout = left," },
  { file = FILE, spec = SPEC, why = "the store is believed to tell of every change",
    from = "local limit = earlier(after(looked, p.options.recheck), p.deadline)",
    to = "local limit = p.deadline or math.maxinteger" },
  { file = FILE, spec = SPEC, why = "a wait goes on beyond the time allowed",
    from = "local left = math.max(0, seconds_until(earlier(after(core.instant(), seconds), p.deadline)))",
    to = "local left = seconds" },
  { file = FILE, spec = SPEC, why = "no last look when the time is over",
    from = "if p.deadline and core.instant() >= p.deadline then return nil, timed_out(o, results[2]) end",
    to = "if p.deadline then return nil, timed_out(o, results[2]) end" },
  { file = FILE, spec = SPEC, why = "waits do not grow",
    from = "self.last = math.min(self.max, self.last and last * self.factor or last)", to = "self.last = last" },
  { file = FILE, spec = SPEC, why = "a busy store is looked at without a rest",
    from = "p.space = math.min(math.max(p.space * 2, SPACE_MIN_S), p.options.apart or SPACE_MAX_S)",
    to = "p.space = 0" },
}
