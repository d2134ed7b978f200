#include "sim/faults.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/late.h"

#define FAULT_WORD(name, word, effect) word,
static const char *const WORDS[] = {FAULT_LIST(FAULT_WORD)};
#undef FAULT_WORD

struct faulty {
    struct transport base;
    struct transport_ops ops;
    struct transport *inner;
    struct crossing *crossings; /* attempts that were not answered yet */
    struct late *lates;         /* requests that will arrive yet */
    int64_t seen[VERB_COUNT];   /* attempts so far */
    int64_t seen_all;
    size_t count;
    struct fault faults[];
};

/* One attempt on its way, and what befalls it. */
struct crossing {
    struct faulty *faulty;
    struct crossing *prev, *next;
    struct attempt *outer;
    struct attempt inner; /* what the inner transport carries; same request and reply */
    bool inside;          /* `inner` is under way */
    const struct fault *fault;
    struct error answer; /* what the alarm will answer; ERR_OK: what the inner one answered */
    struct alarm alarm;
};

const char *fault_word(enum fault_kind kind) {
    return WORDS[kind];
}

static const struct fault *fault_strikes(struct faulty *f, enum store_verb verb) {
    int64_t nth = ++f->seen[verb], nth_of_all = ++f->seen_all;
    for (size_t i = 0; i < f->count; i++) {
        const struct fault *fault = &f->faults[i];
        int64_t ordinal = fault->any_verb ? nth_of_all : nth;
        if ((fault->any_verb || fault->verb == verb) &&
            (fault->ordinal == 0 || fault->ordinal == ordinal)) {
            return fault;
        }
    }
    return NULL;
}

/* The attempt is answered with what its reply holds now. */
static void crossing_end(struct crossing *c) {
    struct attempt *outer = c->outer;
    alarm_clear(c->faulty->base.world, &c->alarm);
    *(c->prev ? &c->prev->next : &c->faulty->crossings) = c->next;
    if (c->next) {
        c->next->prev = c->prev;
    }
    free(c);
    outer->done(outer);
}

static void crossing_fail(struct crossing *c, const struct error *e, int64_t retry_after) {
    reply_clear(c->outer->reply);
    c->outer->reply->err = *e;
    if (retry_after > 0) {
        c->outer->reply->retry_after = retry_after;
    }
    c->outer->sent = true;
    crossing_end(c);
}

static void alarm_rang(struct alarm *a) {
    struct crossing *c = container_of(a, struct crossing, alarm);
    if (c->answer.code == ERR_OK) {
        crossing_end(c);
    } else {
        crossing_fail(c, &c->answer, 0);
    }
}

/* Nothing is heard until the attempt's deadline. */
static void fall_silent(struct crossing *c) {
    error_set(&c->answer, ERR_TIMEOUT, NULL);
    alarm_set(c->faulty->base.world, &c->alarm, c->outer->deadline);
}

static void answer_late(struct crossing *c) {
    struct world *w = c->faulty->base.world;
    int64_t at = instant_add(world_now(w), c->fault->ns);
    if (at >= c->outer->deadline) {
        fall_silent(c);
    } else {
        alarm_set(w, &c->alarm, at);
    }
}

static void fail_as(struct crossing *c, enum err usual, int64_t retry_after) {
    struct error e;
    error_set(&e, c->fault->code != ERR_OK ? c->fault->code : usual, NULL);
    crossing_fail(c, &e, retry_after);
}

static void inner_done(struct attempt *a) {
    struct crossing *c = container_of(a, struct crossing, inner);
    c->inside = false;
    c->outer->sent = a->sent || a->reply->err.code == ERR_OK;
    c->outer->kept_back = a->kept_back;
    if (!c->fault || a->reply->err.code == ERR_CANCELLED) {
        crossing_end(c);
    } else if (c->fault->kind == FAULT_LOST_RESPONSE) {
        fall_silent(c);
    } else if (c->fault->kind == FAULT_DELAY) {
        answer_late(c);
    } else {
        fail_as(c, ERR_INTERNAL_ERROR, 0);
    }
}

static void faulty_send(struct transport *t, struct attempt *a) {
    struct faulty *f = container_of(t, struct faulty, base);
    struct crossing *c = xcalloc(1, sizeof *c);
    *c = (struct crossing){.faulty = f, .next = f->crossings, .outer = a};
    c->alarm.ring = alarm_rang;
    c->fault = fault_strikes(f, a->req->verb);
    if (c->next) {
        c->next->prev = c;
    }
    f->crossings = c;
    a->impl = c;
    if (c->fault && c->fault->kind == FAULT_LOST_REQUEST) {
        fall_silent(c);
    } else if (c->fault && c->fault->kind == FAULT_LATE_APPLY) {
        late_new(f->inner, a, instant_add(world_now(t->world), c->fault->ns), &f->lates);
        fall_silent(c);
    } else if (c->fault && c->fault->kind == FAULT_THROTTLE) {
        fail_as(c, ERR_SERVER_BUSY, c->fault->ns);
    } else {
        c->inside = true;
        c->inner = (struct attempt){
            .req = a->req, .reply = a->reply, .deadline = a->deadline, .done = inner_done};
        f->inner->ops->send(f->inner, &c->inner);
    }
}

static void crossing_cancel(struct crossing *c) {
    struct error e;
    error_set(&e, ERR_CANCELLED, NULL);
    crossing_fail(c, &e, 0);
}

static void faulty_drop(struct transport *t, struct attempt *a) {
    struct faulty *f = container_of(t, struct faulty, base);
    struct crossing *c = a->impl;
    if (c->inside) {
        f->inner->ops->drop(f->inner, &c->inner);
    } else {
        crossing_cancel(c);
    }
}

static uint64_t faulty_mark(struct transport *t, const char *container, const char *prefix) {
    struct transport *inner = container_of(t, struct faulty, base)->inner;
    return inner->ops->mark(inner, container, prefix);
}

static void faulty_watch(struct transport *t, struct store_watch *w) {
    struct transport *inner = container_of(t, struct faulty, base)->inner;
    inner->ops->watch(inner, w);
}

static void faulty_unwatch(struct transport *t, struct store_watch *w) {
    struct transport *inner = container_of(t, struct faulty, base)->inner;
    inner->ops->unwatch(inner, w);
}

static void faulty_free(struct transport *t) {
    struct faulty *f = container_of(t, struct faulty, base);
    lates_free(&f->lates);
    f->inner->ops->free(f->inner); /* answers those inside */
    while (f->crossings) {
        crossing_cancel(f->crossings);
    }
    free(f);
}

/* It calls itself what the inner one is called, and tells of changes where that one does. */
static struct transport_ops ops_over(const struct transport_ops *inner) {
    return (struct transport_ops){
        .kind = inner->kind,
        .send = faulty_send,
        .drop = faulty_drop,
        .mark = inner->mark ? faulty_mark : NULL,
        .watch = inner->watch ? faulty_watch : NULL,
        .unwatch = inner->unwatch ? faulty_unwatch : NULL,
        .free = faulty_free,
    };
}

struct transport *transport_faulty_new(struct transport *inner, const struct fault *faults,
                                       size_t count) {
    struct faulty *f = xcalloc(1, sizeof *f + count * sizeof *faults);
    f->ops = ops_over(inner->ops);
    f->base.ops = &f->ops;
    f->base.world = inner->world;
    f->base.name = inner->name;
    f->inner = inner;
    f->count = count;
    if (count) {
        memcpy(f->faults, faults, count * sizeof *faults);
    }
    return &f->base;
}
