/* world_virtual.c -- a world whose clock moves only when there is nothing left to do.
 *
 * Time stands still while tasks run and while work outside is under way (world_hold); otherwise a wait
 * jumps to the next alarm. Between two jumps everything that the loop has ready is run.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/random.h"
#include "world/world_impl.h"

#define EPOCH (INT64_C(1704067200) * NS_PER_S) /* 2024-01-01 00:00:00 UTC */

struct world_virtual {
    struct world base;
    int64_t now;
    struct random random;
};

static struct world_virtual *self(struct world *w) {
    return container_of(w, struct world_virtual, base);
}

static int64_t virtual_now(struct world *w) {
    return self(w)->now;
}

static int64_t virtual_wall(struct world *w) {
    return EPOCH + self(w)->now;
}

static void virtual_random(struct world *w, void *out, size_t n) {
    random_fill(&self(w)->random, out, n);
}

/* Twice: what one event in the loop sets off (a connection, then its first bytes) belongs to the same
 * instant. */
static void virtual_poll(struct world *w) {
    loop_poll(w->loop);
    loop_poll(w->loop);
    alarm_heap_ring(&w->alarms, self(w)->now);
}

static bool virtual_wait(struct world *w) {
    if (w->holds) {
        loop_wait(w->loop, NEVER);
        return true;
    }
    int64_t first = alarm_heap_first(&w->alarms);
    if (first == NEVER) {
        return false;
    }
    if (first > self(w)->now) {
        self(w)->now = first;
    }
    alarm_heap_ring(&w->alarms, self(w)->now);
    return true;
}

static void virtual_free(struct world *w) {
    free(self(w));
}

static const struct world_ops VIRTUAL = {
    .now = virtual_now,
    .wall = virtual_wall,
    .random = virtual_random,
    .wait = virtual_wait,
    .poll = virtual_poll,
    .free = virtual_free,
};

struct world *world_virtual_new(uint64_t seed) {
    struct world_virtual *v = xcalloc(1, sizeof *v);
    world_init(&v->base, &VIRTUAL);
    random_init(&v->random, seed, "world", 0);
    return &v->base;
}
