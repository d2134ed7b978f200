/* world_impl.h -- what the files of this room share; nobody else includes it. */
#ifndef SYNOD_WORLD_WORLD_IMPL_H
#define SYNOD_WORLD_WORLD_IMPL_H

#include "world/world.h"

struct loop;

/* The alarms that are set: a four-way heap by (instant, order of setting). */
struct alarm_entry {
    int64_t at;
    uint64_t order;
    struct alarm *alarm;
};

struct alarm_heap {
    struct alarm_entry *entries;
    uint32_t count, capacity;
    uint64_t next_order;
};

void alarm_heap_release(struct alarm_heap *h);
int64_t alarm_heap_first(const struct alarm_heap *h); /* NEVER when empty */
/* Rings every alarm due at `now` that was set before this call. */
void alarm_heap_ring(struct alarm_heap *h, int64_t now);

/* What differs between the worlds. */
struct world_ops {
    int64_t (*now)(struct world *w);
    int64_t (*wall)(struct world *w);
    void (*random)(struct world *w, void *out, size_t n);
    bool (*wait)(struct world *w);
    void (*poll)(struct world *w);
    void (*free)(struct world *w); /* its own part and the memory of `w` */
};

struct world {
    const struct world_ops *ops;
    struct loop *loop;
    struct alarm_heap alarms;
    struct wakeup *wakeups;
    unsigned holds;
};

void world_init(struct world *w, const struct world_ops *ops);
void world_run_wakeups(struct world *w);

/* loop.c: libuv, which both worlds use for what comes from outside. */
struct loop *loop_new(struct world *w);
void loop_free(struct loop *l);
void loop_poll(struct loop *l);
void loop_wait(struct loop *l, int64_t until); /* boot-time ns; NEVER: until something happens */
void loop_wake(struct loop *l);

#endif
