/* body.c -- what a task's coroutine runs: its function under protection, and the traceback of its
 * error. */
#include <lauxlib.h>

#include "vm/vm_impl.h"

/* An error that came out of a join is raised again by those who do not expect it: where it came from
 * first is what a person wants to see. */
static bool push_first_traceback(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.joined_error);
    bool same = !lua_isnil(L, 1) && lua_rawequal(L, 1, -1);
    lua_pop(L, 1);
    if (same) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.joined_trace);
        lua_pushliteral(L, "\njoined, and raised again:\n");
    }
    return same;
}

static void push_message(lua_State *L) {
    int top = lua_gettop(L);
    if (lua_type(L, 1) == LUA_TSTRING) {
        lua_pushvalue(L, 1);
    } else if (luaL_getmetafield(L, 1, "__tostring") == LUA_TFUNCTION && lua_iscfunction(L, -1)) {
        luaL_tolstring(L, 1, NULL); /* an err table: no code of the script's runs here */
    } else {
        lua_pushliteral(L, "an error object");
    }
    lua_insert(L, top + 1); /* what luaL_getmetafield left goes */
    lua_settop(L, top + 1);
}

/* Keeps the message and the traceback beside the error, which stays what it was. When the task has
 * failed already, a to-be-closed handler has failed on the way out: the first error is kept below. */
static int note_traceback(lua_State *L) {
    struct vm *vm = vm_of(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.tracebacks);
    bool again = push_first_traceback(L);
    push_message(L);
    luaL_traceback(L, L, lua_tostring(L, -1), 1);
    lua_remove(L, -2);
    lua_concat(L, again ? 3 : 1);
    if (lua_rawgetp(L, 2, vm->running) == LUA_TSTRING && lua_rawlen(L, -1) < TRACE_MAX) {
        lua_pushliteral(L, "\nwhile cleaning up after: ");
        lua_insert(L, -2);
        lua_concat(L, 3);
    } else {
        lua_pop(L, 1);
        lua_pushvalue(L, 1);
        task_note_fault(vm->running, L);
        lua_pop(L, 1);
    }
    lua_rawsetp(L, 2, vm->running);
    lua_settop(L, 1);
    return 1;
}

/* The error "not enough memory" says nothing of the limit that was set. */
static void explain_memory(lua_State *L, struct vm *vm) {
    size_t limit = vm_memory_limit(L);
    if (limit) {
        vm_open_reserve(L);
        struct error e;
        error_set(&e, ERR_NO_MEMORY, "the script needs more than its memory limit of %.4g MiB",
                  (double)limit / (1024 * 1024));
        vm->push_error(L, &e, NULL, NULL);
    }
}

static int body_done(lua_State *L, int status, lua_KContext ctx) {
    struct task *t = (struct task *)ctx;
    if (status == LUA_OK || status == LUA_YIELD) {
        return lua_gettop(L) - 1; /* the handler stays below */
    }
    t->failed = true;
    if (status == LUA_ERRMEM) {
        explain_memory(L, t->vm);
    }
    return 1;
}

/* Called with the task, its function and the arguments. */
int task_body(lua_State *L) {
    struct task *t = lua_touserdata(L, 1);
    lua_pushcfunction(L, note_traceback);
    lua_replace(L, 1);
    int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, (lua_KContext)t, body_done);
    return body_done(L, status, (lua_KContext)t);
}
