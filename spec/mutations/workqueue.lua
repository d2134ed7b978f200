-- Mistakes that a work queue could have, each a change of one line; spec/mutations_spec.lua makes them.

local SPEC = "spec/workqueue_spec.lua"
local DELIVERY, CONSUMER = "lua/synod/workqueue/delivery.lua", "lua/synod/workqueue/consumer.lua"

return {
  {
    why = "a message is moved to the poison queue by deleting it first",
    file = DELIVERY, spec = SPEC, from = [[if not put then return nil, err end
  local gone]], to = [[local gone]],
  },
  {
    why = "a handler runs on though its message is another's",
    file = DELIVERY, spec = SPEC, from = [[if err then return lose(self, err) end]], to = [[if err then return end]],
  },
  {
    why = "the visibility is not extended",
    file = DELIVERY, spec = SPEC, from = [[      err = extend(self)]], to = [[      self.extend_at = self.ends]],
  },
  {
    why = "the end of the visibility is counted from the answer, and without a margin",
    file = DELIVERY, spec = SPEC, from = [[visibility - math.min(MARGIN_MAX_S, visibility / 10))]],
    to = [[visibility + 10)]],
  },
  {
    why = "a failed message waits for its visibility, not for its back-off",
    file = CONSUMER, spec = SPEC, from = [[hide(self, d, pause_after(self.options.retry, d.number), "failed")
end]], to = [[hide(self, d, self.options.visibility, "failed") end]],
  },
  {
    why = "the back-off does not grow",
    file = CONSUMER, spec = SPEC, from = [[pause = pause * retry.factor]], to = [[pause = pause + 0]],
  },
  {
    why = "a message that fails for ever is tried for ever",
    file = CONSUMER, spec = SPEC, from = [[or d.number >= self.options.max_attempts]], to = "",
  },
  {
    why = "a message that kills its consumers is tried for ever",
    file = CONSUMER, spec = SPEC, from = [[if d.number > self.options.max_attempts then]], to = [[if false then]],
  },
  {
    why = "what was given back counts as an attempt",
    file = DELIVERY, spec = SPEC, from = [[message.dequeue_count - envelope.returned(e))]],
    to = [[message.dequeue_count)]],
  },
  {
    why = "a duplicate of what is done is handled again",
    file = CONSUMER, spec = SPEC, from = [[if self.done[id] then]], to = [[if self.done[{}] then]],
  },
  {
    why = "the queue that was first has every place that becomes free",
    file = "lua/synod/turns.lua", spec = SPEC, from = [[(self.free < n or self.waiting[1] ~= ticket)]],
    to = [[(self.free < n or self.waiting[#self.waiting] ~= ticket)]],
  },
  {
    why = "a message of a newer version is handled",
    file = "lua/synod/workqueue/envelope.lua", spec = SPEC,
    from = [[if value.v > LAYOUT then return nil, newer(value.v) end]],
    to = [[]],
  },
  {
    why = "messages expire when nobody has had time for a week",
    file = "lua/synod/workqueue.lua", spec = SPEC, from = [[delay = math.ceil(given.delay or 0), ttl = FOR_EVER]],
    to = [[delay = math.ceil(given.delay or 0)]],
  },
  {
    why = "nobody is told of a message that is moved away",
    file = CONSUMER, spec = SPEC, from = [[local ok, err = pcall(self.options.poisoned, d.handle, why)]],
    to = [[local ok, err = true]],
  },
  {
    why = "one handler more than allowed runs",
    file = CONSUMER, spec = SPEC, from = [[self.running = turns.new(self.options.concurrency)]],
    to = [[self.running = turns.new(self.options.concurrency + 1)]],
  },
  {
    why = "a drain stops handlers at once",
    file = CONSUMER, spec = SPEC, from = [[cancelled == nil and timeout or 0)]],
    to = [[0)]],
  },
  {
    why = "a message is deleted when its handler begins",
    file = CONSUMER, spec = "spec/workqueue_random_spec.lua", from = [[  d:keep()
]], to = [[  d:keep() d.message:delete()
]],
  },
  {
    why = "the end of the visibility is counted from when the answer came",
    file = DELIVERY, spec = SPEC, from = [[hidden_from(self, asked)
  elseif]], to = [[hidden_from(self, core.instant())
  elseif]],
  },
  {
    why = "the reason is lost when the poison queue cannot be written",
    file = CONSUMER, spec = SPEC, from = [[if is_over and poison(self, d, why) then return end]],
    to = [[if is_over then return poison(self, d, why) end]],
  },
}
