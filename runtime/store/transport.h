/* transport.h -- what carries one attempt of a request to a store and brings its answer.
 *
 * A transport knows no retries, no meter and no Lua. It answers every attempt exactly once.
 */
#ifndef SYNOD_STORE_TRANSPORT_H
#define SYNOD_STORE_TRANSPORT_H

#include "store/request.h"
#include "world/world.h"

struct transport;

/* One try. The memory belongs to the client and stays until `done` was called. */
struct attempt {
    const struct store_request *req;
    struct store_reply *reply; /* cleared before; the transport fills it in, err included */
    int64_t deadline;          /* boot-time ns: answer ERR_TIMEOUT when it is reached */
    bool sent; /* out: the request may have reached the store, so that when the answer
                                  is lost (ERR_TIMEOUT, ERR_UNREACHABLE, ERR_BAD_ANSWER, a 5xx) the
                                  write may have happened */
    bool
        kept_back; /* out: it ended before anything was asked of the store, such as while it waited for
                       a token; no transaction */
    void (*done)(struct attempt *a); /* called once, on the world's thread */
    void *impl;                      /* the transport's */
};

/* Somebody waits for a change below a container and a name prefix. */
struct store_watch {
    const char *container;                  /* NULL: any change at all */
    const char *prefix;                     /* NULL: any name */
    uint64_t since;                         /* a mark: what the waiter has already seen */
    void (*changed)(struct store_watch *w); /* called at most once, on the world's thread */
    struct store_watch *next;               /* the transport's */
    void *impl;                             /* the transport's */
};

struct transport_ops {
    const char *kind; /* "embedded", "memory", "azure" */
    /* Begins an attempt. `done` may be called before this returns. */
    void (*send)(struct transport *t, struct attempt *a);
    /* Nobody wants the answer any more: hurry `done` (with ERR_CANCELLED), which still comes. */
    void (*drop)(struct transport *t, struct attempt *a);
    /* The three below are NULL where the store cannot tell of changes. A mark grows whenever
     * something may have changed there; never 0. */
    uint64_t (*mark)(struct transport *t, const char *container, const char *prefix);
    void (*watch)(struct transport *t, struct store_watch *w);
    void (*unwatch)(struct transport *t, struct store_watch *w);
    /* Ends every attempt (their `done` is called with ERR_CANCELLED) and frees the transport. */
    void (*free)(struct transport *t);
};

/* Every transport begins with this. */
struct transport {
    const struct transport_ops *ops;
    struct world *world;
    const char *name; /* which one it is, for people; NULL: as its kind says */
};

/* Each gives NULL and fills in `err` when it cannot be had. The path is copied.
 * relaxed: a commit returns before the disk has it (a power loss may take the last ones; kill -9 not). */
struct transport *transport_memory_new(struct world *w, struct error *err);
struct transport *transport_embedded_new(struct world *w, const char *path, bool relaxed,
                                         struct error *err);
/* Parses and keeps a connection string. Never shows it. */
struct transport *transport_azure_new(struct world *w, const char *connection_string,
                                      struct error *err);

#endif
