-- mark: what stands on a blob that is, or was, held: who, since when, and the fence.
--
--   local seen, err = mark.look(blob)
--   if seen and seen.kind then print(seen.holder, "holds it since", seen.since, "with the fence", seen.fence) end
--
-- One look cannot tell whether a record lives: it is over when it has not changed (`beat`, `etag`) for its `ttl`.

local core = require "synod.core"

local mark = {}

---@class synod.Mark
---@field holder? string   instance id; of a lease that is over: the last one's
---@field host? string
---@field pid? integer
---@field since? string    UTC, RFC 3339
---@field purpose? string
---@field hints? string    where the holder can be asked to tell of its end (synod.hints)
---@field next? string     instance id of the successor while it is handed over
---@field fence? integer   grows with each holder
---@field kind? "service"|"record"  how it is held; nil: nobody holds it
---@field ttl? number      of a record: seconds without a change after which it is over
---@field beat? integer    of a record: counts its renewals
---@field etag string
---@field modified integer the last write: seconds since 1970 by the store's clock, to be shown and not to be compared

--- What the metadata of a head, list item or read say.
---@param props synod.Props
---@return synod.Mark|nil, synod.Refusal err  NewerVersion; FenceRegressed when the fence there is no number
function mark.of(props)
  local seen, err = core.mark_read(props.metadata or {})
  if not seen then return nil, err end
  seen.kind = props.lease_status == "locked" and "service" or seen.ttl and "record" or nil
  seen.etag, seen.modified = props.etag, props.last_modified
  return seen
end

--- Who holds the blob.
---@param blob synod.Blob
---@param options? synod.CallOptions
---@return synod.Mark|nil, synod.Refusal err  BlobNotFound: nobody ever did
function mark.look(blob, options)
  local props, err = blob:head(options)
  if not props then return nil, err end
  local seen
  seen, err = mark.of(props)
  if err then err.target = tostring(blob) end
  return seen, err
end

return mark
