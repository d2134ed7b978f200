/* embedded_thread.h -- the thread of an open store, on which everything is done that may have to wait:
 * writes that must reach the disk or find the lock taken, large reads, writing back the log.
 *
 *     db_thread_post       from the world's thread; the attempt stays the client's
 *     db_thread_collect    after world_wake: what has been answered
 *     db_thread_free       ends it; what was not begun is answered with ERR_CANCELLED first
 *
 * The thread starts with the first post. Writes that wait in line are committed together.
 */
#ifndef SYNOD_STORE_EMBEDDED_THREAD_H
#define SYNOD_STORE_EMBEDDED_THREAD_H

#include <stdatomic.h>

#include "store/embedded_session.h"
#include "store/transport.h"
#include "world/world.h"

struct db_thread;

struct db_job {
    struct db_job *next;
    struct attempt *attempt;
    _Atomic bool dropped;
};

struct db_thread *db_thread_new(struct world *w, const struct store_files *files, struct wake *wake,
                                bool relaxed, const char *boot_id);
void db_thread_post(struct db_thread *t, struct attempt *a);
void db_thread_drop(struct db_thread *t, struct attempt *a);
/* A job whose attempt is answered, or NULL. The caller frees it. */
struct db_job *db_thread_collect(struct db_thread *t);
bool db_thread_is_idle(const struct db_thread *t);
/* Write back the log, which has so many pages. */
void db_thread_write_back(struct db_thread *t, int pages);
/* Ends the thread: afterwards every job can be collected. */
void db_thread_stop(struct db_thread *t);
void db_thread_free(struct db_thread *t);

/* True once each time that the log has grown by LOG_PAGES_WRITE_BACK; `mark` is the gauge, first 0. */
bool log_is_due(int *mark, int pages);

enum {
    LOG_PAGES_WRITE_BACK = 1000, /* write back beside the writers */
    LOG_PAGES_HOLD = 2000,       /* keep them out meanwhile, so that the log can start afresh */
};

#endif
