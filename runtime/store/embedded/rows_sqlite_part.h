/* rows_sqlite_part.h -- a connection, for the files that speak SQLite: rows_sqlite.c (records),
 * rows_sqlite_pieces.c (what lies beside them) and rows_sqlite_file.c (opening, failures, the log). */
#ifndef SYNOD_STORE_ROWS_SQLITE_PART_H
#define SYNOD_STORE_ROWS_SQLITE_PART_H

#include <sqlite3.h>

#include "base/alloc.h"
#include "store/embedded/rows_sqlite.h"

/* What every look at a record reads, in the order of COLUMN_*; one more column may follow. */
#define COLUMNS                                                                                    \
    "etag, modified, type, content_type, length, blocks, metadata, lease_id, lease_seconds,"       \
    " lease_end, lease_break_end, lease_boot, next_visible, expires, created"

enum column {
    COLUMN_ETAG,
    COLUMN_MODIFIED,
    COLUMN_TYPE,
    COLUMN_CONTENT_TYPE,
    COLUMN_LENGTH,
    COLUMN_BLOCKS,
    COLUMN_METADATA,
    COLUMN_LEASE_ID,
    COLUMN_LEASE_SECONDS,
    COLUMN_LEASE_END,
    COLUMN_LEASE_BREAK_END,
    COLUMN_LEASE_BOOT,
    COLUMN_NEXT_VISIBLE,
    COLUMN_EXPIRES,
    COLUMN_CREATED,
    COLUMN_LAST, /* content or name */
};

#define OF_KEY " WHERE kind = ?1 AND parent = ?2 AND name = ?3"

#define STATEMENT_LIST(X)                                                                          \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(GET, "SELECT " COLUMNS " FROM rows" OF_KEY)                                                  \
    X(GET_CONTENT, "SELECT " COLUMNS ", CASE WHEN length <= ?4 OR (kind = 2 AND blocks > 0)"       \
                   " THEN content END FROM rows" OF_KEY)                                           \
    X(CONTENT_GET, "SELECT data FROM contents WHERE container = ?1 AND name = ?2")                 \
    X(CONTENT_PUT, "INSERT OR REPLACE INTO contents (container, name, data) VALUES (?1, ?2, ?3)")  \
    X(CONTENTS_REMOVE, "DELETE FROM contents WHERE container = ?1 AND name >= ?2 AND name < ?3")   \
    X(CONTENTS_SIZE, "SELECT count(*), sum(n) FROM (SELECT length(data) AS n FROM contents"        \
                     " WHERE container = ?1 AND name >= ?2 AND name < ?3 LIMIT ?4)")               \
    X(CONTENTS_REMOVE_BELOW, "DELETE FROM contents WHERE container = ?1")                          \
    X(SCAN, "SELECT " COLUMNS ", name FROM rows"                                                   \
            " WHERE kind = ?1 AND parent = ?2 AND name >= ?3 ORDER BY name")                       \
    X(PUT,                                                                                         \
      "INSERT OR REPLACE INTO rows (kind, parent, name, " COLUMNS ", content)"                     \
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"  \
      " ?19)")                                                                                     \
    X(PUT_HEAD, "UPDATE rows SET etag = ?4, modified = ?5, type = ?6, content_type = ?7,"          \
                " length = ?8, blocks = ?9, metadata = ?10, lease_id = ?11, lease_seconds = ?12,"  \
                " lease_end = ?13, lease_break_end = ?14, lease_boot = ?15, next_visible = ?16,"   \
                " expires = ?17" OF_KEY)                                                           \
    X(SCAN_VISIBLE, "SELECT " COLUMNS ", name FROM rows INDEXED BY messages_by_visibility"         \
                    " WHERE kind = 4 AND parent = ?2 ORDER BY next_visible, name")                 \
    X(SCAN_EXPIRY, "SELECT " COLUMNS ", name FROM rows INDEXED BY messages_by_expiry"              \
                   " WHERE kind = 4 AND parent = ?2 ORDER BY expires, name")                       \
    X(COUNT_MESSAGES, "SELECT count(*) FROM rows INDEXED BY messages_by_expiry"                    \
                      " WHERE kind = 4 AND parent = ?2 AND expires > ?3")                          \
    X(REMOVE, "DELETE FROM rows" OF_KEY)                                                           \
    X(REMOVE_BELOW, "DELETE FROM rows WHERE kind = ?1 AND parent = ?2")                            \
    X(REMOVE_BETWEEN,                                                                              \
      "DELETE FROM rows WHERE kind = ?1 AND parent = ?2 AND name >= ?3 AND name < ?4")             \
    X(PIECE_ADD, "INSERT INTO pieces (container, name, position, data) VALUES (?1, ?2, ?3, ?4)")   \
    X(PIECES_READ, "SELECT position, data FROM pieces WHERE container = ?1 AND name = ?2"          \
                   " AND position >= ifnull((SELECT max(position) FROM pieces"                     \
                   " WHERE container = ?1 AND name = ?2 AND position <= ?3), 0)"                   \
                   " AND position <= ?4 ORDER BY position")                                        \
    X(PIECES_REMOVE, "DELETE FROM pieces WHERE container = ?1 AND name = ?2")                      \
    X(PIECES_SIZE, "SELECT count(*), sum(n) FROM (SELECT length(data) AS n FROM pieces"            \
                   " WHERE container = ?1 AND name = ?2 LIMIT ?4)")                                \
    X(PIECES_REMOVE_BELOW, "DELETE FROM pieces WHERE container = ?1")                              \
    X(STATE_GET, "SELECT next_etag, highest_date, highest_tick FROM state WHERE id = 1")           \
    X(STATE_SET,                                                                                   \
      "UPDATE state SET next_etag = ?1, highest_date = ?2, highest_tick = ?3 WHERE id = 1")        \
    X(DATA_VERSION, "PRAGMA data_version")

#define STATEMENT_ENUM(name, text) STATEMENT_##name,
enum statement { STATEMENT_LIST(STATEMENT_ENUM) STATEMENT_COUNT };
#undef STATEMENT_ENUM

enum { READING_LOOK, READING_SCAN, READING_CONTENT, READING_COUNT };

struct sqlite {
    struct rows rows;
    sqlite3 *db;
    char *path;
    sqlite3_stmt *statements[STATEMENT_COUNT]; /* prepared when first used */
    sqlite3_stmt *reading[READING_COUNT];      /* open for a reader, or NULL */
    struct buf text_in, text_out;              /* metadata on its way */
    int64_t wait_until;
    int version;
    int log_pages;
    bool was_busy, in_doubt;
    /* of the transaction under way */
    bool writing;
    bool state_dirty, block_taken;
    int64_t state_etag, state_date, state_tick;
    bool state_known; /* the three are as our last commit left them, when state_version is too */
    unsigned state_version;
    int64_t etag, etag_end; /* numbers left of our block */
};

static inline struct sqlite *sqlite_of(struct rows *rows) {
    return container_of(rows, struct sqlite, rows);
}

extern const char *const SQLITE_STATEMENTS[STATEMENT_COUNT];
extern const struct rows_ops SQLITE_ROWS;

/* Says in rows.err why SQLite gave this code; returns false. */
bool sqlite_fail(struct sqlite *s, int code);
/* More than content_max would be read or removed. */
bool sqlite_too_large(struct sqlite *s);
void sqlite_rows_free(struct rows *rows);
/* A statement with its first two parameters, the second one if it is given; NULL: rows.err says why not. */
sqlite3_stmt *sqlite_with_blob(struct sqlite *s, enum statement which, const char *container,
                               const char *name);
/* Runs a statement that gives no rows. */
bool sqlite_finish(struct sqlite *s, sqlite3_stmt *st);

/* rows_sqlite_pieces.c: three of the operations, and the contents of blocks, which lie apart from their
 * records. */
bool sqlite_append(struct rows *rows, const struct row_key *key, int64_t position, const char *data,
                   size_t len);
bool sqlite_read(struct rows *rows, const struct row_key *key, int64_t first, int64_t last,
                 struct buf *out);
bool sqlite_clear(struct rows *rows, const struct row_key *key);
bool sqlite_content_put(struct sqlite *s, const struct row_key *key, const struct row *row);
bool sqlite_content_get(struct sqlite *s, const struct row_key *key, struct row *out);
/* May they be removed here? *any: are there some at all? */
bool sqlite_contents_looked_at(struct sqlite *s, const char *container, const char *first,
                               const char *end, bool *any);
bool sqlite_contents_remove(struct sqlite *s, const char *container, const char *first,
                            const char *end);

#endif
