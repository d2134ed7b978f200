#include "bind/meter.h"

#include <lauxlib.h>

#include "bind/bind.h"

#define LEDGER "synod.ledger" /* in the registry: by name, the meter of all stores of that name */
#define OTHERS "other stores"

enum { LEDGER_PAGES_MAX = 64 }; /* the stores after these are added up as one */

static lua_Integer count_pages(lua_State *L, int ledger) {
    lua_Integer n = 0;
    for (lua_pushnil(L); lua_next(L, ledger); lua_pop(L, 1)) {
        n++;
    }
    return n;
}

struct meter *ledger_page(lua_State *L, const char *name) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LEDGER);
    int ledger = lua_gettop(L);
    if (lua_getfield(L, ledger, name) == LUA_TNIL && count_pages(L, ledger) >= LEDGER_PAGES_MAX) {
        name = OTHERS;
        lua_getfield(L, ledger, name);
    }
    struct meter *page = lua_touserdata(L, -1);
    if (!page) {
        page = lua_newuserdatauv(L, sizeof *page, 0);
        *page = (struct meter){0};
        lua_setfield(L, ledger, name);
    }
    lua_settop(L, ledger - 1);
    return page;
}

void ledger_add(struct meter *page, const struct meter *m) {
    for (int verb = 0; verb < VERB_COUNT; verb++) {
        for (int outcome = 0; outcome < METER_OUTCOMES; outcome++) {
            page->counts[verb][outcome] += m->counts[verb][outcome];
        }
    }
}

static void push_outcomes(lua_State *L, const uint64_t counts[METER_OUTCOMES]) {
    lua_newtable(L);
    for (int outcome = 0; outcome < METER_OUTCOMES; outcome++) {
        if (counts[outcome]) {
            lua_pushinteger(L, (lua_Integer)counts[outcome]);
            lua_setfield(L, -2, meter_outcome_word((enum meter_outcome)outcome));
        }
    }
}

void push_meter(lua_State *L, const struct meter *m, bool outcomes) {
    lua_newtable(L);
    for (int verb = 0; verb < VERB_COUNT; verb++) {
        uint64_t total = meter_total(m, (enum store_verb)verb);
        if (!total) {
            continue;
        }
        if (outcomes) {
            push_outcomes(L, m->counts[verb]);
        } else {
            lua_pushinteger(L, (lua_Integer)total);
        }
        lua_setfield(L, -2, verb_word((enum store_verb)verb));
    }
}

/* core.usage() -> {NAME = {PutBlob = {done = 3}, ...}, ...}: of the stores that were closed */
static int usage(lua_State *L) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LEDGER);
    int ledger = lua_gettop(L);
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, ledger); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        push_meter(L, lua_touserdata(L, -2), true);
        lua_settable(L, ledger + 1);
    }
    return 1;
}

/* core.operations() -> the words of all operations, in order */
static int operations(lua_State *L) {
    lua_createtable(L, VERB_COUNT, 0);
    for (int verb = 0; verb < VERB_COUNT; verb++) {
        lua_pushstring(L, verb_word((enum store_verb)verb));
        lua_rawseti(L, -2, verb + 1);
    }
    return 1;
}

void bind_meter(lua_State *L, struct vm *vm) {
    static const luaL_Reg FUNCTIONS[] = {
        {"usage", usage}, {"operations", operations}, {NULL, NULL}};
    bind_functions(L, vm, FUNCTIONS);
}
