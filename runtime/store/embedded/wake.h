/* wake.h -- 64 counters of changes, shared by every process that has a store open.
 *
 * A place in a store (a container and a name) belongs to one counter, its slot; a set of slots is a mask.
 * Whoever has changed something raises its slots and wakes those who sleep on them. The counters lie in
 * a mapped file beside the store, or in memory when one process has the store to itself.
 *
 * A writer holds the store's lock and may die at any moment. So it says first what it is about to change:
 *
 *     wake_settle     raises what a writer before us announced and did not come to raise
 *     wake_announce   these slots
 *     ... commit ...
 *     wake_raise      the slots of each write, so that a count grows by one for each, and
 *     wake_tell       all of them, whether the commit went well or not
 *
 * In the file: a word that all sleepers sleep on, the bell, at 0; their number, at 4; the slots announced, at 8; the counters
 * from 64 on. A file of zeros is a good one. It holds nothing that matters: who finds it gone makes a new
 * one, and waiters have a second, slower way to learn of changes (see wake_watchers.h).
 */
#ifndef SYNOD_STORE_WAKE_H
#define SYNOD_STORE_WAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { WAKE_SLOTS = 64, WAKE_PREFIX = 8 /* bytes of a name that count */ };

#define WAKE_ALL UINT64_MAX

struct wake;

/* path NULL: in memory. NULL and err when the file cannot be made. */
struct wake *wake_open(const char *path, struct error *err);
void wake_free(struct wake *wake);
/* False: the file was removed or replaced, and others, who found it gone, raise the counters of a new one. */
bool wake_is_known(const struct wake *wake);

/* The slot of one name. */
uint64_t wake_place(const char *container, const char *name);
/* The slots of all names with a prefix; NULL: any container, any name. */
uint64_t wake_places(const char *container, const char *prefix);

/* Grows when a slot of the mask is raised. */
uint64_t wake_count(const struct wake *wake, uint64_t slots);
void wake_raise(struct wake *wake, uint64_t slots);
void wake_tell(struct wake *wake, uint64_t slots); /* ends what was announced, wakes the sleepers */
void wake_announce(struct wake *wake, uint64_t slots);
bool wake_is_announced(const struct wake *wake);
void wake_settle(struct wake *wake); /* only with the store's lock */

/* Sleeping: read the bell, look at the counters, then sleep; returns at once when the bell has rung in
 * between, and later when a slot of the mask is raised, when wake_ring calls this process, and
 * sometimes for nothing. */
uint32_t wake_bell(const struct wake *wake);
void wake_sleep(struct wake *wake, uint32_t bell, uint64_t slots);
/* Makes this process's sleeper return. */
void wake_ring(struct wake *wake);

#endif
