/* bind/scope.c -- vm/scope.h as core.scope and its userdata, for synod.guard.
 *
 *     core.scope{soft =, hard =, slice =, name =, blob =, lease =} -> scope
 *         within the running task's; soft and hard are instants as core.instant() gives them, slice is seconds.
 *         With blob and lease: writes on this blob inside it are sent with this lease id
 *     scope:move(soft, hard)            with each confirmed renewal; no effect after a loss
 *     scope:stop([err])                 the loss, at once; LeaseLost when no err table is given
 *     scope:stopped() -> err | nothing
 *     scope:spawn(fn, ...) -> task      a task in it
 *     scope:cancel(err [, again])       raise err in each of its tasks at its wait; again: also in those told before
 *     scope:idle([seconds]) -> boolean  waits until no task is left in it
 *     scope:finish()                    the hard stop, for what does not end
 *     scope:close()                     closes its connections and commands; it is used no more
 */
#include "bind/scope.h"

#include "bind/store.h"

struct bound_scope {
    struct scope *scope; /* NULL: not made, or closed */
};

struct scope *scope_push(lua_State *L, struct vm *vm, const struct scope_options *options,
                         int keeps) {
    keeps = keeps ? lua_absindex(L, keeps) : 0;
    struct bound_scope *b = lua_newuserdatauv(L, sizeof *b, 1);
    b->scope = NULL;
    luaL_setmetatable(L, SCOPE_TYPE);
    if (keeps) {
        lua_pushvalue(L, keeps);
        lua_setiuservalue(L, -2, 1);
    }
    b->scope = scope_new(vm, options);
    if (!b->scope) {
        luaL_error(L, "not enough memory for a guard");
    }
    return b->scope;
}

static struct scope *check_scope(lua_State *L) {
    struct bound_scope *b = luaL_checkudata(L, 1, SCOPE_TYPE);
    if (!b->scope) {
        luaL_error(L, "this guard has ended");
    }
    return b->scope;
}

/* Of the blob in the table at 1, whose userdata the scope keeps. */
static void read_lease(lua_State *L, struct scope_options *o) {
    lua_getfield(L, 1, "blob");
    const struct place *p = luaL_testudata(L, -1, BLOB_TYPE);
    if (p) {
        o->lease = (struct scope_lease){
            .store = p->store->store,
            .container = p->container,
            .name = p->name,
            .id = bind_opt_string_field(L, 1, "lease", NULL),
        };
    } else if (!lua_isnil(L, -1)) {
        luaL_error(L, "option 'blob': a blob expected, got %s", luaL_typename(L, -1));
    }
}

static int l_scope(lua_State *L) {
    struct vm *vm = task_enter(L, "a guard");
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct scope_options o = {
        .soft = bind_opt_integer_field(L, 1, "soft", NEVER),
        .hard = bind_opt_integer_field(L, 1, "hard", NEVER),
        .slice = bind_opt_seconds_field(L, 1, "slice", 0),
        .name = bind_opt_string_field(L, 1, "name", NULL),
    };
    read_lease(L, &o);
    scope_push(L, vm, &o, 2);
    return 1;
}

static int l_move(lua_State *L) {
    scope_set_deadlines(check_scope(L), luaL_checkinteger(L, 2), luaL_checkinteger(L, 3));
    return 0;
}

/* What there is of it in the err table at 2. */
static void read_error(lua_State *L, struct error *e) {
    const char *code = bind_opt_string_field(L, 2, "code", NULL);
    const char *message = bind_opt_string_field(L, 2, "message", NULL);
    error_set(e, code ? err_from_word(code) : ERR_LEASE_LOST, message ? "%s" : NULL, message);
}

static int l_stop(lua_State *L) {
    struct error e;
    read_error(L, &e);
    scope_stop(check_scope(L), &e);
    return 0;
}

static int l_stopped(lua_State *L) {
    struct scope *s = check_scope(L);
    if (!scope_is_stopped(s)) {
        return 0;
    }
    bind_push_error(L, scope_error(s), "guard", scope_name(s));
    return 1;
}

/* Refused where its end could not be awaited: nobody could stop what it began. */
static int l_spawn(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "a guard");
    struct scope *s = check_scope(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    task_spawn_in(L, vm, lua_gettop(L) - 2, s);
    return 1;
}

static int l_cancel(lua_State *L) {
    task_enter(L, "a guard");
    lua_settop(L, 3);
    lua_pushvalue(L, 2);
    scope_cancel(L, check_scope(L), lua_toboolean(L, 3));
    return 0;
}

static int idle_waited(lua_State *L, void *arg) {
    (void)arg;
    lua_pushboolean(L, scope_is_idle(check_scope(L)));
    return 1;
}

static int l_idle(lua_State *L) {
    struct scope *s = check_scope(L);
    int64_t seconds = bind_opt_seconds(L, 2, NEVER);
    if (scope_is_idle(s) || seconds == 0) {
        return idle_waited(L, NULL);
    }
    struct vm *vm = task_enter_wait(L, "a guard");
    return task_wait(L, vm, scope_idlers(s), instant_add(world_now(vm_world(vm)), seconds),
                     idle_waited);
}

static int l_finish(lua_State *L) {
    scope_end(check_scope(L));
    return 0;
}

/* Memory outside of Lua's sight must not wait for its collector. */
static int l_close(lua_State *L) {
    struct bound_scope *b = luaL_checkudata(L, 1, SCOPE_TYPE);
    struct scope *s = b->scope;
    b->scope = NULL;
    if (s) {
        scope_close(s);
        scope_unref(s);
    }
    return 0;
}

void bind_scope(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {{"scope", l_scope}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"move", l_move},     {"stop", l_stop},     {"stopped", l_stopped}, {"spawn", l_spawn},
        {"idle", l_idle}, /* waits */
        {"cancel", l_cancel}, {"finish", l_finish}, {"close", l_close},     {NULL, NULL},
    };
    static const luaL_Reg metamethods[] = {{"__gc", l_close}, {NULL, NULL}};
    bind_functions(L, vm, functions);
    bind_type(L, vm, SCOPE_TYPE, methods, metamethods);
}
