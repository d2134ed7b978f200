-- synod.body: blobs of any size with little memory: readers, writers, bodies that come from a function; and copies.
--
--   for piece in b:reader() do ... end
--   local w <close> = b:writer { if_none_match = "*" }
--   assert(w:write(piece))
--   assert(w:close())           -- now it is there, all of it; left without close, nothing is
--   b:put(function() return next_piece_or_nil end, { metadata = { ... } })
--   b:copy_from(c:blob "other")
--
-- These become methods of every blob. A writer sends blocks, a few at a time, and one request at the end makes the blob
-- of them: conditions hold for that request, so that create-only and if_match mean what they mean for a put.

local core = require "synod.core"
local check_call = require("synod.options").check_call

local body = {}

local PIECE = 2 << 20     -- bytes of a block or of a range, when not told otherwise
local PARALLEL = 4        -- blocks of one writer on their way, when not told otherwise
local PARALLEL_MAX = 16
local BLOCK_TIMEOUT = 60  -- seconds for a block with all its attempts
local BLOCK_TRY = 20      -- seconds for one attempt
local COPY_TIMEOUT = 60   -- seconds for a copy to be done
local COPY_LOOK_MIN, COPY_LOOK_MAX = 0.2, 5

local methods = core.blob_methods()
local get, put, head = methods.get, methods.put, methods.head

local PATIENCE = { "timeout", "try_timeout", "retries" }
local CONDITIONS = { "if_match", "if_none_match", "if_modified_since", "if_unmodified_since", "lease" }

local function set_of(...)
  local set = {}
  for _, list in ipairs { ... } do
    for _, name in ipairs(list) do set[name] = true end
  end
  return set
end

local READER_OPTIONS = set_of(PATIENCE, CONDITIONS, { "chunk", "offset", "length" })
local WRITER_OPTIONS = set_of(PATIENCE, CONDITIONS, { "metadata", "content_type", "block", "parallel" })

local function check_options(options, known)
  if options == nil then return {} end
  if type(options) ~= "table" then error("options: table expected, got " .. type(options), 3) end
  for name in pairs(options) do
    if not known[name] then error(("unknown option '%s'"):format(tostring(name)), 3) end
  end
  return options
end

--- A whole number of an option, within bounds.
local function check_number(options, name, least, most, absent)
  local value = options[name]
  if value == nil then return absent end
  if math.type(value) ~= "integer" or value < least or value > most then
    error(("option '%s': a whole number from %d to %d expected, got %s"):format(name, least, most, tostring(value)), 3)
  end
  return value
end

local function pick(options, ...)
  local picked = {}
  for _, list in ipairs { ... } do
    for _, name in ipairs(list) do picked[name] = options[name] end
  end
  return picked
end

-- reading

---@class synod.BodyReader
---@field props? synod.Props  after the first read: of the blob as it is read
---@overload fun(): string|nil  the next piece; raises the err table when it cannot be had
local Reader = {}
Reader.__index = Reader

--- Nothing can be a part of an empty blob: when that is why there is no range, there is no error.
local function look_whether_empty(self, err)
  local props, problem = head(self.blob, pick(self.options, PATIENCE, CONDITIONS))
  if props and props.length == 0 then
    self.props = props
    return nil
  end
  return problem or err
end

local function explain_change(self, err)
  if not self.props or (err.code ~= "ConditionNotMet" and err.code ~= "BlobNotFound") then return err end
  return core.new_error {
    code = err.code, status = err.status, operation = err.operation, target = err.target, request_id = err.request_id,
    message = "the blob was changed while it was read: what was read so far is of the one before",
  }
end

--- The next piece; nil at the end; nil and the err table when it cannot be had, or when the blob was changed.
---@return string|nil piece, synod.Error? err
function Reader:read()
  if self.ended then return nil, self.failed end
  local asked = pick(self.options, PATIENCE, self.props and { "lease" } or CONDITIONS)
  asked.offset, asked.length = self.at, math.min(self.chunk, self.till - self.at)
  if self.props then asked.if_match = self.props.etag end
  local piece, props = get(self.blob, asked)
  if not piece then
    self.ended = true
    self.failed = explain_change(self, props)
    if props.code == "InvalidRange" and not self.props and self.at == 0 then
      self.failed = look_whether_empty(self, props)
    end
    return nil, self.failed
  end
  self.props = self.props or props
  self.at = self.at + #piece
  self.till = math.min(self.till, props.length)
  self.ended = self.at >= self.till or piece == "" -- a server may give nothing where another refuses the range
  return piece ~= "" and piece or nil
end

function Reader:__call()
  local piece, err = self:read()
  if err then error(err, 0) end
  return piece
end

---@class synod.ReaderOptions: synod.GetOptions
---@field chunk? integer  bytes of a piece, 2 MiB

--- Reads a blob piece by piece, all of one version: a change in between is an error.
---@param options? synod.ReaderOptions
---@return synod.BodyReader
function methods:reader(options)
  options = check_options(options, READER_OPTIONS)
  local chunk = check_number(options, "chunk", 1, core.block_bytes_max, PIECE)
  local from = check_number(options, "offset", 0, math.maxinteger, 0)
  local length = check_number(options, "length", 1, math.maxinteger, math.maxinteger)
  check_call(self, "read", "reader", pick(options, PATIENCE, CONDITIONS))
  local till = length > math.maxinteger - from and math.maxinteger or from + length
  return setmetatable({ blob = self, options = options, chunk = chunk, at = from, till = till, ended = false }, Reader)
end

-- writing

---@class synod.BodyWriter
local Writer = {}
Writer.__index = Writer

--- Waits for the oldest block on its way.
local function settle(self)
  local ok, err = self.tasks[1]:join()
  table.remove(self.tasks, 1)
  if not ok then self.failed = self.failed or err end
end

local function stage(self, data)
  while #self.tasks >= self.parallel do settle(self) end
  if self.failed then return end
  if self.count == core.blocks_max then
    self.failed = core.new_error {
      code = "BlockCountExceedsLimit", operation = "write the blob", target = tostring(self.blob):gsub("^blob ", ""),
      message = ("a blob has at most %d blocks: write with larger ones (option 'block')"):format(core.blocks_max),
    }
    return
  end
  self.upload = self.upload or core.blob_upload()
  self.tasks[#self.tasks + 1] = core.spawn(core.blob_stage, self.blob, self.upload, self.count, self.size, data,
    self.patience)
  self.count = self.count + 1
  self.size = self.size + #data
end

--- Sends what makes whole blocks; the last one, whole or not, waits for close.
local function stage_whole(self)
  local data = table.concat(self.held)
  local from = 1
  while #data - from + 1 > self.block and not self.failed do
    stage(self, data:sub(from, from + self.block - 1))
    from = from + self.block
  end
  self.held = { data:sub(from) }
  self.held_size = #self.held[1]
end

--- Takes more of the content; waits while enough is on its way.
---@param data string
---@return true|nil, synod.Error? err
function Writer:write(data)
  if type(data) ~= "string" then error("bad argument #1 to 'write' (string expected, got " .. type(data) .. ")", 2) end
  if self.closed then error("the writer is closed", 2) end
  if data ~= "" and not self.failed then
    self.held[#self.held + 1] = data
    self.held_size = self.held_size + #data
    if self.held_size > self.block then stage_whole(self) end
  end
  if self.failed then return nil, self.failed end
  return true
end

--- Makes the blob of all that was written. Without it there is none.
---@return synod.Props|nil props, synod.Error? err
function Writer:close()
  if self.closed then error("the writer is closed", 2) end
  local last = table.concat(self.held)
  if not self.upload and not self.failed then
    self.closed = true
    return put(self.blob, last, self.options)
  end
  if last ~= "" and not self.failed then stage(self, last) end
  while #self.tasks > 0 do settle(self) end
  self.closed = true
  if self.failed then return nil, self.failed end
  return core.blob_commit(self.blob, self.upload, self.count, self.size, self.options)
end

--- Left without close: nothing is written. The blocks that were sent are seen by nobody and go by themselves.
function Writer:__close()
  self.closed = true
  for _, task in ipairs(self.tasks) do task:cancel() end
  self.tasks, self.held = {}, {}
end

local function new_writer(blob, options, block, parallel)
  local patience = pick(options, PATIENCE, { "lease" })
  patience.timeout = patience.timeout or BLOCK_TIMEOUT
  patience.try_timeout = patience.try_timeout or BLOCK_TRY
  return setmetatable({
    blob = blob, block = block, parallel = parallel, patience = patience,
    options = pick(options, PATIENCE, CONDITIONS, { "metadata", "content_type" }),
    held = {}, held_size = 0, tasks = {}, count = 0, size = 0, closed = false,
  }, Writer)
end

---@class synod.WriterOptions: synod.PutOptions
---@field block? integer     bytes of a block, 2 MiB
---@field parallel? integer  blocks on their way at once, 4

--- Writes a block blob piece by piece. It is there, and replaces what was there, when `close` says so.
---@param options? synod.WriterOptions
---@return synod.BodyWriter
function methods:writer(options)
  options = check_options(options, WRITER_OPTIONS)
  local block = check_number(options, "block", 1, core.block_bytes_max, PIECE)
  local parallel = check_number(options, "parallel", 1, PARALLEL_MAX, PARALLEL)
  check_call(self, "write", "writer", pick(options, PATIENCE, CONDITIONS, { "metadata", "content_type" }))
  return new_writer(self, options, block, parallel)
end

--- blob:put with a body that one request does not take, or that a function gives piece by piece (nil: the end;
--- nil, err: it ends in a failure, and nothing is written).
function methods:put_streamed(source, options)
  check_call(self, "put", "put", options, 4) -- the script is above blob:put, which is in C
  options = options or {}
  if options.type and options.type ~= "block" or options.size then
    error("a page or append blob is made empty: its body must be \"\"", 3)
  end
  local writer <close> = new_writer(self, options, PIECE, PARALLEL)
  if type(source) == "string" then
    for from = 1, #source, PIECE do
      local ok, err = writer:write(source:sub(from, from + PIECE - 1))
      if not ok then return nil, err end
    end
    return writer:close()
  end
  while true do
    local piece, problem = source()
    if piece == nil and problem ~= nil then return nil, problem end
    if piece == nil then return writer:close() end
    if type(piece) ~= "string" then
      error("the body's function must give strings and at the end nil, and gave a " .. type(piece), 3)
    end
    local ok, err = writer:write(piece)
    if not ok then return nil, err end
  end
end

-- copying

--- The copy is under way at the service: looks until it is done.
local function wait_for_copy(blob, options)
  local deadline, rest = core.now() + (options.timeout or COPY_TIMEOUT), COPY_LOOK_MIN
  while true do
    local props, err = head(blob, pick(options, PATIENCE))
    if not props then return nil, err end
    if not props.copy_status then return { etag = props.etag, last_modified = props.last_modified } end
    if props.copy_status ~= "pending" or core.now() + rest > deadline then
      local pending = props.copy_status == "pending"
      return nil, core.new_error {
        code = pending and "Timeout" or "CopyFailed", operation = "copy to the blob",
        target = tostring(blob):gsub("^blob ", ""),
        message = pending and "the copy is still under way; it goes on" or "the copy was " .. props.copy_status,
      }
    end
    core.sleep(rest)
    rest = math.min(rest * 2, COPY_LOOK_MAX)
  end
end

---@class synod.CopyOptions: synod.Conditions
---@field metadata? synod.Metadata   the source's when absent
---@field source_if_match? string    an ETag of the source

--- What is wrong with a source, or nil.
local function source_fault(blob, source)
  if type(source) == "string" then
    return "a blob of this store expected, got an address: name it by store:container(NAME):blob(NAME); content from "
      .. "elsewhere is read there and put here"
  end
  local is_place, store, _, name = pcall(core.place_of, source)
  if not is_place or not name then return "a blob of this store expected, got " .. type(source) end
  if store ~= core.place_of(blob) then return "the blob is in another store: read it there and put it here" end
end

--- Makes this blob a copy of another in the same store: content, type, content type, metadata. The conditions are on
--- this blob; the source is copied as it was when it was looked at, or not at all.
---@param source synod.Blob
---@param options? synod.CopyOptions
---@return synod.Props|nil props, synod.Error? err
function methods:copy_from(source, options)
  local fault = source_fault(self, source)
  if fault then error("bad argument #1 to 'copy_from' (" .. fault .. ")", 2) end
  check_call(self, "copy", "copy_from", options)
  options = options or {}
  local props, err = head(source, pick(options, PATIENCE))
  if not props then return nil, err end
  local asked = pick(options, PATIENCE, CONDITIONS)
  asked.metadata = options.metadata or props.metadata
  asked.source_if_match = options.source_if_match or props.etag
  local copied
  copied, err = core.blob_copy(self, source, asked)
  if copied and copied.copy_status then return wait_for_copy(self, options) end
  return copied, err
end

return body
