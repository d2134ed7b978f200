-- transfer: a leader hands over to a chosen candidate, without an instant in which a third could lead.
--
--   leader                                      candidate
--   invite: synod_next = candidate  ----------> sees it when it looks at the seat
--   reads the id                    <---------- proposes a fresh lease id: blob <seat>.next/<candidate>
--   stops and drains, `change` to that id ----> renews under it, raises the fence, leads
--
-- The rules: the proposed id is drawn for this one invitation, and beside it stands the fence of the term that it
-- answers. The leader sends the change only when everything under its term has ended, and never leads under that id,
-- whatever the answer. The candidate leads only after a renewal of its own and its own confirmed fence. When the
-- leader withdraws the invitation it never uses the answer; when it dies, its lease ends as any other, and the
-- candidate stands like all.

local backoff = require "synod.backoff"
local core = require "synod.core"
local hints = require "synod.hints"
local held_lease = require "synod.lease.held"
local lease = require "synod.lease"
local marks = require "synod.lease.mark"
local sweep = require "synod.sweep"
local percent = require "synod.percent"

local transfer = {}

local LAYOUT = "1" -- synod_v of a proposal
local ANSWER_S = 10
local POLL_MIN_S, POLL_MAX_S = 0.1, 0.5
local CALL_MIN_S = 0.5
local WRITE_TRIES = 5

--- What is handed over: its lease is on `owner.seat`, with `owner.options`; `owner.title` is for errors.
---@class synod.Transferable
---@field lease synod.Held
---@field fence integer
---@field owner { seat: synod.Seat, options: table, title: string }
---@field proposal? string  the id that was proposed

local function failure(term, code, message)
  return core.new_error { code = code, operation = "hand over", target = term.owner.title, message = message }
end

local function encoded(text) return percent.encode(text, "[^%w%-_.~@]") end

local function proposal_blob(self, instance)
  return self.seat.container:blob(("%s.next/%s"):format(self.seat.name, encoded(instance)))
end

---------------------------------------------------------------- the leader

--- Writes, or takes away, who is to be next, under our lease.
local function write_next(term, instance)
  local blob, err = term.lease.blob, nil
  for _ = 1, WRITE_TRIES do
    local props
    props, err = blob:head()
    if not props then return nil, err end
    local metadata = props.metadata
    metadata.synod_next = instance and encoded(instance) or nil
    local done
    done, err = blob:set_metadata(metadata, { lease = term.lease.id, if_match = props.etag })
    if done then return true end
    if err.code ~= "ConditionNotMet" then return nil, err end
  end
  return nil, err
end

--- The id that the candidate has proposed to this term; nil: none yet.
local function read_proposal(term, blob, timeout)
  local id, props = blob:get { timeout = timeout }
  if not id then
    if props.code == "BlobNotFound" then return nil end
    return nil, props
  end
  local mark = marks.of(props)
  if not mark or mark.fence ~= term.fence then return nil end -- to an earlier one, which did not use it
  return id
end

--- Asks a candidate for the id under which it would lead.
---@param term synod.Transferable
---@param instance string
---@param timeout? number  seconds for its answer
---@return string|nil id, synod.Error? err
function transfer.invite(term, instance, timeout)
  local self = term.owner
  if self.options.timing.record then
    return nil, failure(term, "Unsupported",
      ("a lease of %g s is a record, which cannot be handed over: resign, or use a ttl of 15 s or more"):format(
        self.options.ttl))
  end
  timeout = timeout or ANSWER_S
  local blob = proposal_blob(self, instance)
  local invited, id = true, nil
  local _ <close> = setmetatable({}, { __close = function()
    -- Else he would wait for what comes of it. A lost lease says so by itself, and here would be no time to wait.
    if invited and not id and term.lease:held() then write_next(term, nil) end
  end })
  local err
  invited, err = write_next(term, instance)
  if not invited then return nil, err end
  if self.options.store:kind() == "azure" then hints.tell(self.options.store, self.seat.place_name) end
  local place = self.seat:place(timeout)
  place.min, place.max = POLL_MIN_S, POLL_MAX_S
  id = backoff.poll(function(left) return (read_proposal(term, blob, math.max(left, CALL_MIN_S))) end, place)
  if id then return id end
  return nil, failure(term, "Timeout", ("%s does not answer within %g s: is it a candidate?"):format(instance, timeout))
end

--- Everything under the term has ended: the lease becomes the candidate's.
---@param term synod.Transferable
---@return true|nil, synod.Error? err
function transfer.hand_over(term)
  return term.lease:change(term.proposal)
end

---------------------------------------------------------------- the candidate

--- Takes the leadership over under the id that the leader has changed to: renewed, and with a fence of our own.
local function take_over(self, id)
  local o = self.options
  local keeper = core.keeper(self.seat.blob, {
    ttl = o.ttl, renew = o.renew, try = o.try, id = id, fence = true, keep = true, purpose = o.purpose,
    holder = o.me, host = core.host_name(), pid = core.process_id(),
    hints = o.store:kind() == "azure" and hints.address() or nil,
  })
  local taken, err = keeper:try()
  if not taken then return nil, err end
  return held_lease.new(self.seat.blob, keeper)
end

--- Takes away, in the background, proposals of those who died before they could: one is in use for seconds.
local function clean_later(self, now)
  sweep.later("old proposals", sweep.old, self.seat.container, now, {
    prefix = self.seat.name .. ".next/", group_of = function(name) return name end,
  })
end

--- Answers an invitation, and waits for what comes of it.
---@param self table  an owner, as of what is handed over
---@param seen synod.Error  what the look found: seen.fence is the leader's
---@param prepare? fun()  is run before we answer
---@return synod.Held|nil  nil: nothing came of it
function transfer.accept(self, seen, prepare)
  if prepare then prepare() end
  local blob, id = proposal_blob(self, self.options.me), lease.draw_id()
  local proposed = blob:put(id, { metadata = { synod_v = LAYOUT, synod_fence = ("%d"):format(seen.fence) } })
  if not proposed then
    core.sleep(POLL_MIN_S) -- who looks again at once is invited again
    return nil
  end
  local handle, held = lease.of(self.seat.blob, id), nil
  local _ <close> = setmetatable({}, { __close = function()
    if not held then handle:release() end -- we were cancelled: it may be ours all the same
    local ok, cancelled = pcall(blob.delete, blob)
    if ok then return end
    if held then held:release() end
    error(cancelled, 0)
  end })
  local place = self.seat:place()
  place.min, place.max = POLL_MIN_S, POLL_MAX_S
  backoff.poll(function()
    if handle:renew { retries = 0 } then
      held = take_over(self, id)
      return true
    end
    local leased, mark = self.seat:look()
    local over = leased == false or leased and (mark.next ~= self.options.me or mark.fence ~= seen.fence)
    return over
  end, place)
  if held then clean_later(self, proposed.last_modified) end
  return held
end

--- Waits for the seat, or for the holder who hands it to us.
---@param self table  an owner
---@param timeout? number
---@param prepare? fun()  is run before an invitation is answered
---@return synod.Held|nil, synod.Error? err  LeaseAlreadyPresent, with who holds it: the time is over
function transfer.wait(self, timeout, prepare)
  local began = core.now()
  while true do
    local left = timeout and math.max(0, timeout - (core.now() - began))
    local held, err = self.seat:take(left, function(seen) return seen.next == self.options.me end)
    if held or err.code ~= "LeaseAlreadyPresent" then return held, err end
    if err.next == self.options.me then
      held = transfer.accept(self, err, prepare)
      if held then return held end
    end
    if timeout and (err.next ~= self.options.me or core.now() - began >= timeout) then return nil, err end
  end
end

return transfer
