/* version.c -- core.versions(): what this process runs on, as loaded and not as compiled.
 *
 * The libraries that are loaded on first use are loaded here to be asked; one that is missing has no
 * entry. They are not closed again: OpenSSL registers an exit handler.
 */
#include <dlfcn.h>
#include <sqlite3.h>
#include <uv.h>

#include "bind/bind.h"

static void put(lua_State *L, const char *name, const char *version) {
    if (version) {
        lua_pushstring(L, version);
        lua_setfield(L, -2, name);
    }
}

/* The text that `symbol` of a library gives: a function without arguments, or a variable. */
static const char *asked(const char *library, const char *symbol, bool variable) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *found = handle ? dlsym(handle, symbol) : NULL;
    if (!found) {
        return NULL;
    }
    if (variable) {
        return *(const char *const *)found;
    }
    const char *(*function)(void);
    *(void **)&function = found;
    return function();
}

/* {["Lua"] = "5.4.4", ["libuv"] = "1.44.2", ...} */
static int versions(lua_State *L) {
    lua_createtable(L, 0, 8);
    put(L, "Lua", LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "." LUA_VERSION_RELEASE);
    put(L, "libuv", uv_version_string());
    put(L, "SQLite", sqlite3_libversion());
    put(L, "libcurl", asked("libcurl.so.4", "curl_version", false));
    put(L, "libxml2", asked("libxml2.so.2", "xmlParserVersion", true));
    put(L, "jansson", asked("libjansson.so.4", "jansson_version_str", false));
    void *crypto = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    const char *(*openssl)(int) = NULL;
    if (crypto) {
        *(void **)&openssl = dlsym(crypto, "OpenSSL_version");
    }
    put(L, "OpenSSL", openssl ? openssl(0) : NULL);
    return 1;
}

static const luaL_Reg functions[] = {{"versions", versions}, {NULL, NULL}};

void bind_version(lua_State *L, struct vm *vm) {
    bind_functions(L, vm, functions);
}
