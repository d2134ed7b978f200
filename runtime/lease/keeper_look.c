/* keeper_look.c -- what lies at a keeper's place: looked at, and made when it is absent. */
#include "lease/keeper_kind.h"

#include <string.h>

bool keeper_copy(struct store_call *call, const char **field, const char *text) {
    *field = arena_strdup(&call->arena, text);
    return *field || !text;
}

struct store_call *keeper_call(struct keeper *k, enum store_verb verb) {
    struct store_call *call = store_call_new(k->store, verb);
    call->req.urgent = true;
    if (keeper_copy(call, &call->req.container, k->options.container) &&
        keeper_copy(call, &call->req.name, k->options.name)) {
        return call;
    }
    store_call_free(call);
    return NULL;
}

struct store_call *keeper_ask_look(struct keeper *k, enum keeper_step step) {
    enum store_verb verb = step == KEEPER_MAKE_CONTAINER ? VERB_CONTAINER_CREATE
                           : step == KEEPER_MAKE_BLOB    ? VERB_BLOB_PUT
                           : k->options.name             ? VERB_BLOB_HEAD
                                                         : VERB_CONTAINER_HEAD;
    struct store_call *call = keeper_call(k, verb);
    if (!call) {
        return NULL;
    }
    call->req.urgent = k->taken;
    if (step == KEEPER_MAKE_CONTAINER) {
        call->req.name = NULL;
    } else if (step == KEEPER_MAKE_BLOB) {
        call->req.size = 0;
        call->req.when.if_none_match = "*";
    }
    return call;
}

/* ---- what was seen ---- */

enum err keeper_take_sight(struct keeper *k, struct store_call *call,
                           const struct pairs *metadata) {
    const struct store_props *props = &call->reply.props;
    struct keeper_sight *s = &k->sight;
    if (strcmp(s->etag, props->etag) != 0) {
        memcpy(s->etag, props->etag, sizeof s->etag);
        s->since = world_now(k->world);
    }
    s->date = call->reply.server_date;
    s->leased = props->has_lease && props->locked;
    if (!pairs_copy(&s->metadata, metadata ? metadata : &props->metadata)) {
        return error_set(&k->why, ERR_NO_MEMORY, NULL);
    }
    return mark_read(&k->mark, &s->metadata, &k->why);
}

/* A record that nobody may take yet: it has not been unchanged for its ttl. Sets k->again. */
static bool record_lives(struct keeper *k) {
    int64_t end = instant_add(k->sight.since, k->mark.ttl_ms * NS_PER_MS);
    k->again = NEVER;
    if (k->mark.ttl_ms == 0 || world_now(k->world) >= end) {
        return false;
    }
    k->again = end;
    return true;
}

enum keeper_verdict keeper_others(struct keeper *k) {
    const struct mark *m = &k->mark;
    if (m->holder[0]) {
        error_set(&k->why, ERR_LEASE_ALREADY_PRESENT, "it is held by %.80s%s%.60s%s%.40s",
                  m->holder, m->host[0] ? " on " : "", m->host, m->since[0] ? " since " : "",
                  m->since);
    } else {
        error_set(&k->why, ERR_LEASE_ALREADY_PRESENT, NULL);
    }
    return KEEPER_OTHERS;
}

/* Both kinds exclude each other. A record that has changed since the last look is somebody's, even where the
 * service's lease is ours by now. */
static enum keeper_verdict judge_place(struct keeper *k) {
    bool foreign = k->sight.leased && !k->taken && !(k->given && k->kind->fences);
    k->again = NEVER;
    if (foreign || record_lives(k)) {
        return keeper_others(k);
    }
    if (k->kind->fences && !k->options.fence) {
        return KEEPER_DONE;
    }
    k->fence = mark_next_fence(&k->mark, k->fence_seen, k->sight.date, &k->why);
    if (k->fence == 0) {
        return KEEPER_REFUSED;
    }
    k->fence_seen = k->mark.fence > k->fence_seen ? k->mark.fence : k->fence_seen;
    return KEEPER_DONE;
}

enum keeper_verdict keeper_judge_look(struct keeper *k, enum keeper_step step,
                                      struct store_call *call) {
    switch (call->reply.err.code) {
    case ERR_CONTAINER_ALREADY_EXISTS:
        return step == KEEPER_MAKE_CONTAINER ? KEEPER_DONE : KEEPER_REFUSED;
    case ERR_BLOB_ALREADY_EXISTS:
    case ERR_CONDITION_NOT_MET:
    case ERR_LEASE_ID_MISSING:
        return step == KEEPER_MAKE_BLOB ? KEEPER_LOOK_AGAIN : KEEPER_REFUSED;
    case ERR_CONTAINER_NOT_FOUND:
        return KEEPER_NO_CONTAINER;
    case ERR_BLOB_NOT_FOUND:
        k->sight.etag[0] = '\0';
        return KEEPER_NO_BLOB;
    case ERR_OK:
        break;
    default:
        return KEEPER_REFUSED;
    }
    if (step == KEEPER_MAKE_CONTAINER) {
        return KEEPER_DONE;
    }
    return keeper_take_sight(k, call, NULL) == ERR_OK ? judge_place(k) : KEEPER_REFUSED;
}

/* ---- what is written ---- */

void keeper_own_mark(struct keeper *k, struct mark *mark, int64_t fence) {
    const struct keeper_options *o = &k->options;
    char since[INSTANT_TEXT_MAX];
    instant_iso(world_wall(k->world), 3, since);
    *mark = (struct mark){.fence = fence, .pid = o->pid};
    mark_text(mark->holder, o->holder);
    mark_text(mark->host, o->host);
    mark_text(mark->since, since);
    mark_text(mark->purpose, o->purpose);
    mark_text(mark->hints, o->hints);
}

bool keeper_put_mark(struct keeper *k, struct store_call *call, const struct mark *mark) {
    struct pairs out;
    pairs_init(&out);
    bool ok = mark_write(mark, &k->sight.metadata, &out);
    if (ok) {
        call->req.metadata = arena_copy(&call->arena, buf_str(&out.text), out.text.len);
        call->req.metadata_len = out.text.len;
    }
    pairs_release(&out);
    return ok && call->req.metadata;
}

/* ---- what an answer means ---- */

enum keeper_verdict keeper_plain_verdict(const struct store_call *call) {
    const struct error *e = &call->reply.err;
    switch (e->code) {
    case ERR_OK:
        return KEEPER_DONE;
    case ERR_BAD_ANSWER:
    case ERR_ANSWER_LOST:
        return KEEPER_DOUBT;
    case ERR_LEASE_ALREADY_PRESENT:
    case ERR_LEASE_ID_MISSING:
    case ERR_LEASE_ID_MISMATCH_WITH_LEASE_OPERATION:
    case ERR_LEASE_ID_MISMATCH_WITH_BLOB_OPERATION:
    case ERR_LEASE_NOT_PRESENT_WITH_LEASE_OPERATION:
    case ERR_LEASE_NOT_PRESENT_WITH_BLOB_OPERATION:
    case ERR_LEASE_IS_BREAKING_AND_CANNOT_BE_ACQUIRED:
    case ERR_LEASE_IS_BREAKING_AND_CANNOT_BE_CHANGED:
    case ERR_LEASE_IS_BROKEN_AND_CANNOT_BE_RENEWED:
    case ERR_LEASE_LOST:
        return KEEPER_OTHERS;
    case ERR_CONDITION_NOT_MET:
    case ERR_BLOB_NOT_FOUND:
    case ERR_CONTAINER_NOT_FOUND:
        return KEEPER_LOOK_AGAIN;
    default:
        return e->retryable ? KEEPER_DOUBT : KEEPER_REFUSED;
    }
}
