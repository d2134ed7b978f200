/* bind/clock.c -- the world's clocks and random numbers. */
#include "bind/bind.h"
#include "bind/table.h"

enum { RANDOM_BYTES_MAX = 1024 };

/* core.now() -> seconds of the boot-time clock */
static int l_now(lua_State *L) {
    struct vm *vm = task_enter(L, "synod.now");
    lua_pushnumber(L, seconds_from_ns(world_now(vm_world(vm))));
    return 1;
}

/* core.instant() -> the same as integer nanoseconds, in which nothing drifts */
static int l_instant(lua_State *L) {
    struct vm *vm = task_enter(L, "synod.now");
    lua_pushinteger(L, world_now(vm_world(vm)));
    return 1;
}

/* core.time() -> seconds since 1970-01-01 UTC; core.time(x) -> x as tables keep it: edm.c */
static int l_time(lua_State *L) {
    if (!lua_isnone(L, 1)) {
        return make_time(L);
    }
    struct vm *vm = task_enter(L, "synod.time");
    lua_pushnumber(L, seconds_from_ns(world_wall(vm_world(vm))));
    return 1;
}

/* core.random_bytes(n) -> string */
static int l_random_bytes(lua_State *L) {
    struct vm *vm = task_enter(L, "random bytes");
    lua_Integer n = luaL_checkinteger(L, 1);
    luaL_argcheck(L, n >= 1 && n <= RANDOM_BYTES_MAX, 1, "1 to 1024 bytes");
    char bytes[RANDOM_BYTES_MAX];
    world_random(vm_world(vm), bytes, (size_t)n);
    lua_pushlstring(L, bytes, (size_t)n);
    return 1;
}

/* core.random() -> a number in [0, 1), for jitter */
static int l_random(lua_State *L) {
    struct vm *vm = task_enter(L, "a random number");
    uint64_t x;
    world_random(vm_world(vm), &x, sizeof x);
    lua_pushnumber(L, (lua_Number)(x >> 11) * 0x1.0p-53);
    return 1;
}

/* core.iso_time(seconds since 1970, digits) -> "2024-01-01T00:00:00.000Z" */
static int l_iso_time(lua_State *L) {
    char text[INSTANT_TEXT_MAX];
    lua_Integer digits = luaL_optinteger(L, 2, 0);
    luaL_argcheck(L, digits >= 0 && digits <= 9, 2, "0 to 9 digits");
    instant_iso(bind_check_seconds(L, 1), (int)digits, text);
    lua_pushstring(L, text);
    return 1;
}

/* core.is_virtual() -> boolean */
static int l_is_virtual(lua_State *L) {
    struct vm *vm = task_enter(L, "the world");
    lua_pushboolean(L, world_is_virtual(vm_world(vm)));
    return 1;
}

void bind_clock(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {
        {"now", l_now},
        {"instant", l_instant},
        {"time", l_time},
        {"random", l_random},
        {"random_bytes", l_random_bytes},
        {"iso_time", l_iso_time},
        {"is_virtual", l_is_virtual},
        {NULL, NULL},
    };
    bind_functions(L, vm, functions);
}
