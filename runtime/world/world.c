/* world.c -- what both worlds have in common. */
#include "world/world.h"

#include "world/world_impl.h"

void world_init(struct world *w, const struct world_ops *ops) {
    w->ops = ops;
    w->loop = loop_new(w);
}

void world_free(struct world *w) {
    loop_free(w->loop);
    alarm_heap_release(&w->alarms);
    w->ops->free(w);
}

int64_t world_now(struct world *w) {
    return w->ops->now(w);
}

int64_t world_wall(struct world *w) {
    return w->ops->wall(w);
}

void world_random(struct world *w, void *out, size_t n) {
    w->ops->random(w, out, n);
}

bool world_wait(struct world *w) {
    return w->ops->wait(w);
}

void world_poll(struct world *w) {
    w->ops->poll(w);
}

void world_hold(struct world *w) {
    w->holds++;
}

void world_release(struct world *w) {
    w->holds--;
}

void world_wake(struct world *w) {
    loop_wake(w->loop);
}

void wakeup_add(struct world *w, struct wakeup *wakeup) {
    wakeup->next = w->wakeups;
    w->wakeups = wakeup;
}

void wakeup_remove(struct world *w, struct wakeup *wakeup) {
    for (struct wakeup **p = &w->wakeups; *p; p = &(*p)->next) {
        if (*p == wakeup) {
            *p = wakeup->next;
            return;
        }
    }
}

void world_run_wakeups(struct world *w) {
    struct wakeup *next;
    for (struct wakeup *u = w->wakeups; u; u = next) {
        next = u->next; /* it may remove itself */
        u->woken(u);
    }
}
