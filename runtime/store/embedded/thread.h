/* thread.h -- a thread of an open store, on which everything is done that may have to wait: writes that
 * must reach the disk or find the lock taken, writing back the log; on a second one large reads.
 *
 *     db_thread_post       from the world's thread; the client is answered at its deadline at the latest
 *     db_thread_deliver    after world_wake: answers those that are through
 *     db_thread_free       ends it; all whose client still waits are answered with ERR_CANCELLED first
 *
 * The thread starts with the first post. Writes that wait in line are committed together.
 */
#ifndef SYNOD_STORE_EMBEDDED_THREAD_H
#define SYNOD_STORE_EMBEDDED_THREAD_H

#include "store/embedded/job.h"
#include "store/embedded/session.h"

struct db_thread;

struct db_thread *db_thread_new(struct world *w, struct store_files *files, struct wake *wake,
                                bool relaxed, const char *boot_id);
void db_thread_post(struct db_thread *t, struct attempt *a);
/* True: a write was among them. */
bool db_thread_deliver(struct db_thread *t);
bool db_thread_is_idle(const struct db_thread *t);
/* Write back the log, which has so many pages. */
void db_thread_write_back(struct db_thread *t, int pages);
void db_thread_free(struct db_thread *t);

/* True once each time that the log has grown by LOG_PAGES_WRITE_BACK; `mark` is the gauge, first 0. */
bool log_is_due(int *mark, int pages);

enum {
    LOG_PAGES_WRITE_BACK = 1000, /* write back beside the writers */
    LOG_PAGES_HOLD = 2000,       /* keep them out meanwhile, so that the log can start afresh */
};

#endif
