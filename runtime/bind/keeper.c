/* bind/keeper.c -- a keeper (lease/keeper.h) as Lua sees it; synod.lease makes contenders and holders of it.
 *
 *     core.keeper(blob or container, {ttl =, id =, fence =, keep =, make =, holder =, host =, pid =, purpose =,
 *                 hints =, renew =, try =}) -> keeper, or nil and what is wrong with the times
 *     keeper:try(timeout) -> true, or nil, err      err has holder, host, since, purpose, next, hints, fence,
 *                                             again
 *     keeper:release(), keeper:change(id) -> true, or nil, err
 *     keeper:held(), keeper:remaining() -> seconds to the soft stop
 *     keeper:wait_lost([timeout]) -> err, or nil when it was released, or the time is over
 *     keeper:status() -> {state =, fence =, renewals =, confirmed =, soft =, hard =, ttl =} instants as synod.now
 *     keeper:scope() -> a scope for synod.guard, which moves and stops with the lease
 *     keeper:successor() -> another keeper, which knows what this one saw
 *     keeper.id, keeper.fence
 *
 * A try whose task is cancelled gives back what it took, or may have taken, without anybody waiting for that; so
 * does a keeper that is collected while it holds. A release goes on when its task is cancelled.
 */
#include "bind/keeper.h"

#include <string.h>

#include "base/alloc.h"
#include "store/lease_rules.h"

#define KEEPER_TYPE "synod.Keeper"

/* ---- life ---- */

static void errand_begin(void *vm) {
    vm_errand_begin(vm);
}

static void errand_end(void *vm) {
    vm_errand_end(vm);
}

static void on_changed(struct keeper_listener *l, struct keeper *k) {
    struct bound_keeper *b = container_of(l, struct bound_keeper, listener);
    if (keeper_state(k) != KEEPER_HELD) {
        waitlist_wake(&b->waiting);
    }
}

static void unlink_keeper(struct bound_keeper *b) {
    *(b->prev ? &b->prev->next : &b->store->keepers) = b->next;
    if (b->next) {
        b->next->prev = b->prev;
    }
    b->prev = b->next = NULL;
}

static void adopt(struct bound_keeper *b, struct keeper *k) {
    b->keeper = k;
    b->listener.changed = on_changed;
    keeper_listen(k, &b->listener);
}

/* From now on it sees to itself. */
static void let_go(struct bound_keeper *b) {
    struct keeper *k = b->keeper;
    b->keeper = NULL;
    keeper_ignore(k, &b->listener);
    keeper_free(k);
}

void bound_keepers_close(struct bound_store *store) {
    while (store->keepers) {
        struct bound_keeper *b = store->keepers;
        unlink_keeper(b);
        if (b->keeper) {
            keeper_close(b->keeper);
        }
    }
}

static int keeper_collect(lua_State *L) {
    struct bound_keeper *b = luaL_checkudata(L, 1, KEEPER_TYPE);
    if (b->store->store) {
        unlink_keeper(b);
    }
    if (b->keeper) {
        let_go(b);
    }
    return 0;
}

/* Pushes one that has no keeper yet; the place is at index `place`. */
static struct bound_keeper *push_bound(lua_State *L, int place) {
    struct bound_keeper *b = lua_newuserdatauv(L, sizeof *b, 1);
    struct place *p = lua_touserdata(L, place);
    *b = (struct bound_keeper){.store = p->store, .place = p, .next = p->store->keepers};
    if (b->next) {
        b->next->prev = b;
    }
    p->store->keepers = b;
    lua_pushvalue(L, place);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, KEEPER_TYPE);
    return b;
}

static bool read_timing(lua_State *L, int options, struct lease_timing *t,
                        char why[LEASE_FAULT_MAX]) {
    struct lease_settings s = {.ttl = bind_opt_seconds_field(L, options, "ttl", 0),
                               .renew = bind_opt_seconds_field(L, options, "renew", 0),
                               .try = bind_opt_seconds_field(L, options, "try", 0)};
    return lease_timing_make(t, &s, why);
}

static const char *read_id(lua_State *L, int options, char id[LEASE_ID_TEXT]) {
    const char *given = bind_opt_string_field(L, options, "id", NULL);
    if (given && !lease_id_read(given, id)) {
        luaL_error(L, "option 'id': a lease id is a GUID");
    }
    return given ? id : NULL;
}

static struct place *check_place(lua_State *L) {
    const char *type = luaL_testudata(L, 1, CONTAINER_TYPE) ? CONTAINER_TYPE : BLOB_TYPE;
    return place_check(L, 1, type);
}

static int l_keeper(lua_State *L) {
    struct vm *vm = task_enter(L, "blob:lease");
    struct place *p = check_place(L);
    struct keeper_options o = {.store = p->store->store,
                               .container = p->container,
                               .name = p->name,
                               .errands = {errand_begin, errand_end, vm}};
    char why[LEASE_FAULT_MAX], id[LEASE_ID_TEXT];
    luaL_checktype(L, 2, LUA_TTABLE);
    o.id = read_id(L, 2, id);
    o.fence = bind_opt_boolean_field(L, 2, "fence", false);
    o.keep = bind_opt_boolean_field(L, 2, "keep", true);
    o.make = bind_opt_boolean_field(L, 2, "make", false);
    o.holder = bind_opt_string_field(L, 2, "holder", NULL);
    o.host = bind_opt_string_field(L, 2, "host", NULL);
    o.purpose = bind_opt_string_field(L, 2, "purpose", NULL);
    o.hints = bind_opt_string_field(L, 2, "hints", NULL);
    o.pid = bind_opt_integer_field(L, 2, "pid", 0);
    if (!read_timing(L, 2, &o.timing, why)) {
        lua_pushnil(L);
        lua_pushstring(L, why);
        return 2;
    }
    adopt(push_bound(L, 1), keeper_new(&o));
    return 1;
}

struct bound_keeper *keeper_check(lua_State *L) {
    struct bound_keeper *b = luaL_checkudata(L, 1, KEEPER_TYPE);
    if (!b->keeper) {
        luaL_error(L, "this lease was given up");
    }
    return b;
}

static int keeper_next(lua_State *L) {
    struct bound_keeper *b = keeper_check(L);
    lua_getiuservalue(L, 1, 1);
    place_check(L, lua_gettop(L), b->place->name ? BLOB_TYPE : CONTAINER_TYPE);
    adopt(push_bound(L, lua_gettop(L)), keeper_successor(b->keeper));
    return 1;
}

/* ---- errors ---- */

static int fail(lua_State *L, const struct bound_keeper *b, const struct error *e) {
    const struct place *p = b->place;
    const char *target =
        p->name ? lua_pushfstring(L, "%s/%s", p->container, p->name) : p->container;
    return bind_fail(L, e, b->operation, target);
}

/* Who has it, into the err table at the top. */
static void tell_holder(lua_State *L, struct vm *vm, const struct keeper *k) {
    const struct mark *m = keeper_seen(k);
    int64_t again = keeper_again(k), now = world_now(vm_world(vm));
    bind_set_text(L, "holder", m->holder);
    bind_set_text(L, "host", m->host);
    bind_set_text(L, "since", m->since);
    bind_set_text(L, "purpose", m->purpose);
    bind_set_text(L, "next", m->next);
    bind_set_text(L, "hints", m->hints);
    bind_set_number(L, "pid", m->pid);
    bind_set_number(L, "fence", m->fence);
    if (again != NEVER) {
        bind_set_seconds(L, "again", again > now ? again - now : 0);
    }
}

/* ---- calls that wait ---- */

static void on_done(struct keeper *k) {
    struct bound_keeper *b = keeper_owner(k);
    b->done = true;
    if (b->caller) {
        task_wake(b->caller);
    }
}

static int results(lua_State *L, void *arg) {
    struct bound_keeper *b = arg;
    const struct error *e = keeper_error(b->keeper);
    b->caller = NULL;
    if (e->code == ERR_OK) {
        lua_pushboolean(L, true);
        return 1;
    }
    int n = fail(L, b, e);
    if (e->code == ERR_LEASE_ALREADY_PRESENT) {
        tell_holder(L, bind_vm(L), b->keeper);
    }
    return n;
}

/* What it took, or may have taken, is given back; another contends in its place. */
static void try_cancel(void *arg) {
    struct bound_keeper *b = arg;
    struct keeper *next = keeper_successor(b->keeper);
    b->caller = NULL;
    let_go(b);
    adopt(b, next);
}

static void leave_cancel(void *arg) {
    struct bound_keeper *b = arg;
    b->caller = NULL;
    let_go(b);
}

/* The call has been begun: parks until it is done. */
static int wait_done(lua_State *L, struct vm *vm, struct bound_keeper *b, task_cancel_f cancel) {
    struct task *task = task_running(vm);
    if (b->done) {
        if (task_may_skip_park(vm)) {
            return results(L, b);
        }
        task_wake(task);
    } else {
        b->caller = task;
    }
    return task_park(L, vm, b, results, cancel);
}

static struct bound_keeper *begin(lua_State *L, const char *operation) {
    struct bound_keeper *b = keeper_check(L);
    if (b->caller) {
        luaL_error(L, "another task waits for this lease already");
    }
    b->operation = operation;
    b->done = false;
    return b;
}

static int keeper_do_try(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "lease:take");
    struct bound_keeper *b = begin(L, "take the lease of");
    int64_t timeout = bind_opt_seconds(L, 2, CALL_TIMEOUT_MS * NS_PER_MS);
    luaL_argcheck(L, keeper_state(b->keeper) == KEEPER_FREE, 1, "this lease was taken already");
    bound_store_check_open(L, b->store);
    keeper_try(b->keeper, instant_add(world_now(vm_world(vm)), timeout), on_done, b);
    return wait_done(L, vm, b, try_cancel);
}

static bool may_leave(const struct keeper *k) {
    return keeper_state(k) == KEEPER_HELD || keeper_state(k) == KEEPER_LOST;
}

static int keeper_do_release(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "lease:release");
    struct bound_keeper *b = luaL_checkudata(L, 1, KEEPER_TYPE);
    if (!b->keeper || !may_leave(b->keeper) || !b->store->store) { /* it has ended already */
        const struct error *lost = b->keeper ? keeper_lost(b->keeper) : NULL;
        b->operation = "release the lease of";
        lua_pushboolean(L, true);
        return lost ? fail(L, b, lost) : 1;
    }
    begin(L, "release the lease of");
    keeper_release(b->keeper, on_done, b);
    return wait_done(L, vm, b, leave_cancel);
}

static int keeper_do_change(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "lease:change");
    struct bound_keeper *b = begin(L, "hand over the lease of");
    char id[LEASE_ID_TEXT];
    luaL_argcheck(L, lease_id_read(luaL_checkstring(L, 2), id), 2, "a lease id is a GUID");
    luaL_argcheck(L, may_leave(b->keeper), 1, "this lease is not held");
    bound_store_check_open(L, b->store);
    keeper_change(b->keeper, id, on_done, b);
    return wait_done(L, vm, b, leave_cancel);
}

static int lost_results(lua_State *L, void *task) {
    struct bound_keeper *b = luaL_checkudata(L, 1, KEEPER_TYPE);
    const struct error *lost = b->keeper ? keeper_lost(b->keeper) : NULL;
    (void)task;
    lua_pushnil(L);
    if (lost) {
        b->operation = "keep the lease of";
        fail(L, b, lost);
    }
    return 1;
}

static int keeper_wait_lost(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "lease:wait_lost");
    struct bound_keeper *b = luaL_checkudata(L, 1, KEEPER_TYPE);
    int64_t timeout = bind_opt_seconds(L, 2, NEVER);
    lua_settop(L, 1);
    if (!b->keeper || keeper_state(b->keeper) != KEEPER_HELD || timeout == 0) {
        return lost_results(L, NULL);
    }
    int64_t deadline = timeout == NEVER ? NEVER : instant_add(world_now(vm_world(vm)), timeout);
    return task_wait(L, vm, &b->waiting, deadline, lost_results);
}

/* ---- asking ---- */

static int keeper_is_held(lua_State *L) {
    task_enter(L, "lease:held");
    struct bound_keeper *b = luaL_checkudata(L, 1, KEEPER_TYPE);
    lua_pushboolean(L, b->keeper && keeper_held(b->keeper));
    return 1;
}

static int keeper_remaining(lua_State *L) {
    struct vm *vm = task_enter(L, "lease:remaining");
    struct bound_keeper *b = luaL_checkudata(L, 1, KEEPER_TYPE);
    bool held = b->keeper && keeper_held(b->keeper);
    int64_t left = held ? keeper_soft(b->keeper) - world_now(vm_world(vm)) : 0;
    lua_pushnumber(L, seconds_from_ns(left));
    return 1;
}

static int keeper_status(lua_State *L) {
    static const char *const STATES[] = {"free", "trying", "held", "lost", "leaving", "left"};
    struct keeper *k = keeper_check(L)->keeper;
    lua_newtable(L);
    bind_set_text(L, "state", STATES[keeper_state(k)]);
    bind_set_number(L, "fence", keeper_fence(k));
    lua_pushinteger(L, keeper_renewals(k));
    lua_setfield(L, -2, "renewals");
    bind_set_seconds(L, "confirmed", keeper_confirmed(k));
    bind_set_seconds(L, "soft", keeper_soft(k));
    bind_set_seconds(L, "hard", keeper_hard(k));
    bind_set_seconds(L, "ttl", keeper_timing(k)->ttl);
    return 1;
}

/* A method, or `id` or `fence`; the methods are the upvalue. */
static int keeper_index(lua_State *L) {
    struct bound_keeper *b = luaL_checkudata(L, 1, KEEPER_TYPE);
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (b->keeper && strcmp(name, "id") == 0) {
        lua_pushstring(L, keeper_id(b->keeper));
    } else if (b->keeper && strcmp(name, "fence") == 0 && keeper_fence(b->keeper)) {
        lua_pushinteger(L, keeper_fence(b->keeper));
    } else {
        lua_pushvalue(L, 2);
        lua_rawget(L, lua_upvalueindex(1));
    }
    return 1;
}

/* Without the id, which is as good as the lease itself. */
static int keeper_tostring(lua_State *L) {
    struct bound_keeper *b = luaL_checkudata(L, 1, KEEPER_TYPE);
    const struct place *p = b->place;
    lua_pushfstring(L, p->name ? "lease of %s/%s" : "lease of %s", p->container, p->name);
    return 1;
}

void bind_keeper(lua_State *L, struct vm *vm) {
    static const luaL_Reg FUNCTIONS[] = {{"keeper", l_keeper}, {NULL, NULL}};
    static const luaL_Reg METHODS[] = {
        {"try", keeper_do_try},          {"release", keeper_do_release},
        {"change", keeper_do_change},    {"held", keeper_is_held},
        {"remaining", keeper_remaining}, {"wait_lost", keeper_wait_lost},
        {"status", keeper_status},       {"scope", keeper_scope},
        {"successor", keeper_next},      {NULL, NULL}};
    static const luaL_Reg META[] = {
        {"__gc", keeper_collect}, {"__tostring", keeper_tostring}, {NULL, NULL}};
    bind_type(L, vm, KEEPER_TYPE, METHODS, META);
    luaL_getmetatable(L, KEEPER_TYPE);
    lua_getfield(L, -1, "__index");
    lua_pushcclosure(L, keeper_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    bind_functions(L, vm, FUNCTIONS);
}
