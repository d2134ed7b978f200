#include "store/embedded/wake_watchers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"

enum { SLEEPER_STACK = 64 * 1024 };

struct watchers {
    struct world *world;
    struct wake *wake;
    struct wakeup wakeup;
    struct alarm alarm;
    struct store_watch *first; /* who wait */
    struct store_watch *due;   /* who are about to be told, the one that waits longest first */
    int64_t (*look)(void *arg);
    void *arg;
    int64_t version_seen; /* at the last look, like count_seen */
    uint64_t count_seen;
    uint64_t
        doubts;  /* times that something was committed and nobody said what; part of each mark */
    bool shared; /* other processes change the counters */

    bool sleeper_runs;
    pthread_t sleeper;
    _Atomic bool stopping;
    _Atomic uint64_t slots; /* that the sleeper heeds; written by the world's thread */
};

uint64_t watchers_mark(struct watchers *ws, const char *container, const char *prefix) {
    return wake_count(ws->wake, wake_places(container, prefix)) + ws->doubts + 1;
}

static bool has_changed(struct watchers *ws, const struct store_watch *watch) {
    return watchers_mark(ws, watch->container, watch->prefix) != watch->since;
}

/* A watch in a list: `next`, and in `impl` the place that points to it; NULL there when it is in none. */
static void link_watch(struct store_watch **list, struct store_watch *watch) {
    watch->next = *list;
    watch->impl = list;
    if (*list) {
        (*list)->impl = &watch->next;
    }
    *list = watch;
}

static void unlink_watch(struct store_watch *watch) {
    struct store_watch **link = watch->impl;
    if (link) {
        *link = watch->next;
        if (watch->next) {
            watch->next->impl = link;
        }
        watch->next = NULL;
        watch->impl = NULL;
    }
}

/* First all are compared, then told one by one: a callback may add and remove any of them. */
static void compare_all(struct watchers *ws) {
    struct store_watch *next;
    for (struct store_watch *watch = ws->first; watch; watch = next) {
        next = watch->next;
        if (has_changed(ws, watch)) {
            unlink_watch(watch);
            link_watch(&ws->due, watch);
        }
    }
    while (ws->due) {
        struct store_watch *watch = ws->due;
        unlink_watch(watch);
        watch->changed(watch);
    }
}

static void on_woken(struct wakeup *wakeup) {
    compare_all(container_of(wakeup, struct watchers, wakeup));
}

/* The sleeper */

static void *sleep_loop(void *arg) {
    struct watchers *ws = arg;
    uint64_t slots_before = 0, count_before = 0;
    while (!atomic_load(&ws->stopping)) {
        uint32_t bell = wake_bell(ws->wake);
        uint64_t slots = atomic_load(&ws->slots);
        uint64_t count = wake_count(ws->wake, slots);
        if (slots != slots_before || count != count_before) {
            slots_before = slots;
            count_before = count;
            world_wake(ws->world);
        }
        wake_sleep(ws->wake, bell, slots);
    }
    return NULL;
}

/* Without the thread (none to be had) changes of others are seen at the next look. */
static void sleeper_start(struct watchers *ws) {
    pthread_attr_t attr;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SLEEPER_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ws->sleeper_runs = pthread_create(&ws->sleeper, &attr, sleep_loop, ws) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

static void sleeper_heed(struct watchers *ws, uint64_t slots) {
    uint64_t before = atomic_load(&ws->slots);
    if ((before | slots) != before) {
        atomic_store(&ws->slots, before | slots);
        wake_ring(ws->wake);
    }
    if (!ws->sleeper_runs) {
        sleeper_start(ws);
    }
}

/* Now and then */

static void look_later(struct watchers *ws) {
    alarm_set(ws->world, &ws->alarm, world_now(ws->world) + WATCH_LOOK_MS * NS_PER_MS);
}

/* Was something committed that no count tells of? Others may have been told of since the last look too: then only
 * those are left who have not come to telling, and those who tell by another file. */
static bool is_in_doubt(struct watchers *ws, int64_t version, uint64_t count) {
    if (version == WATCH_GONE) {
        return true;
    }
    if (version == WATCH_CANNOT_TELL || version == ws->version_seen) {
        return false;
    }
    return count == ws->count_seen || wake_is_announced(ws->wake) || !wake_is_known(ws->wake);
}

static void look(struct watchers *ws) {
    int64_t version = ws->look(ws->arg);
    uint64_t count = wake_count(ws->wake, WAKE_ALL);
    if (is_in_doubt(ws, version, count)) {
        ws->doubts++;
    }
    ws->version_seen = version;
    ws->count_seen = count;
}

static void heed_no_more_than_needed(struct watchers *ws) {
    uint64_t slots = 0;
    for (struct store_watch *watch = ws->first; watch; watch = watch->next) {
        slots |= wake_places(watch->container, watch->prefix);
    }
    atomic_store(&ws->slots, slots);
}

static void on_alarm(struct alarm *alarm) {
    struct watchers *ws = container_of(alarm, struct watchers, alarm);
    look(ws);
    compare_all(ws);
    heed_no_more_than_needed(ws);
    if (ws->first) {
        look_later(ws);
    }
}

static void start_looking(struct watchers *ws) {
    if (!alarm_is_set(&ws->alarm)) {
        ws->version_seen = ws->look(ws->arg);
        ws->count_seen = wake_count(ws->wake, WAKE_ALL);
        look_later(ws);
    }
}

void watchers_add(struct watchers *ws, struct store_watch *watch) {
    link_watch(&ws->first, watch);
    if (ws->shared) {
        sleeper_heed(ws, wake_places(watch->container, watch->prefix));
        start_looking(ws);
    }
    if (has_changed(ws, watch)) {
        world_wake(ws->world);
    }
}

void watchers_remove(struct watchers *ws, struct store_watch *watch) {
    (void)ws;
    unlink_watch(watch);
}

void watchers_notice(struct watchers *ws) {
    if (ws->first || world_is_virtual(ws->world)) {
        world_wake(ws->world);
    }
}

struct watchers *watchers_new(struct world *w, struct wake *wake, int64_t (*look_into)(void *arg),
                              void *arg) {
    struct watchers *ws = xcalloc(1, sizeof *ws);
    ws->world = w;
    ws->wake = wake;
    ws->look = look_into;
    ws->arg = arg;
    ws->shared = look_into && !world_is_virtual(w);
    ws->wakeup.woken = on_woken;
    ws->alarm.ring = on_alarm;
    wakeup_add(w, &ws->wakeup);
    return ws;
}

void watchers_free(struct watchers *ws) {
    if (ws->sleeper_runs) {
        atomic_store(&ws->stopping, true);
        wake_ring(ws->wake);
        pthread_join(ws->sleeper, NULL);
    }
    alarm_clear(ws->world, &ws->alarm);
    wakeup_remove(ws->world, &ws->wakeup);
    free(ws);
}
