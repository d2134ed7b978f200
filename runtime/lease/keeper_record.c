/* keeper_record.c -- a lease shorter than the service's own: a record in the blob's metadata, kept by conditional
 * writes.
 *
 * Every write is If-Match on the ETag that was read, so that of two only one happens. A record is over when its blob
 * has not changed for the *record's* ttl, counted from the moment when the answer of a read had come, on the
 * reader's own clock: no two clocks are ever compared, and a holder with another ttl is waited for as it asks.
 * Who takes over raises the fence, and keeps alive what carries its fence.
 *
 * An attempt has a nonce of its own. When its answer is lost it is repeated, on the same ETag: at most one of them
 * can happen. When one is refused because the ETag has moved, the next call reads whose nonce is there; ours is
 * success, and the deadline counts from the attempt that had it.
 *
 * A release writes where the record is ours, and also on the ETag for which attempts may still be on their way: that
 * voids them. Only a fence that was confirmed tells whose a record is, since two that contend propose the same.
 */
#include "lease/keeper_kind.h"

#include <string.h>

#include "base/alloc.h"
#include "store/lost.h"

enum { TRIES_MAX = 16 }; /* attempts remembered; what is older is over anyway */

struct record {
    struct record_try {
        char nonce[NONCE_TEXT];
        int64_t sent;
    } tries[TRIES_MAX];
    unsigned count; /* attempts so far */
    char base[80];  /* the ETag on which the last of them was made; "": none was */
    bool unsure;    /* the ETag has moved: read before anything else */
    bool taken;     /* one of them to take was confirmed */
};

static struct record *record_of(struct keeper *k) {
    if (!k->record) {
        k->record = xcalloc(1, sizeof(struct record));
    }
    return k->record;
}

static struct record_try *try_begin(struct keeper *k) {
    struct record *r = record_of(k);
    struct record_try *t = &r->tries[r->count++ % TRIES_MAX];
    nonce_draw(&k->random, t->nonce);
    t->sent = world_now(k->world);
    return t;
}

/* NULL: another's, or of too long ago. */
static const struct record_try *try_of(struct keeper *k, const char *nonce) {
    const struct record *r = record_of(k);
    for (int i = 0; i < TRIES_MAX; i++) {
        if (nonce[0] && strcmp(r->tries[i].nonce, nonce) == 0) {
            return &r->tries[i];
        }
    }
    return NULL;
}

/* The record that was seen is the one that we keep alive. */
static bool is_ours(struct keeper *k) {
    return record_of(k)->taken && k->mark.ttl_ms != 0 && k->mark.fence == k->fence;
}

/* ---- asking ---- */

static struct mark mark_of(struct keeper *k, enum keeper_step step) {
    struct mark m = k->mark;
    if (step == KEEPER_TAKE) {
        keeper_own_mark(k, &m, k->fence);
        m.ttl_ms = k->options.timing.ttl / NS_PER_MS;
        m.beat = 1;
    } else if (step == KEEPER_RENEW) {
        m.beat++;
    } else {
        mark_clear(&m);
        m.fence = k->fence > m.fence ? k->fence : m.fence;
    }
    return m;
}

static struct store_call *ask_write(struct keeper *k, enum keeper_step step) {
    struct store_call *call = keeper_call(k, VERB_BLOB_SET_METADATA);
    if (!call) {
        return NULL;
    }
    struct mark m = mark_of(k, step);
    bool complete =
        keeper_put_mark(k, call, &m) && keeper_copy(call, &call->req.when.if_match, k->sight.etag);
    if (complete && step != KEEPER_RELEASE) { /* that one the client repeats and settles */
        memcpy(record_of(k)->base, k->sight.etag, sizeof k->sight.etag);
        complete = keeper_copy(call, &call->req.nonce, try_begin(k)->nonce);
    }
    if (complete) {
        return call;
    }
    store_call_free(call);
    return NULL;
}

static struct store_call *record_ask(struct keeper *k, enum keeper_step step) {
    struct record *r = record_of(k);
    switch (step) {
    case KEEPER_RELEASE:
        r->unsure = r->unsure || !(is_ours(k) || strcmp(k->sight.etag, r->base) == 0);
        /* fall through */
    case KEEPER_TAKE:
    case KEEPER_RENEW:
        return r->unsure ? keeper_call(k, VERB_BLOB_HEAD) : ask_write(k, step);
    default:
        return keeper_ask_look(k, step);
    }
}

/* ---- judging a read ---- */

/* Whose is what was read? Where another wrote and kept our record it is still ours, though not renewed. */
static enum keeper_verdict judge_found(struct keeper *k, enum keeper_step step, const char *nonce) {
    struct record *r = record_of(k);
    const struct record_try *found = try_of(k, nonce);
    bool first = found && !r->taken;
    if (first) {
        r->taken = true;
        k->fence = k->mark.fence;
    }
    if (step == KEEPER_RELEASE) {
        return is_ours(k) ? KEEPER_NEXT : KEEPER_DONE;
    }
    if (found && is_ours(k) && (first || found->sent > k->confirmed)) {
        k->sent = found->sent;
        return KEEPER_DONE;
    }
    if (step == KEEPER_TAKE) {
        return KEEPER_LOOK_AGAIN;
    }
    if (!is_ours(k) && k->mark.ttl_ms == 0) {
        error_set(&k->why, ERR_LEASE_LOST, "its record was removed from the blob");
        return KEEPER_OTHERS;
    }
    return is_ours(k) ? KEEPER_NEXT : keeper_others(k);
}

static enum keeper_verdict judge_read(struct keeper *k, enum keeper_step step,
                                      struct store_call *call) {
    enum err code = call->reply.err.code;
    if (code == ERR_BLOB_NOT_FOUND || code == ERR_CONTAINER_NOT_FOUND) {
        return step == KEEPER_RELEASE ? KEEPER_DONE
               : step == KEEPER_RENEW ? KEEPER_OTHERS
                                      : KEEPER_LOOK_AGAIN;
    }
    if (code != ERR_OK) {
        return step == KEEPER_RELEASE ? KEEPER_REFUSED : KEEPER_AGAIN;
    }
    if (keeper_take_sight(k, call, NULL) != ERR_OK) {
        return step == KEEPER_RENEW ? KEEPER_OTHERS : KEEPER_REFUSED;
    }
    record_of(k)->unsure = false;
    return judge_found(k, step, call->reply.props.nonce);
}

/* ---- judging a write ---- */

static enum keeper_verdict take_written(struct keeper *k, enum keeper_step step,
                                        struct store_call *call) {
    struct pairs written;
    pairs_init(&written);
    bool kept = buf_append(&written.text, call->req.metadata, call->req.metadata_len);
    pairs_remove(&written, NONCE_NAME);
    kept = kept && keeper_take_sight(k, call, &written) == ERR_OK;
    pairs_release(&written);
    record_of(k)->taken = record_of(k)->taken || step == KEEPER_TAKE;
    return kept ? KEEPER_DONE : KEEPER_DOUBT;
}

/* A refusal at renewal may pass before the soft stop does: only another's record ends it. A service lease is not
 * one yet, since who has it waits until the record is over. */
static enum keeper_verdict judge_write(struct keeper *k, enum keeper_step step,
                                       struct store_call *call) {
    enum keeper_verdict plain = keeper_plain_verdict(call);
    bool gone = call->reply.err.code == ERR_BLOB_NOT_FOUND ||
                call->reply.err.code == ERR_CONTAINER_NOT_FOUND;
    switch (plain) {
    case KEEPER_DONE:
        return take_written(k, step, call);
    case KEEPER_LOOK_AGAIN:
        if (step == KEEPER_RELEASE && gone) {
            return KEEPER_DONE;
        }
        if (step == KEEPER_TAKE && !k->doubt) {
            return KEEPER_LOOK_AGAIN;
        }
        record_of(k)->unsure = true;
        return KEEPER_NEXT;
    case KEEPER_DOUBT:
        return step == KEEPER_RELEASE ? KEEPER_REFUSED : KEEPER_DOUBT;
    case KEEPER_OTHERS:
        if (step == KEEPER_TAKE) {
            return KEEPER_LOOK_AGAIN; /* to say who it is */
        }                             /* fall through */
    default:
        return step == KEEPER_RENEW ? KEEPER_AGAIN : plain;
    }
}

static enum keeper_verdict record_judge(struct keeper *k, enum keeper_step step,
                                        struct store_call *call) {
    if (step != KEEPER_TAKE && step != KEEPER_RENEW && step != KEEPER_RELEASE) {
        return keeper_judge_look(k, step, call);
    }
    return call->req.verb == VERB_BLOB_HEAD ? judge_read(k, step, call)
                                            : judge_write(k, step, call);
}

const struct keeper_kind KEEPER_RECORD = {
    .fences = false,
    .ask = record_ask,
    .judge = record_judge,
};
