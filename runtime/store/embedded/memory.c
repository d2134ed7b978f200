/* memory.c -- the store `memory:`: records of one process, answered at once. */
#include <stdlib.h>

#include "base/alloc.h"
#include "store/embedded/embedded.h"
#include "store/embedded/session.h"
#include "store/embedded/wake_watchers.h"

struct memory_store {
    struct transport transport;
    struct rows *rows;
    struct wake *wake;
    struct watchers *watchers;
};

static struct memory_store *store_of(struct transport *t) {
    return container_of(t, struct memory_store, transport);
}

static void answer(struct memory_store *m, struct attempt *a) {
    struct world *w = m->transport.world;
    struct embedded_now now = {
        .boot = world_now(w), .wall = world_wall(w), .boot_id = "this process"};
    bool writes = verb_writes(a->req->verb);
    if (now.boot >= a->deadline) {
        error_set(&a->reply->err, ERR_TIMEOUT, NULL);
        return;
    }
    m->rows->ops->begin(m->rows, writes);
    embedded_answer(m->rows, &now, a->req, a->reply);
    m->rows->ops->commit(m->rows);
    a->sent = true;
    if (writes && a->reply->err.code == ERR_OK) {
        wake_raise(m->wake, session_slots(a->req));
        watchers_notice(m->watchers);
    }
}

static void memory_send(struct transport *t, struct attempt *a) {
    answer(store_of(t), a);
    a->done(a);
}

static void memory_drop(struct transport *t, struct attempt *a) {
    (void)t; /* it was answered when it was sent */
    (void)a;
}

static uint64_t memory_mark(struct transport *t, const char *container, const char *prefix) {
    return watchers_mark(store_of(t)->watchers, container, prefix);
}

static void memory_watch(struct transport *t, struct store_watch *w) {
    watchers_add(store_of(t)->watchers, w);
}

static void memory_unwatch(struct transport *t, struct store_watch *w) {
    watchers_remove(store_of(t)->watchers, w);
}

static void memory_free(struct transport *t) {
    struct memory_store *m = store_of(t);
    watchers_free(m->watchers);
    wake_free(m->wake);
    m->rows->ops->free(m->rows);
    free(m);
}

static const struct transport_ops OPS = {
    .kind = "memory",
    .send = memory_send,
    .drop = memory_drop,
    .mark = memory_mark,
    .watch = memory_watch,
    .unwatch = memory_unwatch,
    .free = memory_free,
};

struct transport *transport_memory_new(struct world *w, struct error *err) {
    struct wake *wake = wake_open(NULL, err);
    if (!wake) {
        return NULL;
    }
    struct memory_store *m = xcalloc(1, sizeof *m);
    m->transport = (struct transport){.ops = &OPS, .world = w};
    m->rows = rows_memory_new(1);
    m->wake = wake;
    m->watchers = watchers_new(w, wake, NULL, NULL);
    return &m->transport;
}
