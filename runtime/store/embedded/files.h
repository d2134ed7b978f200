/* files.h -- the files of an embedded store: may we use them, are they still there.
 *
 *     PATH         the database
 *     PATH-wal     SQLite's log, and PATH-shm, its index; there while anybody has the store open
 *     PATH-lock    an empty file; its lock (flock) is taken before a write transaction
 *     PATH-wake    counters of changes, see wake.h
 *
 * The lock has a file of its own, because closing any descriptor of the database would give up SQLite's
 * locks on it. For the same reason the database is never opened here, only looked at.
 */
#ifndef SYNOD_STORE_EMBEDDED_FILES_H
#define SYNOD_STORE_EMBEDDED_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { FILES_LOOK_MS = 20 };

/* What a path led to. Its number is not given again while it is open. */
struct seen_file {
    char *path;
    dev_t device;
    ino_t inode;
    bool known; /* false: not looked at yet */
};

struct store_files {
    char *path;                              /* as it was given: for people */
    char *real_path, *lock_path, *wake_path; /* without links: whoever uses one meets the others */
    struct seen_file database, log, index;
    _Atomic int64_t seen_at; /* boot-time ns: when a thread last saw them to be there */
};

/* Makes the folder (0700) and an empty file (0600) when there are none. Refuses files of another user,
 * network file systems and what is no file. False: err says why, nothing is held. */
bool files_open(struct store_files *files, const char *name, struct error *err);
void files_close(struct store_files *files);

/* Remember the log and its index. After the first use of the database; they stay until all have closed it. */
void files_remember_log(struct store_files *files);
/* False: the database, its log or the log's index was removed or replaced. */
bool files_look(const struct store_files *files);
/* Other files lie in the place of one of them. */
bool files_are_replaced(const struct store_files *files);
/* The same. Once one thread knows, every thread looks each time; before, a look is good for FILES_LOOK_MS,
 * but not when `afresh` is set. */
bool files_are_there(struct store_files *files, int64_t now, bool afresh);
/* Fills in ERR_STORE_GONE. */
void files_say_gone(const struct store_files *files, struct error *err);

#endif
