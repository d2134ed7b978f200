/* edm.c -- values of the types that Lua has not: int32, time, guid and binary.
 *
 *     synod.int32(5)  synod.time "2026-01-02T03:04:05.1234567Z"  synod.guid "..."  synod.binary "\0\1"
 *
 * Each is a userdata "synod.Value" with the fields `type` and `value`; equal values are ==, and values of one
 * type can be ordered. tostring gives the text: binary in base64.
 */
#include <math.h>
#include <string.h>

#include "base/base64.h"
#include "bind/table.h"

#define VALUE_TYPE "synod.Value"

struct typed {
    struct edm_value value; /* its text is the one below */
    char text[];
};

static void push_typed(lua_State *L, const struct edm_value *value) {
    struct typed *t = lua_newuserdatauv(L, sizeof *t + value->len + 1, 0);
    t->value = *value;
    if (value->text) {
        t->value.text = memcpy(t->text, value->text, value->len);
        t->text[value->len] = '\0';
    }
    luaL_setmetatable(L, VALUE_TYPE);
}

void push_value(lua_State *L, const struct edm_value *value) {
    switch (value->type) {
    case EDM_STRING:
        lua_pushlstring(L, value->text, value->len);
        return;
    case EDM_INT64:
        lua_pushinteger(L, value->integer);
        return;
    case EDM_DOUBLE:
        lua_pushnumber(L, value->number);
        return;
    case EDM_BOOLEAN:
        lua_pushboolean(L, value->integer != 0);
        return;
    case EDM_INT32:
    case EDM_TIME:
    case EDM_GUID:
    case EDM_BINARY:
    case EDM_COUNT:
        break;
    }
    push_typed(L, value);
}

bool to_value(lua_State *L, int index, struct edm_value *out) {
    const struct typed *t;
    *out = (struct edm_value){.type = EDM_STRING};
    switch (lua_type(L, index)) {
    case LUA_TSTRING:
        out->text = lua_tolstring(L, index, &out->len);
        return true;
    case LUA_TBOOLEAN:
        out->type = EDM_BOOLEAN;
        out->integer = lua_toboolean(L, index);
        return true;
    case LUA_TNUMBER:
        out->type = lua_isinteger(L, index) ? EDM_INT64 : EDM_DOUBLE;
        out->integer = lua_isinteger(L, index) ? lua_tointeger(L, index) : 0;
        out->number = lua_tonumber(L, index);
        return true;
    case LUA_TUSERDATA:
        t = luaL_testudata(L, index, VALUE_TYPE);
        if (t) {
            *out = t->value;
        }
        return t != NULL;
    default:
        return false;
    }
}

/* ---- making them ---- */

/* A value of this type already: it is its own copy. */
static bool is_typed(lua_State *L, enum edm_type type) {
    const struct typed *t = luaL_testudata(L, 1, VALUE_TYPE);
    lua_settop(L, 1);
    return t && t->value.type == type;
}

static int make_int32(lua_State *L) {
    if (!is_typed(L, EDM_INT32)) {
        lua_Integer n = luaL_checkinteger(L, 1);
        luaL_argcheck(L, n >= INT32_MIN && n <= INT32_MAX, 1, "it does not fit into 32 bits");
        push_typed(L, &(struct edm_value){.type = EDM_INT32, .integer = n});
    }
    return 1;
}

static int64_t check_ticks(lua_State *L) {
    int64_t ticks = 0;
    size_t len;
    if (lua_isinteger(L, 1)) {
        lua_Integer s = lua_tointeger(L, 1);
        bool fits = s > -INT64_C(100000000000) && s < INT64_C(1000000000000);
        ticks = fits ? s * TICKS_PER_S : INT64_MAX;
    } else if (lua_type(L, 1) == LUA_TNUMBER) {
        double t = lua_tonumber(L, 1) * TICKS_PER_S;
        ticks = fabs(t) < 9e18 ? (int64_t)llround(t) : INT64_MAX;
    } else {
        const char *text = luaL_checklstring(L, 1, &len);
        if (!edm_time_parse(text, len, &ticks)) {
            luaL_argerror(
                L, 1, "seconds since 1970, or a text like 2026-01-02T03:04:05.1234567Z expected");
        }
    }
    luaL_argcheck(L, edm_time_fits(ticks), 1, "a time between the years 1601 and 9999 expected");
    return ticks;
}

int make_time(lua_State *L) {
    if (!is_typed(L, EDM_TIME)) {
        push_typed(L, &(struct edm_value){.type = EDM_TIME, .integer = check_ticks(L)});
    }
    return 1;
}

static int make_guid(lua_State *L) {
    if (!is_typed(L, EDM_GUID)) {
        char guid[EDM_GUID_TEXT];
        size_t len;
        const char *text = luaL_checklstring(L, 1, &len);
        luaL_argcheck(L, edm_guid_parse(text, len, guid), 1,
                      "a GUID like 01234567-89ab-cdef-0123-456789abcdef expected");
        push_typed(L,
                   &(struct edm_value){.type = EDM_GUID, .text = guid, .len = EDM_GUID_TEXT - 1});
    }
    return 1;
}

static int make_binary(lua_State *L) {
    if (!is_typed(L, EDM_BINARY)) {
        struct edm_value v = {.type = EDM_BINARY};
        v.text = luaL_checklstring(L, 1, &v.len);
        push_typed(L, &v);
    }
    return 1;
}

/* ---- what they can do ---- */

static const struct edm_value *check_typed(lua_State *L, int arg) {
    return &((struct typed *)luaL_checkudata(L, arg, VALUE_TYPE))->value;
}

static int typed_tostring(lua_State *L) {
    const struct edm_value *v = check_typed(L, 1);
    char time[EDM_TIME_TEXT];
    struct buf text;
    switch (v->type) {
    case EDM_TIME:
        edm_time_text(v->integer, time);
        lua_pushstring(L, time);
        return 1;
    case EDM_BINARY:
        buf_init(&text, base64_length(v->len) + 1);
        base64_encode(&text, v->text, v->len);
        lua_pushlstring(L, buf_str(&text), text.len);
        buf_release(&text);
        return 1;
    case EDM_INT32:
        lua_pushfstring(L, "%I", (LUAI_UACINT)v->integer);
        return 1;
    default:
        lua_pushlstring(L, v->text, v->len);
        return 1;
    }
}

static int typed_index(lua_State *L) {
    const struct edm_value *v = check_typed(L, 1);
    const char *field = luaL_checkstring(L, 2);
    if (strcmp(field, "type") == 0) {
        lua_pushstring(L, edm_script(v->type));
    } else if (strcmp(field, "value") != 0) {
        lua_pushnil(L);
    } else if (v->type == EDM_INT32) {
        lua_pushinteger(L, v->integer);
    } else if (v->type == EDM_TIME) {
        lua_pushnumber(L, (lua_Number)v->integer / TICKS_PER_S);
    } else {
        lua_pushlstring(L, v->text, v->len);
    }
    return 1;
}

static int typed_eq(lua_State *L) {
    const struct typed *a = luaL_testudata(L, 1, VALUE_TYPE), *b = luaL_testudata(L, 2, VALUE_TYPE);
    lua_pushboolean(L, a && b && edm_equal(&a->value, &b->value));
    return 1;
}

/* Below 0, 0, above 0; raises when the types differ. */
static int compare(lua_State *L) {
    const struct edm_value *a = check_typed(L, 1), *b = check_typed(L, 2);
    if (a->type != b->type) {
        luaL_error(L, "attempt to compare %s with %s", edm_script(a->type), edm_script(b->type));
    }
    if (!a->text) {
        return (a->integer > b->integer) - (a->integer < b->integer);
    }
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int typed_lt(lua_State *L) {
    lua_pushboolean(L, compare(L) < 0);
    return 1;
}

static int typed_le(lua_State *L) {
    lua_pushboolean(L, compare(L) <= 0);
    return 1;
}

void bind_edm(lua_State *L, struct vm *vm) {
    static const luaL_Reg FUNCTIONS[] = {{"int32", make_int32},
                                         {"time_value", make_time},
                                         {"guid", make_guid},
                                         {"binary", make_binary},
                                         {NULL, NULL}};
    static const luaL_Reg META[] = {{"__tostring", typed_tostring},
                                    {"__index", typed_index},
                                    {"__eq", typed_eq},
                                    {"__lt", typed_lt},
                                    {"__le", typed_le},
                                    {NULL, NULL}};
    luaL_newmetatable(L, VALUE_TYPE);
    bind_functions(L, vm, META);
    lua_pop(L, 1);
    bind_functions(L, vm, FUNCTIONS);
}
