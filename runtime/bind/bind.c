#include "bind/bind.h"

static const char ERROR_TYPE[] = "synod.Error";

struct vm *bind_vm(lua_State *L) {
    return lua_touserdata(L, lua_upvalueindex(1));
}

void bind_functions(lua_State *L, struct vm *vm, const luaL_Reg *functions) {
    lua_pushlightuserdata(L, vm); /* the registry keeps it alive */
    luaL_setfuncs(L, functions, 1);
}

void bind_type(lua_State *L, struct vm *vm, const char *name, const luaL_Reg *methods,
               const luaL_Reg *metamethods) {
    luaL_newmetatable(L, name); /* sets __name */
    if (metamethods) {
        bind_functions(L, vm, metamethods);
    }
    lua_newtable(L);
    bind_functions(L, vm, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

/* ---- err tables ---- */

static void set_string(lua_State *L, const char *field, const char *value) {
    if (value && *value) {
        lua_pushstring(L, value);
        lua_setfield(L, -2, field);
    }
}

void bind_push_error(lua_State *L, const struct error *e, const char *operation,
                     const char *target) {
    lua_createtable(L, 0, 7);
    set_string(L, "code", error_word(e));
    set_string(L, "message", error_sentence(e));
    set_string(L, "operation", operation);
    set_string(L, "target", target);
    set_string(L, "request_id", e->request_id);
    if (e->status) {
        lua_pushinteger(L, e->status);
        lua_setfield(L, -2, "status");
    }
    lua_pushboolean(L, e->retryable);
    lua_setfield(L, -2, "retryable");
    luaL_setmetatable(L, ERROR_TYPE);
}

int bind_fail(lua_State *L, const struct error *e, const char *operation, const char *target) {
    lua_pushnil(L);
    bind_push_error(L, e, operation, target);
    return 2;
}

/* A field of the err table at 1, as text; NULL when it is absent or something else. */
static const char *text_field(lua_State *L, const char *field) {
    lua_pushstring(L, field);
    lua_rawget(L, 1);
    return lua_type(L, -1) == LUA_TSTRING || lua_isinteger(L, -1) ? lua_tostring(L, -1) : NULL;
}

/* "write the blob flags/x: the container does not exist (ContainerNotFound, 404); create it first" */
static int error_tostring(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    const char *operation = text_field(L, "operation"), *target = text_field(L, "target");
    const char *message = text_field(L, "message"), *code = text_field(L, "code");
    const char *status = text_field(L, "status");
    const char *advice = code ? err_advice(err_from_word(code)) : "";
    lua_pushfstring(L, "%s%s%s%s%s", operation ? operation : "", operation && target ? " " : "",
                    target ? target : "", operation || target ? ": " : "",
                    message ? message : "an error without a message");
    if (code) {
        lua_pushfstring(L, " (%s%s%s)", code, status ? ", " : "", status ? status : "");
        lua_concat(L, 2);
    }
    if (*advice) {
        lua_pushfstring(L, "; %s", advice);
        lua_concat(L, 2);
    }
    return 1;
}

/* Sets field `name` of the table at the top to the value at the top when it has none. */
static void set_default(lua_State *L, const char *name) {
    if (lua_getfield(L, -2, name) == LUA_TNIL) {
        lua_pushvalue(L, -2);
        lua_setfield(L, -4, name);
    }
    lua_pop(L, 2);
}

static int new_error(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    const char *code = bind_opt_string_field(L, 1, "code", NULL);
    luaL_argcheck(L, code, 1, "field 'code' is missing");
    struct error e;
    error_set(&e, err_from_word(code), NULL);
    lua_pushstring(L, error_sentence(&e));
    set_default(L, "message");
    lua_pushboolean(L, e.retryable);
    set_default(L, "retryable");
    if (e.status) {
        lua_pushinteger(L, e.status);
        set_default(L, "status");
    }
    luaL_setmetatable(L, ERROR_TYPE);
    return 1;
}

/* ---- arguments ---- */

static int64_t seconds_at(lua_State *L, int index, const char **why) {
    int is_number = 0;
    lua_Number s = lua_tonumberx(L, index, &is_number);
    *why = !is_number || lua_type(L, index) != LUA_TNUMBER ? "number of seconds expected"
           : s != s                                        ? "not a number of seconds"
           : s < 0                                         ? "seconds must not be negative"
                                                           : NULL;
    return *why ? 0 : ns_from_seconds(s);
}

int64_t bind_check_seconds(lua_State *L, int arg) {
    const char *why;
    int64_t ns = seconds_at(L, arg, &why);
    if (why) {
        luaL_argerror(L, arg, lua_pushfstring(L, "%s, got %s", why, luaL_tolstring(L, arg, NULL)));
    }
    return ns;
}

int64_t bind_opt_seconds(lua_State *L, int arg, int64_t absent) {
    return lua_isnoneornil(L, arg) ? absent : bind_check_seconds(L, arg);
}

/* Pushes the field; false, and nothing pushed, when there is none. Only what the table holds itself: what
 * a metamethod makes is held by nobody, and callers keep pointers into strings. */
static bool push_field(lua_State *L, int table, const char *field) {
    if (lua_isnoneornil(L, table)) {
        return false;
    }
    luaL_checktype(L, table, LUA_TTABLE);
    table = lua_absindex(L, table);
    lua_pushstring(L, field);
    if (lua_rawget(L, table) != LUA_TNIL) {
        return true;
    }
    lua_pop(L, 1);
    return false;
}

static void wrong_field(lua_State *L, const char *field, const char *expected) {
    luaL_error(L, "option '%s': %s expected, got %s", field, expected, luaL_typename(L, -1));
}

/* The table keeps the string alive. A number would not be: it is converted on the stack. */
const char *bind_opt_string_field(lua_State *L, int table, const char *field, size_t *len) {
    if (!push_field(L, table, field)) {
        return NULL;
    }
    if (lua_type(L, -1) != LUA_TSTRING) {
        wrong_field(L, field, "string");
    }
    const char *s = lua_tolstring(L, -1, len);
    lua_pop(L, 1);
    return s;
}

void bind_set_text(lua_State *L, const char *field, const char *text) {
    if (text[0]) {
        lua_pushstring(L, text);
        lua_setfield(L, -2, field);
    }
}

void bind_set_number(lua_State *L, const char *field, int64_t number) {
    if (number) {
        lua_pushinteger(L, number);
        lua_setfield(L, -2, field);
    }
}

void bind_set_seconds(lua_State *L, const char *field, int64_t ns) {
    lua_pushnumber(L, seconds_from_ns(ns));
    lua_setfield(L, -2, field);
}

int64_t bind_opt_integer_field(lua_State *L, int table, const char *field, int64_t absent) {
    if (!push_field(L, table, field)) {
        return absent;
    }
    int whole = 0;
    int64_t value = lua_tointegerx(L, -1, &whole);
    if (!whole || lua_type(L, -1) != LUA_TNUMBER) {
        wrong_field(L, field, "whole number");
    }
    lua_pop(L, 1);
    return value;
}

int64_t bind_opt_seconds_field(lua_State *L, int table, const char *field, int64_t absent) {
    if (!push_field(L, table, field)) {
        return absent;
    }
    const char *why;
    int64_t ns = seconds_at(L, -1, &why);
    if (why) {
        luaL_error(L, "option '%s': %s, got %s", field, why, luaL_tolstring(L, -1, NULL));
    }
    lua_pop(L, 1);
    return ns;
}

bool bind_opt_boolean_field(lua_State *L, int table, const char *field, bool absent) {
    if (!push_field(L, table, field)) {
        return absent;
    }
    if (!lua_isboolean(L, -1)) {
        wrong_field(L, field, "true or false");
    }
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

/* ---- the module ---- */

/* The state's vm, made when it is first asked for. */
static struct vm *open_vm(lua_State *L) {
    struct vm *vm = vm_of(L);
    if (!vm) {
        vm = vm_new(L);
        vm_set_error_form(vm, bind_push_error);
        lua_pop(L, 1);
    }
    return vm;
}

int luaopen_synod_core(lua_State *L) {
    static const luaL_Reg FUNCTIONS[] = {{"new_error", new_error}, {NULL, NULL}};
    struct vm *vm = open_vm(L);
    luaL_newmetatable(L, ERROR_TYPE);
    lua_pushcfunction(L, error_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
    lua_newtable(L);
    bind_functions(L, vm, FUNCTIONS);
#define BIND_OPEN(noun) bind_##noun(L, vm);
    BIND_LIST(BIND_OPEN)
#undef BIND_OPEN
    return 1;
}
