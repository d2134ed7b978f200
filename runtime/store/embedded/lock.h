/* lock.h -- the lock that a writer takes before its transaction, so that no writer starves.
 *
 * SQLite's own lock is asked for again and again by those who wait, and one of them may never be lucky;
 * the kernel hands this one on in turn. Each holder has its own descriptor of PATH-lock, since locks of
 * this kind belong to descriptors.
 */
#ifndef SYNOD_STORE_EMBEDDED_LOCK_H
#define SYNOD_STORE_EMBEDDED_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/error.h"

struct store_lock {
    int fd;
    timer_t timer; /* of the thread that waits */
    bool has_timer;
};

bool lock_open(struct store_lock *lock, const char *path, struct error *err);
void lock_close(struct store_lock *lock);

bool lock_try(struct store_lock *lock);
/* Sleeps until it has the lock, the boot-time instant is reached or lock_disturb was called; may also
 * return false for nothing. Always the same thread, one that lock_prepare_thread was called in. */
bool lock_wait(struct store_lock *lock, int64_t until);
void lock_give(struct store_lock *lock);

/* In a thread that waits for locks: no signals but the one that ends a wait. */
void lock_prepare_thread(void);
/* Ends a wait in that thread, if it is in one. */
void lock_disturb(unsigned long thread);

#endif
