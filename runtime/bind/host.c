/* host.c -- what this process has from its surroundings, and hands on to its children.
 *
 *     core.environment() -> {"NAME=value", ...}
 *     core.host_name(), core.process_id()
 *     core.process_descriptors(n) -> how many this process may have open, after asking for n
 *     core.process_secret(text) -> a descriptor from which a child can read it
 *     core.process_reveal(fd) -> the text, or nil
 *     core.descriptor_close(fd)
 *     core.report_new() -> a descriptor to which children that have it can add text
 *     core.report_add(fd, text), core.report_read(fd) -> all that was added
 *     core.slots_new() -> a descriptor of numbered texts that a child keeps, and its parent can read when it has died
 *     core.slot_write(fd, n, text), core.slots_read(fd) -> {[n] = text}     n from 1; "" takes it away
 *     core.file_target(path) -> where a new file would lie in its place, links followed; nil: a device, a
 *                               pipe or a folder is there
 *     core.file_replace(from, to) -> true | nil, why         `to` keeps its permissions if it is there
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind/bind.h"

enum {
    SECRET_MAX = 16 * 1024,
    REPORT_MAX = 16 * 1024 * 1024, /* bytes of all that is read of a report */
    SLOT_BYTES = 4096, /* a page: a write of it is done or not, whenever the writer is killed */
    SLOTS_MAX = 16384,
};

static int l_environment(lua_State *L) {
    lua_newtable(L);
    for (int i = 0; environ && environ[i]; i++) {
        lua_pushstring(L, environ[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int l_host_name(lua_State *L) {
    char name[HOST_NAME_MAX + 1];
    if (gethostname(name, sizeof name) != 0) {
        return luaL_fileresult(L, 0, "gethostname");
    }
    name[HOST_NAME_MAX] = '\0';
    lua_pushstring(L, name);
    return 1;
}

static int l_process_id(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)getpid());
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

/* For what was made to be `passed` to a child, when the child has it. */
static int l_descriptor_close(lua_State *L) {
    close((int)luaL_checkinteger(L, 1));
    return 0;
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

/* A file in memory: what is added has no reader to wait for, and one write is never torn by another. */
static int l_report_new(lua_State *L) {
    int fd = memfd_create("synod", MFD_CLOEXEC);
    if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) != 0) {
        return luaL_error(L, "no report can be made: %s", strerror(errno));
    }
    lua_pushinteger(L, fd);
    return 1;
}

static int l_report_add(lua_State *L) {
    size_t len;
    const char *text = luaL_checklstring(L, 2, &len);
    if (write((int)luaL_checkinteger(L, 1), text, len) != (ssize_t)len) {
        return luaL_error(L, "the report cannot be handed over: %s", strerror(errno));
    }
    return 0;
}

static int l_report_read(lua_State *L) {
    int fd = (int)luaL_checkinteger(L, 1);
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    off_t at = 0;
    while (at < REPORT_MAX) {
        ssize_t n = pread(fd, luaL_prepbuffer(&text), LUAL_BUFFERSIZE, at);
        if (n <= 0) {
            break;
        }
        luaL_addsize(&text, (size_t)n);
        at += n;
    }
    luaL_pushresult(&text);
    return 1;
}

static int l_slots_new(lua_State *L) {
    int fd = memfd_create("synod", MFD_CLOEXEC);
    if (fd < 0) {
        return luaL_error(L, "no slots can be made: %s", strerror(errno));
    }
    lua_pushinteger(L, fd);
    return 1;
}

static int l_slot_write(lua_State *L) {
    int fd = (int)luaL_checkinteger(L, 1);
    lua_Integer n = luaL_checkinteger(L, 2);
    size_t len;
    const char *text = luaL_checklstring(L, 3, &len);
    luaL_argcheck(L, n >= 1 && n <= SLOTS_MAX, 2, "no such slot");
    luaL_argcheck(L, len < SLOT_BYTES, 3, "too long");
    char slot[SLOT_BYTES] = {0};
    memcpy(slot, text, len);
    ssize_t written = pwrite(fd, slot, sizeof slot, (off_t)(n - 1) * SLOT_BYTES);
    explicit_bzero(slot, sizeof slot);
    if (written != SLOT_BYTES) {
        return luaL_error(L, "a slot cannot be written: %s", strerror(errno));
    }
    return 0;
}

static int l_slots_read(lua_State *L) {
    int fd = (int)luaL_checkinteger(L, 1);
    char slot[SLOT_BYTES];
    lua_newtable(L);
    for (lua_Integer n = 1; n <= SLOTS_MAX; n++) {
        if (pread(fd, slot, sizeof slot, (off_t)(n - 1) * SLOT_BYTES) != SLOT_BYTES) {
            break;
        }
        if (slot[0] != '\0') {
            lua_pushlstring(L, slot, strnlen(slot, sizeof slot));
            lua_seti(L, -2, n);
        }
    }
    explicit_bzero(slot, sizeof slot);
    return 1;
}

static int l_file_target(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    char real[PATH_MAX];
    struct stat st;
    if (!realpath(path, real)) { /* not there, or for a reason that who opens it will be told */
        lua_pushvalue(L, 1);
    } else if (stat(real, &st) == 0 && S_ISREG(st.st_mode)) {
        lua_pushstring(L, real);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

static int l_file_replace(lua_State *L) {
    const char *from = luaL_checkstring(L, 1), *to = luaL_checkstring(L, 2);
    struct stat st;
    bool keeps = stat(to, &st) == 0;
    bool ok = (!keeps || chmod(from, st.st_mode & 07777) == 0) && rename(from, to) == 0;
    return luaL_fileresult(L, ok, NULL);
}

void bind_host(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {
        {"environment", l_environment},       {"process_descriptors", l_process_descriptors},
        {"process_secret", l_process_secret}, {"process_reveal", l_process_reveal},
        {"report_new", l_report_new},         {"report_add", l_report_add},
        {"report_read", l_report_read},       {"descriptor_close", l_descriptor_close},
        {"slots_new", l_slots_new},           {"slot_write", l_slot_write},
        {"slots_read", l_slots_read},         {"host_name", l_host_name},
        {"process_id", l_process_id},         {"file_target", l_file_target},
        {"file_replace", l_file_replace},     {NULL, NULL},
    };
    bind_functions(L, vm, functions);
}
