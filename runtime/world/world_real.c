/* world_real.c -- the world as it is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "world/world_impl.h"

enum { POOL_BYTES = 256 };

struct world_real {
    struct world base;
    unsigned char pool[POOL_BYTES]; /* of random bytes: one call to the kernel for many ids */
    size_t left;
};

static int64_t real_now(struct world *w) {
    (void)w;
    return clock_boottime();
}

static int64_t real_wall(struct world *w) {
    (void)w;
    return clock_realtime();
}

static void draw(void *out, size_t n) {
    unsigned char *p = out;
    while (n) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno != EINTR) {
            fputs("synod: the kernel gives no random bytes; ids would not be unique\n", stderr);
            abort();
        }
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
}

static void real_random(struct world *w, void *out, size_t n) {
    struct world_real *r = container_of(w, struct world_real, base);
    if (n > sizeof r->pool) {
        draw(out, n);
        return;
    }
    if (r->left < n) {
        draw(r->pool, sizeof r->pool);
        r->left = sizeof r->pool;
    }
    r->left -= n;
    memcpy(out, r->pool + r->left, n);
    memset(r->pool + r->left, 0, n);
}

static void real_poll(struct world *w) {
    loop_poll(w->loop);
    alarm_heap_ring(&w->alarms, clock_boottime());
}

static bool real_wait(struct world *w) {
    int64_t first = alarm_heap_first(&w->alarms);
    if (first > clock_boottime()) {
        loop_wait(w->loop, first);
    } else {
        loop_poll(w->loop);
    }
    alarm_heap_ring(&w->alarms, clock_boottime());
    return true;
}

static void real_free(struct world *w) {
    free(container_of(w, struct world_real, base));
}

static const struct world_ops REAL = {
    .now = real_now,
    .wall = real_wall,
    .random = real_random,
    .wait = real_wait,
    .poll = real_poll,
    .free = real_free,
};

struct world *world_real_new(void) {
    struct world_real *r = xcalloc(1, sizeof *r);
    world_init(&r->base, &REAL);
    return &r->base;
}

bool world_is_virtual(const struct world *w) {
    return w->ops != &REAL;
}
