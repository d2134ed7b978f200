/* client.c -- states of a call. Each arrow names the only function that may take it.
 *
 *   IDLE    -store_call_start-> TRYING
 *   TRYING  -try_done-> FINISHED      done, refused for good, settled, or out of time
 *   TRYING  -rest-> RESTING           may pass: back-off
 *   TRYING  -look_start-> TRYING      refused after a lost answer: find out whose doing it is
 *   RESTING -rest_over-> TRYING
 *   RESTING -store_free-> FINISHED
 *
 * A wait that would reach the deadline is not begun: the call ends at once with what is known, since
 * nothing can come of waiting. An abandoned call is freed in whichever state it is; only an attempt
 * under way must be waited for, because its memory is the transport's until `done`.
 */
#include "store/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/entity.h"
#include "store/lease_rules.h"
#include "store/lost.h"

enum {
    REST_MIN_MS = 100,    /* the first back-off is between this and three times as much */
    REST_MAX_MS = 2000,   /* no back-off of our own is longer */
    BAD_ANSWER_TRIES = 2, /* an answer that cannot be read will hardly get better */
};

enum phase { PHASE_IDLE, PHASE_TRYING, PHASE_RESTING, PHASE_FINISHED };

/* A look at what is there now, after a refusal that may be our own doing. */
struct look {
    struct store_request req;
    struct store_reply reply;
};

struct call_state {
    struct store_call call; /* the public part: same allocation */
    struct call_state *prev, *next;
    struct attempt attempt;
    struct alarm alarm;
    struct look *look; /* NULL while the call itself is being tried */
    int64_t started;
    int64_t rest;         /* the last back-off */
    struct error telling; /* the last error that says more than Timeout; code OK: none */
    int bad_answers;
    enum phase phase;
    enum lost_rule rule;
    bool lost;      /* an answer was lost: the write may have happened */
    bool abandoned; /* nobody waits: free it when the attempt is done */
    char nonce[NONCE_TEXT];
};

struct store {
    struct world *world;
    struct transport *transport;
    struct random random;     /* jitter and nonces */
    struct call_state *calls; /* every one that was not freed */
    struct call_state *spare; /* the memory of one, kept for the next; NULL: none */
    bool closing;
    struct meter *meter; /* outlives it */
};

static void try_start(struct call_state *s);
static void try_done(struct attempt *a);

/* ---- stores ---- */

struct store *store_over(struct world *w, struct transport *t, struct meter *m) {
    struct store *s = xcalloc(1, sizeof *s);
    s->world = w;
    s->transport = t;
    s->meter = m;
    uint64_t seed;
    world_random(w, &seed, sizeof seed);
    random_init(&s->random, seed, "store", 0);
    return s;
}

const char *store_kind(const struct store *s) {
    return s->transport->ops->kind;
}

struct transport *store_transport(struct store *s) {
    return s->transport;
}

/* ---- the life of a call ---- */

static struct call_state *state_take(struct store *store) {
    struct call_state *s = store->spare;
    if (!s) {
        return xcalloc(1, sizeof *s);
    }
    store->spare = NULL;
    memset(s, 0, sizeof *s);
    return s;
}

static void state_give_back(struct store *store, struct call_state *s) {
    if (store && !store->spare) {
        store->spare = s;
    } else {
        free(s);
    }
}

struct store_call *store_call_new(struct store *store, enum store_verb verb) {
    struct call_state *s = state_take(store);
    struct store_call *call = &s->call;
    call->store = store;
    call->state = s;
    arena_init(&call->arena);
    request_init(&call->req, verb);
    reply_init(&call->reply);
    call->timeout = CALL_TIMEOUT_MS * NS_PER_MS;
    call->req.try_ns = CALL_TRY_MS * NS_PER_MS;
    call->req.retries = CALL_RETRIES;
    s->next = store->calls;
    if (s->next) {
        s->next->prev = s;
    }
    store->calls = s;
    return call;
}

static void unlink_call(struct call_state *s) {
    if (!s->call.store) {
        return;
    }
    *(s->prev ? &s->prev->next : &s->call.store->calls) = s->next;
    if (s->next) {
        s->next->prev = s->prev;
    }
    s->call.store = NULL;
}

static void look_free(struct call_state *s) {
    if (s->look) {
        reply_release(&s->look->reply);
        free(s->look);
        s->look = NULL;
    }
}

void store_call_free(struct store_call *call) {
    struct call_state *s = call->state;
    struct store *store = call->store;
    unlink_call(s);
    look_free(s);
    reply_release(&call->reply);
    arena_release(&call->arena);
    state_give_back(store, s);
}

void store_call_abandon(struct store_call *call) {
    struct call_state *s = call->state;
    if (s->phase == PHASE_TRYING) {
        s->abandoned = true;
        struct transport *t = call->store->transport;
        t->ops->drop(t, &s->attempt); /* frees the call, now or soon */
        return;
    }
    if (s->phase == PHASE_RESTING) {
        alarm_clear(call->store->world, &s->alarm);
    }
    store_call_free(call);
}

static void take_nonce_out(struct store_props *props) {
    const char *nonce = pairs_get(&props->metadata, NONCE_NAME);
    if (nonce) {
        snprintf(props->nonce, sizeof props->nonce, "%s", nonce);
        pairs_remove(&props->metadata, NONCE_NAME);
    }
}

static void finish(struct call_state *s) {
    struct store_call *call = &s->call;
    take_nonce_out(&call->reply.props);
    for (struct store_item *item = call->reply.items; item; item = item->next) {
        take_nonce_out(&item->props);
    }
    for (struct entity *e = call->reply.entities; e; e = e->next) {
        entity_remove(e, NONCE_NAME);
    }
    look_free(s);
    s->phase = PHASE_FINISHED;
    call->finished = true;
    call->done(call);
}

void store_call_hurry(struct store_call *call) {
    struct call_state *s = call->state;
    call->req.retries = 0;
    if (s->phase == PHASE_RESTING) {
        alarm_clear(call->store->world, &s->alarm);
        error_set(&call->reply.err, ERR_CANCELLED, NULL);
        finish(s);
    }
}

/* The store goes away under the call. `sent`: something of it may have reached the store. */
static void finish_closed(struct call_state *s, bool sent) {
    bool doubt = verb_writes(s->call.req.verb) && (sent || s->lost);
    error_set(&s->call.reply.err, ERR_CANCELLED, "the store was closed%s",
              doubt ? "; it may or may not have happened" : "");
    finish(s);
}

void store_free(struct store *store) {
    store->closing = true;
    for (struct call_state *s = store->calls; s;) {
        if (s->phase != PHASE_RESTING) {
            s = s->next;
            continue;
        }
        alarm_clear(store->world, &s->alarm);
        finish_closed(s, false);
        s = store->calls; /* its `done` may have freed any of them */
    }
    store->transport->ops->free(store->transport);
    while (store->calls) { /* finished, or never started: their owners free them */
        unlink_call(store->calls);
    }
    free(store->spare);
    free(store);
}

/* ---- giving up ---- */

static void add_to_message(struct error *e, const char *text) {
    size_t n = strlen(e->message);
    snprintf(e->message + n, sizeof e->message - n, "%s", text);
}

/* The error of an attempt becomes the call's: what happened, how often it was tried, and what is left
 * in doubt. */
static void give_up(struct call_state *s, const struct error *last) {
    struct error out = *last;
    char text[160];
    double seconds = seconds_from_ns(world_now(s->call.store->world) - s->started);
    if (last->code == ERR_TIMEOUT && s->telling.code == ERR_UNREACHABLE) {
        out = s->telling;
    } else if (last->code == ERR_TIMEOUT) {
        error_set(&out, ERR_TIMEOUT, "no answer within %.4g s", seconds);
        if (s->telling.code) {
            snprintf(text, sizeof text, "; last answer: %s", error_word(&s->telling));
            add_to_message(&out, text);
        }
    } else if (!out.message[0]) {
        add_to_message(&out, error_sentence(&out));
    }
    if (s->call.attempts > 1) {
        snprintf(text, sizeof text, "; %d attempts in %.4g s", s->call.attempts, seconds);
        add_to_message(&out, text);
    }
    if (s->lost && verb_writes(s->call.req.verb)) {
        add_to_message(&out, "; it may or may not have happened");
    }
    s->call.reply.err = out;
    finish(s);
}

/* The refusal of a repetition says nothing of the attempt that was not answered. */
static void add_doubt(struct error *e) {
    if (!e->message[0]) {
        add_to_message(e, error_sentence(e));
    }
    add_to_message(e, "; an attempt before was not answered: it may or may not have happened");
}

static void give_up_lost(struct call_state *s, const struct error *last) {
    struct error out;
    error_set(&out, ERR_ANSWER_LOST, "%s (%s)", err_sentence(ERR_ANSWER_LOST), error_word(last));
    memcpy(out.request_id, last->request_id, sizeof out.request_id);
    s->call.reply.err = out;
    finish(s);
}

/* ---- trying and resting ---- */

static void rest_over(struct alarm *a) {
    try_start(container_of(a, struct call_state, alarm));
}

/* Decorrelated jitter: anything from the shortest back-off to three times the last one. A store that
 * asks for more gets more. */
static int64_t draw_rest(struct call_state *s, int64_t retry_after) {
    int64_t least = REST_MIN_MS * NS_PER_MS;
    int64_t most = 3 * (s->rest ? s->rest : least);
    int64_t ns = least + (int64_t)(random_unit(&s->call.store->random) * (double)(most - least));
    s->rest = ns < REST_MAX_MS * NS_PER_MS ? ns : REST_MAX_MS * NS_PER_MS;
    return retry_after > s->rest ? retry_after : s->rest;
}

/* Another attempt later, if there is time and patience left. */
static void rest(struct call_state *s, const struct store_reply *reply) {
    struct store_call *call = &s->call;
    struct world *w = call->store->world;
    bool hopeless = reply->err.code == ERR_BAD_ANSWER && ++s->bad_answers >= BAD_ANSWER_TRIES;
    if (call->attempts > call->req.retries || hopeless) {
        give_up(s, &reply->err);
        return;
    }
    int64_t at = instant_add(world_now(w), draw_rest(s, reply->retry_after));
    if (at >= call->req.deadline) {
        give_up(s, &reply->err);
        return;
    }
    s->phase = PHASE_RESTING;
    s->alarm.ring = rest_over;
    alarm_set(w, &s->alarm, at);
}

static void try_start(struct call_state *s) {
    struct store_call *call = &s->call;
    struct store *store = call->store;
    const struct store_request *req = s->look ? &s->look->req : &call->req;
    struct store_reply *reply = s->look ? &s->look->reply : &call->reply;
    if (call->attempts > 0) {
        reply_clear(reply);
    }
    int64_t now = world_now(store->world), limit = instant_add(now, req->try_ns);
    s->attempt = (struct attempt){
        .req = req,
        .reply = reply,
        .deadline = limit < req->deadline ? limit : req->deadline,
        .done = try_done,
    };
    s->phase = PHASE_TRYING;
    if (now >= req->deadline) { /* no time was given at all */
        error_set(&reply->err, ERR_TIMEOUT, NULL);
        give_up(s, &reply->err);
        return;
    }
    call->attempts++;
    store->transport->ops->send(store->transport, &s->attempt);
}

/* ---- settling ---- */

static void look_start(struct call_state *s) {
    s->look = xcalloc(1, sizeof *s->look);
    lost_look(&s->call.req, &s->look->req);
    reply_init(&s->look->reply);
    try_start(s);
}

/* The look found our own write: the call has succeeded, with the props that are there now. */
static void take_found(struct call_state *s) {
    struct store_reply *reply = &s->call.reply, *found = &s->look->reply;
    reply_clear(reply);
    struct store_props props = reply->props;
    reply->props = found->props;
    found->props = props;
    reply->server_date = found->server_date;
    if (s->call.req.verb == VERB_BLOB_APPEND) {
        reply->props.append_offset = s->call.req.position;
    }
    if (s->call.req.batch && !lost_batch_results(&s->call.req, reply)) {
        error_set(&reply->err, ERR_NO_MEMORY, NULL);
    }
}

static void look_done(struct call_state *s) {
    struct store_reply *found = &s->look->reply;
    if (found->err.retryable || found->err.code == ERR_BAD_ANSWER) {
        rest(s, found);
        return;
    }
    if (!lost_look_tells(&s->call.req, &found->err)) {
        give_up_lost(s, &found->err);
        return;
    }
    if (lost_is_own(&s->call.req, s->nonce, found)) {
        take_found(s);
    }
    finish(s); /* not ours: reply.err is still the refusal, and it stands */
}

static void refused(struct call_state *s) {
    const struct store_request *req = &s->call.req;
    enum lost_verdict verdict =
        s->lost ? lost_judge(s->rule, req->verb, &s->call.reply.err) : LOST_STANDS;
    if (verdict == LOST_LOOK) {
        look_start(s);
        return;
    }
    if (s->rule == LOST_NONCE && !s->lost &&
        nonce_withdraw(&s->call.req, &s->call.arena, &s->call.reply.err)) {
        s->rule = LOST_NEVER;
        try_start(s);
        return;
    }
    if (verdict == LOST_UNKNOWN) {
        struct error refusal = s->call.reply.err;
        give_up_lost(s, &refusal);
        return;
    }
    if (verdict == LOST_DONE) {
        reply_clear(&s->call.reply);
    } else if (s->lost && verb_writes(req->verb)) {
        add_doubt(&s->call.reply.err);
    }
    finish(s);
}

static void try_done(struct attempt *a) {
    struct call_state *s = container_of(a, struct call_state, attempt);
    const struct store_reply *reply = a->reply;
    const struct error *e = &reply->err;
    meter_count(s->call.store->meter, a);
    if (s->abandoned) {
        store_call_free(&s->call);
        return;
    }
    if (e->code != ERR_OK && e->code != ERR_TIMEOUT) {
        s->telling = *e;
    }
    if (s->call.store->closing && (s->look || e->code != ERR_OK)) {
        finish_closed(s, a->sent);
    } else if (s->look) {
        look_done(s);
    } else if (e->code == ERR_OK) {
        finish(s);
    } else if (!e->retryable && e->code != ERR_BAD_ANSWER) {
        refused(s);
    } else {
        bool lost = lost_answer(e, a->sent);
        s->lost = s->lost || lost;
        if (lost && s->rule == LOST_NEVER) {
            give_up_lost(s, e);
        } else {
            rest(s, reply);
        }
    }
}

/* An acquire has an id of its own from the first attempt on. False: no memory. */
static bool propose(struct call_state *s) {
    struct store_request *req = &s->call.req;
    bool leases = req->verb == VERB_BLOB_LEASE || req->verb == VERB_CONTAINER_LEASE;
    if (leases && req->action == LEASE_ACQUIRE && !req->proposed_id) {
        char id[LEASE_ID_TEXT];
        lease_id_draw(&s->call.store->random, id);
        req->proposed_id = arena_strdup(&s->call.arena, id);
        return req->proposed_id != NULL;
    }
    return true;
}

void store_call_start(struct store_call *call, void (*done)(struct store_call *), void *owner) {
    struct call_state *s = call->state;
    call->done = done;
    call->owner = owner;
    s->started = world_now(call->store->world);
    call->req.deadline = instant_add(s->started, call->timeout);
    s->rule = lost_rule_of(&call->req);
    if (s->rule == LOST_NONCE && call->req.nonce) {
        snprintf(s->nonce, sizeof s->nonce, "%s", call->req.nonce);
    } else if (s->rule == LOST_NONCE) {
        nonce_draw(&call->store->random, s->nonce);
    }
    const char *nonce = s->rule == LOST_NONCE ? s->nonce : NULL;
    bool stamped = call->req.verb < VERB_TABLE_CREATE ? nonce_stamp(&call->req, &call->arena, nonce)
                   : nonce ? nonce_stamp_entity(&call->req, &call->arena, nonce, &s->rule)
                           : true;
    if (!stamped || !propose(s)) {
        error_set(&call->reply.err, ERR_NO_MEMORY, NULL);
        finish(s);
        return;
    }
    try_start(s);
}
