/* request.h -- a request to a store is data: one struct in, one struct out.
 *
 * Everything that a blob, queue or table call can say is a field here, so that retrying, metering and
 * tracing are written once (client.c) and faults are injected once (at the transport).
 *
 * Strings of a request belong to the call's arena; strings of a reply to the reply's. A field that a
 * verb does not use stays zero.
 */
#ifndef SYNOD_STORE_REQUEST_H
#define SYNOD_STORE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/instant.h"
#include "store/props.h"

/* X(enum, the service's name for it (meter), what a person would call it (errors), writes?) */
#define STORE_VERB_LIST(X)                                                                         \
    X(CONTAINER_CREATE, "CreateContainer", "create the container", true)                           \
    X(CONTAINER_DELETE, "DeleteContainer", "delete the container", true)                           \
    X(CONTAINER_HEAD, "GetContainerProperties", "look at the container", false)                    \
    X(CONTAINER_LIST, "ListContainers", "list the containers", false)                              \
    X(CONTAINER_SET_METADATA, "SetContainerMetadata", "set the container's metadata", true)        \
    X(CONTAINER_LEASE, "LeaseContainer", "lease the container", true)                              \
    X(BLOB_PUT, "PutBlob", "write the blob", true)                                                 \
    X(BLOB_GET, "GetBlob", "read the blob", false)                                                 \
    X(BLOB_HEAD, "GetBlobProperties", "look at the blob", false)                                   \
    X(BLOB_DELETE, "DeleteBlob", "delete the blob", true)                                          \
    X(BLOB_SET_METADATA, "SetBlobMetadata", "set the blob's metadata", true)                       \
    X(BLOB_APPEND, "AppendBlock", "append to the blob", true)                                      \
    X(BLOB_STAGE, "PutBlock", "send a block of the blob", true)                                    \
    X(BLOB_COMMIT, "PutBlockList", "write the blob", true)                                         \
    X(BLOB_COPY, "CopyBlob", "copy to the blob", true)                                             \
    X(BLOB_LIST, "ListBlobs", "list the blobs", false)                                             \
    X(BLOB_LEASE, "LeaseBlob", "lease the blob", true)                                             \
    X(QUEUE_CREATE, "CreateQueue", "create the queue", true)                                       \
    X(QUEUE_DELETE, "DeleteQueue", "delete the queue", true)                                       \
    X(QUEUE_LIST, "ListQueues", "list the queues", false)                                          \
    X(QUEUE_HEAD, "GetQueueMetadata", "look at the queue", false)                                  \
    X(QUEUE_CLEAR, "ClearMessages", "clear the queue", true)                                       \
    X(MESSAGE_PUT, "PutMessage", "put a message", true)                                            \
    X(MESSAGE_GET, "GetMessages", "get messages", true)                                            \
    X(MESSAGE_PEEK, "PeekMessages", "peek at messages", false)                                     \
    X(MESSAGE_UPDATE, "UpdateMessage", "update the message", true)                                 \
    X(MESSAGE_DELETE, "DeleteMessage", "delete the message", true)                                 \
    X(TABLE_CREATE, "CreateTable", "create the table", true)                                       \
    X(TABLE_DELETE, "DeleteTable", "delete the table", true)                                       \
    X(TABLE_LIST, "QueryTables", "list the tables", false)                                         \
    X(ENTITY_INSERT, "InsertEntity", "insert the entity", true)                                    \
    X(ENTITY_GET, "GetEntity", "read the entity", false)                                           \
    X(ENTITY_QUERY, "QueryEntities", "query the entities", false)                                  \
    X(ENTITY_REPLACE, "UpdateEntity", "replace the entity", true)                                  \
    X(ENTITY_MERGE, "MergeEntity", "merge into the entity", true)                                  \
    X(ENTITY_UPSERT, "InsertOrReplaceEntity", "upsert the entity", true)                           \
    X(ENTITY_UPSERT_MERGE, "InsertOrMergeEntity", "upsert the entity", true)                       \
    X(ENTITY_DELETE, "DeleteEntity", "delete the entity", true)                                    \
    X(ENTITY_BATCH, "EntityGroupTransaction", "run the batch", true)

#define STORE_VERB_ENUM(name, word, phrase, writes) VERB_##name,
enum store_verb { STORE_VERB_LIST(STORE_VERB_ENUM) VERB_COUNT };
#undef STORE_VERB_ENUM

const char *verb_word(enum store_verb verb);   /* "PutBlob" */
const char *verb_phrase(enum store_verb verb); /* "write the blob" */
bool verb_writes(enum store_verb verb);

enum {
    BODY_MAX = 256 * 1024 * 1024,    /* bytes of one answer */
    PUT_BYTES_MAX = 8 * 1024 * 1024, /* of a blob written by one request; larger ones by blocks */
    BLOCK_BYTES_MAX = 64 * 1024 * 1024, /* of one block */
    BLOCKS_MAX = 50000,                 /* of one blob, the service's limit */
    UPLOAD_TEXT_MAX = 32,               /* characters of an upload's name */
    METADATA_MAX = 8 * 1024,            /* bytes of all metadata names and values */
    LIST_PAGE_MAX = 5000,               /* items of one page, the service's limit */
    PAGE_SIZE = 512,                    /* bytes of a page of a page blob */
    APPEND_BLOCKS_MAX = 50000,
    APPEND_BYTES_MAX =
        4 * 1024 * 1024,           /* of one append; the limit up to service version 2022-11-02 */
    NAME_MAX_BLOB = 1024,          /* characters */
    MESSAGE_BYTES_MAX = 64 * 1024, /* of a message's text as it is sent */
    MESSAGES_MAX = 32,             /* taken or looked at at once */
    MESSAGE_VISIBILITY_MAX_S = 7 * 24 * 3600, /* the longest time hidden at once */
};

struct entity; /* entity.h */

/* One of a batch: an insert, replace, merge, upsert or delete. */
struct batch_operation {
    struct batch_operation *next;
    enum store_verb verb;
    const struct entity *entity; /* of a delete only the keys count */
    const char *if_match;        /* as below */
};

enum lease_action { LEASE_ACQUIRE, LEASE_RENEW, LEASE_CHANGE, LEASE_RELEASE, LEASE_BREAK };

/* The conditional headers of the service. */
struct store_conditions {
    const char *if_match;        /* an ETag or "*"; NULL: none */
    const char *if_none_match;   /* an ETag or "*"; NULL: none */
    int64_t if_modified_since;   /* date in ns, or UNSET */
    int64_t if_unmodified_since; /* date in ns, or UNSET */
    const char *lease;           /* lease id; NULL: none */
};

struct store_request {
    enum store_verb verb;
    const char *container; /* container, queue or table */
    const char *name;      /* blob, or message id */
    struct store_conditions when;

    /* blob writes */
    enum blob_type type;
    int64_t size;             /* page blob: its length in bytes, a multiple of 512 */
    const char *content_type; /* NULL: application/octet-stream */
    const char *metadata;     /* pairs text; NULL: none */
    size_t metadata_len;
    const char *body; /* blob content, message text; NULL: empty, and of an update unchanged */
    size_t body_len;
    int64_t position;               /* append: only at this offset, or UNSET */
    int64_t range_start, range_end; /* blob get: first and last byte, or UNSET */

    /* A blob from blocks: each is staged as the `block`th of an upload, at `position`, and a commit makes
     * the blob of the first `count` ones, `size` bytes in all. Until then nobody sees them. */
    const char *upload; /* letters and digits: the upload's own name */
    int64_t block;      /* from 0 */

    /* copies, within the store */
    const char *source_container, *source_name, *source_if_match; /* NULL: any version */

    /* lists and queries: one page */
    const char *prefix;
    const char *marker;  /* opaque; NULL: from the start */
    int64_t max_results; /* items in this page, or UNSET */
    bool with_metadata;  /* list: send each item's metadata */

    /* leases; when.lease is the id that is held: renew, change, release */
    enum lease_action action;
    const char *proposed_id; /* acquire (the client draws one when it is NULL), change */
    int64_t lease_seconds;   /* acquire: 15..60, or -1 for ever; break: 0..60, or UNSET */

    /* queues */
    int64_t visibility_s; /* or UNSET */
    int64_t ttl_s;        /* -1: never; or UNSET */
    int64_t count;        /* messages wanted, or UNSET */
    const char *receipt;
    bool once; /* put: not repeated when its answer was lost */

    /* A conditional write of a blob or container: its nonce, when who asks settles lost answers itself; NULL:
     * the client draws one. */
    const char *nonce;

    /* tables; a write's entity has the keys, and when.if_match is its condition: replace, merge and
     * delete need one, which may be "*" */
    const char *partition; /* get, query; NULL: any */
    const char *row;       /* get; query: the first one, or NULL */
    const char *row_to;    /* query: the last one, or NULL */
    const char *filter;
    const char *select; /* names of properties with commas; NULL: all */
    const struct entity *entity;
    struct batch_operation *batch;
    int batch_count;

    /* time and patience, filled in by the client */
    int64_t deadline; /* boot-time ns: not a moment later */
    int64_t try_ns;   /* one attempt may take this long */
    int retries;      /* further attempts after the first */
    bool urgent;      /* does not stand in line behind what is not: a lease hangs on it */
};

/* An item of a list: a container, blob or queue. */
struct store_item {
    struct store_item *next;
    const char *name;
    struct store_props props;
};

/* A queue message as it came. */
struct store_message {
    struct store_message *next;
    const char *id;
    const char *receipt; /* NULL after a peek */
    const char *body;
    size_t body_len;
    /* dates in ns; UNSET when not told, and NEVER for what does not expire before the year 2200 */
    int64_t inserted, expires, next_visible;
    int64_t dequeue_count;
};

struct store_reply {
    struct error err; /* code ERR_OK when it was done */
    struct store_props props;
    struct buf body;    /* blob content */
    struct arena arena; /* of the items and strings below */
    struct store_item *items;
    struct store_item **last_item; /* where the next one is hung: see reply_add_item */
    struct store_message *messages;
    struct store_message **last_message; /* see reply_add_message */
    struct entity *entities;             /* of a get: one; of a query: a page */
    const char **etags;      /* of a batch, one an operation: NULL for a delete, or when not told */
    int failed_operation;    /* of a batch: the one that was refused, from 1; 0: not told */
    const char *next_marker; /* NULL: that was the last page */
    char lease_id[40];
    int64_t lease_time;  /* break: seconds left */
    int64_t count;       /* approximate message count */
    int64_t retry_after; /* ns the store asks us to wait; UNSET when it does not */
    int64_t server_date; /* date in ns; UNSET when not told */
};

void request_init(struct store_request *req, enum store_verb verb);
/* What it does, as a person would say it: "write the blob", "renew the lease of the blob". */
const char *request_phrase(const struct store_request *req);
void reply_init(struct store_reply *reply);
void reply_clear(struct store_reply *reply); /* ready for another attempt */
void reply_release(struct store_reply *reply);
void reply_move(struct store_reply *to, struct store_reply *from); /* `from` is clear after */
/* Appends an item with initialised props to the reply's list, in order. NULL: no memory. */
struct store_item *reply_add_item(struct store_reply *reply, const char *name, size_t name_len);
/* The same for a message, of which nothing is told yet. */
struct store_message *reply_add_message(struct store_reply *reply);

#endif
