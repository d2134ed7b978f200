/* rows.h -- where the embedded store keeps its records: in an SQLite file or in memory.
 *
 * A small interface, so that the service's semantics (embedded.c) are written once. A record is a
 * container, a blob, a block of one, a queue, a message, a table or an entity, known by kind, parent and
 * name.
 *
 *     if (!rows->ops->begin(rows, true)) ...        the reason is in rows->err
 *     get, seek and next, put, remove, append       any failure: rollback, nothing has happened
 *     if (!rows->ops->commit(rows)) ...             the same
 *
 * Everything is checked before the first change is made: a record keeper need not undo a part of a
 * transaction, and the one in memory cannot.
 *
 * Strings and content of a record read belong to the keeper and stay until the next get, next, commit or
 * rollback. One thread at a time uses a keeper.
 */
#ifndef SYNOD_STORE_ROWS_H
#define SYNOD_STORE_ROWS_H

#include "base/buf.h"
#include "base/error.h"
#include "store/request.h"

struct json;

/* The numbers stand in files: never change one. */
enum row_kind {
    ROW_CONTAINER = 1,
    ROW_BLOB = 2,
    ROW_QUEUE = 3,
    ROW_MESSAGE = 4,
    ROW_TABLE = 5,
    ROW_ENTITY = 6,
    ROW_BLOCK = 7,
};

struct row_key {
    enum row_kind kind;
    const char *parent; /* of a blob its container, of a message its queue, of an entity its
                           table; "" for these themselves */
    const char *name;
};

/* Instants are boot-time nanoseconds and mean something only in the boot they were written in. */
struct row_lease {
    const char *id;    /* NULL: never leased, or forgotten */
    int64_t seconds;   /* 15..60, or -1: for ever */
    int64_t end;       /* UNSET for a lease without end */
    int64_t break_end; /* UNSET: nobody has broken it */
    const char *boot;  /* the boot's id */
};

struct row {
    const char *name;
    int64_t etag;        /* unique in the store, see etag_text; entities: the timestamp in ticks;
                            messages: the receipt's number */
    int64_t created;     /* seconds since 1970 */
    int64_t modified;    /* seconds since 1970 */
    enum blob_type type; /* blobs, like the three below */
    const char *content_type; /* NULL: application/octet-stream */
    int64_t length;           /* bytes */
    int64_t blocks;           /* append blobs: appends so far; messages: dequeue count; block blobs:
                                 blocks that hold the content, see blocks.c */
    const char *metadata;     /* pairs text */
    size_t metadata_len;
    struct row_lease lease;
    int64_t next_visible; /* messages: date in ns, like the next; 0 for others */
    int64_t expires;      /* NEVER: it does not */
    const char *content; /* block blobs, when it was asked for; content_len equals length then. Of a
                             blob made of blocks: the name of their upload */
    size_t content_len;
};

/* The orders in which the messages of a queue are kept; among equals, by name. */
enum row_order { BY_NEXT_VISIBLE, BY_EXPIRY, ROW_ORDERS };

enum rows_found { ROWS_FOUND, ROWS_ABSENT, ROWS_FAILED /* rows->err says why */ };

struct rows;

struct rows_ops {
    /* Writers exclude each other from here to commit or rollback; a reader sees one state. */
    bool (*begin)(struct rows *rows, bool writes);
    bool (*commit)(struct rows *rows);
    void (*rollback)(struct rows *rows); /* also ends a reader */

    enum rows_found (*get)(struct rows *rows, const struct row_key *key, bool content,
                           struct row *out);
    /* All records of a kind and parent in byte order of their names, from `name` on; without content. */
    bool (*seek)(struct rows *rows, enum row_kind kind, const char *parent, const char *name);
    /* The messages of a queue in an order. Do not write before the last `next`. */
    bool (*seek_messages)(struct rows *rows, const char *queue, enum row_order order);
    enum rows_found (*next)(struct rows *rows, struct row *out);
    /* How many messages of a queue expire after `date`; -1: it failed. */
    int64_t (*count_messages)(struct rows *rows, const char *queue, int64_t date);

    /* With `content` the record's content replaces what was there; without, it stays as it is. */
    bool (*put)(struct rows *rows, const struct row_key *key, const struct row *row, bool content);
    bool (*remove)(struct rows *rows, const struct row_key *key);
    bool (*remove_below)(struct rows *rows, enum row_kind kind, const char *parent);
    /* Those whose names lie from `first` on and before `end`. */
    bool (*remove_between)(struct rows *rows, enum row_kind kind, const char *parent,
                           const char *first, const char *end);

    /* What append blobs hold. The caller puts the new length into the record, and clears when an append
     * blob goes or becomes another; remove_below clears what lies there. */
    bool (*append)(struct rows *rows, const struct row_key *key, int64_t position, const char *data,
                   size_t len);
    /* Bytes first..last into `out`. */
    bool (*read)(struct rows *rows, const struct row_key *key, int64_t first, int64_t last,
                 struct buf *out);
    bool (*clear)(struct rows *rows, const struct row_key *key);

    int64_t (*next_etag)(struct rows *rows); /* a number never given before in this store */
    /* `second`, or the highest given here before if that is later: dates in a store never fall. */
    int64_t (*date)(struct rows *rows, int64_t second);
    /* The highest second given so far, without giving one. */
    int64_t (*latest)(struct rows *rows);
    /* `tick` (100 ns since 1970), or more: above every one given here before. */
    int64_t (*stamp)(struct rows *rows, int64_t tick);
    void (*free)(struct rows *rows);
};

/* Every keeper begins with this. */
struct rows {
    const struct rows_ops *ops;
    struct error err;   /* why the last call failed */
    size_t content_max; /* neither read nor remove more content than this: fail with `large` set */
    bool large;
    struct json *json; /* of who answers: made when first needed, freed with the keeper */
};

struct rows *rows_memory_new(int64_t first_etag);

#endif
