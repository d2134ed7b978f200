/* keeper.c -- states of a keeper. Each arrow names the only function that may take it.
 *
 *   FREE    -keeper_try-> TRYING
 *   TRYING  -try_end-> FREE            held by another, refused, or out of time; what was taken is given back
 *   TRYING  -hold-> HELD               taken, and the fence confirmed, before the soft stop
 *   HELD    -keeper_lose-> LOST        the soft stop has come, or the store says that it is another's
 *   HELD, LOST -leave-> LEAVING        a release or change was asked for
 *   LEAVING -leave_end-> LEFT
 *
 * One store call is under way at a time. keeper_free of one that has something to give back does not end it: it
 * becomes an orphan, which goes on to LEFT by itself and is freed there. The store's closing ends everything.
 */
#include "lease/keeper_kind.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
    LEAVE_TIMEOUT_S = 5, /* a release or change, with its repetitions */
};

static void leave(struct keeper *k, enum keeper_step step);

/* ---- making and freeing ---- */

static bool copy_string(struct keeper *k, const char **s) {
    const char *given = *s;
    *s = arena_strdup(&k->arena, given);
    return *s || !given;
}

static void destroy(struct keeper *k) {
    alarm_clear(k->world, &k->next);
    alarm_clear(k->world, &k->stop);
    pairs_release(&k->sight.metadata);
    arena_release(&k->arena);
    free(k->record);
    free(k);
}

struct keeper *keeper_new(const struct keeper_options *options) {
    struct keeper *k = xcalloc(1, sizeof *k);
    struct keeper_options *o = &k->options;
    uint64_t seed;
    *o = *options;
    k->store = o->store;
    k->world = store_transport(o->store)->world;
    k->kind = lease_is_record(&o->timing) ? &KEEPER_RECORD : &KEEPER_SERVICE;
    k->again = NEVER;
    k->next.ring = keeper_next_rang;
    k->stop.ring = keeper_stop_rang;
    k->sight.date = UNSET;
    pairs_init(&k->sight.metadata);
    arena_init(&k->arena);
    world_random(k->world, &seed, sizeof seed);
    random_init(&k->random, seed, "keeper", 0);
    if (copy_string(k, &o->container) && copy_string(k, &o->name) && copy_string(k, &o->id) &&
        copy_string(k, &o->holder) && copy_string(k, &o->host) && copy_string(k, &o->purpose) &&
        copy_string(k, &o->hints)) {
        return k;
    }
    destroy(k);
    return NULL;
}

struct keeper *keeper_successor(const struct keeper *k) {
    struct keeper *next = keeper_new(&k->options);
    if (!next) {
        return NULL;
    }
    next->options.id = NULL;
    struct pairs metadata = next->sight.metadata;
    next->sight = k->sight;
    next->sight.metadata = metadata;
    next->mark = k->mark;
    next->fence_seen = k->fence_seen;
    next->again = k->again;
    if (pairs_copy(&next->sight.metadata, &k->sight.metadata)) {
        return next;
    }
    destroy(next);
    return NULL;
}

/* Is something there, or may it come to be there, that is ours to give back? */
static bool has_something(const struct keeper *k) {
    switch (k->state) {
    case KEEPER_FREE:
    case KEEPER_LEFT:
        return false;
    case KEEPER_TRYING:
        return k->taken || k->maybe || (k->step == KEEPER_TAKE && k->call);
    case KEEPER_HELD:
    case KEEPER_LOST:
        return !k->others;
    case KEEPER_LEAVING:
        return true;
    }
    return false;
}

static void become_orphan(struct keeper *k) {
    k->orphan = true;
    k->done = NULL;
    if (k->options.errands.begin) {
        k->options.errands.begin(k->options.errands.arg);
    }
    if (k->state != KEEPER_LEAVING) {
        leave(k, KEEPER_RELEASE);
    }
}

static void orphan_end(struct keeper *k) {
    struct keeper_errands errands = k->options.errands;
    destroy(k);
    if (errands.end) {
        errands.end(errands.arg);
    }
}

void keeper_free(struct keeper *k) {
    if (k->store && has_something(k)) {
        become_orphan(k);
        return;
    }
    if (k->call) {
        store_call_abandon(k->call);
    }
    destroy(k);
}

/* A lease that was taken, or may have been, and is not to be held: an orphan of its own gives it back, so that
 * nobody waits for that. */
void keeper_give_back(struct keeper *k) {
    struct keeper *orphan = has_something(k) ? keeper_successor(k) : NULL;
    if (orphan) {
        memcpy(orphan->id, k->id, sizeof orphan->id);
        orphan->state = KEEPER_LOST;
        orphan->fence = k->fence;
        orphan->record = k->record;
        k->record = NULL;
        become_orphan(orphan);
    }
    k->taken = k->maybe = false;
}

/* ---- listeners ---- */

void keeper_listen(struct keeper *k, struct keeper_listener *l) {
    l->prev = NULL;
    l->next = k->listeners;
    if (l->next) {
        l->next->prev = l;
    }
    k->listeners = l;
}

void keeper_ignore(struct keeper *k, struct keeper_listener *l) {
    if (!l->prev && k->listeners != l) {
        return;
    }
    *(l->prev ? &l->prev->next : &k->listeners) = l->next;
    if (l->next) {
        l->next->prev = l->prev;
    }
    l->prev = l->next = NULL;
}

void keeper_tell(struct keeper *k) {
    for (struct keeper_listener *l = k->listeners, *next; l; l = next) {
        next = l->next;
        l->changed(l, k);
    }
}

void keeper_finish(struct keeper *k, const struct error *e) {
    void (*done)(struct keeper *) = k->done;
    k->err = *e;
    k->done = NULL;
    if (done) {
        done(k);
    }
}

/* ---- leaving ---- */

static void leave_end(struct keeper *k, const struct error *e) {
    struct error out = k->lost.code != ERR_OK ? k->lost : *e;
    k->state = KEEPER_LEFT;
    if (k->orphan) {
        orphan_end(k);
    } else {
        keeper_finish(k, &out);
    }
}

static void leave_begin(struct keeper *k) {
    struct error ok = {.code = ERR_OK};
    bool lost = k->lost.code != ERR_OK;
    if (k->others || (lost && k->leave == KEEPER_CHANGE)) {
        leave_end(k, &ok);
        return;
    }
    k->until = instant_add(world_now(k->world), LEAVE_TIMEOUT_S * NS_PER_S);
    keeper_step_begin(k, k->leave);
}

/* From now on it is not held. What is under way may still take effect, so it is awaited. */
static void leave(struct keeper *k, enum keeper_step step) {
    alarm_clear(k->world, &k->next);
    alarm_clear(k->world, &k->stop);
    k->state = KEEPER_LEAVING;
    k->leave = step;
    keeper_tell(k);
    if (k->call) {
        store_call_hurry(k->call);
    } else {
        leave_begin(k);
    }
}

void keeper_leave_answered(struct keeper *k, enum keeper_verdict verdict, const struct error *e) {
    struct error ok = {.code = ERR_OK};
    bool asked = k->step == k->leave;
    bool nothing =
        k->step == KEEPER_TAKE && !k->maybe && verdict != KEEPER_DONE && verdict != KEEPER_DOUBT;
    if (asked || nothing) {
        leave_end(k, verdict == KEEPER_DONE || nothing ? &ok : e);
    } else {
        leave_begin(k);
    }
}

void keeper_release(struct keeper *k, void (*done)(struct keeper *k), void *owner) {
    k->done = done;
    k->owner = owner;
    leave(k, KEEPER_RELEASE);
}

void keeper_change(struct keeper *k, const char *id, void (*done)(struct keeper *k), void *owner) {
    k->done = done;
    k->owner = owner;
    memcpy(k->next_id, id, strnlen(id, sizeof k->next_id - 1) + 1);
    if (k->kind == &KEEPER_RECORD) {
        struct error e;
        error_set(&e, ERR_UNSUPPORTED, "a lease below 15 s is a record, which has no id to change");
        keeper_finish(k, &e);
        return;
    }
    leave(k, KEEPER_CHANGE);
}

void keeper_close(struct keeper *k) {
    struct store_call *call = k->call;
    enum keeper_state was = k->state;
    struct error e;
    error_set(&e, ERR_CANCELLED, "the store was closed");
    k->store = NULL;
    k->call = NULL;
    alarm_clear(k->world, &k->next);
    alarm_clear(k->world, &k->stop);
    if (call) {
        store_call_abandon(call);
    }
    if (was == KEEPER_HELD) {
        keeper_lose(k);
    } else if (was == KEEPER_LEAVING) {
        leave_end(k, &e);
    } else if (was == KEEPER_TRYING) {
        k->state = KEEPER_FREE;
        keeper_finish(k, &e);
    }
}

/* ---- asking ---- */

void *keeper_owner(const struct keeper *k) {
    return k->owner;
}

enum keeper_state keeper_state(const struct keeper *k) {
    return k->state;
}

bool keeper_held(const struct keeper *k) {
    return k->state == KEEPER_HELD && world_now(k->world) < k->soft;
}

int64_t keeper_soft(const struct keeper *k) {
    return k->soft;
}

int64_t keeper_hard(const struct keeper *k) {
    return k->hard;
}

int64_t keeper_fence(const struct keeper *k) {
    return k->fence;
}

const struct lease_timing *keeper_timing(const struct keeper *k) {
    return &k->options.timing;
}

const char *keeper_id(const struct keeper *k) {
    return k->kind == &KEEPER_RECORD ? "" : k->id;
}

const struct error *keeper_error(const struct keeper *k) {
    return &k->err;
}

const struct error *keeper_lost(const struct keeper *k) {
    return k->lost.code == ERR_OK ? NULL : &k->lost;
}

const struct mark *keeper_seen(const struct keeper *k) {
    return &k->mark;
}

int64_t keeper_again(const struct keeper *k) {
    return k->again;
}

int64_t keeper_renewals(const struct keeper *k) {
    return k->renewals;
}

int64_t keeper_confirmed(const struct keeper *k) {
    return k->confirmed;
}
