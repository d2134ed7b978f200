-- Mistakes that schedules could have, each a change of one line; spec/mutations_spec.lua makes them.

local SPEC, CALENDAR_SPEC = "spec/cron_spec.lua", "spec/calendar_spec.lua"
local CRON, RUNNER, SLOTS = "lua/synod/cron.lua", "lua/synod/cron/runner.lua", "lua/synod/cron/slots.lua"
local CALENDAR, ZONE = "lua/synod/cron/calendar.lua", "lua/synod/cron/zone.lua"

return {
  {
    why = "a slot is known by when it is begun, not by its nominal instant",
    file = CRON, spec = SPEC, from = [[do begin_slot(self, job, calendar.id(at)) end]],
    to = [[do begin_slot(self, job, at and calendar.id(now + tonumber(self.options.instance.id:match("%d+$")))) end]],
  },
  {
    why = "there is only a lock, and nothing that says that a slot is done",
    file = RUNNER, spec = SPEC, from = [[local props, err = job.slots:write(held, slot.id, record)]],
    to = [[local props, err = { last_modified = 0 }, "" if record.state == "done" then return true end]],
  },
  {
    why = "a claim never expires: a slot whose runner has died is left",
    file = RUNNER, spec = SPEC, from = [[if err.code == "LeaseAlreadyPresent" then return false end]],
    to = [[if err.code == "LeaseAlreadyPresent" then return true end]],
  },
  {
    why = "a slot is run without the guard",
    file = RUNNER, spec = SPEC, from = [[pcall(held.guard, held, job.fn, slot)]],
    to = [[pcall(job.fn, slot)]],
  },
  {
    why = "what is to run at most once is run again after a death",
    file = RUNNER, spec = SPEC, from = [[if record.state == "started" then return finish]],
    to = [[if false then return finish]],
  },
  {
    why = "what was missed is reckoned from now, not from the last slot",
    file = CRON, spec = SPEC, from = [[return last and math.min(last.at, wall_ms()) or wall_ms()]],
    to = [[return last and wall_ms() or wall_ms()]],
  },
  {
    why = "slots that were begun when everybody died are forgotten",
    file = CRON, spec = SPEC, from = [[      resume(self, job, list)]], to = [[]],
  },
  {
    why = "it is not looked again under the lease whether the slot is done",
    file = RUNNER, spec = SPEC, from = [[  if slots.is_finished(record) then return true end
  if job.once]], to = [[  if job.once]],
  },
  {
    why = "old slots stay for ever",
    file = SLOTS, spec = SPEC, from = [[calendar.instant(name:sub(#prefix + 1)) and name or nil]], to = [[nil]],
  },
  {
    why = "a fixed time that is repeated is due twice",
    file = CALENDAR, spec = CALENDAR_SPEC, from = [[if plan.by_clock then return found end]],
    to = [[if #found > 1 or plan.by_clock then return found end]],
  },
  {
    why = "a fixed time that is skipped is left out",
    file = CALENDAR, spec = CALENDAR_SPEC, from = [[return { found[1] or plan.zone:jump(day, seconds) }]],
    to = [[return { found[1] }]],
  },
  {
    why = "seconds are added up",
    file = CALENDAR, spec = CALENDAR_SPEC, from = [[return (ms // self.period + 1) * self.period]],
    to = [[return ms + self.period]],
  },
  {
    why = "after the file's last change there are none",
    file = ZONE, spec = CALENDAR_SPEC,
    from = [[if t >= at[#at] and self.rule then return offset_by_rule(self.rule, t) end]],
    to = [[]],
  },
  {
    why = "what another has begun of the slots that we came too late for is left to him",
    file = CRON, spec = SPEC, only = "came too late to begin it",
    from = "if not (all or looked) and not look_back(self, job) then return end", to = "",
  },
}
