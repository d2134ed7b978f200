-- Mistakes that a scattered job could have, each a change of one line; spec/mutations_spec.lua makes them.

local SPEC = "spec/scatter_spec.lua"
local PIECES, SCATTER = "lua/synod/scatter/pieces.lua", "lua/synod/scatter.lua"

return {
  {
    why = "results are counted, and not whose they are: a late one of another job will do",
    file = PIECES, spec = SPEC, from = [[prefix = ("%s/%s/"):format(name, generation.part(job)),]],
    to = [[prefix = ("%s/%s/"):format(name, #job > 0 and "j"),]],
  },
  {
    why = "a late result takes the place of the first",
    file = PIECES, spec = SPEC, from = [[{ if_none_match = "*", metadata]], to = [[{ metadata]],
  },
  {
    why = "missing pieces are not handed out again",
    file = SCATTER, spec = SPEC, from = [[return hand_out(self, job, missing, true)]], to = [[return missing and nil]],
  },
  {
    why = "a master that is started again hands everything out again",
    file = SCATTER, spec = SPEC, from = [[err = hand_out(self, job, missing_of(job))]],
    to = [[job.records = {} err = hand_out(self, job, missing_of(job))]],
  },
  {
    why = "a piece that fails for ever is never answered",
    file = SCATTER, spec = SPEC, from = [[poisoned = function(msg, why) self:give_up(msg, why) end,]], to = [[]],
  },
  {
    why = "a piece whose result is there is worked on again",
    file = SCATTER, spec = SPEC, from = [[if known then return end]], to = [[]],
  },
  {
    why = "the results come in the order in which they are done",
    file = SCATTER, spec = SPEC, from = [[results[n] = record.result]], to = [[results[#results + 1] = record.result]],
  },
  {
    why = "a message is deleted though its result was not written",
    file = SCATTER, spec = SPEC, from = [[  local props, err = job:write(piece.id, { result]],
    to = [[  if piece.attempt == 1 then return end local props, err = job:write(piece.id, { result]],
  },
  {
    why = "a result that is false is none",
    file = "lua/synod/scatter/pieces.lua", spec = "spec/scatter_spec.lua",
    from = "local result = record.result -- false is one too", to = "local result = record.result or nil",
  },
}
