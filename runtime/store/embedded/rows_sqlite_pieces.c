/* rows_sqlite_pieces.c -- what lies beside the records: the pieces of append blobs, the contents of blocks. */
#include "store/embedded/rows_sqlite_part.h"

enum { REMOVED_HERE_MAX = 64 }; /* pieces or contents that are removed where removing is bounded */

/* Is what a statement has counted little enough to be removed here? *any: is there something at all? */
static bool may_remove(struct sqlite *s, sqlite3_stmt *size, bool *any) {
    sqlite3_bind_int(size, 4, REMOVED_HERE_MAX + 1);
    int code = sqlite3_step(size);
    int count = sqlite3_column_int(size, 0);
    uint64_t bytes = (uint64_t)sqlite3_column_int64(size, 1);
    sqlite3_reset(size);
    if (code != SQLITE_ROW) {
        return sqlite_fail(s, code);
    }
    *any = count > 0;
    return (count <= REMOVED_HERE_MAX && bytes <= s->rows.content_max) || sqlite_too_large(s);
}

bool sqlite_append(struct rows *rows, const struct row_key *key, int64_t position, const char *data,
                   size_t len) {
    struct sqlite *s = sqlite_of(rows);
    sqlite3_stmt *st = sqlite_with_blob(s, STATEMENT_PIECE_ADD, key->parent, key->name);
    if (!st) {
        return false;
    }
    sqlite3_bind_int64(st, 3, position);
    sqlite3_bind_blob64(st, 4, data, len, SQLITE_STATIC);
    return sqlite_finish(s, st);
}

/* Appends the part of the piece at hand that lies within first..last. */
static bool take_piece(struct sqlite *s, sqlite3_stmt *st, int64_t first, int64_t last,
                       struct buf *out) {
    int64_t start = sqlite3_column_int64(st, 0);
    const char *data = sqlite3_column_blob(st, 1);
    int64_t end = start + sqlite3_column_bytes(st, 1) - 1;
    int64_t from = start < first ? first : start;
    int64_t to = end > last ? last : end;
    return from > to || buf_append(out, data + (from - start), (size_t)(to - from + 1)) ||
           sqlite_fail(s, SQLITE_NOMEM);
}

bool sqlite_read(struct rows *rows, const struct row_key *key, int64_t first, int64_t last,
                 struct buf *out) {
    struct sqlite *s = sqlite_of(rows);
    size_t before = out->len;
    sqlite3_stmt *st = sqlite_with_blob(s, STATEMENT_PIECES_READ, key->parent, key->name);
    if (!st) {
        return false;
    }
    sqlite3_bind_int64(st, 3, first);
    sqlite3_bind_int64(st, 4, last);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        if (!take_piece(s, st, first, last, out)) {
            break;
        }
    }
    sqlite3_reset(st);
    if (code != SQLITE_DONE) {
        return code == SQLITE_ROW ? false : sqlite_fail(s, code);
    }
    return (int64_t)(out->len - before) == last - first + 1 || sqlite_fail(s, SQLITE_CORRUPT);
}

bool sqlite_clear(struct rows *rows, const struct row_key *key) {
    struct sqlite *s = sqlite_of(rows);
    bool any = true;
    if (rows->content_max < SIZE_MAX) {
        sqlite3_stmt *size = sqlite_with_blob(s, STATEMENT_PIECES_SIZE, key->parent, key->name);
        if (!size || !may_remove(s, size, &any)) {
            return false;
        }
    }
    sqlite3_stmt *st = sqlite_with_blob(s, STATEMENT_PIECES_REMOVE, key->parent, key->name);
    return st && sqlite_finish(s, st);
}

/* Contents */

bool sqlite_content_put(struct sqlite *s, const struct row_key *key, const struct row *row) {
    sqlite3_stmt *st = sqlite_with_blob(s, STATEMENT_CONTENT_PUT, key->parent, key->name);
    if (!st) {
        return false;
    }
    sqlite3_bind_blob64(st, 3, row->content, row->content_len, SQLITE_STATIC);
    return sqlite_finish(s, st);
}

bool sqlite_content_get(struct sqlite *s, const struct row_key *key, struct row *out) {
    sqlite3_stmt *st = sqlite_with_blob(s, STATEMENT_CONTENT_GET, key->parent, key->name);
    if (!st) {
        return false;
    }
    s->reading[READING_CONTENT] = st;
    int code = sqlite3_step(st);
    if (code != SQLITE_ROW) {
        return sqlite_fail(s, code == SQLITE_DONE ? SQLITE_CORRUPT : code);
    }
    out->content = sqlite3_column_blob(st, 0);
    out->content_len = (size_t)sqlite3_column_bytes(st, 0);
    return (int64_t)out->content_len == out->length || sqlite_fail(s, SQLITE_CORRUPT);
}

bool sqlite_contents_looked_at(struct sqlite *s, const char *container, const char *first,
                               const char *end, bool *any) {
    *any = true;
    if (s->rows.content_max == SIZE_MAX) {
        return true;
    }
    sqlite3_stmt *size = sqlite_with_blob(s, STATEMENT_CONTENTS_SIZE, container, first);
    if (!size) {
        return false;
    }
    sqlite3_bind_text(size, 3, end, -1, SQLITE_STATIC);
    return may_remove(s, size, any);
}

bool sqlite_contents_remove(struct sqlite *s, const char *container, const char *first,
                            const char *end) {
    sqlite3_stmt *st = sqlite_with_blob(s, STATEMENT_CONTENTS_REMOVE, container, first);
    if (!st) {
        return false;
    }
    sqlite3_bind_text(st, 3, end, -1, SQLITE_STATIC);
    return sqlite_finish(s, st);
}
