-- scatter: a master hands pieces of work to whoever works, and collects the results.
--
--   local thumbs = scatter.new { name = "thumbs" }
--   local results = assert(thumbs:map({ "1.jpg", "2.jpg" }, { timeout = 600 }))       -- the master
--   thumbs:work(function(file) return resize(file) end)                              -- the workers
--
-- A piece travels as a message of the work queue <name>-pieces, under an id of its own; its result is a blob that is
-- created once. So it does no harm when a piece is worked on twice, when its result comes late, or when the master is
-- started again. docs/reference/scatter.md is the manual, pieces.lua the records.

local backoff = require "synod.backoff"
local core = require "synod.core"
local envelope = require "synod.workqueue.envelope"
local json = require "synod.json"
local options = require "synod.options"
local pieces = require "synod.scatter.pieces"
local workqueue = require "synod.workqueue"

local scatter = {}

local CONTAINER = "scatter"
local REISSUE_S = 60
local REISSUES_MAX = 5      -- of one piece
local REQUESTS_AT_ONCE = 8  -- of a master that hands out or collects
local LOOK_SHARE = 2        -- after a look the master rests so many times what that took ...
local REST_MAX_S = 2        -- ... at most
local RECHECK_S = 5
local POLL_MIN_S, POLL_MAX_S = 0.2, 5
local NAMED_MAX = 10        -- pieces in the text of an err; its fields have all

---@class synod.Scatter.Options
---@field name string             queue <name>-pieces, results <name>/<job>/<piece>
---@field reissue? number         seconds without any result after which the missing pieces are handed out again (60)
---@field visibility? integer     the queue's, like the next five (synod.workqueue): 30
---@field retry? synod.WorkQueue.Retry
---@field max_attempts? integer   failures after which a piece's error is its result (3)
---@field concurrency? integer    pieces that one work() works on at once (1)
---@field batch? integer
---@field stop_timeout? number
---@field store? synod.Store      synod.store
---@field container? string       "scatter"
---@field instance? synod.Instance  who this is (synod.instance)
---@field poll_min? number        seconds between looks of a master over a store that does not tell of changes (0.2) ...
---@field poll_max? number        ... at most (5)

local NEW = {
  name = "label", reissue = "positive", visibility = "count", retry = "table", max_attempts = "count",
  concurrency = "count", batch = "count", stop_timeout = "seconds", store = "store", container = "string",
  instance = "table", poll_min = "positive", poll_max = "positive",
}

---@class synod.Scatter
local Scatter = {}
Scatter.__index = Scatter
Scatter.__name = "synod.Scatter"

local function queue_of(self, o)
  return workqueue.new {
    name = o.name .. "-pieces", visibility = o.visibility, retry = o.retry, max_attempts = o.max_attempts or 3,
    concurrency = o.concurrency, batch = o.batch, stop_timeout = o.stop_timeout, store = o.store, instance = o.instance,
    poll_min = o.poll_min, poll_max = o.poll_max, poisoned = function(msg, why) self:give_up(msg, why) end,
  }
end

--- Makes a master, a worker, or both; makes no request.
---@param given synod.Scatter.Options
---@return synod.Scatter
function scatter.new(given)
  local o = options.read("scatter.new", given, NEW)
  if not o.name then options.refuse("scatter.new: a name is needed, such as name = \"thumbs\"") end
  o.name = tostring(o.name)
  o.store = o.store or require("synod").store
  o.instance = o.instance or require("synod").instance
  local self = setmetatable({ options = o, turn = 0 }, Scatter)
  local ok, queue = pcall(queue_of, self, o)
  if not ok then options.refuse("scatter.new: %s", (options.words_of(queue):gsub("^.-workqueue%.new: ", ""))) end
  self.queue = queue
  self.container = o.store:container(o.container or CONTAINER)
  o.poll_min = o.poll_min or math.min(POLL_MIN_S, o.poll_max or POLL_MIN_S)
  o.poll_max = o.poll_max or math.max(POLL_MAX_S, o.poll_min)
  o.reissue = o.reissue or REISSUE_S
  return self
end

--- Runs fn(item) for all items, several at once.
---@return synod.Error|nil err  the first; no more are begun then
local function each(items, fn)
  local next_item, problem = 1, nil
  local function run()
    while next_item <= #items and not problem do
      local item = items[next_item]
      next_item = next_item + 1
      local ok, err = fn(item)
      if not ok then problem = problem or err end
    end
  end
  local runners = {}
  for i = 1, math.min(REQUESTS_AT_ONCE, #items) do runners[i] = run end
  require("synod.task").all(runners)
  return problem
end

---------------------------------------------------------------- the master

---@class synod.Scatter.Job  what a call of map() goes through
---@field list any[]
---@field ids string[]
---@field records table<string, table>  id -> what became of the piece
---@field count integer                 of these

local function hand_out(self, job, numbers, again)
  return each(numbers, function(n)
    local id = job.ids[n]
    return self.queue:push({ job = job.name, piece = id, payload = job.list[n], again = again },
      { id = ("%s/%s/%s"):format(job.name, id, job.nonce) })
  end)
end

local function missing_of(job)
  local missing = {}
  for n, id in ipairs(job.ids) do
    if not job.records[id] then missing[#missing + 1] = n end
  end
  return missing
end

--- Reads the results that are new; tells of each.
local function collect(job, progress)
  local known, err = job.pieces:known()
  if not known then return nil, err end
  local new = {}
  for _, id in ipairs(job.ids) do
    if known[id] and not job.records[id] then new[#new + 1] = id end
  end
  err = each(new, function(id)
    local record, why = job.pieces:read(id)
    if not record then return nil, why end
    job.records[id] = record
    job.count = job.count + 1
    return true
  end)
  if err then return nil, err end
  if #new > 0 then
    job.news_at = core.instant()
    if progress then progress(job.count, #job.ids) end
  end
  return true
end

--- Nothing has come for long: whoever has the missing pieces may have died, or be slow.
local function reissue(self, job)
  if job.reissues == REISSUES_MAX or core.instant() - job.news_at < job.patience then return end
  local missing = missing_of(job)
  job.reissues, job.reissued = job.reissues + 1, job.reissued + #missing
  job.patience = job.patience * 2
  job.news_at = core.instant()
  return hand_out(self, job, missing, true)
end

local function is_passing(err)
  return err.retryable or err.code == "Timeout"
end

local function watch(self, job, given)
  local o, failure = self.options, nil
  local left = given.timeout and math.max(0, given.timeout - (core.instant() - job.began) / 1e9)
  local done, late = backoff.poll(function()
    local from = core.now()
    local ok, err = collect(job, given.progress)
    if ok and job.count == #job.ids then return true end
    if ok then err = reissue(self, job) end
    if err and not is_passing(err) then
      failure = err
      return true
    end
    core.sleep(math.min(REST_MAX_S, LOOK_SHARE * (core.now() - from)))
  end, {
    timeout = left, store = o.store, container = o.container or CONTAINER, prefix = job.pieces.prefix,
    min = o.poll_min, max = o.poll_max, recheck = math.min(RECHECK_S, o.reissue),
  })
  return done and not failure, failure or late
end

local function named(list)
  return table.concat(list, ", ", 1, math.min(#list, NAMED_MAX)) .. (#list > NAMED_MAX and ", ..." or "")
end

local function gather(self, job, err)
  local results, failed, numbers = { n = #job.ids }, {}, {}
  for n, id in ipairs(job.ids) do
    local record = job.records[id]
    if record and record.error then
      failed[n] = record.error
      numbers[#numbers + 1] = n
    elseif record then
      results[n] = record.result
    end
  end
  if not err and #numbers == 0 then return results end
  if err and err.code ~= "Timeout" then return nil, err end
  local missing, parts = missing_of(job), {}
  if #missing > 0 then parts[1] = ("no result of piece %s"):format(named(missing)) end
  if #numbers > 0 then
    parts[#parts + 1] = ("piece %s failed, the first with: %s"):format(named(numbers), failed[numbers[1]])
  end
  return nil, core.new_error {
    code = #missing > 0 and "Timeout" or "PieceFailed", operation = "collect",
    target = ("the job '%s' of '%s'"):format(job.name, self.options.name), retryable = false,
    message = ("%d of %d pieces are done; %s"):format(
      #job.ids - #missing - #numbers, #job.ids, table.concat(parts, "; ")),
    results = results, missing = missing, failed = failed,
  }
end

local MAP = { timeout = "seconds", progress = "callable", job = "string" }

--- A name that a master which is started again gives again, where it is one of a deployment; else one of its own.
local function job_name(self)
  self.turn = self.turn + 1
  local deployment = self.options.instance.deployment
  if deployment and deployment ~= "" then return ("%s.%d"):format(deployment, self.turn) end
  return envelope.new_id()
end

--- Hands out pieces and waits for their results. A job whose name is given again goes on where it was: results that are
--- there are not worked out again.
---@param list any[]  what each piece is, anything that JSON can say
---@param given? { timeout?: number, progress?: fun(done: integer, count: integer), job?: string }
---@return any[]|nil results, synod.Error? err  in order; Timeout or PieceFailed, with results, missing and failed
function Scatter:map(list, given)
  given = options.read("scatter:map", given, MAP)
  if type(list) ~= "table" then options.refuse("scatter:map: a list of pieces expected, got %s", type(list)) end
  if #list > pieces.COUNT_MAX then
    options.refuse("scatter:map: %d pieces are more than a job takes (%d)", #list, pieces.COUNT_MAX)
  end
  local name = given.job or job_name(self)
  local job = {
    name = name, nonce = envelope.new_id(), list = list, ids = {}, records = {}, count = 0, reissues = 0, reissued = 0,
    pieces = pieces.of(self.container, self.options.name, name), patience = math.floor(self.options.reissue * 1e9),
    began = core.instant(), news_at = core.instant(),
  }
  for n = 1, #list do
    local ok, why = pcall(json.encode, list[n])
    if not ok then options.refuse("scatter:map: piece %d: %s", n, tostring(why)) end
    job.ids[n] = pieces.id(n)
  end
  local ok, err = collect(job, given.progress)
  if not ok then return nil, err end
  err = hand_out(self, job, missing_of(job))
  if err then return nil, err end
  if job.count < #job.ids then err = select(2, watch(self, job, given)) end
  return gather(self, job, err)
end

--- Takes away the results of a job: it is over, and will not be asked for again.
---@param job string
---@return true|nil, synod.Error? err
function Scatter:forget(job)
  return pieces.of(self.container, self.options.name, job):forget()
end

---------------------------------------------------------------- the workers

---@class synod.Scatter.Piece  what a worker is told besides the piece itself
---@field job string
---@field id string
---@field attempt integer

--- The piece that a message carries; nil when it carries none.
local function piece_of(msg)
  local body = msg.body
  if type(body) ~= "table" or type(body.job) ~= "string" or type(body.piece) ~= "string" then return nil end
  local payload = body.payload
  if payload == json.null then payload = nil end
  return { job = body.job, id = body.piece, attempt = msg.attempt }, payload, body.again == true
end

--- The first result of a job that this worker writes is the time to look for old ones.
local function clean_once(self, job, props)
  if self.cleaned == job.prefix or not props then return end
  self.cleaned = job.prefix
  job:clean_later(props.last_modified)
end

local function work_on(self, msg, fn)
  local piece, payload, again = piece_of(msg)
  if not piece then return msg:reject("the message is no piece of a scattered job") end
  local job = pieces.of(self.container, self.options.name, piece.job)
  if again or piece.attempt > 1 then
    local known, err = job:is_known(piece.id)
    if err then error(err, 0) end
    if known then return end
  end
  local result, why = fn(payload, piece)
  if result == nil and why ~= nil then error(why, 0) end
  local props, err = job:write(piece.id, { result = result, by = self.options.instance.id or "unnamed" })
  if err then error(err, 0) end
  clean_once(self, job, props)
end

--- A piece that has failed too often: its error is its result.
function Scatter:give_up(msg, why)
  local piece = piece_of(msg)
  if not piece then return end
  local job = pieces.of(self.container, self.options.name, piece.job)
  local text = tostring(why)
  local _, err = job:write(piece.id, {
    error = utf8.len(text) and text or "an error that is no UTF-8", by = self.options.instance.id or "unnamed",
  })
  if err then error(err, 0) end
end

--- Works on pieces until drain() or a controlled stop. What fn returns is the piece's result; an error, or nil and an
--- err, is a failure, and after max_attempts of them the piece's result is that error.
---@param fn fun(piece: any, about: synod.Scatter.Piece): any
---@return true|nil, synod.Error? err  what the store refuses for good
function Scatter:work(fn)
  if type(fn) ~= "function" then options.refuse("scatter:work: a function expected, got %s", type(fn)) end
  return self.queue:consume(function(msg) work_on(self, msg, fn) end)
end

--- Ends work(), as workqueue:drain does.
---@param given? { timeout?: number }
---@return boolean all
function Scatter:drain(given)
  return self.queue:drain(given)
end

return scatter
