/* session.h -- a connection to a store's file and the turns it takes at it.
 *
 * A turn of a writer stands between lock_try or lock_wait and lock_give. Whoever takes it sees to it that
 * the file is still the one it was, before the turn (not again within FILES_LOOK_MS) and always before
 * anything is acknowledged. A reader looks every FILES_LOOK_MS.
 */
#ifndef SYNOD_STORE_EMBEDDED_SESSION_H
#define SYNOD_STORE_EMBEDDED_SESSION_H

#include "store/embedded/embedded.h"
#include "store/embedded/files.h"
#include "store/embedded/lock.h"
#include "store/transport.h"
#include "store/embedded/wake.h"

struct session {
    struct rows *rows; /* NULL: not connected */
    struct store_lock lock;
    struct store_files *files;
    struct wake *wake;
};

/* err says why not; nothing is held then. Waits for SQLite's own lock until `wait_until`. */
bool session_open(struct session *s, struct store_files *files, struct wake *wake, bool relaxed,
                  int64_t wait_until, struct error *err);
void session_close(struct session *s);

/* Writes the log back into the database, unless others lie in their places. */
void session_write_back(struct session *s);

/* Answers a read. False: only where it may wait and take its time (the reply is clear again). */
bool session_read(struct session *s, const struct embedded_now *now, struct attempt *a);

/* Answers writes in one transaction; those that fail together are tried alone. The lock is held. */
void session_write(struct session *s, const struct embedded_now *now, struct attempt **list,
                   int count);

/* The slots that a write changes. None for taking messages: whoever waits for one finds nothing by it,
 * and those who take would wake each other for ever. */
uint64_t session_slots(const struct store_request *req);

#endif
