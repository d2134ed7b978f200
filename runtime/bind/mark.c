/* bind/mark.c -- what stands in the metadata of a held blob, for Lua. */
#include "bind/bind.h"

#include "lease/mark.h"

/* Pushes the table at 1 as the text of pairs. */
static const char *check_pairs(lua_State *L, size_t *len) {
    luaL_Buffer text;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushnil(L); /* the name, below the buffer's own place */
    lua_pushnil(L); /* its value */
    luaL_buffinit(L, &text);
    for (lua_pushnil(L); lua_next(L, 1); lua_pushvalue(L, 2)) {
        luaL_argcheck(L, lua_type(L, -2) == LUA_TSTRING && lua_isstring(L, -1), 1,
                      "metadata is a table of strings by name");
        lua_replace(L, 3);
        lua_replace(L, 2);
        luaL_addstring(&text, lua_tostring(L, 2));
        luaL_addchar(&text, '\0');
        luaL_addstring(&text, lua_tostring(L, 3));
        luaL_addchar(&text, '\0');
    }
    luaL_pushresult(&text);
    return lua_tolstring(L, -1, len);
}

/* core.mark_read(metadata) -> {holder =, host =, pid =, since =, purpose =, hints =, next =, fence =, ttl =, beat =}, or nil, err;
 * what is not told is absent */
static int l_mark_read(lua_State *L) {
    task_enter(L, "core.mark_read");
    size_t len;
    const char *text = check_pairs(L, &len);
    /* Only read: the text stays Lua's. */
    struct pairs metadata = {.text = {.data = (char *)(uintptr_t)text, .len = len}};
    struct mark m;
    struct error err;
    if (mark_read(&m, &metadata, &err) != ERR_OK) {
        return bind_fail(L, &err, "read the metadata of a lease", NULL);
    }
    lua_createtable(L, 0, 10);
    bind_set_text(L, "holder", m.holder);
    bind_set_text(L, "host", m.host);
    bind_set_text(L, "since", m.since);
    bind_set_text(L, "purpose", m.purpose);
    bind_set_text(L, "hints", m.hints);
    bind_set_text(L, "next", m.next);
    bind_set_number(L, "pid", m.pid);
    bind_set_number(L, "fence", m.fence);
    bind_set_number(L, "beat", m.beat);
    if (m.ttl_ms) {
        bind_set_seconds(L, "ttl", m.ttl_ms * NS_PER_MS);
    }
    return 1;
}

void bind_mark(lua_State *L, struct vm *vm) {
    static const luaL_Reg FUNCTIONS[] = {{"mark_read", l_mark_read}, {NULL, NULL}};
    bind_functions(L, vm, FUNCTIONS);
}
