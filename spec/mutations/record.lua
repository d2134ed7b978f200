-- Mistakes that record leases could have, each a change of one place in the C core.
-- spec/lease/record_mutations_spec.lua makes each and shows that a test finds it out.

local RECORD, LOOK = "runtime/lease/keeper_record.c", "runtime/lease/keeper_look.c"
local SPEC, SWEEP = "spec/lease/record_spec.lua", "spec/lease/record_sweep_spec.lua"

return {
  { why = "the deadline counted from the attempt that read, not from the one that was found", file = RECORD,
    find = "        k->sent = found->sent;\n", replace = "", spec = SPEC, only = "a lost answer about a record" },
  { why = "a waiter counted its own ttl", file = LOOK,
    find = "k->mark.ttl_ms * NS_PER_MS", replace = "k->options.timing.ttl", spec = SPEC, only = "own time says" },
  { why = "who takes the service's lease took no notice of a record", file = LOOK,
    find = "if (foreign || record_lives(k)) {", replace = "if (foreign || (!k->kind->fences && record_lives(k))) {",
    spec = SPEC, only = "the service's lease" },
  { why = "a proposed fence told whose a record is", file = RECORD,
    find = "return record_of(k)->taken && k->mark.ttl_ms != 0", replace = "return k->mark.ttl_ms != 0",
    spec = SWEEP, only = "records of different times" },
  { why = "a release wrote over whatever it had seen", file = RECORD,
    find = "r->unsure = r->unsure || !(is_ours(k) || strcmp(k->sight.etag, r->base) == 0);", replace = "",
    spec = SWEEP, only = "records of different times.*lost%-request" },
  { why = "writes were not conditional on what was read", file = RECORD,
    find = "keeper_copy(call, &call->req.when.if_match, k->sight.etag)",
    replace = "keeper_copy(call, &call->req.when.if_match, \"*\")", spec = SWEEP },
  { why = "a renewal that met another version was lost", file = RECORD,
    find = "        record_of(k)->unsure = true;\n        return KEEPER_NEXT;",
    replace = "        return KEEPER_OTHERS;", spec = SPEC, only = "other hands" },
  { why = "a service lease ended the record at once", file = RECORD,
    find = "return step == KEEPER_RENEW ? KEEPER_AGAIN : plain;", replace = "return plain;",
    spec = SPEC, only = "other hands" },
  { why = "a release left the record", file = RECORD,
    find = "        mark_clear(&m);\n", replace = "", spec = SPEC, only = "other people's metadata" },
  { why = "a record was taken under a service lease", file = LOOK,
    find = "k->sight.leased && !k->taken &&", replace = "k->sight.leased && !k->taken && k->kind->fences &&",
    spec = SWEEP, only = "a record and a lease of the service" },
  { why = "a changed record was counted on from the first look", file = LOOK,
    find = "    if (strcmp(s->etag, props->etag) != 0) {",
    replace = "    if (!s->etag[0]) {", spec = SPEC, only = "crashes" },
  { why = "what was taken too late was held", file = "runtime/lease/keeper_step.c",
    find = "if (world_now(k->world) < k->soft) {", replace = "if (k->soft > 0) {", spec = SPEC, only = "too late" },
  { why = "the fence stayed the same", file = "runtime/lease/mark.c",
    find = "m->fence ? m->fence + 1", replace = "m->fence ? m->fence", spec = SPEC, only = "crashes" },
  { why = "the life of a request was not taken off", file = "runtime/lease/timing.c",
    find = "- t->request - t->slice", replace = "- t->slice", spec = "spec/lease/timing_spec.lua" },
}
