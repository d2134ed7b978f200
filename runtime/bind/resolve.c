/* resolve.c -- world/resolve.h to Lua, for synod.net.
 *
 *     core.stream_resolve(host | nil, port, to_listen, [seconds]) -> {address, ...} | nil, err
 *
 * An address is a sockaddr as a string. Waits; after a cancel nobody asks any more.
 */
#include <string.h>

#include "base/alloc.h"
#include "bind/bind.h"
#include "world/resolve.h"

#define QUESTION_TYPE "synod.question"

struct lua_question {
    struct resolve *resolve;
    struct vm *vm;
    struct vm_resource resource;
    struct waitlist waiting;
};

static void question_close(struct lua_question *q) {
    if (q->resolve) {
        vm_forget(q->vm, &q->resource);
        resolve_free(q->resolve);
        q->resolve = NULL;
    }
}

static void question_resource_close(struct vm_resource *r) {
    question_close(container_of(r, struct lua_question, resource));
}

static int l_question_collect(lua_State *L) {
    question_close(luaL_checkudata(L, 1, QUESTION_TYPE));
    return 0;
}

static void question_resolved(struct resolve *r) {
    struct lua_question *q = resolve_owner(r);
    waitlist_wake(&q->waiting);
}

enum { ASK_HOST = 1, ASK_PORT, ASK_TO_LISTEN, ASK_SECONDS, ASK_QUESTION };

static int push_addresses(lua_State *L, struct lua_question *q) {
    const char *host = luaL_optstring(L, ASK_HOST, "");
    const char *why = resolve_error(q->resolve);
    if (why) {
        struct error e;
        error_set(&e, ERR_ADDRESS_NOT_FOUND, "%s", why);
        question_close(q);
        return bind_fail(L, &e, "find the address of", host);
    }
    const struct sockaddr *address;
    socklen_t len;
    lua_newtable(L);
    for (int i = 1; resolve_next(q->resolve, &address, &len); i++) {
        lua_pushlstring(L, (const char *)address, len);
        lua_rawseti(L, -2, i);
    }
    question_close(q);
    return 1;
}

static int resolve_waited(lua_State *L, void *arg) {
    struct lua_question *q = luaL_checkudata(L, ASK_QUESTION, QUESTION_TYPE);
    if (task_timed_out(arg)) {
        question_close(q);
        struct error e;
        error_set(&e, ERR_TIMEOUT, NULL);
        return bind_fail(L, &e, "find the address of", luaL_optstring(L, ASK_HOST, ""));
    }
    return push_addresses(L, q);
}

static int l_stream_resolve(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "a network address");
    const char *host = luaL_optstring(L, ASK_HOST, NULL);
    const char *port = luaL_checkstring(L, ASK_PORT);
    int64_t seconds = bind_opt_seconds(L, ASK_SECONDS, NEVER);
    int64_t deadline = instant_add(world_now(vm_world(vm)), seconds);
    lua_settop(L, ASK_SECONDS);
    struct lua_question *q = lua_newuserdatauv(L, sizeof *q, 0);
    memset(q, 0, sizeof *q);
    luaL_setmetatable(L, QUESTION_TYPE);
    q->vm = vm;
    q->resource.close = question_resource_close;
    q->resolve = resolve_start(vm_world(vm), host, port, lua_toboolean(L, ASK_TO_LISTEN),
                               question_resolved, q);
    if (!q->resolve) {
        struct error e;
        error_set(&e, ERR_ADDRESS_NOT_FOUND, "no thread could be started to look it up");
        return bind_fail(L, &e, "find the address of", host);
    }
    vm_keep(vm, &q->resource);
    if (resolve_done(q->resolve)) {
        return push_addresses(L, q);
    }
    return task_wait(L, vm, &q->waiting, deadline, resolve_waited);
}

void bind_resolve(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {{"stream_resolve", l_stream_resolve}, {NULL, NULL}};
    static const luaL_Reg metamethods[] = {{"__gc", l_question_collect}, {NULL, NULL}};
    static const luaL_Reg none[] = {{NULL, NULL}};
    bind_type(L, vm, QUESTION_TYPE, none, metamethods);
    bind_functions(L, vm, functions);
}
