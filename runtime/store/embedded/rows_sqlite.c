/* rows_sqlite.c -- records in SQLite's tables: statements, and transactions around them.
 *
 * Reading needs no BEGIN: the statement that found a record stays open, and with it the state that it
 * saw, until the transaction ends.
 *
 * ETags are taken from the file in blocks, so that not every write changes the state record. A block is
 * ours once the transaction that took it has committed; before, a rollback drops it. */
#include "store/embedded/rows_sqlite_part.h"

#include <stdlib.h>

#include "store/json.h"

enum { ETAG_BLOCK = 1024 };

#define STATEMENT_TEXT(name, text) text,
const char *const SQLITE_STATEMENTS[STATEMENT_COUNT] = {STATEMENT_LIST(STATEMENT_TEXT)};
#undef STATEMENT_TEXT

/* Statements */

static sqlite3_stmt *statement(struct sqlite *s, enum statement which) {
    sqlite3_stmt **st = &s->statements[which];
    if (!*st) {
        int code = sqlite3_prepare_v3(s->db, SQLITE_STATEMENTS[which], -1,
                                      SQLITE_PREPARE_PERSISTENT, st, NULL);
        if (code != SQLITE_OK) {
            sqlite_fail(s, code);
        }
    }
    return *st;
}

static void close_read(struct sqlite *s, int which) {
    if (s->reading[which]) {
        sqlite3_reset(s->reading[which]);
        s->reading[which] = NULL;
    }
}

static void close_reads(struct sqlite *s) {
    close_read(s, READING_LOOK);
    close_read(s, READING_SCAN);
    close_read(s, READING_CONTENT);
}

bool sqlite_too_large(struct sqlite *s) {
    s->rows.large = true;
    error_set(&s->rows.err, ERR_ANSWER_TOO_LARGE, NULL);
    return false;
}

bool sqlite_finish(struct sqlite *s, sqlite3_stmt *st) {
    int code = sqlite3_step(st);
    sqlite3_reset(st);
    return code == SQLITE_DONE || code == SQLITE_ROW || sqlite_fail(s, code);
}

static bool run(struct sqlite *s, enum statement which) {
    sqlite3_stmt *st = statement(s, which);
    return st && sqlite_finish(s, st);
}

static void bind_text(sqlite3_stmt *st, int at, const char *text) {
    sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

static void bind_optional(sqlite3_stmt *st, int at, int64_t n) {
    if (n == UNSET) {
        sqlite3_bind_null(st, at);
    } else {
        sqlite3_bind_int64(st, at, n);
    }
}

static sqlite3_stmt *with_key(struct sqlite *s, enum statement which, enum row_kind kind,
                              const char *parent, const char *name) {
    sqlite3_stmt *st = statement(s, which);
    if (st) {
        sqlite3_bind_int(st, 1, kind);
        bind_text(st, 2, parent);
        if (name) {
            bind_text(st, 3, name);
        }
    }
    return st;
}

sqlite3_stmt *sqlite_with_blob(struct sqlite *s, enum statement which, const char *container,
                               const char *name) {
    sqlite3_stmt *st = statement(s, which);
    if (st) {
        bind_text(st, 1, container);
        if (name) {
            bind_text(st, 2, name);
        }
    }
    return st;
}

/* Metadata: pairs text here, in the file lines "name=value", which a person can read. Neither a name nor
 * a value can have a line end, and a name no "=". */

static bool lines_from_pairs(struct buf *out, const char *pairs, size_t len) {
    buf_clear(out);
    buf_append(out, pairs, len);
    bool in_name = true;
    for (size_t i = 0; i < out->len; i++) {
        if (out->data[i] == '\0') {
            out->data[i] = in_name ? '=' : '\n';
            in_name = !in_name;
        }
    }
    return !out->failed;
}

static bool pairs_from_lines(struct buf *out, const char *lines, size_t len) {
    buf_clear(out);
    buf_append(out, lines, len);
    bool in_name = true;
    for (size_t i = 0; i < out->len; i++) {
        if (out->data[i] == (in_name ? '=' : '\n')) {
            out->data[i] = '\0';
            in_name = !in_name;
        }
    }
    return !out->failed;
}

/* Records */

static const char *column_text(sqlite3_stmt *st, int at) {
    return (const char *)sqlite3_column_text(st, at);
}

static int64_t column_optional(sqlite3_stmt *st, int at) {
    return sqlite3_column_type(st, at) == SQLITE_NULL ? UNSET : sqlite3_column_int64(st, at);
}

static bool read_metadata(struct sqlite *s, sqlite3_stmt *st, struct row *out) {
    const char *lines = column_text(st, COLUMN_METADATA);
    if (!lines) {
        return true;
    }
    if (!pairs_from_lines(&s->text_in, lines, (size_t)sqlite3_column_bytes(st, COLUMN_METADATA))) {
        return sqlite_fail(s, SQLITE_NOMEM);
    }
    out->metadata = s->text_in.data;
    out->metadata_len = s->text_in.len;
    return true;
}

static void read_lease(sqlite3_stmt *st, struct row_lease *out) {
    *out = (struct row_lease){
        .id = column_text(st, COLUMN_LEASE_ID), .end = UNSET, .break_end = UNSET};
    if (out->id) {
        out->seconds = sqlite3_column_int64(st, COLUMN_LEASE_SECONDS);
        out->end = column_optional(st, COLUMN_LEASE_END);
        out->break_end = column_optional(st, COLUMN_LEASE_BREAK_END);
        out->boot = column_text(st, COLUMN_LEASE_BOOT);
    }
}

static bool read_row(struct sqlite *s, sqlite3_stmt *st, struct row *out) {
    *out = (struct row){
        .etag = sqlite3_column_int64(st, COLUMN_ETAG),
        .modified = sqlite3_column_int64(st, COLUMN_MODIFIED),
        .type = (enum blob_type)sqlite3_column_int(st, COLUMN_TYPE),
        .content_type = column_text(st, COLUMN_CONTENT_TYPE),
        .length = sqlite3_column_int64(st, COLUMN_LENGTH),
        .blocks = sqlite3_column_int64(st, COLUMN_BLOCKS),
        .next_visible = sqlite3_column_int64(st, COLUMN_NEXT_VISIBLE),
        .expires = sqlite3_column_int64(st, COLUMN_EXPIRES),
        .created = sqlite3_column_int64(st, COLUMN_CREATED),
    };
    read_lease(st, &out->lease);
    return read_metadata(s, st, out);
}

static enum rows_found step_row(struct sqlite *s, sqlite3_stmt *st, struct row *out) {
    int code = sqlite3_step(st);
    if (code == SQLITE_ROW) {
        return read_row(s, st, out) ? ROWS_FOUND : ROWS_FAILED;
    }
    return code == SQLITE_DONE || sqlite_fail(s, code) ? ROWS_ABSENT : ROWS_FAILED;
}

static bool read_content(struct sqlite *s, sqlite3_stmt *st, const struct row_key *key,
                         struct row *out) {
    if (out->type != BLOB_BLOCK) {
        return true;
    }
    bool in_blocks = key->kind == ROW_BLOB && out->blocks > 0;
    if (!in_blocks && (uint64_t)out->length > s->rows.content_max) {
        return sqlite_too_large(s);
    }
    if (key->kind == ROW_BLOCK) {
        close_read(s, READING_CONTENT);
        return sqlite_content_get(s, key, out);
    }
    out->content = sqlite3_column_blob(st, COLUMN_LAST);
    out->content_len = (size_t)sqlite3_column_bytes(st, COLUMN_LAST);
    return in_blocks || (int64_t)out->content_len == out->length || sqlite_fail(s, SQLITE_CORRUPT);
}

static enum rows_found get(struct rows *rows, const struct row_key *key, bool content,
                           struct row *out) {
    struct sqlite *s = sqlite_of(rows);
    close_read(s, READING_LOOK);
    sqlite3_stmt *st = with_key(s, content ? STATEMENT_GET_CONTENT : STATEMENT_GET, key->kind,
                                key->parent, key->name);
    if (!st) {
        return ROWS_FAILED;
    }
    if (content) { /* more than may be read is not even loaded */
        size_t most = rows->content_max;
        sqlite3_bind_int64(st, 4, most < INT64_MAX ? (int64_t)most : INT64_MAX);
    }
    s->reading[READING_LOOK] = st;
    enum rows_found found = step_row(s, st, out);
    if (found != ROWS_FOUND) {
        return found;
    }
    out->name = key->name;
    return !content || read_content(s, st, key, out) ? ROWS_FOUND : ROWS_FAILED;
}

static bool seek(struct rows *rows, enum row_kind kind, const char *parent, const char *name) {
    struct sqlite *s = sqlite_of(rows);
    close_read(s, READING_SCAN);
    sqlite3_stmt *st = with_key(s, STATEMENT_SCAN, kind, parent, NULL);
    if (!st) {
        return false;
    }
    sqlite3_bind_text(st, 3, name, -1, SQLITE_TRANSIENT);
    s->reading[READING_SCAN] = st;
    return true;
}

static bool seek_messages(struct rows *rows, const char *queue, enum row_order order) {
    struct sqlite *s = sqlite_of(rows);
    close_read(s, READING_SCAN);
    enum statement which = order == BY_EXPIRY ? STATEMENT_SCAN_EXPIRY : STATEMENT_SCAN_VISIBLE;
    sqlite3_stmt *st = with_key(s, which, ROW_MESSAGE, queue, NULL);
    s->reading[READING_SCAN] = st;
    return st != NULL;
}

static int64_t count_messages(struct rows *rows, const char *queue, int64_t date) {
    struct sqlite *s = sqlite_of(rows);
    sqlite3_stmt *st = with_key(s, STATEMENT_COUNT_MESSAGES, ROW_MESSAGE, queue, NULL);
    if (!st) {
        return -1;
    }
    sqlite3_bind_int64(st, 3, date);
    int code = sqlite3_step(st);
    int64_t count = code == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
    sqlite3_reset(st);
    if (code != SQLITE_ROW) {
        sqlite_fail(s, code);
    }
    return count;
}

static enum rows_found next(struct rows *rows, struct row *out) {
    struct sqlite *s = sqlite_of(rows);
    sqlite3_stmt *st = s->reading[READING_SCAN];
    enum rows_found found = step_row(s, st, out);
    if (found == ROWS_FOUND) {
        out->name = column_text(st, COLUMN_LAST);
    }
    return found;
}

/* Parameters of a write: the key, then the columns in their order. */
enum { FIRST_COLUMN = 4 };

static bool bind_row(struct sqlite *s, sqlite3_stmt *st, const struct row *row) {
    sqlite3_bind_int64(st, FIRST_COLUMN + COLUMN_ETAG, row->etag);
    sqlite3_bind_int64(st, FIRST_COLUMN + COLUMN_MODIFIED, row->modified);
    sqlite3_bind_int(st, FIRST_COLUMN + COLUMN_TYPE, (int)row->type);
    bind_text(st, FIRST_COLUMN + COLUMN_CONTENT_TYPE, row->content_type);
    sqlite3_bind_int64(st, FIRST_COLUMN + COLUMN_LENGTH, row->length);
    sqlite3_bind_int64(st, FIRST_COLUMN + COLUMN_BLOCKS, row->blocks);
    if (row->metadata_len) {
        if (!lines_from_pairs(&s->text_out, row->metadata, row->metadata_len)) {
            return sqlite_fail(s, SQLITE_NOMEM);
        }
        sqlite3_bind_text(st, FIRST_COLUMN + COLUMN_METADATA, s->text_out.data,
                          (int)s->text_out.len, SQLITE_STATIC);
    } else {
        sqlite3_bind_null(st, FIRST_COLUMN + COLUMN_METADATA);
    }
    const struct row_lease *lease = &row->lease;
    bind_text(st, FIRST_COLUMN + COLUMN_LEASE_ID, lease->id);
    bind_optional(st, FIRST_COLUMN + COLUMN_LEASE_SECONDS, lease->id ? lease->seconds : UNSET);
    bind_optional(st, FIRST_COLUMN + COLUMN_LEASE_END, lease->end);
    bind_optional(st, FIRST_COLUMN + COLUMN_LEASE_BREAK_END, lease->break_end);
    bind_text(st, FIRST_COLUMN + COLUMN_LEASE_BOOT, lease->boot);
    bind_optional(st, FIRST_COLUMN + COLUMN_NEXT_VISIBLE,
                  row->next_visible ? row->next_visible : UNSET);
    bind_optional(st, FIRST_COLUMN + COLUMN_EXPIRES, row->expires ? row->expires : UNSET);
    return true;
}

static bool put(struct rows *rows, const struct row_key *key, const struct row *row, bool content) {
    struct sqlite *s = sqlite_of(rows);
    sqlite3_stmt *st = with_key(s, content ? STATEMENT_PUT : STATEMENT_PUT_HEAD, key->kind,
                                key->parent, key->name);
    if (!st || !bind_row(s, st, row)) {
        return false;
    }
    bool apart = content && key->kind == ROW_BLOCK;
    if (content) {
        const char *data = row->content ? row->content : "";
        size_t len = apart ? 0 : row->content_len;
        sqlite3_bind_int64(st, FIRST_COLUMN + COLUMN_CREATED, row->created);
        sqlite3_bind_blob64(st, FIRST_COLUMN + COLUMN_LAST, data, len, SQLITE_STATIC);
    }
    return sqlite_finish(s, st) && (!apart || sqlite_content_put(s, key, row));
}

static bool remove_row(struct rows *rows, const struct row_key *key) {
    struct sqlite *s = sqlite_of(rows);
    sqlite3_stmt *st = with_key(s, STATEMENT_REMOVE, key->kind, key->parent, key->name);
    return st && sqlite_finish(s, st);
}

static bool remove_below(struct rows *rows, enum row_kind kind, const char *parent) {
    struct sqlite *s = sqlite_of(rows);
    sqlite3_stmt *st = with_key(s, STATEMENT_REMOVE_BELOW, kind, parent, NULL);
    if (!st || !sqlite_finish(s, st)) {
        return false;
    }
    /* Only blobs have pieces, and only blocks contents: a table may be called like a container. */
    if (kind != ROW_BLOB && kind != ROW_BLOCK) {
        return true;
    }
    bool blob = kind == ROW_BLOB;
    st = sqlite_with_blob(s, blob ? STATEMENT_PIECES_REMOVE_BELOW : STATEMENT_CONTENTS_REMOVE_BELOW,
                          parent, NULL);
    return st && sqlite_finish(s, st);
}

static bool remove_between(struct rows *rows, enum row_kind kind, const char *parent,
                           const char *first, const char *end) {
    struct sqlite *s = sqlite_of(rows);
    bool any = true; /* each block has its content */
    if (kind == ROW_BLOCK && !sqlite_contents_looked_at(s, parent, first, end, &any)) {
        return false;
    }
    if (!any) {
        return true;
    }
    sqlite3_stmt *st = with_key(s, STATEMENT_REMOVE_BETWEEN, kind, parent, first);
    if (!st) {
        return false;
    }
    bind_text(st, 4, end);
    return sqlite_finish(s, st) &&
           (kind != ROW_BLOCK || sqlite_contents_remove(s, parent, first, end));
}

/* Transactions */

/* A number that changes with every commit, ours and others'; as of the transaction under way. */
static unsigned version_seen(struct sqlite *s) {
    unsigned version = 0;
    sqlite3_file_control(s->db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    return version;
}

/* The state record; from memory when nobody has written since our own last commit. */
static bool read_state(struct sqlite *s) {
    if (s->state_known && version_seen(s) == s->state_version) {
        return true;
    }
    sqlite3_stmt *st = statement(s, STATEMENT_STATE_GET);
    if (!st) {
        return false;
    }
    int code = sqlite3_step(st);
    if (code == SQLITE_ROW) {
        s->state_etag = sqlite3_column_int64(st, 0);
        s->state_date = sqlite3_column_int64(st, 1);
        s->state_tick = sqlite3_column_int64(st, 2);
    }
    sqlite3_reset(st);
    return code == SQLITE_ROW || sqlite_fail(s, code == SQLITE_DONE ? SQLITE_CORRUPT : code);
}

static void rollback(struct rows *rows) {
    struct sqlite *s = sqlite_of(rows);
    close_reads(s);
    if (!s->writing) {
        return;
    }
    s->writing = s->state_known = false;
    if (s->block_taken) {
        s->etag = s->etag_end = 0;
    }
    if (!sqlite3_get_autocommit(s->db)) { /* else SQLite has rolled back by itself */
        sqlite3_stmt *st = statement(s, STATEMENT_ROLLBACK);
        if (st) {
            sqlite3_step(st);
            sqlite3_reset(st);
        }
    }
}

static bool begin(struct rows *rows, bool writes) {
    struct sqlite *s = sqlite_of(rows);
    rows->err.code = ERR_OK;
    rows->large = s->was_busy = s->in_doubt = false;
    if (!writes) {
        return true;
    }
    if (!run(s, STATEMENT_BEGIN)) {
        return false;
    }
    s->writing = true;
    s->state_dirty = s->block_taken = false;
    if (!read_state(s)) {
        rollback(rows);
        return false;
    }
    return true;
}

static bool write_state(struct sqlite *s) {
    sqlite3_stmt *st = statement(s, STATEMENT_STATE_SET);
    if (!st) {
        return false;
    }
    sqlite3_bind_int64(st, 1, s->state_etag);
    sqlite3_bind_int64(st, 2, s->state_date);
    sqlite3_bind_int64(st, 3, s->state_tick);
    return sqlite_finish(s, st);
}

static bool commit(struct rows *rows) {
    struct sqlite *s = sqlite_of(rows);
    close_reads(s);
    bool ok = !s->state_dirty || write_state(s);
    if (ok && !run(s, STATEMENT_COMMIT)) {
        ok = false;
        s->in_doubt = rows->err.code == ERR_INTERNAL_ERROR;
    }
    if (!ok) {
        struct error why = rows->err;
        rollback(rows);
        rows->err = why;
        return false;
    }
    s->writing = false;
    s->state_known = true;
    s->state_version = version_seen(s);
    return true;
}

static int64_t next_etag(struct rows *rows) {
    struct sqlite *s = sqlite_of(rows);
    if (s->etag == s->etag_end) {
        s->etag = s->state_etag;
        s->state_etag += ETAG_BLOCK;
        s->etag_end = s->state_etag;
        s->state_dirty = s->block_taken = true;
    }
    return s->etag++;
}

static int64_t date(struct rows *rows, int64_t second) {
    struct sqlite *s = sqlite_of(rows);
    if (second > s->state_date) {
        s->state_date = second;
        s->state_dirty = true;
    }
    return s->state_date;
}

/* A reader asks the file. */
static int64_t latest(struct rows *rows) {
    struct sqlite *s = sqlite_of(rows);
    return s->writing || read_state(s) ? s->state_date : 0;
}

static int64_t stamp(struct rows *rows, int64_t tick) {
    struct sqlite *s = sqlite_of(rows);
    s->state_tick = tick > s->state_tick ? tick : s->state_tick + 1;
    s->state_dirty = true;
    return s->state_tick;
}

void sqlite_rows_free(struct rows *rows) {
    struct sqlite *s = sqlite_of(rows);
    json_free(rows->json);
    rollback(rows);
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(s->statements[i]);
    }
    sqlite3_close(s->db);
    buf_release(&s->text_in);
    buf_release(&s->text_out);
    free(s->path);
    free(s);
}

const struct rows_ops SQLITE_ROWS = {
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .get = get,
    .seek = seek,
    .seek_messages = seek_messages,
    .next = next,
    .count_messages = count_messages,
    .put = put,
    .remove = remove_row,
    .remove_below = remove_below,
    .remove_between = remove_between,
    .append = sqlite_append,
    .read = sqlite_read,
    .clear = sqlite_clear,
    .next_etag = next_etag,
    .date = date,
    .latest = latest,
    .stamp = stamp,
    .free = sqlite_rows_free,
};

int64_t rows_sqlite_data_version(struct rows *rows) {
    struct sqlite *s = sqlite_of(rows);
    sqlite3_stmt *st = statement(s, STATEMENT_DATA_VERSION);
    if (!st) {
        return -1;
    }
    int64_t version = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
    sqlite3_reset(st);
    return version;
}
