/* rows_sqlite.h -- records in an SQLite file in WAL mode; one value is one connection.
 *
 *     rows_sqlite_open      the file must be there, an empty one will do
 *     rows_sqlite_prepare   only while no other process writes: makes or migrates the tables
 *
 * A connection is used by one thread at a time. It never writes back the log by itself: see
 * rows_sqlite_checkpoint.
 */
#ifndef SYNOD_STORE_ROWS_SQLITE_H
#define SYNOD_STORE_ROWS_SQLITE_H

#include "store/embedded/rows.h"

/* relaxed: commits reach the disk at the next checkpoint. NULL and err when it cannot be opened.
 * `wait_until` as below. */
struct rows *rows_sqlite_open(const char *path, bool relaxed, int64_t wait_until,
                              struct error *err);
/* True: the tables are there and of this version. */
bool rows_sqlite_is_current(const struct rows *rows);
/* Makes the tables or brings older ones to this version. A new store's ETags begin at `first_etag`. */
bool rows_sqlite_prepare(struct rows *rows, int64_t first_etag);

/* Another program may hold SQLite's own lock: wait for it until this boot-time instant; 0: do not. */
void rows_sqlite_wait_until(struct rows *rows, int64_t instant);
/* The lock may be had at the last moment, and a process be stopped just then: the boot-time instant now, when that
 * instant has passed; else 0. */
int64_t rows_sqlite_late(const struct rows *rows);
/* The last failure was that lock: ERR_TIMEOUT in rows->err. */
bool rows_sqlite_was_busy(const struct rows *rows);
/* The last commit failed in a way that leaves open whether it happened. */
bool rows_sqlite_in_doubt(const struct rows *rows);

/* The path does not lead to the file that was opened any more. */
bool rows_sqlite_has_moved(const struct rows *rows);
/* Closing it will neither write the log back nor remove it. */
void rows_sqlite_leave_log(struct rows *rows);

/* Pages in the log after this connection's last commit. */
int rows_sqlite_log_pages(const struct rows *rows);
/* Writes the log back into the database as far as readers permit. Readers and writers go on meanwhile. */
bool rows_sqlite_checkpoint(struct rows *rows);
/* A number that changes when another connection has committed; -1 when it cannot be told. */
int64_t rows_sqlite_data_version(struct rows *rows);

#endif
