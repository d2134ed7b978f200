/* coroutine.c -- resume, wrap, close and yield of a script's own coroutines.
 *
 * They behave as Lua's, and know one thing more: a wait (task_park) inside a script's coroutine is a
 * yield that is not meant for its resumer. Resume passes it up, coroutine by coroutine, to the task;
 * when the task goes on, each resume on the way goes on where it was. Meanwhile the coroutine is marked
 * as waiting, so that another task cannot resume it by mistake.
 */
#include <lauxlib.h>

#include "vm/vm_impl.h"

/* The mark is kept in the coroutine itself: taking memory for it could fail when the task is parked
 * already, and then nobody could be told. It is the resumer's address, made odd, as no address is that
 * others may have left there. */
static void mark_waiting(lua_State *co, lua_State *resumer) {
    *(uintptr_t *)lua_getextraspace(co) = resumer ? (uintptr_t)resumer | 1 : 0;
}

static bool is_waiting(lua_State *co) {
    return lua_status(co) == LUA_YIELD && (*(uintptr_t *)lua_getextraspace(co) & 1);
}

lua_State *coroutine_resumer(lua_State *co) {
    uintptr_t mark = *(uintptr_t *)lua_getextraspace(co);
    return (lua_State *)(mark & ~(uintptr_t)1);
}

enum { PASS_UP = -2, FAILED = -1 };

/* Runs co until it yields to its resumer, ends or waits. The number of values it left on L's stack;
 * FAILED: its error is there; PASS_UP: it waits. */
static int step(lua_State *L, struct vm *vm, lua_State *co, int nargs) {
    struct frame frame = {
        .outer = vm->frame,
        .resumer = L,
        .may_wait = lua_isyieldable(L) && (!vm->frame || vm->frame->may_wait),
    };
    int nresults;
    vm->frame = &frame;
    vm->parking = false;
    int status = vm_resume(vm, co, L, nargs, &nresults);
    vm->frame = frame.outer;
    if (status == LUA_YIELD && vm->parking) {
        mark_waiting(co, L);
        return PASS_UP;
    }
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(co, L, 1);
        return FAILED;
    }
    if (!lua_checkstack(L, nresults + 1)) {
        lua_pop(co, nresults);
        lua_pushliteral(L, "too many results to resume");
        return FAILED;
    }
    lua_xmove(co, L, nresults);
    return nresults;
}

/* Checks what Lua's own resume checks, moves the arguments, steps. */
static int start(lua_State *L, struct vm *vm, lua_State *co, int nargs) {
    if (is_waiting(co)) {
        lua_pushliteral(L, "cannot resume a coroutine that waits in a task");
        return FAILED;
    }
    if (!lua_checkstack(co, nargs)) {
        lua_pushliteral(L, "too many arguments to resume");
        return FAILED;
    }
    lua_xmove(L, co, nargs);
    return step(L, vm, co, nargs);
}

static int go_on(lua_State *L, struct vm *vm, lua_State *co) {
    mark_waiting(co, NULL);
    return step(L, vm, co, 0);
}

static lua_State *check_coroutine(lua_State *L) {
    lua_State *co = lua_tothread(L, 1);
    luaL_argexpected(L, co, 1, "coroutine");
    return co;
}

static int resume_result(lua_State *L, int n);

static int resume_again(lua_State *L, int status, lua_KContext ctx) {
    (void)status;
    return resume_result(L, go_on(L, (struct vm *)ctx, lua_tothread(L, 1)));
}

static int resume_result(lua_State *L, int n) {
    if (n == PASS_UP) {
        return lua_yieldk(L, 0, (lua_KContext)vm_of(L), resume_again);
    }
    lua_pushboolean(L, n >= 0);
    int values = n >= 0 ? n : 1;
    lua_insert(L, -(values + 1));
    return values + 1;
}

static int co_resume(lua_State *L) {
    struct vm *vm = lua_touserdata(L, lua_upvalueindex(1));
    lua_State *co = check_coroutine(L);
    return resume_result(L, start(L, vm, co, lua_gettop(L) - 1));
}

/* An error passes through a wrapped coroutine with the place of the call in front, as in Lua. */
static int wrap_failed(lua_State *L, lua_State *co) {
    int status = lua_status(co);
    if (status != LUA_OK && status != LUA_YIELD) {
        vm_close(vm_of(L), co); /* what it left open; the error may become theirs */
        lua_xmove(co, L, 1);
    }
    if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int wrap_result(lua_State *L, lua_State *co, int n);

static int wrap_again(lua_State *L, int status, lua_KContext ctx) {
    (void)status;
    lua_State *co = (lua_State *)ctx;
    return wrap_result(L, co, go_on(L, vm_of(L), co));
}

static int wrap_result(lua_State *L, lua_State *co, int n) {
    if (n == PASS_UP) {
        return lua_yieldk(L, 0, (lua_KContext)co, wrap_again);
    }
    return n >= 0 ? n : wrap_failed(L, co);
}

static int wrap_call(lua_State *L) {
    struct vm *vm = lua_touserdata(L, lua_upvalueindex(1));
    lua_State *co = lua_tothread(L, lua_upvalueindex(2));
    return wrap_result(L, co, start(L, vm, co, lua_gettop(L)));
}

static int co_wrap(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    lua_pushcclosure(L, wrap_call, 2);
    return 1;
}

static int co_close(lua_State *L) {
    lua_State *co = check_coroutine(L);
    lua_Debug ar;
    if (co == L || (lua_status(co) == LUA_OK && lua_getstack(co, 0, &ar))) {
        return luaL_error(L, "cannot close a %s coroutine", co == L ? "running" : "normal");
    }
    if (is_waiting(co)) {
        return luaL_error(L, "cannot close a coroutine that waits in a task");
    }
    if (vm_close(vm_of(L), co) == LUA_OK) {
        lua_pushboolean(L, 1);
        return 1;
    }
    lua_pushboolean(L, 0);
    lua_xmove(co, L, 1);
    return 2;
}

static int co_yield (lua_State *L) {
    struct vm *vm = lua_touserdata(L, lua_upvalueindex(1));
    if (vm->running && L == vm->running->co) {
        return luaL_error(L, "attempt to yield from outside a coroutine "
                             "(to let other tasks run, call synod.yield)");
    }
    return lua_yield(L, lua_gettop(L));
}

void coroutine_library(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {
        {"resume", co_resume}, {"wrap", co_wrap}, {"close", co_close},
        {"yield", co_yield },  {NULL, NULL},
    };
    lua_newtable(L);
    lua_pushlightuserdata(L, vm);
    luaL_setfuncs(L, functions, 1);
}
