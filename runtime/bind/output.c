/* output.c -- standard output and standard error: world/output.h to Lua.
 *
 *     core.output_write(fd, text) -> true | "full": taken, but now wait | false: not taken, wait and repeat
 *     core.output_wait(fd, must)                                                waits for room
 *     core.output_flush(fd)                                                     waits until it is written
 *     core.output_is_ours() -> whether a run goes on
 *     core.output_terminal(fd) -> boolean
 *
 * Writing and waiting are two calls, so that whoever is cancelled while it waits knows whether its text
 * was taken. Where Lua cannot suspend (a table.sort callback, a finaliser) nothing waits until WRITER_MAX.
 */
#include "bind/output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bind/bind.h"
#include "world/output.h"

enum { EXIT_READER_GONE = 128 + SIGPIPE };

struct stream {
    struct output output;
    struct waitlist full; /* tasks that printed too much */
    struct waitlist dry;  /* tasks that wait until all is written */
};

struct outputs {
    struct vm *vm;
    struct vm_resource resource;
    bool attached;
    bool reader_gone;         /* the run was asked to end because of it */
    bool told;                /* the script has seen the failure of standard output */
    struct stream streams[2]; /* standard output, standard error */
};

static const char OUTPUTS; /* its address is the key in the registry */

static struct outputs *outputs_of(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &OUTPUTS);
    struct outputs *all = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return all;
}

static void outputs_detach(struct vm_resource *r) {
    struct outputs *all = container_of(r, struct outputs, resource);
    all->attached = false;
    output_detach(&all->streams[0].output);
    output_detach(&all->streams[1].output);
}

/* From the first output of a run to its end the world writes it. */
static struct outputs *outputs_enter(lua_State *L) {
    struct outputs *all = outputs_of(L);
    struct world *w = vm_world(all->vm);
    if (w && !all->attached) {
        all->attached = true;
        output_attach(&all->streams[0].output, w);
        output_attach(&all->streams[1].output, w);
        vm_keep(all->vm, &all->resource);
    }
    return all;
}

static struct stream *check_stream(lua_State *L, struct outputs *all) {
    lua_Integer fd = luaL_checkinteger(L, 1);
    luaL_argcheck(L, fd == STDOUT_FILENO || fd == STDERR_FILENO, 1, "1 or 2 expected");
    return &all->streams[fd - STDOUT_FILENO];
}

static void stream_room(struct output *o) {
    struct stream *s = container_of(o, struct stream, output);
    waitlist_wake(&s->full);
    if (writer_pending(&o->writer) == 0) {
        waitlist_wake(&s->dry);
    }
}

static void stream_stalled(struct output *o) {
    struct outputs *all = o->owner;
    static const char warning[] =
        "synod: standard output has not been read for 10 s, and what prints there waits: "
        "read it, send it to a file, or end this program\n";
    bool ours = getenv("SYNOD_SUPERVISED") == NULL; /* else the supervisor says it, once for all */
    if (ours && o == &all->streams[0].output) {
        output_put(&all->streams[1].output, warning, sizeof warning - 1);
    }
}

/* ---- writing ---- */

/* Nobody will ever read what is printed: an end without noise, as SIGPIPE would have made it. */
static int reader_gone(lua_State *L, struct outputs *all) {
    bool first = !all->reader_gone;
    all->reader_gone = true;
    if (first && vm_world(all->vm)) {
        vm_exit(all->vm, EXIT_READER_GONE);
        if (task_may_wait(L, all->vm)) {
            task_enter_wait(L, "print"); /* raises the cancel that has just become due */
        }
    }
    lua_pushboolean(L, 1);
    return 1;
}

static const char *why_unwritten(int error) {
    return error == EBADF ? "it is closed" : strerror(error);
}

static int write_failed(lua_State *L, struct outputs *all, const struct stream *s) {
    int error = output_error(&s->output);
    if (s == &all->streams[1]) {
        lua_pushboolean(L, 1); /* there is nowhere left to say so */
        return 1;
    }
    if (error == EPIPE) {
        return reader_gone(L, all);
    }
    all->told = true;
    lua_pushfstring(L, "standard output cannot be written: %s", why_unwritten(error));
    return lua_error(L); /* without a position: which line printed is not the point */
}

static int l_output_write(lua_State *L) {
    struct outputs *all = outputs_enter(L);
    struct stream *s = check_stream(L, all);
    size_t len;
    const char *text = luaL_checklstring(L, 2, &len);
    bool kept = output_put(&s->output, text, len);
    if (output_error(&s->output)) {
        return write_failed(L, all, s);
    }
    bool full = output_is_full(&s->output);
    if (!kept && !full) {
        return luaL_error(L, "%d bytes cannot be printed at once", (int)len);
    }
    if (kept && full) {
        lua_pushliteral(L, "full");
    } else {
        lua_pushboolean(L, kept);
    }
    return 1;
}

static int waited(lua_State *L, void *arg) {
    (void)L;
    (void)arg;
    return 0;
}

static int l_output_wait(lua_State *L) {
    struct outputs *all = outputs_enter(L);
    struct stream *s = check_stream(L, all);
    bool must = lua_toboolean(L, 2);
    if (vm_world(all->vm) && task_may_wait(L, all->vm)) {
        task_enter_wait(L, "print");
        return output_is_full(&s->output) ? task_wait(L, all->vm, &s->full, NEVER, waited) : 0;
    }
    if (must) {
        return luaL_error(L,
                          "%d MiB were printed that nobody has read, and Lua cannot wait here (a "
                          "callback of table.sort or string.gsub, a finaliser): print less there",
                          WRITER_MAX >> 20);
    }
    return 0;
}

static int l_output_flush(lua_State *L) {
    struct outputs *all = outputs_enter(L);
    struct stream *s = check_stream(L, all);
    output_flush(&s->output);
    if (output_error(&s->output)) {
        return write_failed(L, all, s);
    }
    if (writer_pending(&s->output.writer) == 0 || !task_may_wait(L, all->vm)) {
        return 0;
    }
    task_enter_wait(L, "flush");
    return task_wait(L, all->vm, &s->dry, NEVER, waited);
}

static int l_output_is_ours(lua_State *L) {
    lua_pushboolean(L, vm_world(outputs_of(L)->vm) != NULL);
    return 1;
}

static int l_output_terminal(lua_State *L) {
    lua_pushboolean(L, writer_is_terminal(&check_stream(L, outputs_of(L))->output.writer));
    return 1;
}

/* ---- the process ---- */

bool bind_output_has_room(lua_State *L) {
    return !output_is_full(&outputs_of(L)->streams[1].output);
}

bool bind_output_try(lua_State *L, const void *data, size_t n) {
    struct output *err = &outputs_enter(L)->streams[1].output;
    return !output_is_full(err) && output_put(err, data, n);
}

bool bind_output_colored(lua_State *L) {
    return writer_is_terminal(&outputs_of(L)->streams[1].output.writer);
}

int bind_output_end(lua_State *L, int exit_code) {
    struct outputs *all = outputs_of(L);
    int error = output_error(&all->streams[0].output);
    if (error == 0 || all->told || exit_code != 0) {
        return exit_code;
    }
    if (error == EPIPE) {
        return EXIT_READER_GONE;
    }
    fprintf(stderr, "synod: standard output cannot be written: %s\n", why_unwritten(error));
    return EXIT_FAILURE;
}

static int outputs_collect(lua_State *L) {
    struct outputs *all = lua_touserdata(L, 1);
    if (all->attached) {
        vm_forget(all->vm, &all->resource);
    }
    output_release(&all->streams[0].output);
    output_release(&all->streams[1].output);
    return 0;
}

/* Writing to a pipe or socket that nobody reads is to be an error, not the end of the process. A handler
 * that somebody has set stays. */
static void ignore_sigpipe(void) {
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
        signal(SIGPIPE, SIG_IGN);
    }
}

static void push_outputs(lua_State *L, struct vm *vm) {
    struct outputs *all = lua_newuserdatauv(L, sizeof *all, 0);
    memset(all, 0, sizeof *all);
    all->vm = vm;
    all->resource.close = outputs_detach;
    for (int i = 0; i < 2; i++) {
        struct output *o = &all->streams[i].output;
        output_init(o, STDOUT_FILENO + i, i == 1);
        o->room = stream_room;
        o->stalled = stream_stalled;
        o->owner = all;
    }
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, outputs_collect);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &OUTPUTS);
}

void bind_output(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {
        {"output_write", l_output_write},     {"output_wait", l_output_wait}, /* waits */
        {"output_flush", l_output_flush},                                     /* waits */
        {"output_is_ours", l_output_is_ours}, {"output_terminal", l_output_terminal}, {NULL, NULL},
    };
    ignore_sigpipe();
    push_outputs(L, vm);
    bind_functions(L, vm, functions);
}
