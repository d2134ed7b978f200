/* bind/timing.c -- the times of a lease (lease/timing.h) as Lua sees them.
 *
 *     core.lease_timing(ttl, [renew], [try]) -> {ttl =, renew =, try =, soft =, hard =, ...}, or nil, why
 */
#include "bind/bind.h"
#include "lease/timing.h"

static int l_lease_timing(lua_State *L) {
    struct lease_settings s = {.ttl = bind_check_seconds(L, 1),
                               .renew = bind_opt_seconds(L, 2, 0),
                               .try = bind_opt_seconds(L, 3, 0)};
    struct lease_timing t;
    char why[LEASE_FAULT_MAX];
    if (!lease_timing_make(&t, &s, why)) {
        lua_pushnil(L);
        lua_pushstring(L, why);
        return 2;
    }
    lua_newtable(L);
    bind_set_seconds(L, "ttl", t.ttl);
    bind_set_seconds(L, "drift", t.drift);
    bind_set_seconds(L, "request", t.request);
    bind_set_seconds(L, "slice", t.slice);
    bind_set_seconds(L, "grace", t.grace);
    bind_set_seconds(L, "renew", t.renew);
    bind_set_seconds(L, "try", t.try);
    bind_set_seconds(L, "soft", lease_soft(&t, 0));
    bind_set_seconds(L, "hard", lease_hard(&t, 0));
    lua_pushboolean(L, lease_is_record(&t));
    lua_setfield(L, -2, "record");
    return 1;
}

void bind_timing(lua_State *L, struct vm *vm) {
    static const luaL_Reg FUNCTIONS[] = {{"lease_timing", l_lease_timing}, {NULL, NULL}};
    bind_functions(L, vm, FUNCTIONS);
}
