/* rows_sqlite_file.c -- the file below a connection: opening it, what its failures mean, its log. */
#include "store/embedded/rows_sqlite_part.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/embedded/rows_schema.h"
#include "world/world.h"

enum {
    CACHE_KIB = 256,
    LOOKASIDE_SLOT = 256, /* bytes; see sqlite3_db_config */
    LOOKASIDE_SLOTS = 64,
    LOG_FILE_MAX = 8 * 1024 * 1024, /* a longer log file is cut when it starts afresh */
    BUSY_NAP_NS = 1000 * 1000,
};

/* Failures */

/* Full at a sync is another thing: what was written before it may stay. */
static bool disk_is_full(int code, int os_error) {
    int primary = code & 0xFF;
    if (code == SQLITE_IOERR_FSYNC) {
        return false;
    }
    bool short_of_space = os_error == ENOSPC || os_error == EDQUOT || os_error == EFBIG;
    return primary == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE ||
           (primary == SQLITE_IOERR && short_of_space);
}

static enum err code_of(int code, int os_error) {
    if (disk_is_full(code, os_error)) {
        return ERR_STORE_FULL;
    }
    if (code == SQLITE_READONLY_DBMOVED) {
        return ERR_STORE_GONE;
    }
    switch (code & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERR_STORE_CORRUPT;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        return ERR_STORE_READ_ONLY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return ERR_TIMEOUT;
    case SQLITE_NOMEM:
        return ERR_NO_MEMORY;
    default:
        return ERR_INTERNAL_ERROR;
    }
}

/* What the system said when the log, or else the database, could not be read or written. (What
 * sqlite3_system_errno gives is not kept for statements.) */
static int last_errno(struct sqlite *s) {
    sqlite3_file *log = NULL;
    int error = 0;
    sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, (void *)&log);
    if (log && log->pMethods) {
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
    }
    if (error == 0) {
        sqlite3_file_control(s->db, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
    }
    return error;
}

bool sqlite_fail(struct sqlite *s, int code) {
    int os_error = (code & 0xFF) == SQLITE_IOERR ? last_errno(s) : 0;
    enum err err = code_of(code, os_error);
    s->was_busy = err == ERR_TIMEOUT;
    struct error *e = &s->rows.err;
    if (err == ERR_TIMEOUT) {
        error_set(e, err, "another program holds the lock of %s", s->path);
    } else if (err == ERR_INTERNAL_ERROR) {
        error_set(e, err, "%s: %s", s->path, os_error ? strerror(os_error) : sqlite3_errstr(code));
    } else {
        error_set(e, err, "%s (%s)", err_sentence(err), s->path);
    }
    return false;
}

static int on_busy(void *arg, int count) {
    struct sqlite *s = arg;
    (void)count;
    if (s->wait_until == 0 || clock_boottime() >= s->wait_until) {
        return 0;
    }
    nanosleep(&(struct timespec){.tv_nsec = BUSY_NAP_NS}, NULL);
    return 1;
}

static int on_commit_logged(void *arg, sqlite3 *db, const char *name, int pages) {
    (void)db;
    (void)name;
    ((struct sqlite *)arg)->log_pages = pages;
    return SQLITE_OK;
}

/* The file */

static bool execute(struct sqlite *s, const char *text) {
    int code = sqlite3_exec(s->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK || sqlite_fail(s, code);
}

static bool ask_number(struct sqlite *s, const char *text, int64_t *out) {
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(s->db, text, -1, &st, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(st);
        if (code == SQLITE_ROW) {
            *out = sqlite3_column_int64(st, 0);
        }
    }
    sqlite3_finalize(st);
    return code == SQLITE_ROW || sqlite_fail(s, code);
}

/* Is this a store, or empty, and of a version that we know? */
static bool read_version(struct sqlite *s) {
    int64_t application, version, tables;
    if (!ask_number(s, "PRAGMA application_id", &application) ||
        !ask_number(s, "PRAGMA user_version", &version) ||
        !ask_number(s, "SELECT count(*) FROM sqlite_schema", &tables)) {
        return false;
    }
    if (application != ROWS_APPLICATION_ID && (application || version || tables)) {
        error_set(&s->rows.err, ERR_STORE_CORRUPT, "%s is a database of another program", s->path);
        return false;
    }
    if (version > ROWS_SCHEMA_VERSION) {
        error_set(&s->rows.err, ERR_NEWER_VERSION,
                  "%s was written by a newer version of synod (format %d, known here: %d)", s->path,
                  (int)version, ROWS_SCHEMA_VERSION);
        return false;
    }
    s->version = (int)version;
    return true;
}

/* In one transaction: another process may be making the file, and half of it would look like nobody's. */
static bool read_version_alone(struct sqlite *s) {
    return execute(s, "BEGIN") && read_version(s) && execute(s, "COMMIT");
}

static bool configure(struct sqlite *s, bool relaxed) {
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_LOOKASIDE, NULL, LOOKASIDE_SLOT, LOOKASIDE_SLOTS);
    sqlite3_busy_handler(s->db, on_busy, s);
    sqlite3_wal_hook(s->db, on_commit_logged, s); /* in the place of automatic checkpoints */
    char text[160];
    snprintf(text, sizeof text,
             "PRAGMA cache_size = -%d; PRAGMA synchronous = %s; PRAGMA journal_size_limit = %d",
             CACHE_KIB, relaxed ? "NORMAL" : "FULL", LOG_FILE_MAX);
    return execute(s, text);
}

struct rows *rows_sqlite_open(const char *path, bool relaxed, int64_t wait_until,
                              struct error *err) {
    struct sqlite *s = xcalloc(1, sizeof *s);
    s->rows.ops = &SQLITE_ROWS;
    s->rows.content_max = SIZE_MAX;
    s->path = xstrdup(path);
    s->wait_until = wait_until;
    buf_init(&s->text_in, PAIRS_MAX);
    buf_init(&s->text_out, PAIRS_MAX);
    /* SQLite need not count its memory, under a mutex. Refused once it is in use, and then it is done. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    int code = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    bool ok =
        code == SQLITE_OK ? configure(s, relaxed) && read_version_alone(s) : sqlite_fail(s, code);
    if (!ok) {
        *err = s->rows.err;
        sqlite_rows_free(&s->rows);
        return NULL;
    }
    return &s->rows;
}

bool rows_sqlite_is_current(const struct rows *rows) {
    return container_of(rows, const struct sqlite, rows)->version == ROWS_SCHEMA_VERSION;
}

static bool take_steps(struct sqlite *s, int64_t first_etag) {
    char text[160];
    bool fresh = s->version == 0;
    while (s->version < ROWS_SCHEMA_VERSION) {
        if (!execute(s, ROWS_SCHEMA_STEPS[s->version])) {
            return false;
        }
        s->version++;
    }
    snprintf(text, sizeof text, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             ROWS_APPLICATION_ID, ROWS_SCHEMA_VERSION);
    if (!execute(s, text)) {
        return false;
    }
    snprintf(text, sizeof text, "UPDATE state SET next_etag = %lld", (long long)first_etag);
    return !fresh || execute(s, text);
}

bool rows_sqlite_prepare(struct rows *rows, int64_t first_etag) {
    struct sqlite *s = sqlite_of(rows);
    if (!execute(s, "PRAGMA journal_mode = WAL") || !execute(s, "BEGIN IMMEDIATE")) {
        return false;
    }
    /* another process may have been first */
    if (read_version(s) && take_steps(s, first_etag) && execute(s, "COMMIT")) {
        return true;
    }
    sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return false;
}

void rows_sqlite_wait_until(struct rows *rows, int64_t instant) {
    sqlite_of(rows)->wait_until = instant;
}

int64_t rows_sqlite_late(const struct rows *rows) {
    const struct sqlite *s = container_of(rows, const struct sqlite, rows);
    int64_t now = s->wait_until ? clock_boottime() : 0;
    return now >= s->wait_until ? now : 0;
}

bool rows_sqlite_was_busy(const struct rows *rows) {
    return container_of(rows, const struct sqlite, rows)->was_busy;
}

bool rows_sqlite_in_doubt(const struct rows *rows) {
    return container_of(rows, const struct sqlite, rows)->in_doubt;
}

bool rows_sqlite_has_moved(const struct rows *rows) {
    int moved = 0;
    sqlite3 *db = container_of(rows, const struct sqlite, rows)->db;
    return sqlite3_file_control(db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK || moved;
}

void rows_sqlite_leave_log(struct rows *rows) {
    sqlite3_db_config(sqlite_of(rows)->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

int rows_sqlite_log_pages(const struct rows *rows) {
    return container_of(rows, const struct sqlite, rows)->log_pages;
}

bool rows_sqlite_checkpoint(struct rows *rows) {
    struct sqlite *s = sqlite_of(rows);
    return sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) ==
           SQLITE_OK;
}
