/* props.h -- what a store tells of a container or blob. */
#ifndef SYNOD_STORE_PROPS_H
#define SYNOD_STORE_PROPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "base/pairs.h"

#define UNSET INT64_MIN /* an optional number that was not given */

enum {
    NONCE_BYTES = 16,                 /* of a conditional write: see lost.h */
    NONCE_TEXT = 2 * NONCE_BYTES + 1, /* in hex, with the zero */
};

enum blob_type { BLOB_BLOCK, BLOB_PAGE, BLOB_APPEND };
enum lease_state { LEASE_AVAILABLE, LEASE_LEASED, LEASE_EXPIRED, LEASE_BREAKING, LEASE_BROKEN };

const char *blob_type_word(enum blob_type type);      /* "block", "page", "append" */
const char *lease_state_word(enum lease_state state); /* "available", ... */

struct store_props {
    char etag[80];         /* with its quotes, as it is sent back in conditions */
    int64_t last_modified; /* date in ns, whole seconds; UNSET when not told */
    int64_t length;        /* bytes; UNSET when not told */
    enum blob_type type;
    bool has_type;
    bool has_lease; /* the three below were told */
    enum lease_state lease_state;
    bool locked;           /* lease_status */
    int lease_duration;    /* 0 absent, 1 fixed, -1 infinite */
    char copy_status[16];  /* of a copy that is not done: "pending", "aborted", "failed"; else "" */
    int64_t block_count;   /* append blobs: committed blocks; UNSET otherwise */
    int64_t append_offset; /* where the append landed; UNSET otherwise */
    char content_type[128];
    bool has_metadata;
    struct pairs metadata;  /* without the client's own nonce, */
    char nonce[NONCE_TEXT]; /* which is here: of the write that was the last, "": not told */
};

void props_init(struct store_props *props);
void props_release(struct store_props *props);

#endif
