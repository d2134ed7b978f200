/* lease.c -- leases: taken from a blob or container, and the object that holds one's id.
 *
 * A lease that is being taken when its task is cancelled is given back: the attempt under way is waited
 * for, since it may still take effect, and then a release of its id is sent. Nobody waits for that; it
 * has ended after one attempt's time and RELEASE_TIMEOUT_S, and the run does not end before. */
#include "bind/store.h"

#include <string.h>

#include "store/lease_rules.h"

enum { RELEASE_TIMEOUT_S = 5, DURATION_S = 60 };

/* ---- without a task ---- */

/* What was begun for a task that has gone. */
static void errand_end(struct store_call *call) {
    struct bound_store *store = call->owner;
    store_call_free(call);
    vm_errand_end(store->vm);
}

static void release_done(struct store_call *call) {
    errand_end(call);
}

static struct store_call *release_of(struct store *store, const struct store_request *acquire) {
    struct store_call *call = store_call_new(store, acquire->verb);
    struct store_request *req = &call->req;
    req->action = LEASE_RELEASE;
    req->container = arena_strdup(&call->arena, acquire->container);
    req->name = arena_strdup(&call->arena, acquire->name);
    req->when.lease = arena_strdup(&call->arena, acquire->proposed_id);
    call->timeout = RELEASE_TIMEOUT_S * NS_PER_S;
    if (req->container && req->when.lease && (req->name || !acquire->name)) {
        return call;
    }
    store_call_free(call);
    return NULL;
}

/* A refusal took nothing. Anything else may have, and a closed store is asked no more. */
static void acquire_done(struct store_call *call) {
    struct bound_store *store = call->owner;
    const struct error *e = &call->reply.err;
    bool refused = e->status >= 400 && e->status < 500;
    struct store_call *release =
        refused || !store->store ? NULL : release_of(store->store, &call->req);
    if (release) {
        vm_errand_begin(store->vm);
        store_call_start(release, release_done, store);
    }
    errand_end(call);
}

static void go_on(struct bound_store *store, struct store_call *call,
                  void (*done)(struct store_call *)) {
    vm_errand_begin(store->vm);
    call->owner = store;
    call->done = done;
    if (call->finished) {
        done(call);
    } else if (done == acquire_done) {
        store_call_hurry(call);
    }
}

static void acquire_cancel(struct bound_store *store, struct store_call *call) {
    go_on(store, call, acquire_done);
}

static void release_cancel(struct bound_store *store, struct store_call *call) {
    go_on(store, call, release_done);
}

/* ---- taking and breaking ---- */

static int acquire(lua_State *L, const char *name, const char *type, enum store_verb verb,
                   const struct call_option *options) {
    struct vm *vm = task_enter_wait(L, name);
    struct place *p = place_check(L, 1, type);
    struct store_call *call = place_call(L, p, verb);
    call->req.action = LEASE_ACQUIRE;
    call->req.lease_seconds = DURATION_S;
    call_options(L, 2, options, call);
    return call_run_with(L, vm, p->store, call, acquire_cancel);
}

/* blob:lease{duration =, id =} -> lease */
int blob_lease(lua_State *L) {
    return acquire(L, "blob:lease", BLOB_TYPE, VERB_BLOB_LEASE, ACQUIRE_OPTIONS);
}

int container_lease(lua_State *L) {
    return acquire(L, "container:lease", CONTAINER_TYPE, VERB_CONTAINER_LEASE,
                   CONTAINER_ACQUIRE_OPTIONS);
}

static int break_lease(lua_State *L, const char *name, const char *type, enum store_verb verb,
                       const struct call_option *options) {
    struct vm *vm = task_enter_wait(L, name);
    struct place *p = place_check(L, 1, type);
    struct store_call *call = place_call(L, p, verb);
    call->req.action = LEASE_BREAK;
    if (!lua_isnoneornil(L, 2)) {
        lua_Integer period = luaL_checkinteger(L, 2);
        luaL_argcheck(L, period >= 0 && period <= LEASE_BREAK_MAX, 2,
                      "a break takes 0 to 60 seconds");
        call->req.lease_seconds = period;
    }
    call_options(L, 3, options, call);
    return call_run(L, vm, p->store, call);
}

/* blob:break_lease(period) -> seconds left */
int blob_break_lease(lua_State *L) {
    return break_lease(L, "blob:break_lease", BLOB_TYPE, VERB_BLOB_LEASE, LEASE_OPTIONS);
}

int container_break_lease(lua_State *L) {
    return break_lease(L, "container:break_lease", CONTAINER_TYPE, VERB_CONTAINER_LEASE,
                       CONTAINER_LEASE_OPTIONS);
}

/* ---- a lease ---- */

struct bound_lease {
    struct place *place; /* its userdata is the first user value */
    char id[LEASE_ID_TEXT];
    bool released;
};

static void push_lease(lua_State *L, int place, const char *id) {
    struct bound_lease *l = lua_newuserdatauv(L, sizeof *l, 1);
    *l = (struct bound_lease){.place = lua_touserdata(L, place)};
    memcpy(l->id, id, sizeof l->id);
    lua_pushvalue(L, place);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, LEASE_TYPE);
}

int push_lease_results(lua_State *L, const struct store_call *call) {
    struct bound_lease *lease = luaL_testudata(L, 1, LEASE_TYPE);
    switch (call->req.action) {
    case LEASE_ACQUIRE:
        push_lease(L, 1, call->req.proposed_id);
        return 1;
    case LEASE_BREAK:
        lua_pushinteger(L, call->reply.lease_time == UNSET ? 0 : call->reply.lease_time);
        return 1;
    case LEASE_CHANGE:
        memcpy(lease->id, call->req.proposed_id, sizeof lease->id);
        break;
    case LEASE_RELEASE:
        lease->released = true;
        break;
    case LEASE_RENEW:
        break;
    }
    lua_pushboolean(L, true);
    return 1;
}

static struct bound_lease *lease_check(lua_State *L) {
    return luaL_checkudata(L, 1, LEASE_TYPE);
}

static struct store_call *lease_call(lua_State *L, enum lease_action action, int options) {
    struct bound_lease *l = lease_check(L);
    bool blob = l->place->name != NULL;
    if (!l->place->store->store) {
        luaL_error(L, "the store of this lease is closed");
    }
    struct store_call *call =
        place_call(L, l->place, blob ? VERB_BLOB_LEASE : VERB_CONTAINER_LEASE);
    call->req.action = action;
    call->req.when.lease = call_copy(L, call, l->id, strlen(l->id));
    call_options(L, options, blob ? LEASE_OPTIONS : CONTAINER_LEASE_OPTIONS, call);
    return call;
}

/* lease:renew{...} -> true */
static int lease_renew(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "lease:renew");
    struct store_call *call = lease_call(L, LEASE_RENEW, 2);
    return call_run(L, vm, lease_check(L)->place->store, call);
}

/* lease:change(id, {...}) -> true */
static int lease_change(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "lease:change");
    struct store_call *call = lease_call(L, LEASE_CHANGE, 3);
    call->req.proposed_id = check_lease_id(L, 2, call, "lease:change");
    return call_run(L, vm, lease_check(L)->place->store, call);
}

static int run_release(lua_State *L, struct vm *vm, int options) {
    struct store_call *call = lease_call(L, LEASE_RELEASE, options);
    return call_run_with(L, vm, lease_check(L)->place->store, call, release_cancel);
}

/* lease:release{...} -> true */
static int lease_release(lua_State *L) {
    return run_release(L, task_enter_wait(L, "lease:release"), 2);
}

/* lease:close(), and the end of a to-be-closed variable: gives it back, whatever comes of it */
static int lease_close(lua_State *L) {
    struct bound_lease *l = lease_check(L);
    if (l->released || !l->place->store->store) {
        return 0;
    }
    lua_settop(L, 1);
    return run_release(L, task_enter_wait(L, "lease:close"), 2);
}

/* A method, `id` or `released`; the methods are the upvalue. */
static int lease_index(lua_State *L) {
    struct bound_lease *l = lease_check(L);
    if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "id") == 0) {
        lua_pushstring(L, l->id);
        return 1;
    }
    if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), "released") == 0) {
        lua_pushboolean(L, l->released);
        return 1;
    }
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    return 1;
}

/* Without the id, which is as good as the lease itself. */
static int lease_tostring(lua_State *L) {
    struct place *p = lease_check(L)->place;
    lua_pushfstring(L, p->name ? "lease of %s/%s" : "lease of %s", p->container, p->name);
    return 1;
}

/* core.lease_handle(blob or container, id) -> the lease that is held under this id; nothing is asked */
static int l_lease_handle(lua_State *L) {
    char id[LEASE_ID_TEXT];
    if (!luaL_testudata(L, 1, CONTAINER_TYPE)) {
        luaL_checkudata(L, 1, BLOB_TYPE);
    }
    luaL_argcheck(L, lease_id_read(luaL_checkstring(L, 2), id), 2, "a lease id is a GUID");
    push_lease(L, 1, id);
    return 1;
}

/* core.lease_methods() -> the table of methods that every lease has */
static int l_lease_methods(lua_State *L) {
    luaL_getmetatable(L, LEASE_TYPE);
    lua_getfield(L, -1, "methods");
    return 1;
}

/* core.container_methods() -> the table of methods that every container has */
static int l_container_methods(lua_State *L) {
    luaL_getmetatable(L, CONTAINER_TYPE);
    lua_getfield(L, -1, "__index");
    return 1;
}

void bind_lease(lua_State *L, struct vm *vm) {
    static const luaL_Reg FUNCTIONS[] = {{"lease_handle", l_lease_handle},
                                         {"lease_methods", l_lease_methods},
                                         {"container_methods", l_container_methods},
                                         {NULL, NULL}};
    static const luaL_Reg METHODS[] = {{"renew", lease_renew},
                                       {"change", lease_change},
                                       {"release", lease_release},
                                       {"close", lease_close},
                                       {NULL, NULL}};
    static const luaL_Reg META[] = {
        {"__close", lease_close}, {"__tostring", lease_tostring}, {NULL, NULL}};
    bind_type(L, vm, LEASE_TYPE, METHODS, META);
    luaL_getmetatable(L, LEASE_TYPE);
    lua_getfield(L, -1, "__index");
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "methods");
    lua_pushcclosure(L, lease_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    bind_functions(L, vm, FUNCTIONS);
}
