/* bind/event.c -- something that happens, and those who wait for it.
 *
 *     e:set([v])          wakes all who wait; stays set                     -> nothing
 *     e:wait([timeout])   at once when set                                  -> v (true when none), or nil, err
 *     e:clear()           no longer set; those woken before still get their value
 *     e:is_set()          -> boolean
 *
 * A cancelled wait leaves nothing behind.
 */
#include "bind/bind.h"

#include <string.h>

#define EVENT_TYPE "synod.event"

struct event {
    struct waitlist waiting;
    bool set;
}; /* its user value is the value last set */

static struct event *check_event(lua_State *L) {
    return luaL_checkudata(L, 1, EVENT_TYPE);
}

static int l_event(lua_State *L) {
    struct event *e = lua_newuserdatauv(L, sizeof *e, 1);
    memset(e, 0, sizeof *e);
    luaL_setmetatable(L, EVENT_TYPE);
    return 1;
}

static int l_set(lua_State *L) {
    task_enter(L, "event:set");
    struct event *e = check_event(L);
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_pushboolean(L, 1);
        lua_replace(L, 2);
    }
    lua_setiuservalue(L, 1, 1);
    e->set = true;
    waitlist_wake(&e->waiting);
    return 0;
}

static int push_value(lua_State *L) {
    lua_getiuservalue(L, 1, 1);
    return 1;
}

static int wait_done(lua_State *L, void *arg) {
    if (!task_timed_out(arg)) {
        return push_value(L);
    }
    struct error e;
    error_set(&e, ERR_TIMEOUT, NULL);
    return bind_fail(L, &e, "wait for the event", NULL);
}

static int l_wait(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "event:wait");
    struct event *e = check_event(L);
    int64_t timeout = bind_opt_seconds(L, 2, NEVER);
    if (e->set && task_may_skip_park(vm)) {
        return push_value(L);
    }
    if (e->set) {
        task_wake(task_running(vm));
    }
    return task_wait(L, vm, e->set ? NULL : &e->waiting,
                     e->set ? NEVER : instant_add(world_now(vm_world(vm)), timeout), wait_done);
}

static int l_clear(lua_State *L) {
    task_enter(L, "event:clear");
    check_event(L)->set = false;
    return 0;
}

static int l_is_set(lua_State *L) {
    lua_pushboolean(L, check_event(L)->set);
    return 1;
}

void bind_event(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {{"event", l_event}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"set", l_set}, {"wait", l_wait}, {"clear", l_clear}, {"is_set", l_is_set}, {NULL, NULL},
    };
    bind_functions(L, vm, functions);
    bind_type(L, vm, EVENT_TYPE, methods, NULL);
}
