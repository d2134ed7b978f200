/* wake_watchers.h -- who waits for a change in one open store (the last three of transport_ops).
 *
 * Over a wake in memory all is decided in this process. Over a shared one a thread sleeps on the bell
 * and wakes the loop; it is started with the first watch. A writer may die between its commit and its
 * call of wake_raise, and somebody may write with other tools: so while anybody waits, the loop looks
 * into the store every WATCH_LOOK_MS, and when something was committed and nobody said what, or the
 * store is not there any more, all who wait are told.
 *
 * In a virtual world there is neither thread nor interval: stores opened in one world wake each other.
 */
#ifndef SYNOD_STORE_WAKE_WATCHERS_H
#define SYNOD_STORE_WAKE_WATCHERS_H

#include "store/transport.h"
#include "store/embedded/wake.h"

enum { WATCH_LOOK_MS = 500 };

/* What a look may give beside a number above 0. */
enum { WATCH_CANNOT_TELL = -1, WATCH_GONE = -2 };

struct watchers;

/* look: settles what a dead writer announced, and gives a number that changes with the commits of
 * others, or one of the above; NULL: nobody else commits. The wake stays the caller's and must
 * outlive the watchers. */
struct watchers *watchers_new(struct world *w, struct wake *wake, int64_t (*look)(void *arg),
                              void *arg);
void watchers_free(struct watchers *ws); /* watches still there are forgotten */

uint64_t watchers_mark(struct watchers *ws, const char *container, const char *prefix);
void watchers_add(struct watchers *ws, struct store_watch *watch);
void watchers_remove(struct watchers *ws, struct store_watch *watch);

/* This process has raised slots of the wake. */
void watchers_notice(struct watchers *ws);

#endif
