/* store_call.c -- a store call from Lua's side: made, run, waited for, turned into results. */
#include "bind/store.h"

#include <string.h>

#include "bind/queue.h"
#include "bind/table.h"
#include "vm/scope.h"

/* What a task that waits for a call needs; it lives in the call's arena. */
struct waiting {
    struct bound_store *store;
    struct task *task;        /* NULL while the call is being started */
    struct store_call *below; /* while it is loose: the one made before */
    void (*cancel)(struct bound_store *store, struct store_call *call); /* NULL: abandon it */
};

static void take_loose(struct bound_store *store, struct store_call *call) {
    struct store_call **at = &store->loose;
    while (*at != call) {
        at = &((struct waiting *)(*at)->owner)->below;
    }
    *at = ((struct waiting *)call->owner)->below;
}

void call_drop(struct bound_store *store, struct store_call *call) {
    take_loose(store, call);
    store_call_free(call);
}

static void drop_pushed(struct bound_store *store) {
    if (store->pushed) {
        store_call_free(store->pushed);
        store->pushed = NULL;
    }
}

static void drop_loose(struct bound_store *store) {
    while (store->loose) {
        call_drop(store, store->loose);
    }
}

void calls_drop(struct bound_store *store) {
    drop_loose(store);
    drop_pushed(store);
}

void bound_store_check_open(lua_State *L, const struct bound_store *store) {
    if (!store->store) {
        luaL_error(L, "the store is closed");
    }
}

struct store_call *call_new(lua_State *L, struct bound_store *store, enum store_verb verb) {
    bound_store_check_open(L, store);
    if (task_may_wait(L, store->vm)) { /* no finaliser: nobody is in the middle of making one */
        drop_loose(store);
    }
    struct store_call *call = store_call_new(store->store, verb);
    struct waiting *w = arena_alloc(&call->arena, sizeof *w);
    if (!w) {
        store_call_free(call);
        luaL_error(L, "not enough memory");
    }
    *w = (struct waiting){.store = store, .below = store->loose};
    call->owner = w;
    store->loose = call;
    return call;
}

struct store_call *place_call(lua_State *L, struct place *p, enum store_verb verb) {
    struct store_call *call = call_new(L, p->store, verb);
    call->req.container = call_copy(L, call, p->container, strlen(p->container));
    call->req.name = p->name ? call_copy(L, call, p->name, strlen(p->name)) : NULL;
    return call;
}

const char *call_copy(lua_State *L, struct store_call *call, const char *data, size_t len) {
    const char *copy = arena_copy(&call->arena, data, len);
    if (!copy) {
        luaL_error(L, "not enough memory for %I bytes", (LUAI_UACINT)len);
    }
    return copy;
}

static void call_done(struct store_call *call) {
    struct waiting *w = call->owner;
    if (w->task) {
        task_wake(w->task);
    }
}

static bool takes_lease(enum store_verb verb) {
    switch (verb) {
    case VERB_BLOB_PUT:
    case VERB_BLOB_DELETE:
    case VERB_BLOB_SET_METADATA:
    case VERB_BLOB_APPEND:
    case VERB_BLOB_STAGE:
    case VERB_BLOB_COMMIT:
    case VERB_BLOB_COPY:
        return true;
    default:
        return false;
    }
}

/* A guarded task's call ends with what guards it, and a write on the leased blob itself shows the lease. */
static void guard_call(lua_State *L, struct bound_store *store, struct store_call *call) {
    struct vm *vm = store->vm;
    int64_t deadline = vm_deadline(vm);
    if (deadline != NEVER) {
        int64_t left = deadline - world_now(vm_world(vm));
        left = left > 0 ? left : 0;
        call->timeout = call->timeout < left ? call->timeout : left;
    }
    struct store_request *req = &call->req;
    if (takes_lease(req->verb) && !req->when.lease) {
        const char *id = scope_lease_id(vm, store->store, req->container, req->name);
        req->when.lease = id ? call_copy(L, call, id, strlen(id)) : NULL;
    }
}

bool call_begin(lua_State *L, struct bound_store *store, struct store_call *call,
                struct task *task) {
    bound_store_check_open(L, store); /* a finaliser may have closed it since the call was made */
    guard_call(L, store, call);
    struct waiting *w = call->owner;
    take_loose(store, call);
    store_call_start(call, call_done, w);
    w->task = task;
    return !call->finished;
}

/* ---- results ---- */

static void set_string(lua_State *L, const char *field, const char *value) {
    lua_pushstring(L, value);
    lua_setfield(L, -2, field);
}

static void set_integer(lua_State *L, const char *field, int64_t value) {
    if (value != UNSET) {
        lua_pushinteger(L, value);
        lua_setfield(L, -2, field);
    }
}

static void push_metadata(lua_State *L, const struct pairs *metadata) {
    lua_newtable(L);
    for (const char *name = pairs_first(metadata); name; name = pairs_next(metadata, name)) {
        set_string(L, name, pairs_value(name));
    }
}

static void set_lease(lua_State *L, const struct store_props *props) {
    set_string(L, "lease_state", lease_state_word(props->lease_state));
    set_string(L, "lease_status", props->locked ? "locked" : "unlocked");
    if (props->lease_duration) {
        set_string(L, "lease_duration", props->lease_duration < 0 ? "infinite" : "fixed");
    }
}

void push_props(lua_State *L, const struct store_props *props, const char *name) {
    int fields = 2 + (name != NULL) + (props->length != UNSET) + props->has_type +
                 2 * props->has_lease + (props->lease_duration != 0) +
                 (props->block_count != UNSET) + (props->append_offset != UNSET) +
                 (props->copy_status[0] != '\0') + (props->content_type[0] != '\0') +
                 props->has_metadata;
    lua_createtable(L, 0, fields);
    if (name) {
        set_string(L, "name", name);
    }
    if (props->etag[0]) {
        set_string(L, "etag", props->etag);
    }
    if (props->last_modified != UNSET) {
        set_integer(L, "last_modified", props->last_modified / NS_PER_S);
    }
    set_integer(L, "length", props->length);
    set_integer(L, "committed_block_count", props->block_count);
    set_integer(L, "append_offset", props->append_offset);
    if (props->copy_status[0]) {
        set_string(L, "copy_status", props->copy_status);
    }
    if (props->has_type) {
        set_string(L, "type", blob_type_word(props->type));
    }
    if (props->content_type[0]) {
        set_string(L, "content_type", props->content_type);
    }
    if (props->has_lease) {
        set_lease(L, props);
    }
    if (props->has_metadata) {
        push_metadata(L, &props->metadata);
        lua_setfield(L, -2, "metadata");
    }
}

int push_call_error(lua_State *L, const struct store_call *call) {
    const struct store_request *req = &call->req;
    const char *target = req->container;
    if (req->verb >= VERB_TABLE_CREATE) {
        push_table_target(L, req);
        target = lua_tostring(L, -1);
    } else if (req->name) {
        target = lua_pushfstring(L, "%s/%s", req->container, req->name);
    }
    return bind_fail(L, &call->reply.err, request_phrase(req), target);
}

static bool is_lease(const struct store_request *req) {
    return req->verb == VERB_BLOB_LEASE || req->verb == VERB_CONTAINER_LEASE;
}

static int push_results(lua_State *L, struct store_call *call) {
    enum err code = call->reply.err.code;
    if (call->req.verb >= VERB_TABLE_CREATE) {
        return push_table_results(L, call);
    }
    if (call->req.verb >= VERB_QUEUE_CREATE) {
        return push_queue_results(L, call);
    }
    if (is_lease(&call->req)) {
        return code == ERR_OK ? push_lease_results(L, call) : push_call_error(L, call);
    }
    switch (call->req.verb) {
    case VERB_CONTAINER_CREATE:
        if (code == ERR_CONTAINER_ALREADY_EXISTS) {
            code = ERR_OK;
        } /* fall through */
    case VERB_CONTAINER_DELETE:
    case VERB_BLOB_DELETE:
    case VERB_BLOB_STAGE:
        lua_pushboolean(L, true);
        return code == ERR_OK ? 1 : push_call_error(L, call);
    case VERB_BLOB_GET:
        if (code == ERR_OK) {
            lua_pushlstring(L, buf_str(&call->reply.body), call->reply.body.len);
            push_props(L, &call->reply.props, NULL);
            return 2;
        } /* fall through */
    default:
        if (code != ERR_OK) {
            return push_call_error(L, call);
        }
        push_props(L, &call->reply.props, NULL);
        return 1;
    }
}

/* ---- running ---- */

/* Memory may run short while the results are pushed. */
static int call_results(lua_State *L, void *arg) {
    struct store_call *call = arg;
    struct bound_store *store = ((struct waiting *)call->owner)->store;
    drop_pushed(store);
    store->pushed = call;
    int results = push_results(L, call);
    drop_pushed(store);
    return results;
}

static void call_cancel(void *arg) {
    struct store_call *call = arg;
    struct waiting *w = call->owner;
    if (w->cancel) {
        w->cancel(w->store, call);
    } else {
        store_call_abandon(call);
    }
}

int call_run(lua_State *L, struct vm *vm, struct bound_store *store, struct store_call *call) {
    return call_run_with(L, vm, store, call, NULL);
}

int call_run_with(lua_State *L, struct vm *vm, struct bound_store *store, struct store_call *call,
                  void (*cancel)(struct bound_store *store, struct store_call *call)) {
    struct task *task = task_running(vm);
    if (!call_begin(L, store, call, task)) {
        if (task_may_skip_park(vm)) {
            return call_results(L, call);
        }
        task_wake(task);
    }
    ((struct waiting *)call->owner)->cancel = cancel;
    return task_park(L, vm, call, call_results, call_cancel);
}
