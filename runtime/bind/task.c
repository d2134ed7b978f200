/* bind/task.c -- tasks as a script sees them, and the entry into a run. */
#include "bind/bind.h"

#include <string.h>

enum { TASK_ARG = 1 };

static struct task *check_task(lua_State *L) {
    return luaL_checkudata(L, TASK_ARG, TASK_TYPE);
}

/* core.spawn(fn, ...) -> task */
static int l_spawn(lua_State *L) {
    struct vm *vm = task_enter(L, "synod.spawn");
    luaL_checktype(L, 1, LUA_TFUNCTION);
    task_spawn(L, vm, lua_gettop(L) - 1);
    return 1;
}

/* For what serves the whole instance, whoever happens to need it first: it belongs to nobody, and the run
 * does not wait for it. */
static int l_spawn_apart(lua_State *L) {
    struct vm *vm = task_enter(L, "a task of the instance");
    luaL_checktype(L, 1, LUA_TFUNCTION);
    task_detach(task_spawn_in(L, vm, lua_gettop(L) - 1, NULL));
    return 1;
}

/* Another one for each run of this state. */
static int l_run_number(lua_State *L) {
    lua_pushinteger(L, vm_run_number(task_enter(L, "the run")));
    return 1;
}

static int fail_timeout(lua_State *L, const char *operation) {
    struct error e;
    error_set(&e, ERR_TIMEOUT, NULL);
    return bind_fail(L, &e, operation, NULL);
}

static int push_joined(lua_State *L, struct task *t) {
    if (!task_failed(t)) {
        return task_push_results(L, t);
    }
    lua_pushnil(L);
    task_push_results(L, t);
    if (lua_isnil(L, -1)) { /* error(nil): an error must not look like none */
        lua_pop(L, 1);
        lua_pushliteral(L, "nil was raised as an error");
    }
    return 2;
}

static int join_done(lua_State *L, void *arg) {
    struct task *joined = check_task(L);
    return task_ended(joined) && !task_timed_out(arg) ? push_joined(L, joined)
                                                      : fail_timeout(L, "join the task");
}

/* task:join([timeout]) -> results | nil, err */
static int l_join(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "task:join");
    struct task *t = check_task(L);
    int64_t timeout = bind_opt_seconds(L, 2, NEVER);
    if (task_ended(t)) {
        return push_joined(L, t);
    }
    if (t == task_running(vm)) {
        return luaL_error(L, "task:join: a task cannot wait for its own end");
    }
    return task_wait(L, vm, task_joiners(t), instant_add(world_now(vm_world(vm)), timeout),
                     join_done);
}

/* An err table is raised as it is; anything else becomes the `reason` of a Cancelled error. */
static void push_cancel_error(lua_State *L, int arg) {
    if (lua_istable(L, arg) && luaL_getmetafield(L, arg, "__name") != LUA_TNIL) {
        lua_pop(L, 1);
        lua_pushvalue(L, arg);
        return;
    }
    struct error e;
    const char *why = lua_type(L, arg) == LUA_TSTRING ? lua_tostring(L, arg) : NULL;
    error_set(&e, ERR_CANCELLED, why ? "%s" : NULL, why);
    bind_push_error(L, &e, NULL, NULL);
    lua_pushvalue(L, arg);
    lua_setfield(L, -2, "reason");
}

/* task:cancel([reason]) */
static int l_cancel(lua_State *L) {
    task_enter(L, "task:cancel");
    struct task *t = check_task(L);
    lua_settop(L, 2);
    push_cancel_error(L, 2);
    task_cancel(L, t);
    return 0;
}

/* task:detach() -> task */
static int l_detach(lua_State *L) {
    task_enter(L, "task:detach");
    task_detach(check_task(L));
    lua_settop(L, 1);
    return 1;
}

/* task:ended() -> boolean */
static int l_ended(lua_State *L) {
    lua_pushboolean(L, task_ended(check_task(L)));
    return 1;
}

/* task:failed() -> boolean: it has ended with an error */
static int l_failed(lua_State *L) {
    lua_pushboolean(L, task_failed(check_task(L)));
    return 1;
}

static int l_collect(lua_State *L) {
    task_collect(L, check_task(L));
    return 0;
}

static int l_tostring(lua_State *L) {
    lua_pushfstring(L, "task %d", (int)task_id(check_task(L)));
    return 1;
}

static int nothing_done(lua_State *L, void *arg) {
    (void)L;
    (void)arg;
    return 0;
}

/* core.sleep(seconds) */
static int l_sleep(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "synod.sleep");
    int64_t ns = bind_check_seconds(L, 1);
    return task_wait(L, vm, NULL, instant_add(world_now(vm_world(vm)), ns), nothing_done);
}

/* core.sleep_until(ns): an instant of core.instant() */
static int l_sleep_until(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "synod.every");
    return task_wait(L, vm, NULL, luaL_checkinteger(L, 1), nothing_done);
}

/* core.yield() */
static int l_yield(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "synod.yield");
    task_wake(task_running(vm));
    return task_park(L, vm, NULL, nothing_done, NULL);
}

/* core.task_id() -> integer or nil */
static int l_task_id(lua_State *L) {
    struct task *t = task_running(bind_vm(L));
    if (!t) {
        return 0;
    }
    lua_pushinteger(L, task_id(t));
    return 1;
}

/* core.exit(code): ends the run after clean-up; does not return */
static int l_exit(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "os.exit");
    vm_exit(vm, (int)luaL_checkinteger(L, 1));
    task_enter_wait(L,
                    "os.exit"); /* the cancel is due already, unless this run was ending before */
    return task_wait(L, vm, NULL, NEVER, nothing_done); /* where the cancel meets it */
}

/* core.on_stop(fn): fn runs as a task at the beginning of a controlled stop */
static int l_on_stop(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    vm_set_stopper(L, bind_vm(L));
    return 0;
}

/* core.set_library(prefix): how the names of the library's own chunks begin */
static int l_set_library(lua_State *L) {
    vm_set_library(bind_vm(L), luaL_checkstring(L, 1));
    return 0;
}

/* core.limit_memory(bytes) -> true where the limit can be had; 0: no limit */
static int l_limit_memory(lua_State *L) {
    lua_Integer bytes = luaL_checkinteger(L, 1);
    luaL_argcheck(L, bytes >= 0, 1, "must not be negative");
    lua_pushboolean(L, vm_limit_memory(L, (size_t)bytes));
    return 1;
}

static struct world *world_from(lua_State *L, int options) {
    const char *clock = bind_opt_string_field(L, options, "clock", NULL);
    if (!clock) {
        return world_real_new();
    }
    if (strcmp(clock, "virtual") != 0) {
        luaL_error(L, "option 'clock': \"virtual\" expected, got \"%s\"", clock);
    }
    return world_virtual_new((uint64_t)bind_opt_integer_field(L, options, "seed", 1));
}

/* core.main(fn, {clock = "virtual", seed = n}, ...) -> fn's results; raises its error */
static int l_main(lua_State *L) {
    struct vm *vm = bind_vm(L);
    luaL_checktype(L, 1, LUA_TFUNCTION);
    if (vm_world(vm)) {
        return luaL_error(L, "synod.main is running already: spawn a task instead");
    }
    struct world *w = world_from(L, 2);
    struct vm_end end;
    if (lua_gettop(L) >= 2) {
        lua_remove(L, 2);
    }
    int n = vm_run(L, vm, w, lua_gettop(L) - 1, &end);
    world_free(w);
    if (end.failed) {
        lua_pop(L, 1); /* the traceback */
        return lua_error(L);
    }
    return n;
}

void bind_task(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {
        {"main", l_main},
        {"spawn", l_spawn},
        {"spawn_apart", l_spawn_apart},
        {"run_number", l_run_number},
        {"sleep", l_sleep},
        {"sleep_until", l_sleep_until},
        {"yield", l_yield},
        {"task_id", l_task_id},
        {"exit", l_exit},
        {"on_stop", l_on_stop},
        {"limit_memory", l_limit_memory},
        {"set_library", l_set_library},
        {NULL, NULL},
    };
    static const luaL_Reg methods[] = {
        {"join", l_join},   {"cancel", l_cancel}, {"detach", l_detach},
        {"ended", l_ended}, {"failed", l_failed}, {NULL, NULL},
    };
    static const luaL_Reg metamethods[] = {
        {"__gc", l_collect},
        {"__tostring", l_tostring},
        {NULL, NULL},
    };
    bind_functions(L, vm, functions);
    bind_type(L, vm, TASK_TYPE, methods, metamethods);
}
