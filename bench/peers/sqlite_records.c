/* sqlite_records.c -- what the embedded store does for messages and entities, as bare SQLite statements.
 *
 *   sqlite_records PATH full|normal message|entity SECONDS
 *
 * The same table shape, indexes, pragmas, statements and transactions: a message is put, got and deleted in
 * three transactions; an entity is looked for and replaced in one. Each looks first whether its queue or
 * table is there, and leaves the counters behind.
 */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CACHE_KIB = 256, ENTITIES = 1000, QUEUE = 3, MESSAGE = 4, TABLE = 5, ENTITY = 6 };

#define BODY "a task, its file, a few bytes of state: what a queue carries...."
#define PROPERTIES                                                                                 \
    "{\"load@odata.type\":\"Edm.Double\",\"load\":0.5,"                                            \
    "\"port@odata.type\":\"Edm.Int64\",\"port\":\"8080\",\"state\":\"ready\"}"

#define SCHEMA                                                                                     \
    "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), next_etag INTEGER NOT NULL,"       \
    " highest_date INTEGER NOT NULL, highest_tick INTEGER NOT NULL DEFAULT 0);"                    \
    "INSERT INTO state VALUES (1, 1, 0, 0);"                                                       \
    "CREATE TABLE rows (kind INTEGER NOT NULL, parent TEXT NOT NULL,"                              \
    " name TEXT NOT NULL, etag INTEGER NOT NULL, created INTEGER NOT NULL,"                        \
    " modified INTEGER NOT NULL, type INTEGER NOT NULL, content_type TEXT,"                        \
    " length INTEGER NOT NULL, blocks INTEGER NOT NULL, metadata TEXT, lease_id TEXT,"             \
    " lease_seconds INTEGER, lease_end INTEGER, lease_break_end INTEGER, lease_boot TEXT,"         \
    " content BLOB, next_visible INTEGER, expires INTEGER,"                                        \
    " PRIMARY KEY (kind, parent, name)) WITHOUT ROWID;"                                            \
    "CREATE INDEX messages_by_visibility ON rows (parent, next_visible, name) WHERE kind = 4;"     \
    "CREATE INDEX messages_by_expiry ON rows (parent, expires, name) WHERE kind = 4;"              \
    "INSERT INTO rows (kind, parent, name, etag, created, modified, type, length, blocks)"         \
    " VALUES (3, '', 'bench', 0, 0, 0, 0, 0, 0), (5, '', 'bench', 0, 0, 0, 0, 0, 0);"

#define HEAD                                                                                       \
    "etag, modified, type, content_type, length, blocks, metadata, lease_id, lease_seconds,"       \
    " lease_end, lease_break_end, lease_boot, next_visible, expires, created"
#define KEY " WHERE kind = ?1 AND parent = ?2 AND name = ?3"
#define MESSAGES(index, order)                                                                     \
    "SELECT " HEAD ", name FROM rows INDEXED BY " index " WHERE kind = 4 AND parent = ?2"          \
    " ORDER BY " order ", name"

#define STATEMENT_LIST(X)                                                                          \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(STATE, "SELECT next_etag, highest_date, highest_tick FROM state WHERE id = 1")               \
    X(LOOK, "SELECT " HEAD " FROM rows" KEY)                                                       \
    X(READ, "SELECT " HEAD ", content FROM rows" KEY)                                              \
    X(VISIBLE, MESSAGES("messages_by_visibility", "next_visible"))                                 \
    X(EXPIRED, MESSAGES("messages_by_expiry", "expires"))                                          \
    X(PUT, "INSERT OR REPLACE INTO rows (kind, parent, name, " HEAD ", content) VALUES (?1, ?2,"   \
           " ?3, ?4, ?5, 0, NULL, ?6, 0, NULL, NULL, NULL, NULL, NULL, NULL, ?7, ?8, ?5, ?9)")     \
    X(TAKE, "UPDATE rows SET etag = ?4, modified = ?5, type = 0, content_type = NULL,"             \
            " length = ?6, blocks = 1, metadata = NULL, lease_id = NULL, lease_seconds = NULL,"    \
            " lease_end = NULL, lease_break_end = NULL, lease_boot = NULL, next_visible = ?7,"     \
            " expires = ?8" KEY)                                                                   \
    X(REMOVE, "DELETE FROM rows" KEY)                                                              \
    X(STATE_SET, "UPDATE state SET next_etag = ?1, highest_date = ?2, highest_tick = ?3"           \
                 " WHERE id = 1")                                                                  \
    X(COMMIT, "COMMIT")

#define STATEMENT_ENUM(name, text) name,
#define STATEMENT_TEXT(name, text) text,
enum statement { STATEMENT_LIST(STATEMENT_ENUM) STATEMENT_COUNT };
static const char *const TEXTS[] = {STATEMENT_LIST(STATEMENT_TEXT)};

struct keeper {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    int64_t number, date, tick, now; /* now: ns since 1970 */
    char name[40];
};

static _Noreturn void fail(const struct keeper *k, const char *what) {
    fprintf(stderr, "sqlite_records: %s: %s\n", what, sqlite3_errmsg(k->db));
    exit(1);
}

static void execute(struct keeper *k, const char *text) {
    if (sqlite3_exec(k->db, text, NULL, NULL, NULL) != SQLITE_OK) {
        fail(k, text);
    }
}

static void keeper_open(struct keeper *k, const char *path, const char *level) {
    char text[80];
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    if (sqlite3_open_v2(path, &k->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK) {
        fail(k, path);
    }
    execute(k, "PRAGMA journal_mode = WAL");
    snprintf(text, sizeof text, "PRAGMA synchronous = %s; PRAGMA cache_size = -%d", level,
             CACHE_KIB);
    execute(k, text);
    execute(k, "BEGIN IMMEDIATE;" SCHEMA "COMMIT");
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        if (sqlite3_prepare_v3(k->db, TEXTS[i], -1, SQLITE_PREPARE_PERSISTENT, &k->statements[i],
                               NULL) != SQLITE_OK) {
            fail(k, TEXTS[i]);
        }
    }
}

static int64_t clock_ns(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static sqlite3_stmt *of_key(struct keeper *k, enum statement which, int kind, const char *parent,
                            const char *name) {
    sqlite3_stmt *st = k->statements[which];
    sqlite3_bind_int(st, 1, kind);
    sqlite3_bind_text(st, 2, parent, -1, SQLITE_STATIC);
    if (sqlite3_bind_parameter_count(st) > 2) {
        sqlite3_bind_text(st, 3, name, -1, SQLITE_STATIC);
    }
    return st;
}

static void run(struct keeper *k, sqlite3_stmt *st, int expected) {
    if (sqlite3_step(st) != expected) {
        fail(k, sqlite3_sql(st));
    }
    if (expected == SQLITE_DONE) {
        sqlite3_reset(st);
    }
}

/* A transaction, its instant and number, and the look whether the queue or table is there. */
static void begin(struct keeper *k, int kind) {
    run(k, k->statements[BEGIN], SQLITE_DONE);
    sqlite3_stmt *st = k->statements[STATE];
    run(k, st, SQLITE_ROW);
    k->date = sqlite3_column_int64(st, 1);
    k->tick = sqlite3_column_int64(st, 2);
    sqlite3_reset(st);
    k->now = clock_ns(CLOCK_REALTIME);
    k->number++;
    st = of_key(k, LOOK, kind, "", "bench");
    run(k, st, SQLITE_ROW);
    sqlite3_reset(st);
}

static void commit(struct keeper *k) {
    int64_t second = k->now / 1000000000, tick = k->now / 100;
    if (second > k->date || tick > k->tick) {
        sqlite3_stmt *st = k->statements[STATE_SET];
        sqlite3_bind_int64(st, 1, k->number);
        sqlite3_bind_int64(st, 2, second);
        sqlite3_bind_int64(st, 3, tick);
        run(k, st, SQLITE_DONE);
    }
    run(k, k->statements[COMMIT], SQLITE_DONE);
}

/* What PUT and TAKE have in common. */
static sqlite3_stmt *to_write(struct keeper *k, enum statement which, int kind, const char *name,
                              size_t length) {
    sqlite3_stmt *st = of_key(k, which, kind, "bench", name);
    sqlite3_bind_int64(st, 4, k->number);
    sqlite3_bind_int64(st, 5, k->now / 1000000000);
    sqlite3_bind_int64(st, 6, (int64_t)length);
    return st;
}

static void look_for_expired(struct keeper *k) {
    sqlite3_stmt *st = of_key(k, EXPIRED, MESSAGE, "bench", NULL);
    if (sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int64(st, 13) <= k->now) {
        fail(k, "a message that expired");
    }
    sqlite3_reset(st);
}

static void message_put(struct keeper *k) {
    begin(k, QUEUE);
    look_for_expired(k);
    snprintf(k->name, sizeof k->name, "%016llx-%016llx", (unsigned long long)k->now / 100,
             (unsigned long long)k->number);
    sqlite3_stmt *st = to_write(k, PUT, MESSAGE, k->name, sizeof BODY - 1);
    sqlite3_bind_int64(st, 7, k->now);
    sqlite3_bind_int64(st, 8, k->now + INT64_C(604800000000000));
    sqlite3_bind_blob(st, 9, BODY, sizeof BODY - 1, SQLITE_STATIC);
    run(k, st, SQLITE_DONE);
    commit(k);
}

static void message_get(struct keeper *k) {
    begin(k, QUEUE);
    sqlite3_stmt *st = of_key(k, VISIBLE, MESSAGE, "bench", NULL);
    run(k, st, SQLITE_ROW);
    snprintf(k->name, sizeof k->name, "%s", (const char *)sqlite3_column_text(st, 15));
    sqlite3_reset(st);
    look_for_expired(k);
    st = of_key(k, READ, MESSAGE, "bench", k->name);
    run(k, st, SQLITE_ROW);
    if (memcmp(sqlite3_column_blob(st, 15), BODY, sizeof BODY - 1) != 0) {
        fail(k, "the message came back changed");
    }
    int64_t expires = sqlite3_column_int64(st, 13);
    sqlite3_reset(st);
    st = to_write(k, TAKE, MESSAGE, k->name, sizeof BODY - 1);
    sqlite3_bind_int64(st, 7, k->now + INT64_C(30000000000));
    sqlite3_bind_int64(st, 8, expires);
    run(k, st, SQLITE_DONE);
    commit(k);
}

static void message_delete(struct keeper *k) {
    begin(k, QUEUE);
    sqlite3_stmt *st = of_key(k, LOOK, MESSAGE, "bench", k->name);
    run(k, st, SQLITE_ROW);
    sqlite3_reset(st);
    run(k, of_key(k, REMOVE, MESSAGE, "bench", k->name), SQLITE_DONE);
    run(k, k->statements[COMMIT], SQLITE_DONE);
}

static void message_cycle(struct keeper *k, int64_t count) {
    (void)count;
    message_put(k);
    message_get(k);
    message_delete(k);
}

static void entity_upsert(struct keeper *k, int64_t count) {
    begin(k, TABLE);
    snprintf(k->name, sizeof k->name, "worker\1%lld", (long long)(count % ENTITIES));
    sqlite3_stmt *st = of_key(k, LOOK, ENTITY, "bench", k->name);
    sqlite3_step(st);
    sqlite3_reset(st);
    st = to_write(k, PUT, ENTITY, k->name, sizeof PROPERTIES - 1);
    sqlite3_bind_null(st, 7);
    sqlite3_bind_null(st, 8);
    sqlite3_bind_blob(st, 9, PROPERTIES, sizeof PROPERTIES - 1, SQLITE_STATIC);
    run(k, st, SQLITE_DONE);
    commit(k);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "sqlite_records: give PATH full|normal message|entity SECONDS\n");
        return 2;
    }
    struct keeper k = {.number = 0};
    void (*once)(struct keeper *, int64_t) =
        strcmp(argv[3], "message") == 0 ? message_cycle : entity_upsert;
    int64_t count = 0, worst = 0, at, end;
    keeper_open(&k, argv[1], argv[2]);
    once(&k, 0);
    at = clock_ns(CLOCK_BOOTTIME);
    end = at + (int64_t)(atof(argv[4]) * 1e9);
    while (at < end) {
        int64_t before = at;
        once(&k, ++count);
        at = clock_ns(CLOCK_BOOTTIME);
        worst = at - before > worst ? at - before : worst;
    }
    printf("{\"count\":%lld,\"worst_ms\":%.3f}\n", (long long)count, (double)worst / 1e6);
    return 0;
}
