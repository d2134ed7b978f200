/* entity.c -- entities between Lua's tables and the store's. */
#include <stdlib.h>
#include <string.h>

#include "bind/table.h"
#include "store/lost.h"

static bool is_own_word(const char *name) {
    static const char *const WORDS[] = {"partition", "row", "etag", "timestamp"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strcmp(name, WORDS[i]) == 0) {
            return true;
        }
    }
    return false;
}

void push_entity(lua_State *L, const struct entity *e) {
    lua_createtable(L, 0, e->count + 4);
    lua_pushstring(L, e->partition);
    lua_setfield(L, -2, "partition");
    lua_pushstring(L, e->row);
    lua_setfield(L, -2, "row");
    if (e->etag[0]) {
        lua_pushstring(L, e->etag);
        lua_setfield(L, -2, "etag");
    }
    if (e->timestamp != INT64_MIN) {
        push_value(L, &(struct edm_value){.type = EDM_TIME, .integer = e->timestamp});
        lua_setfield(L, -2, "timestamp");
    }
    for (const struct property *p = e->properties; p; p = p->next) {
        lua_pushfstring(L, "%s%s", is_own_word(p->name) ? "@" : "", p->name);
        push_value(L, &p->value);
        lua_rawset(L, -3);
    }
}

const char *check_key(lua_State *L, int index, struct store_call *call, const char *what) {
    size_t len;
    if (lua_type(L, index) != LUA_TSTRING) {
        luaL_error(L, "the %s key: string expected, got %s", what, luaL_typename(L, index));
    }
    const char *key = lua_tolstring(L, index, &len);
    const char *fault = key_fault(key, len);
    if (fault) {
        luaL_error(L, "the %s key '%s' %s", what, key, fault);
    }
    return call_copy(L, call, key, len);
}

/* Fields are read past metamethods, which could make a call of their own in the middle of this one. */
static const char *key_field(lua_State *L, int table, struct store_call *call, const char *what) {
    lua_pushstring(L, what);
    lua_rawget(L, table);
    const char *key = check_key(L, -1, call, what);
    lua_pop(L, 1);
    return key;
}

/* The property name at the top but one; NULL: it is one of the four words. */
static const char *check_name(lua_State *L) {
    if (lua_type(L, -2) != LUA_TSTRING) {
        luaL_error(L, "an entity is a table of properties by name; this one has a %s for a name",
                   luaL_typename(L, -2));
    }
    size_t len;
    const char *name = lua_tolstring(L, -2, &len);
    if (is_own_word(name)) {
        return NULL;
    }
    if (name[0] == '@' && is_own_word(name + 1)) {
        return name + 1;
    }
    const char *fault = property_name_fault(name, len);
    if (fault) {
        luaL_error(L, "the property name '%s' %s", name, fault);
    }
    if (strcmp(name, "PartitionKey") == 0 || strcmp(name, "RowKey") == 0 ||
        strcmp(name, "Timestamp") == 0) {
        luaL_error(L,
                   "the property name '%s' is the service's own; the keys are 'partition' and "
                   "'row'",
                   name);
    }
    if (strcmp(name, NONCE_NAME) == 0) {
        luaL_error(L, "the property name '%s' is synod's own", name);
    }
    return name;
}

/* The pair that lua_next has left. */
static void take_property(lua_State *L, struct store_call *call, struct entity *e) {
    struct edm_value value;
    const char *word, *name = check_name(L);
    if (!name) {
        return;
    }
    if (!to_value(L, -1, &value)) {
        luaL_error(L,
                   "the property '%s': string, number, boolean, or a value of synod.int32, time, "
                   "guid or binary expected, got %s",
                   name, luaL_typename(L, -1));
    }
    const char *fault = value_fault(&value, &word);
    if (fault) {
        luaL_error(L, "the property '%s' %s%s", name, fault,
                   value.type == EDM_STRING && utf16_length(value.text, value.len) < 0
                       ? "; synod.binary holds any bytes"
                       : "");
    }
    if (e->count >= ENTITY_PROPERTIES_MAX) {
        luaL_error(L, "the entity has more than %d properties of its own", ENTITY_PROPERTIES_MAX);
    }
    if (!entity_set(e, &call->arena, name, &value)) {
        luaL_error(L, "not enough memory");
    }
}

static int compare_names(const void *a, const void *b) {
    const struct property *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The order in which Lua goes through a table is chance; that of a request is not. */
static void sort_properties(struct entity *e) {
    struct property *all[ENTITY_PROPERTIES_MAX];
    size_t count = 0;
    for (struct property *p = e->properties; p; p = p->next) {
        all[count++] = p;
    }
    qsort(all, count, sizeof *all, compare_names);
    e->last = &e->properties;
    for (size_t i = 0; i < count; i++) {
        *e->last = all[i];
        e->last = &all[i]->next;
    }
    *e->last = NULL;
}

const struct entity *check_entity(lua_State *L, int index, struct store_call *call,
                                  bool keys_only) {
    const char *word;
    index = lua_absindex(L, index);
    if (!lua_istable(L, index)) {
        luaL_error(L, "an entity expected: a table with partition, row and properties, got %s",
                   luaL_typename(L, index));
    }
    const char *partition = key_field(L, index, call, "partition");
    const char *row = key_field(L, index, call, "row");
    struct entity *e = entity_new(&call->arena, partition, row);
    if (!e) {
        luaL_error(L, "not enough memory");
    }
    for (lua_pushnil(L); !keys_only && lua_next(L, index); lua_pop(L, 1)) {
        take_property(L, call, e);
    }
    if (keys_only) {
        lua_pop(L, 1); /* the nil that began no walk */
    }
    sort_properties(e);
    const char *fault = entity_fault(e, &word);
    if (fault) {
        luaL_error(L, "the entity %s", fault);
    }
    return e;
}
