/* sqlite_writer.c -- what the embedded store does, as bare SQLite statements in a loop.
 *
 *   sqlite_writer PATH full|normal write|read NAME START SECONDS      START in boot-time seconds
 *
 * The same table shape, pragmas and statements: a write is BEGIN IMMEDIATE, a look at the counters and at the
 * record, its replacement, COMMIT; a read is one SELECT of the record with its content. Contention is left to
 * SQLite's own busy handler.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUSY_MS = 30000, CACHE_KIB = 256, READS = 32 /* between two looks at the clock */ };

#define BODY "a flag, a lock, a few bytes of state: what coordination writes.."

#define SCHEMA                                                                                     \
    "CREATE TABLE IF NOT EXISTS state (id INTEGER PRIMARY KEY CHECK (id = 1),"                     \
    " next_etag INTEGER NOT NULL, highest_date INTEGER NOT NULL);"                                 \
    "INSERT OR IGNORE INTO state VALUES (1, 1, 0);"                                                \
    "CREATE TABLE IF NOT EXISTS rows (kind INTEGER NOT NULL, parent TEXT NOT NULL,"                \
    " name TEXT NOT NULL, etag INTEGER NOT NULL, created INTEGER NOT NULL,"                        \
    " modified INTEGER NOT NULL, type INTEGER NOT NULL, content_type TEXT,"                        \
    " length INTEGER NOT NULL, blocks INTEGER NOT NULL, metadata TEXT, lease_id TEXT,"             \
    " lease_seconds INTEGER, lease_end INTEGER, lease_break_end INTEGER, lease_boot TEXT,"         \
    " content BLOB, PRIMARY KEY (kind, parent, name)) WITHOUT ROWID;"

#define HEAD                                                                                       \
    "name, etag, created, modified, type, content_type, length, blocks, metadata, lease_id,"       \
    " lease_seconds, lease_end, lease_break_end, lease_boot"
#define KEY " WHERE kind = 2 AND parent = 'bench' AND name = ?1"

#define STATEMENT_LIST(X)                                                                          \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(STATE, "SELECT next_etag, highest_date FROM state WHERE id = 1")                             \
    X(LOOK, "SELECT " HEAD " FROM rows" KEY)                                                       \
    X(READ, "SELECT " HEAD ", content FROM rows" KEY)                                              \
    X(PUT, "INSERT OR REPLACE INTO rows (kind, parent, " HEAD ", content) VALUES (2, 'bench',"     \
           " ?1, ?2, ?3, ?3, 0, NULL, ?4, 0, NULL, NULL, NULL, NULL, NULL, NULL, ?5)")             \
    X(STATE_SET, "UPDATE state SET next_etag = ?1, highest_date = ?2 WHERE id = 1")                \
    X(COMMIT, "COMMIT")

#define STATEMENT_ENUM(name, text) name,
#define STATEMENT_TEXT(name, text) text,
enum statement { STATEMENT_LIST(STATEMENT_ENUM) STATEMENT_COUNT };
static const char *const TEXTS[] = {STATEMENT_LIST(STATEMENT_TEXT)};

struct writer {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    const char *name;
    int64_t etag;
};

/* What is taken from a record: all that its row says. */
struct record {
    const char *name, *content_type, *metadata, *lease_id, *lease_boot;
    int64_t etag, created, modified, type, length, blocks;
    int64_t lease_seconds, lease_end, lease_break_end;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static _Noreturn void fail(const struct writer *w, const char *what) {
    fprintf(stderr, "sqlite_writer: %s: %s\n", what, sqlite3_errmsg(w->db));
    exit(1);
}

static void execute(struct writer *w, const char *text) {
    if (sqlite3_exec(w->db, text, NULL, NULL, NULL) != SQLITE_OK) {
        fail(w, text);
    }
}

static void writer_open(struct writer *w, const char *path, const char *level) {
    char text[80];
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    if (sqlite3_open_v2(path, &w->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK) {
        fail(w, path);
    }
    sqlite3_busy_timeout(w->db, BUSY_MS);
    execute(w, "PRAGMA journal_mode = WAL");
    snprintf(text, sizeof text, "PRAGMA synchronous = %s; PRAGMA cache_size = -%d", level,
             CACHE_KIB);
    execute(w, text);
    execute(w, "BEGIN IMMEDIATE;" SCHEMA "COMMIT");
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        if (sqlite3_prepare_v3(w->db, TEXTS[i], -1, SQLITE_PREPARE_PERSISTENT, &w->statements[i],
                               NULL) != SQLITE_OK) {
            fail(w, TEXTS[i]);
        }
    }
}

/* Runs it to its first row or its end; the caller resets it. */
static sqlite3_stmt *run(struct writer *w, enum statement which, int expected) {
    sqlite3_stmt *st = w->statements[which];
    if (sqlite3_step(st) != expected) {
        fail(w, TEXTS[which]);
    }
    return st;
}

static void run_to_end(struct writer *w, enum statement which) {
    sqlite3_reset(run(w, which, SQLITE_DONE));
}

static const char *text_at(sqlite3_stmt *st, int column) {
    return (const char *)sqlite3_column_text(st, column);
}

static void record_take(struct record *r, sqlite3_stmt *st) {
    *r = (struct record){
        .name = text_at(st, 0),
        .etag = sqlite3_column_int64(st, 1),
        .created = sqlite3_column_int64(st, 2),
        .modified = sqlite3_column_int64(st, 3),
        .type = sqlite3_column_int64(st, 4),
        .content_type = text_at(st, 5),
        .length = sqlite3_column_int64(st, 6),
        .blocks = sqlite3_column_int64(st, 7),
        .metadata = text_at(st, 8),
        .lease_id = text_at(st, 9),
        .lease_seconds = sqlite3_column_int64(st, 10),
        .lease_end = sqlite3_column_int64(st, 11),
        .lease_break_end = sqlite3_column_int64(st, 12),
        .lease_boot = text_at(st, 13),
    };
}

static void write_once(struct writer *w) {
    run_to_end(w, BEGIN);
    sqlite3_stmt *state = run(w, STATE, SQLITE_ROW);
    int64_t next = sqlite3_column_int64(state, 0), date = sqlite3_column_int64(state, 1);
    int64_t second = time(NULL);
    sqlite3_reset(state);
    sqlite3_stmt *look = w->statements[LOOK];
    sqlite3_bind_text(look, 1, w->name, -1, SQLITE_STATIC);
    int found = sqlite3_step(look);
    if (found == SQLITE_ROW) {
        struct record record;
        record_take(&record, look);
        if (record.lease_id) {
            fail(w, "a lease that nobody took");
        }
    }
    sqlite3_reset(look);
    sqlite3_stmt *put = w->statements[PUT];
    sqlite3_bind_text(put, 1, w->name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(put, 2, ++w->etag);
    sqlite3_bind_int64(put, 3, second);
    sqlite3_bind_int64(put, 4, sizeof BODY - 1);
    sqlite3_bind_blob(put, 5, BODY, sizeof BODY - 1, SQLITE_STATIC);
    run_to_end(w, PUT);
    if (second > date) {
        sqlite3_bind_int64(w->statements[STATE_SET], 1, next);
        sqlite3_bind_int64(w->statements[STATE_SET], 2, second);
        run_to_end(w, STATE_SET);
    }
    run_to_end(w, COMMIT);
}

static void read_once(struct writer *w) {
    sqlite3_bind_text(w->statements[READ], 1, w->name, -1, SQLITE_STATIC);
    sqlite3_stmt *st = run(w, READ, SQLITE_ROW);
    struct record record;
    record_take(&record, st);
    if (record.length != sizeof BODY - 1 || sqlite3_column_bytes(st, 14) != sizeof BODY - 1 ||
        memcmp(sqlite3_column_blob(st, 14), BODY, sizeof BODY - 1) != 0) {
        fail(w, "the record came back changed");
    }
    sqlite3_reset(st);
}

/* How many in `seconds`, and the longest one in ms. */
static long write_for(struct writer *w, double seconds, double *worst) {
    long count = 0;
    double at = now(), end = at + seconds;
    *worst = 0;
    while (at < end) {
        double before = at;
        write_once(w);
        at = now();
        count++;
        *worst = (at - before) * 1e3 > *worst ? (at - before) * 1e3 : *worst;
    }
    return count;
}

static long read_for(struct writer *w, double seconds) {
    long count = 0;
    double end = now() + seconds;
    while (now() < end) {
        for (int i = 0; i < READS; i++) {
            read_once(w);
        }
        count += READS;
    }
    return count;
}

static void wait_until(double instant) {
    double left = instant - now();
    if (left > 0) {
        struct timespec t = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        nanosleep(&t, NULL);
    }
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "sqlite_writer: give PATH full|normal write|read NAME START SECONDS\n");
        return 2;
    }
    struct writer w = {.name = argv[4]};
    double seconds = atof(argv[6]), worst = 0;
    writer_open(&w, argv[1], argv[2]);
    write_once(&w);
    wait_until(atof(argv[5]));
    long count =
        strcmp(argv[3], "read") == 0 ? read_for(&w, seconds) : write_for(&w, seconds, &worst);
    printf("{\"count\":%ld,\"worst_ms\":%.3f}\n", count, worst);
    return 0;
}
