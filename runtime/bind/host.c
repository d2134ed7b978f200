/* host.c -- what this process has from its surroundings, and hands on to its children.
 *
 *     core.environment() -> {"NAME=value", ...}
 *     core.process_descriptors(n) -> how many this process may have open, after asking for n
 *     core.process_secret(text) -> a descriptor from which a child can read it
 *     core.process_reveal(fd) -> the text, or nil
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bind/bind.h"

enum { SECRET_MAX = 16 * 1024 };

static int l_environment(lua_State *L) {
    lua_newtable(L);
    for (int i = 0; environ && environ[i]; i++) {
        lua_pushstring(L, environ[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int l_process_descriptors(lua_State *L) {
    lua_Integer wanted = luaL_checkinteger(L, 1);
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (wanted > 0 && limit.rlim_cur < (rlim_t)wanted) {
        struct rlimit raised = limit;
        raised.rlim_cur = (rlim_t)wanted < limit.rlim_max ? (rlim_t)wanted : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
            limit = raised;
        }
    }
    lua_pushinteger(L, (lua_Integer)limit.rlim_cur);
    return 1;
}

/* It can be read any number of times. Its owner is the caller; a child gets it only where it is among
 * those `passed` to it. */
static int l_process_secret(lua_State *L) {
    size_t len;
    const char *text = luaL_checklstring(L, 1, &len);
    luaL_argcheck(L, len <= SECRET_MAX, 1, "too long");
    int fd = memfd_create("synod", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len) {
        return luaL_error(L, "the credentials cannot be handed on: %s", strerror(errno));
    }
    lua_pushinteger(L, fd);
    return 1;
}

static int l_process_reveal(lua_State *L) {
    char text[SECRET_MAX];
    ssize_t n = pread((int)luaL_checkinteger(L, 1), text, sizeof text, 0);
    if (n <= 0) {
        lua_pushnil(L);
    } else {
        lua_pushlstring(L, text, (size_t)n);
    }
    explicit_bzero(text, sizeof text);
    return 1;
}

void bind_host(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {
        {"environment", l_environment},
        {"process_descriptors", l_process_descriptors},
        {"process_secret", l_process_secret},
        {"process_reveal", l_process_reveal},
        {NULL, NULL},
    };
    bind_functions(L, vm, functions);
}
