/* input.c -- world/input.h to Lua: core.input_read() -> bytes ("": ask again) | nil (the end) | nil, message
 *
 * Waits until there is something. Where Lua cannot suspend, and outside of a run, everything waits. A
 * cancel leaves what there is to the next who reads. core.input_terminal() -> boolean
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bind/bind.h"
#include "world/input.h"

enum { READ_MAX = 32 * 1024 };

struct lua_input {
    struct input input;
    struct vm *vm;
    struct vm_resource resource;
    bool kept;
    struct waitlist readers;
};

static const char INPUT; /* its address is the key in the registry */

static struct lua_input *input_of(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &INPUT);
    struct lua_input *in = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return in;
}

static void input_became_ready(struct input *input) {
    waitlist_wake(&container_of(input, struct lua_input, input)->readers);
}

static void input_close(struct vm_resource *r) {
    struct lua_input *in = container_of(r, struct lua_input, resource);
    in->kept = false;
    input_detach(&in->input);
}

static int push_read(lua_State *L, const char *data, ssize_t n) {
    if (n > 0 || n == -EAGAIN) {
        lua_pushlstring(L, data, n > 0 ? (size_t)n : 0);
        return 1;
    }
    lua_pushnil(L);
    if (n == 0) {
        return 1;
    }
    lua_pushstring(L, strerror((int)-n));
    return 2;
}

static int read_waited(lua_State *L, void *arg) {
    char data[READ_MAX];
    (void)arg;
    return push_read(L, data, input_read(&input_of(L)->input, data, sizeof data));
}

static int l_input_read(lua_State *L) {
    struct lua_input *in = input_of(L);
    char data[READ_MAX];
    bool waits = vm_world(in->vm) && task_may_wait(L, in->vm);
    ssize_t n = waits ? input_read(&in->input, data, sizeof data)
                      : input_read_blocking(&in->input, data, sizeof data);
    if (n != -EAGAIN || !waits) {
        return push_read(L, data, n);
    }
    struct vm *vm = task_enter_wait(L, "io.read");
    int rc = input_await(&in->input, vm_world(vm));
    if (rc != 0) {
        return push_read(L, data, rc);
    }
    if (!in->kept) {
        in->kept = true;
        vm_keep(vm, &in->resource);
    }
    return task_wait(L, vm, &in->readers, NEVER, read_waited);
}

static int l_input_terminal(lua_State *L) {
    lua_pushboolean(L, isatty(STDIN_FILENO));
    return 1;
}

static int l_input_collect(lua_State *L) {
    struct lua_input *in = lua_touserdata(L, 1);
    input_release(&in->input);
    return 0;
}

void bind_input(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {{"input_read", l_input_read}, /* waits */
                                         {"input_terminal", l_input_terminal},
                                         {NULL, NULL}};
    struct lua_input *in = lua_newuserdatauv(L, sizeof *in, 0);
    memset(in, 0, sizeof *in);
    in->vm = vm;
    in->resource.close = input_close;
    input_init(&in->input, STDIN_FILENO, input_became_ready);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, l_input_collect);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &INPUT);
    bind_functions(L, vm, functions);
}
