/* log.c -- base/log.h to Lua, for synod.log.
 *
 *     core.log_write(level, message, fields)      fields: {name, value, plain, ...}, three by three
 *     core.log_shows(level) -> boolean
 *     core.log_configure{format =, level =, instance =}
 *     core.log_quote(text) -> a JSON string
 *     core.log_time() -> now, as lines in JSON have it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bind/bind.h"
#include "bind/output.h"

enum { TASK_NAME_MAX = 24, COUNT_MAX = 32 };

struct lua_log {
    struct log log;
    struct vm *vm;
    uint64_t dropped; /* lines, since the last that was written */
};

static const char LOG; /* its address is the key in the registry */

static struct lua_log *log_of(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &LOG);
    struct lua_log *ll = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return ll;
}

static int64_t wall_now(struct vm *vm) {
    return vm_world(vm) ? world_wall(vm_world(vm)) : clock_realtime();
}

static const char *task_name(struct vm *vm, char out[TASK_NAME_MAX]) {
    struct task *t = vm_world(vm) ? task_running(vm) : NULL;
    if (!t || task_id(t) == 1) {
        return "main";
    }
    snprintf(out, TASK_NAME_MAX, "task-%u", task_id(t));
    return out;
}

/* Never waits: a line for which there is no room is counted, and the next that finds room says so. */
static void log_put(lua_State *L, struct lua_log *ll, struct log_line *line) {
    log_end(line);
    if (!bind_output_try(L, line->text.data, line->text.len)) {
        ll->dropped++;
    }
    log_line_release(line);
}

static void log_dropped(lua_State *L, struct lua_log *ll) {
    if (ll->dropped == 0 || !bind_output_has_room(L)) {
        return;
    }
    static const char message[] = "log lines were dropped: standard error was not read";
    struct log_line line;
    char count[COUNT_MAX];
    snprintf(count, sizeof count, "%llu", (unsigned long long)ll->dropped);
    ll->dropped = 0;
    log_begin(&line, &ll->log, LOG_WARN, wall_now(ll->vm), "main", message, sizeof message - 1);
    log_field_plain(&line, "count", count);
    log_put(L, ll, &line);
}

static enum log_level check_level(lua_State *L) {
    enum log_level level = LOG_INFO;
    luaL_argcheck(L, log_level_parse(luaL_checkstring(L, 1), &level), 1, "no such level");
    return level;
}

static void log_add_fields(lua_State *L, struct log_line *line, int fields) {
    lua_Integer n = luaL_len(L, fields);
    for (lua_Integer i = 1; i + 2 <= n; i += 3) {
        size_t len;
        lua_geti(L, fields, i);
        lua_geti(L, fields, i + 1);
        lua_geti(L, fields, i + 2);
        const char *name = luaL_checkstring(L, -3);
        const char *value = luaL_checklstring(L, -2, &len);
        if (lua_toboolean(L, -1)) {
            log_field_plain(line, name, value);
        } else {
            log_field_text(line, name, value, len);
        }
        lua_pop(L, 3);
    }
}

static int l_log_write(lua_State *L) {
    struct lua_log *ll = log_of(L);
    enum log_level level = check_level(L);
    size_t len;
    const char *message = luaL_checklstring(L, 2, &len);
    luaL_checktype(L, 3, LUA_TTABLE);
    char name[TASK_NAME_MAX];
    struct log_line line;
    log_dropped(L, ll);
    log_begin(&line, &ll->log, level, wall_now(ll->vm), task_name(ll->vm, name), message, len);
    log_add_fields(L, &line, 3);
    log_put(L, ll, &line);
    return 0;
}

static int l_log_shows(lua_State *L) {
    lua_pushboolean(L, check_level(L) >= log_of(L)->log.level);
    return 1;
}

static int l_log_configure(lua_State *L) {
    struct log *log = &log_of(L)->log;
    luaL_checktype(L, 1, LUA_TTABLE);
    const char *format = bind_opt_string_field(L, 1, "format", NULL);
    const char *level = bind_opt_string_field(L, 1, "level", NULL);
    const char *instance = bind_opt_string_field(L, 1, "instance", NULL);
    luaL_argcheck(L, !format || log_format_parse(format, &log->format), 1, "no such format");
    luaL_argcheck(L, !level || log_level_parse(level, &log->level), 1, "no such level");
    if (instance) {
        snprintf(log->instance, sizeof log->instance, "%s", instance);
    }
    return 0;
}

static int l_log_quote(lua_State *L) {
    size_t len;
    const char *s = luaL_checklstring(L, 1, &len);
    struct buf out;
    buf_init(&out, LOG_LINE_MAX);
    log_json_text(&out, s, len < LOG_LINE_MAX / 8 ? len : LOG_LINE_MAX / 8);
    lua_pushlstring(L, buf_str(&out), out.len);
    buf_release(&out);
    return 1;
}

static int l_log_time(lua_State *L) {
    char time[INSTANT_TEXT_MAX];
    log_time(wall_now(log_of(L)->vm), time);
    lua_pushstring(L, time);
    return 1;
}

static void log_defaults(lua_State *L, struct log *log) {
    const char *term = getenv("TERM");
    const char *plain = getenv("NO_COLOR");
    const char *instance = getenv("SYNOD_INSTANCE");
    log->level = LOG_INFO;
    log->prefixed = getenv("SYNOD_SUPERVISED") != NULL;
    log->color = bind_output_colored(L) && !(plain && *plain) && term && strcmp(term, "dumb") != 0;
    snprintf(log->instance, sizeof log->instance, "%s", instance ? instance : "");
}

void bind_log(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {
        {"log_write", l_log_write}, {"log_shows", l_log_shows}, {"log_configure", l_log_configure},
        {"log_quote", l_log_quote}, {"log_time", l_log_time},   {NULL, NULL},
    };
    struct lua_log *ll = lua_newuserdatauv(L, sizeof *ll, 0);
    memset(ll, 0, sizeof *ll);
    ll->vm = vm;
    log_defaults(L, &ll->log);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &LOG);
    bind_functions(L, vm, functions);
}
