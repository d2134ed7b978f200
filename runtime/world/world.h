/* world.h -- the seam between the runtime and everything it cannot decide itself.
 *
 * Clock, alarms, randomness, readiness of descriptors, waiting. Two worlds stand behind it: the real
 * one (libuv; the clock is CLOCK_BOOTTIME, so time spent suspended counts) and the virtual one, whose
 * clock stands still while anything is to be done and otherwise jumps to the next alarm. All that lies
 * above behaves the same in both.
 *
 *     struct world *w = world_real_new();
 *     alarm_set(w, &a, world_now(w) + 2 * NS_PER_S);
 *     while (world_wait(w)) run_what_became_ready();
 *     world_free(w);
 *
 * One thread owns a world. Callbacks (ring, ready, woken) run inside world_wait and world_poll, on
 * that thread; they store results and mark work as ready, and never run Lua. Only world_wake may be
 * called from elsewhere: from any thread, and from a signal handler.
 */
#ifndef SYNOD_WORLD_WORLD_H
#define SYNOD_WORLD_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"

struct world;

struct world *world_real_new(void);
/* Starts at instant 0 and at 2024-01-01 00:00:00 UTC. Random bytes are drawn from the seed. */
struct world *world_virtual_new(uint64_t seed);
void world_free(struct world *w);
bool world_is_virtual(const struct world *w);

/* Nanoseconds of the boot-time clock: for every deadline and every duration. */
int64_t world_now(struct world *w);
/* Nanoseconds since 1970-01-01 UTC: for what people and stores read. */
int64_t world_wall(struct world *w);
/* The same of the real clocks: for a process that has no world, and for other threads. */
int64_t clock_boottime(void);
int64_t clock_realtime(void);
/* Unpredictable bytes: ids, nonces, jitter. */
void world_random(struct world *w, void *out, size_t n);

/* An alarm rings once, not before its instant; equal instants ring in the order they were set.
 * Zero-initialise, set `ring`. The memory is the owner's and must outlive the alarm. */
struct alarm {
    void (*ring)(struct alarm *a);
    uint32_t pos; /* the world's; 0 when not set */
};

void alarm_set(struct world *w, struct alarm *a, int64_t at); /* moves it when already set */
void alarm_clear(struct world *w, struct alarm *a);           /* no effect when not set */
bool alarm_is_set(const struct alarm *a);

/* Readiness of a descriptor, level-triggered. Zero-initialise, set `ready`. Stop before closing the
 * descriptor. Regular files cannot be watched: they are always ready. */
enum { WATCH_READ = 1, WATCH_WRITE = 2 };

struct watch {
    void (*ready)(struct watch *watch, int events); /* an error on the descriptor counts as ready */
    void *impl;                                     /* the world's; NULL when not started */
};

/* Also changes the events of a watch already started on this descriptor. 0, or -errno. */
int watch_start(struct world *w, struct watch *watch, int fd, int events);
void watch_stop(struct world *w, struct watch *watch); /* no effect when not started */

/* For threads and signal handlers that have left something to be picked up: after world_wake the
 * `woken` of every registered wakeup runs once, soon, on the world's thread. */
struct wakeup {
    void (*woken)(struct wakeup *wakeup);
    struct wakeup *next;
};

void wakeup_add(struct world *w, struct wakeup *wakeup);
void wakeup_remove(struct world *w, struct wakeup *wakeup);
void world_wake(struct world *w);

/* Work outside the world is under way (a child process, a request to a server): a virtual clock stands
 * still meanwhile. The real one takes no notice. Calls are counted. */
void world_hold(struct world *w);
void world_release(struct world *w);

/* Run what is due; if nothing was, wait for it. False: nothing can ever happen any more (only the
 * virtual world can know). */
bool world_wait(struct world *w);
/* Run what is due, without waiting. */
void world_poll(struct world *w);

#endif
