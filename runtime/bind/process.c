/* process.c -- world/process.h as core.process_spawn and its userdata.
 *
 *     core.process_spawn{file = , args = {argv0, ...}, env = {"NAME=value", ...}, directory = ,
 *                        stdin = "pipe"|"null"|"inherit", stdout = , stderr = , passed = {fd, ...}, foreground = , guarded = ,
 *                        leash = , soft = , hard = }
 *         -> process, or nil, err; with a leash, which it always has under a guard, it has a parent of its own
 *         (lease/leash.h), and the deadlines of the guard or those given
 *     process:move(soft, hard) -> whether it was told     the deadlines of a leash, as of core.instant()
 *     process:wait([seconds]) -> "exited", code | "killed", signal | nil, err (not run) | "running"
 *     process:read("stdout"|"stderr") -> bytes ("": ask again) | nil (the end)
 *     process:write(data, from) -> bytes taken | nil (it reads no more)
 *     process:shut("stdin"|...), process:kill(signal), process:close(), process:pid()
 *
 * wait, read and write wait; each stream and the end may be waited for by one task at a time. A cancel
 * leaves the child and its streams as they are.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bind/bind.h"
#include "lease/leash.h"
#include "vm/scope.h"
#include "world/process.h"

#define PROCESS_TYPE "synod.process"

enum {
    ARGUMENTS_MAX = 4096, /* arguments, and variables, of one command */
    READ_MAX = 32 * 1024, /* bytes of one read */
};

/* A task that waits for a stream. It is nobody else's until that task has had its turn. */
struct stream_wait {
    struct lua_process *owner;
    int stream;
    bool taken;
    struct task *task; /* NULL: nobody waits, or it was woken */
    const char *data;  /* to write: a string on the waiting task's stack */
    size_t len;
};

struct lua_process {
    struct process process;
    struct leash leash;  /* off: the command is our own child */
    struct scope *scope; /* a reference: where the leash's deadlines are from; NULL: none */
    struct scope_watch watch;
    bool cleans_up; /* begun after the soft stop: it has until the hard one */
    struct vm *vm;
    struct vm_resource resource;
    bool open;
    char file[256]; /* for messages */
    char directory[256];
    struct task *waiter; /* for the end */
    struct alarm patience;
    struct stream_wait streams[PROCESS_STREAMS];
};

static const char *const STREAM_NAMES[] = {"stdin", "stdout", "stderr", NULL};

/* One that was closed has ended: its streams are at their end, and there is nothing to kill. */
static struct lua_process *check_process(lua_State *L) {
    return luaL_checkudata(L, 1, PROCESS_TYPE);
}

static void wake(struct task **waiting) {
    struct task *t = *waiting;
    *waiting = NULL;
    if (t) {
        task_wake(t);
    }
}

static void forget_scope(struct lua_process *lp) {
    if (lp->scope) {
        scope_unwatch(lp->scope, &lp->watch);
        scope_unref(lp->scope);
        lp->scope = NULL;
    }
}

/* Whoever waits for it goes on, and finds it ended. */
static void process_close(struct lua_process *lp) {
    if (!lp->open) {
        return;
    }
    lp->open = false;
    vm_forget(lp->vm, &lp->resource);
    alarm_clear(lp->process.world, &lp->patience);
    forget_scope(lp);
    leash_release(&lp->leash, &lp->process);
    wake(&lp->waiter);
    for (int i = 0; i < PROCESS_STREAMS; i++) {
        wake(&lp->streams[i].task);
    }
}

static void resource_close(struct vm_resource *r) {
    process_close(container_of(r, struct lua_process, resource));
}

/* ---- spawn ---- */

static void copy_text(char *out, size_t size, const char *text) {
    size_t n = strlen(text);
    n = n < size ? n : size - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

/* The strings of the list `field`, which must stay in it: a userdata is pushed that holds the array. */
static char **check_strings(lua_State *L, const char *field) {
    lua_getfield(L, 1, field);
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_Integer n = luaL_len(L, -1);
    if (n < 0 || n > ARGUMENTS_MAX) {
        luaL_error(L, "%s: more than %d", field, ARGUMENTS_MAX);
    }
    char **list = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *list, 0);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_geti(L, -2, i);
        size_t len;
        const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : NULL;
        if (!s || strlen(s) != len) {
            luaL_error(L, "%s[%d] must be a string without zero bytes", field, (int)i);
        }
        list[i - 1] = (char *)s;
        lua_pop(L, 1);
    }
    list[n] = NULL;
    return list;
}

static enum process_stdio check_stdio(lua_State *L, const char *stream) {
    static const char *const KINDS[] = {"null", "inherit", "pipe", NULL};
    lua_getfield(L, 1, stream);
    int kind = luaL_checkoption(L, -1, "null", KINDS);
    lua_pop(L, 1);
    return (enum process_stdio)kind;
}

static void check_passed(lua_State *L, struct process_options *o) {
    if (lua_getfield(L, 1, "passed") == LUA_TTABLE) {
        lua_Integer n = luaL_len(L, -1);
        if (n > PROCESS_PASSED_MAX) {
            luaL_error(L, "passed: more than %d descriptors", PROCESS_PASSED_MAX);
        }
        for (lua_Integer i = 1; i <= n; i++) {
            lua_geti(L, -1, i);
            o->passed[o->passed_count++] = (int)luaL_checkinteger(L, -1);
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
}

static void process_ended(struct process *p);
static void patience_ended(struct alarm *a);

static struct lua_process *push_process(lua_State *L, struct vm *vm) {
    struct lua_process *lp = lua_newuserdatauv(L, sizeof *lp, 0);
    memset(lp, 0, sizeof *lp);
    lp->vm = vm;
    lp->resource.close = resource_close;
    lp->patience.ring = patience_ended;
    process_init(&lp->process, vm_world(vm), process_ended);
    leash_init(&lp->leash, vm_world(vm));
    for (int i = 0; i < PROCESS_STREAMS; i++) {
        lp->streams[i].owner = lp;
        lp->streams[i].stream = i;
    }
    luaL_setmetatable(L, PROCESS_TYPE);
    return lp;
}

static int fail_errno(lua_State *L, enum err code, int error, const char *what, const char *name) {
    struct error e;
    error_set(&e, code, "%s: %s", what, strerror(error));
    return bind_fail(L, &e, "exec", name);
}

static int64_t opt_instant(lua_State *L, const char *field) {
    lua_getfield(L, 1, field);
    int64_t at = luaL_optinteger(L, -1, NEVER);
    lua_pop(L, 1);
    return at;
}

static int64_t soft_of(const struct lua_process *lp, const struct scope *s) {
    return lp->cleans_up ? scope_hard(s) : scope_soft(s);
}

static void scope_moved(struct scope_watch *w, struct scope *s) {
    struct lua_process *lp = container_of(w, struct lua_process, watch);
    leash_move(&lp->leash, soft_of(lp, s), scope_hard(s));
}

/* A supervisor waits for its end (lua/cli/bonds.lua) before it gives back what we held. */
static int life_descriptor(void) {
    const char *text = getenv("SYNOD_LIFE_FD");
    return text ? (int)strtol(text, NULL, 10) : 0;
}

/* What is started in a scope cannot outlive it. A command takes no virtual time, so no virtual deadline is its own. */
static int start(lua_State *L, struct lua_process *lp, const struct process_options *o) {
    struct scope *scope = scope_running(lp->vm);
    bool leashed = scope || bind_opt_boolean_field(L, 1, "leash", false);
    if (!leashed || world_is_virtual(vm_world(lp->vm))) {
        return process_start(&lp->process, o);
    }
    lp->cleans_up = scope && scope_is_stopped(scope);
    struct leash_times times = {
        .soft = scope ? soft_of(lp, scope) : opt_instant(L, "soft"),
        .hard = scope ? scope_hard(scope) : opt_instant(L, "hard"),
        .terminal = o->foreground,
        .bond = life_descriptor(),
    };
    int rc = leash_start(&lp->leash, &lp->process, o, &times);
    if (rc == 0 && scope) {
        lp->scope = scope_ref(scope);
        lp->watch.moved = scope_moved;
        scope_watch(scope, &lp->watch);
    }
    return rc;
}

static int l_process_spawn(lua_State *L) {
    struct vm *vm = task_enter(L, "synod.exec");
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct process_options o;
    memset(&o, 0, sizeof o);
    o.file = bind_opt_string_field(L, 1, "file", NULL);
    o.directory = bind_opt_string_field(L, 1, "directory", NULL);
    luaL_argcheck(L, o.file, 1, "no file to run");
    o.argv = check_strings(L, "args");
    o.environ = check_strings(L, "env");
    for (int i = 0; i < PROCESS_STREAMS; i++) {
        o.stdio[i] = check_stdio(L, STREAM_NAMES[i]);
    }
    o.guarded = bind_opt_boolean_field(L, 1, "guarded", false);
    o.foreground = bind_opt_boolean_field(L, 1, "foreground", false);
    check_passed(L, &o);
    struct lua_process *lp = push_process(L, vm);
    copy_text(lp->file, sizeof lp->file, o.file);
    copy_text(lp->directory, sizeof lp->directory, o.directory ? o.directory : "");
    int rc = start(L, lp, &o);
    if (rc != 0) {
        return fail_errno(L, ERR_COMMAND_NOT_RUN, -rc, "no process could be made", lp->file);
    }
    lp->open = true;
    scope_keep(vm, &lp->resource);
    return 1;
}

/* ---- the end ---- */

static void process_ended(struct process *p) {
    struct lua_process *lp = container_of(p, struct lua_process, process);
    alarm_clear(p->world, &lp->patience);
    if (leash_is_on(&lp->leash)) {
        leash_judge(&lp->leash, p);
    }
    forget_scope(lp);
    wake(&lp->waiter);
}

static void patience_ended(struct alarm *a) {
    wake(&container_of(a, struct lua_process, patience)->waiter);
}

static int push_not_run(lua_State *L, const struct lua_process *lp) {
    int error = lp->process.end.code;
    if (lp->process.end.in_directory) {
        return fail_errno(L, ERR_COMMAND_NOT_RUN, error, "its directory cannot be entered",
                          lp->directory);
    }
    if (error == ENOENT) {
        struct error e;
        error_set(&e, ERR_COMMAND_NOT_FOUND, NULL);
        return bind_fail(L, &e, "exec", lp->file);
    }
    return fail_errno(L, ERR_COMMAND_NOT_RUN, error, "it cannot be executed", lp->file);
}

static int push_end(lua_State *L, const struct lua_process *lp) {
    const struct process_end *end = &lp->process.end;
    if (process_is_running(&lp->process)) {
        lua_pushliteral(L, "running");
        return 1;
    }
    if (end->result == PROCESS_NOT_RUN) {
        return push_not_run(L, lp);
    }
    lua_pushstring(L, end->result == PROCESS_EXITED ? "exited" : "killed");
    lua_pushinteger(L, end->code);
    return 2;
}

static int wait_done(lua_State *L, void *arg) {
    return push_end(L, arg);
}

static void wait_cancel(void *arg) {
    struct lua_process *lp = arg;
    lp->waiter = NULL;
    if (lp->open) {
        alarm_clear(lp->process.world, &lp->patience);
    }
}

static int l_process_wait(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "process:wait");
    struct lua_process *lp = check_process(L);
    int64_t patience = bind_opt_seconds(L, 2, NEVER);
    if (lp->waiter) {
        return luaL_error(L, "another task waits for the end of this process");
    }
    if (!process_is_running(&lp->process) || patience == 0) {
        return push_end(L, lp);
    }
    if (patience != NEVER) {
        struct world *w = vm_world(vm);
        alarm_set(w, &lp->patience, instant_add(world_now(w), patience));
    }
    lp->waiter = task_running(vm);
    return task_park(L, vm, lp, wait_done, wait_cancel);
}

/* ---- streams ---- */

static struct stream_wait *check_stream(lua_State *L, struct lua_process *lp, int stream) {
    struct stream_wait *sw = &lp->streams[stream];
    if (sw->taken) {
        luaL_error(L, "another task uses %s of this process", STREAM_NAMES[stream]);
    }
    return sw;
}

static void stream_ready(struct pipe_end *pipe) {
    struct stream_wait *sw = pipe->owner;
    wake(&sw->task);
}

static void stream_cancel(void *arg) {
    struct stream_wait *sw = arg;
    sw->taken = false;
    sw->task = NULL;
    pipe_end_forget(&sw->owner->process.pipes[sw->stream]);
}

/* Parks until the stream is ready, or goes on at once when it cannot be awaited. */
static int stream_park(lua_State *L, struct stream_wait *sw, task_done_f done) {
    struct pipe_end *pipe = &sw->owner->process.pipes[sw->stream];
    pipe->owner = sw;
    int rc = pipe_end_await(pipe, stream_ready);
    if (rc != 0) {
        return luaL_error(L, "%s of the process: %s", STREAM_NAMES[sw->stream], strerror(-rc));
    }
    sw->taken = true;
    sw->task = task_running(sw->owner->vm);
    return task_park(L, sw->owner->vm, sw, done, stream_cancel);
}

static int push_read(lua_State *L, const char *data, ssize_t n) {
    if (n > 0 || n == -EAGAIN) {
        lua_pushlstring(L, data, n > 0 ? (size_t)n : 0);
    } else {
        lua_pushnil(L); /* a broken stream has ended too */
    }
    return 1;
}

static int read_done(lua_State *L, void *arg) {
    struct stream_wait *sw = arg;
    char data[READ_MAX];
    sw->taken = false;
    return push_read(L, data,
                     pipe_end_read(&sw->owner->process.pipes[sw->stream], data, sizeof data));
}

static int l_process_read(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "process:read");
    struct lua_process *lp = check_process(L);
    struct stream_wait *sw = check_stream(L, lp, luaL_checkoption(L, 2, NULL, STREAM_NAMES));
    char data[READ_MAX];
    if (task_may_skip_park(vm)) {
        ssize_t n = pipe_end_read(&lp->process.pipes[sw->stream], data, sizeof data);
        if (n != -EAGAIN) {
            return push_read(L, data, n);
        }
    }
    if (lp->process.pipes[sw->stream].fd < 0) {
        return push_read(L, data, 0);
    }
    return stream_park(L, sw, read_done);
}

static int push_written(lua_State *L, ssize_t n) {
    if (n >= 0 || n == -EAGAIN) {
        lua_pushinteger(L, n > 0 ? n : 0);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

static int write_done(lua_State *L, void *arg) {
    struct stream_wait *sw = arg;
    sw->taken = false;
    return push_written(L,
                        pipe_end_write(&sw->owner->process.pipes[STDIN_FILENO], sw->data, sw->len));
}

static int l_process_write(lua_State *L) {
    task_enter_wait(L, "process:write");
    struct lua_process *lp = check_process(L);
    struct stream_wait *sw = check_stream(L, lp, STDIN_FILENO);
    sw->data = luaL_checklstring(L, 2, &sw->len);
    lua_Integer from = luaL_optinteger(L, 3, 1);
    luaL_argcheck(L, from >= 1 && (size_t)from <= sw->len, 3, "outside of the data");
    sw->data += from - 1;
    sw->len -= (size_t)from - 1;
    struct pipe_end *pipe = &lp->process.pipes[STDIN_FILENO];
    ssize_t n = pipe_end_write(pipe, sw->data, sw->len);
    if (n != -EAGAIN) {
        return push_written(L, n);
    }
    return stream_park(L, sw, write_done);
}

static int l_process_shut(lua_State *L) {
    struct lua_process *lp = check_process(L);
    int stream = luaL_checkoption(L, 2, NULL, STREAM_NAMES);
    pipe_end_close(&lp->process.pipes[stream]);
    wake(&lp->streams[stream].task); /* whoever reads it sees its end */
    return 0;
}

static int l_process_kill(lua_State *L) {
    struct lua_process *lp = check_process(L);
    int signal = (int)luaL_optinteger(L, 2, SIGTERM);
    if (leash_is_on(&lp->leash)) {
        leash_signal(&lp->leash, signal);
    } else {
        process_kill(&lp->process, signal);
    }
    return 0;
}

static int l_process_move(lua_State *L) {
    struct lua_process *lp = check_process(L);
    int64_t soft = luaL_checkinteger(L, 2);
    int64_t hard = luaL_checkinteger(L, 3);
    lua_pushboolean(L, leash_is_on(&lp->leash) && leash_move(&lp->leash, soft, hard));
    return 1;
}

static int l_process_pid(lua_State *L) {
    lua_pushinteger(L, check_process(L)->process.pid);
    return 1;
}

static int l_process_close(lua_State *L) {
    process_close(luaL_checkudata(L, 1, PROCESS_TYPE));
    return 0;
}

void bind_process(lua_State *L, struct vm *vm) {
    static const luaL_Reg methods[] = {
        {"wait", l_process_wait},   /* waits */
        {"read", l_process_read},   /* waits */
        {"write", l_process_write}, /* waits */
        {"shut", l_process_shut},   {"kill", l_process_kill},   {"move", l_process_move},
        {"pid", l_process_pid},     {"close", l_process_close}, {NULL, NULL},
    };
    static const luaL_Reg metamethods[] = {
        {"__gc", l_process_close},
        {"__close", l_process_close},
        {NULL, NULL},
    };
    static const luaL_Reg functions[] = {
        {"process_spawn", l_process_spawn},
        {NULL, NULL},
    };
    bind_type(L, vm, PROCESS_TYPE, methods, metamethods);
    bind_functions(L, vm, functions);
}
