/* client.h -- a store as the rest of the runtime sees it: calls with deadlines and retries.
 *
 *     struct transport *t = transport_open(world, "embedded:/path/store.db", &err);
 *     struct store *s = store_over(world, t, &meter);
 *     struct store_call *c = store_call_new(s, VERB_BLOB_PUT);
 *     c->req.container = arena_strdup(&c->arena, "flags"); ...
 *     c->timeout = 10 * NS_PER_S;
 *     store_call_start(c, on_done, owner);      on_done may run before this returns
 *     ... on_done: look at c->reply, then store_call_free(c)
 *     ... or, before it: store_call_abandon(c)  nobody waits; the call frees itself
 *
 * The client retries what can be retried inside the deadline, with back-off, jitter and the store's
 * Retry-After, and settles lost answers: a create or a conditional write whose answer was lost and whose
 * repetition is refused is looked up, and is a success when the nonce stored there is its own. A lease
 * is acquired under an id that is proposed, and drawn here when the caller has none: repeated under the
 * same id, it is the same lease.
 */
#ifndef SYNOD_STORE_CLIENT_H
#define SYNOD_STORE_CLIENT_H

#include "base/random.h"
#include "store/meter.h"
#include "store/transport.h"

struct store;

enum {
    CALL_TIMEOUT_MS = 10000, /* a call, when not told otherwise */
    CALL_TRY_MS = 3000,      /* one attempt */
    CALL_RETRIES = 8,        /* more would not fit into the timeout */
};

struct store_call {
    struct store *store;
    struct arena arena; /* of the request's strings */
    struct store_request req;
    struct store_reply reply;
    int64_t timeout; /* ns for the whole call; default CALL_TIMEOUT_MS */
    bool finished;   /* done was called: the reply is complete */
    int attempts;    /* made so far */
    void (*done)(struct store_call *call);
    void *owner;
    struct call_state *state; /* the client's */
};

/* url: "embedded:PATH", "embedded:PATH?relaxed", "memory:", "azure" (what the environment says now: see
 * azure/account.h), an account's address (https://...), or a connection string. NULL and err when it cannot be
 * opened; err never shows the url, which may hold a key. */
struct transport *transport_open(struct world *w, const char *url, struct error *err);
/* Takes the transport over; transactions that have ended are counted into the meter, which outlives it. */
struct store *store_over(struct world *w, struct transport *t, struct meter *m);
void store_free(struct store *s); /* ends every call under way */
const char *store_kind(const struct store *s);
struct transport *store_transport(struct store *s);

struct store_call *store_call_new(struct store *s, enum store_verb verb);
void store_call_start(struct store_call *call, void (*done)(struct store_call *), void *owner);
void store_call_abandon(struct store_call *call);
/* No attempt is made but the one under way: `done` comes soon, and at once when none is. */
void store_call_hurry(struct store_call *call);
void store_call_free(struct store_call *call); /* finished, or never started */

#endif
