/* keeper.h -- one contender for the lease of a blob and, once it has it, the lease itself: kept alive in the
 * background and judged on our own clock.
 *
 *     struct keeper *k = keeper_new(&options);
 *     keeper_try(k, world_now(w) + 10 * NS_PER_S, on_tried, me);     on_tried may run before this returns
 *     ... on_tried: keeper_state(k) is KEEPER_HELD; or KEEPER_FREE: keeper_error(k) and keeper_seen(k) say why,
 *                   and keeper_try may be called again: the keeper remembers what it saw
 *     keeper_listen(k, &listener);                                   told of moved deadlines and of the loss
 *     keeper_release(k, on_released, me);
 *     keeper_free(k);                                                in any state
 *
 * What a keeper promises:
 *
 *   - It looks before it takes. What it takes, it takes under a fresh random id, one for each series of
 *     attempts, and repeats under that id when an answer was lost.
 *   - With a fence, it holds only when the higher fence is confirmed as written under the new lease. A fence
 *     that was seen to fall is FenceRegressed, and the lease is given back.
 *   - A deadline counts from the instant before the attempt that succeeded was first sent, on the world's
 *     boot-time clock. Doubt never moves it, and nothing brings a lost lease back: from KEEPER_LOST and
 *     KEEPER_LEFT no way leads back to KEEPER_HELD. To contend again is a new keeper's business
 *     (keeper_successor).
 *   - The loss is declared at the soft stop by an alarm, whether any answer comes or not, and at once when
 *     the store says that the lease is another's. keeper_held compares clocks itself: after a pause it is
 *     false before any alarm has rung.
 *   - A release or change ends the holding when it is asked for, before anything is sent. The id is never used
 *     again.
 *   - An answer that comes after its attempt was given up changes nothing.
 *
 * The service's own lease (15 to 60 s) and the record (below) are two kinds of one machine: see keeper_kind.h.
 * A keeper belongs to the world's thread; `done` and `changed` are called on it, and may call anything here
 * but, in `changed`, keeper_free.
 */
#ifndef SYNOD_LEASE_KEEPER_H
#define SYNOD_LEASE_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "lease/mark.h"
#include "lease/timing.h"
#include "store/client.h"

struct keeper;

enum keeper_state {
    KEEPER_FREE,    /* has nothing; may try */
    KEEPER_TRYING,  /* keeper_try is under way */
    KEEPER_HELD,    /* has the lease, as far as the clock allows: ask keeper_held */
    KEEPER_LOST,    /* had it: keeper_error says how it was lost */
    KEEPER_LEAVING, /* a release or change was asked for and is under way */
    KEEPER_LEFT,    /* released, or changed to another's id */
};

/* What background work needs: a release that is sent when nobody waits for it. Each begin has one end;
 * the run should not end in between. */
struct keeper_errands {
    void (*begin)(void *arg);
    void (*end)(void *arg);
    void *arg;
};

/* All strings are copied. */
struct keeper_options {
    struct store *store;
    const char *container, *name; /* name NULL: the container's own lease (no fence, no `make`) */
    struct lease_timing timing;   /* its ttl says which kind: the service's lease, or a record */
    const char
        *id; /* propose this one, once, and it may be held under it; NULL: a random one each time */
    bool fence; /* raise the fence before holding. A record always does */
    bool keep;  /* renew in the background; false: it is over when its time is */
    bool make;  /* create container and blob (create-only) when they are absent */
    const char *holder, *host, *purpose, *hints; /* for the metadata; NULL: not told */
    int64_t pid;
    struct keeper_errands errands;
};

/* Told of a held lease. The memory is the listener's. */
struct keeper_listener {
    /* The deadlines have moved (keeper_soft, keeper_hard), or the state has: lost, or leaving. */
    void (*changed)(struct keeper_listener *l, struct keeper *k);
    struct keeper_listener *prev, *next; /* the keeper's */
};

/* NULL: no memory. */
struct keeper *keeper_new(const struct keeper_options *options);
/* Another one for the same place that knows what this one saw: to contend again, while this one holds or
 * has held. NULL: no memory. */
struct keeper *keeper_successor(const struct keeper *k);
/* In any state. What is under way is given up: `done` is not called any more. A lease that is held or may have
 * been taken is given back in the background, as an errand. Listeners must have gone. */
void keeper_free(struct keeper *k);
/* The store is about to be closed: nothing more is sent. What was held is lost, what was under way ends with
 * Cancelled (`done` is called). */
void keeper_close(struct keeper *k);

/* KEEPER_FREE only. One look and, when the place looks free, a series of attempts until `until` (boot-time ns).
 * `done` is called once. */
void keeper_try(struct keeper *k, int64_t until, void (*done)(struct keeper *k), void *owner);
/* KEEPER_HELD or KEEPER_LOST. The holding ends now; a renewal under way is awaited, then the release is sent
 * (of a lost lease too, unless the store has said that it is another's). `done` is called once; then
 * keeper_error says Ok, LeaseLost when it had been lost before, or why the release failed. */
void keeper_release(struct keeper *k, void (*done)(struct keeper *k), void *owner);
/* The same, handing the service's lease to another's id (a GUID; copied). Whatever comes of it, this keeper
 * never holds again. A record cannot: Unsupported, and nothing has changed. */
void keeper_change(struct keeper *k, const char *id, void (*done)(struct keeper *k), void *owner);
void *keeper_owner(const struct keeper *k); /* as given with the last `done` */

void keeper_listen(struct keeper *k, struct keeper_listener *l);
void keeper_ignore(struct keeper *k, struct keeper_listener *l);

enum keeper_state keeper_state(const struct keeper *k);
bool keeper_held(const struct keeper *k); /* KEEPER_HELD, and the clock is before the soft stop */
/* Boot-time ns; of a lease that was never held: 0. See timing.h. */
int64_t keeper_soft(const struct keeper *k);  /* LeaseLost is due */
int64_t keeper_hard(const struct keeper *k);  /* the contract's instant: nothing guarded goes on */
int64_t keeper_fence(const struct keeper *k); /* ours; 0: without */
const struct lease_timing *keeper_timing(const struct keeper *k);
/* The lease id ("" for a record): as good as the lease itself, never to be shown or stored. */
const char *keeper_id(const struct keeper *k);
/* The last try, release or change: ERR_OK, or why not. */
const struct error *keeper_error(const struct keeper *k);
/* LeaseLost, and how; NULL: it was not lost. */
const struct error *keeper_lost(const struct keeper *k);
/* Who held it at the last look. */
const struct mark *keeper_seen(const struct keeper *k);
/* When the place may be free without anybody's doing, at the earliest (boot-time ns): a record is over when it
 * has not changed for its ttl. NEVER: not known. */
int64_t keeper_again(const struct keeper *k);
/* How many renewals were confirmed, and when the last confirmed attempt was sent (boot-time ns). */
int64_t keeper_renewals(const struct keeper *k);
int64_t keeper_confirmed(const struct keeper *k);

#endif
