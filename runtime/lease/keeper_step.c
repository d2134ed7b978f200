/* keeper_step.c -- what a keeper sends, and what it makes of the answers: the states of keeper.c are left in
 * keeper_lose, try_end and hold only.
 */
#include "lease/keeper_kind.h"

#include <string.h>

#include "base/alloc.h"

enum {
    TURNS_MAX = 16,   /* of one try, to look again */
    REST_MIN_MS = 50, /* between attempts to take: twice as long each time */
    REST_MAX_MS = 1000,
    NEXT_MAX = 8, /* calls of a step that may follow each other at once */
};

/* ---- attempts ---- */

/* Each attempt is a call of its own, since deadlines count from its instant. The other steps leave it to the
 * client to repeat what can be repeated and to settle lost answers. */
static bool is_single(enum keeper_step step) {
    return step == KEEPER_TAKE || step == KEEPER_RENEW;
}

/* The instant after which no attempt of the step is begun. */
static int64_t step_limit(const struct keeper *k) {
    if (k->state == KEEPER_HELD) {
        return k->soft;
    }
    return k->taken && k->state == KEEPER_TRYING && k->soft < k->until ? k->soft : k->until;
}

static void answered(struct keeper *k, enum keeper_verdict verdict, const struct error *e);

static void on_answer(struct store_call *call) {
    struct keeper *k = call->owner;
    struct error e = call->reply.err;
    enum keeper_verdict verdict = KEEPER_REFUSED;
    k->call = NULL;
    k->retry_after = call->reply.retry_after;
    error_clear(&k->why);
    if (e.code != ERR_CANCELLED) {
        verdict = k->kind->judge(k, k->step, call);
    }
    store_call_free(call);
    if (e.code == ERR_CANCELLED) {
        keeper_close(k);
    } else {
        answered(k, verdict, k->why.code == ERR_OK ? &e : &k->why);
    }
}

static void attempt(struct keeper *k) {
    int64_t now = world_now(k->world), limit = step_limit(k), left = limit - now;
    struct store_call *call = left > 0 ? k->kind->ask(k, k->step) : NULL;
    k->retry_after = UNSET;
    if (!call) {
        struct error e = k->last;
        if (left > 0) {
            error_set(&e, ERR_NO_MEMORY, NULL);
        } else if (e.code == ERR_OK) {
            error_set(&e, ERR_TIMEOUT, NULL);
        }
        answered(k, KEEPER_REFUSED, &e);
        return;
    }
    call->timeout = left;
    if (is_single(k->step)) {
        call->timeout = lease_try(&k->options.timing, limit, now);
        call->req.try_ns = call->timeout;
        call->req.retries = 0;
    }
    k->sent = now;
    k->attempts++;
    k->call = call;
    store_call_start(call, on_answer, k);
}

void keeper_step_begin(struct keeper *k, enum keeper_step step) {
    k->step = step;
    k->attempts = 0;
    k->doubt = false;
    attempt(k);
}

/* The next attempt to take, or to renew; the first of a renewal begins the step. */
void keeper_next_rang(struct alarm *a) {
    struct keeper *k = container_of(a, struct keeper, next);
    if (k->attempts == 0) {
        keeper_step_begin(k, KEEPER_RENEW);
    } else {
        attempt(k);
    }
}

/* ---- held, and lost ---- */

void keeper_lose(struct keeper *k) {
    const struct error *last = &k->last;
    struct error *e = &k->lost;
    alarm_clear(k->world, &k->next);
    alarm_clear(k->world, &k->stop);
    k->state = KEEPER_LOST;
    if (k->others) {
        error_set(e, ERR_LEASE_LOST, "the lease is no longer ours: %s", error_sentence(last));
    } else if (!k->store) {
        error_set(e, ERR_LEASE_LOST, "the store was closed while the lease was held");
    } else if (last->code != ERR_OK) {
        error_set(e, ERR_LEASE_LOST, "the lease could not be renewed in time: %s (%s)",
                  error_sentence(last), error_word(last));
    } else {
        error_set(e, ERR_LEASE_LOST, "the lease is over: it was not renewed in time");
    }
    k->err = *e;
    keeper_tell(k);
}

void keeper_stop_rang(struct alarm *a) {
    keeper_lose(container_of(a, struct keeper, stop));
}

/* Confirmed: the deadlines count from before that attempt was sent. */
static void move_deadlines(struct keeper *k) {
    k->confirmed = k->sent;
    k->soft = lease_soft(&k->options.timing, k->sent);
    k->hard = lease_hard(&k->options.timing, k->sent);
    k->attempts = 0;
    error_clear(&k->last);
}

static void keep_on(struct keeper *k) {
    alarm_set(k->world, &k->stop, k->soft);
    if (k->options.keep) {
        alarm_set(k->world, &k->next, lease_renew_at(&k->options.timing, k->confirmed));
    }
}

/* A store that asks for patience gets it, as far as another attempt remains before the soft stop. */
static void renew_later(struct keeper *k, int64_t now) {
    int64_t at = lease_retry_at(k->soft, now), latest = now + (k->soft - now) / 2;
    if (k->retry_after != UNSET && instant_add(now, k->retry_after) > at) {
        at = instant_add(now, k->retry_after);
        at = at < latest ? at : latest;
    }
    alarm_set(k->world, &k->next, at);
}

static void renew_answered(struct keeper *k, enum keeper_verdict verdict, const struct error *e) {
    int64_t now = world_now(k->world);
    if (verdict != KEEPER_DONE) {
        k->last = *e;
    }
    k->others = verdict == KEEPER_OTHERS;
    if (k->others || now >= k->soft) {
        keeper_lose(k);
    } else if (verdict == KEEPER_DONE) {
        k->renewals++;
        move_deadlines(k);
        keep_on(k);
        keeper_tell(k);
    } else {
        k->doubt = k->doubt || verdict == KEEPER_DOUBT;
        renew_later(k, now);
    }
}

/* ---- trying ---- */

static void try_end(struct keeper *k, const struct error *why) {
    struct error e = *why;
    keeper_give_back(k);
    k->state = KEEPER_FREE;
    keeper_finish(k, &e);
}

static void turn(struct keeper *k, enum keeper_step step, const struct error *why) {
    if (k->turns++ < TURNS_MAX) {
        keeper_step_begin(k, step);
    } else {
        try_end(k, why);
    }
}

/* What comes too late is not held: the series ends, and it is given back. */
static bool is_too_late(struct keeper *k) {
    struct error e;
    if (world_now(k->world) < k->soft) {
        return false;
    }
    error_set(&e, ERR_TIMEOUT, "the lease was taken, but too late to be held; it is given back");
    try_end(k, &e);
    return true;
}

static void hold(struct keeper *k) {
    struct error ok = {.code = ERR_OK};
    if (is_too_late(k)) {
        return;
    }
    k->fence_seen = k->fence > k->fence_seen ? k->fence : k->fence_seen;
    k->attempts = 0;
    k->state = KEEPER_HELD;
    keep_on(k);
    keeper_finish(k, &ok);
}

static void step_done(struct keeper *k) {
    switch (k->step) {
    case KEEPER_LOOK:
        keeper_step_begin(k, k->taken ? KEEPER_FENCE : KEEPER_TAKE);
        break;
    case KEEPER_MAKE_CONTAINER:
        keeper_step_begin(k, KEEPER_MAKE_BLOB);
        break;
    case KEEPER_MAKE_BLOB:
        keeper_step_begin(k, KEEPER_TAKE);
        break;
    case KEEPER_TAKE:
        k->taken = true;
        move_deadlines(k);
        if (!k->kind->fences || !k->options.fence) {
            hold(k);
        } else if (!is_too_late(k)) {
            keeper_step_begin(k, KEEPER_FENCE);
        }
        break;
    default: /* KEEPER_FENCE */
        hold(k);
    }
}

/* Another attempt under the same id, after a rest; or the end, when it would come too late. */
static void take_later(struct keeper *k, const struct error *e) {
    int64_t now = world_now(k->world), rest = k->rest;
    k->rest = rest < REST_MAX_MS * NS_PER_MS / 2 ? rest * 2 : REST_MAX_MS * NS_PER_MS;
    rest = rest / 2 + (int64_t)(random_unit(&k->random) * (double)(rest / 2));
    if (k->retry_after != UNSET && k->retry_after > rest) {
        rest = k->retry_after;
    }
    k->last = *e;
    if (instant_add(now, rest) >= step_limit(k)) {
        try_end(k, e);
    } else {
        alarm_set(k->world, &k->next, now + rest);
    }
}

static void try_answered(struct keeper *k, enum keeper_verdict verdict, const struct error *e) {
    struct error open;
    bool make = k->options.make && !k->taken;
    switch (verdict) {
    case KEEPER_DONE:
        step_done(k);
        break;
    case KEEPER_DOUBT:
        k->doubt = true;
        k->maybe = k->maybe || k->step == KEEPER_TAKE;
        take_later(k, e);
        break;
    case KEEPER_AGAIN:
        take_later(k, e);
        break;
    case KEEPER_NEXT: /* the refusal settles nothing: if no time is left, that is what has happened */
        error_set(&open, ERR_TIMEOUT, "there was no time to find out whether it was taken");
        take_later(k, &open);
        break;
    case KEEPER_LOOK_AGAIN: /* nor is the last refusal why it was not taken if each time somebody else came first */
        error_set(&open, ERR_LEASE_ALREADY_PRESENT, "others were first, %d times", TURNS_MAX);
        turn(k, KEEPER_LOOK, &open);
        break;
    case KEEPER_NO_CONTAINER:
    case KEEPER_NO_BLOB:
        if (make) {
            turn(k, verdict == KEEPER_NO_BLOB ? KEEPER_MAKE_BLOB : KEEPER_MAKE_CONTAINER, e);
            break;
        } /* fall through */
    case KEEPER_OTHERS:
    case KEEPER_REFUSED:
        try_end(k, e);
    }
}

void keeper_try(struct keeper *k, int64_t until, void (*done)(struct keeper *k), void *owner) {
    k->done = done;
    k->owner = owner;
    k->until = until;
    k->state = KEEPER_TRYING;
    k->taken = k->maybe = false;
    k->turns = 0;
    k->fence = 0;
    k->rest = REST_MIN_MS * NS_PER_MS;
    error_clear(&k->last);
    k->given = k->options.id != NULL;
    if (k->given) {
        memcpy(k->id, k->options.id, strnlen(k->options.id, sizeof k->id - 1) + 1);
        k->options.id = NULL;
    } else {
        lease_id_draw(&k->random, k->id);
    }
    keeper_step_begin(k, KEEPER_LOOK);
}

static bool goes_on(const struct keeper *k) {
    return k->attempts < NEXT_MAX && world_now(k->world) < step_limit(k) &&
           (k->state == KEEPER_TRYING || k->state == KEEPER_HELD ||
            (k->state == KEEPER_LEAVING && k->step == k->leave));
}

/* An answer, in whichever state it comes. What comes after the loss changes nothing. */
static void answered(struct keeper *k, enum keeper_verdict verdict, const struct error *e) {
    if (verdict == KEEPER_NEXT && goes_on(k)) {
        attempt(k);
        return;
    }
    switch (k->state) {
    case KEEPER_TRYING:
        try_answered(k, verdict, e);
        break;
    case KEEPER_HELD:
        renew_answered(k, verdict, e);
        break;
    case KEEPER_LEAVING:
        keeper_leave_answered(k, verdict, e);
        break;
    case KEEPER_FREE:
    case KEEPER_LOST:
    case KEEPER_LEFT:
        break;
    }
}
