/* main.c -- the program: makes a Lua state, a vm and the real world, and runs the command in them.
 *
 *     a leash (lease/leash.h) is none of this: it knows no Lua
 *     hide_secrets -> prepare (libraries, built-in modules, the command dispatcher)
 *                  -> vm_run(dispatcher, arguments) -> say what went wrong -> _exit
 *
 * Which command it is and what it does is decided in lua/cli. It leaves by _exit: at that point the
 * run has closed its resources, and the libraries that were loaded on first use need no tidying.
 */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bind/bind.h"
#include "bind/output.h"
#include "lease/leash.h"
#include "library.h"
#include "vm/vm.h"
#include "world/world.h"

enum {
    EXIT_FAILED = 1,
    EXIT_WRONG_USE = 2,
    PATH_LENGTH_MAX = 4096,
};

/* See lease/leash.c. */
extern const char synod_is_the_program[];
const char synod_is_the_program[] = "synod";

struct program {
    int argc;
    char **argv;         /* copies: the process's own are overwritten where they hold a secret */
    const char *lua_dir; /* SYNOD_LUA_DIR: the library comes from there and not from the program */
    struct vm *vm;
    struct world *world;
    bool is_virtual; /* the command wants a clock that jumps */
};

/* ---- secrets ---- */

/* The arguments of a process can be read by every user of the machine. */
static void hide_secret(char *arg) {
    static const char *const marks[] = {"AccountKey=", "SharedAccessSignature=", "sig="};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (strcasestr(arg, marks[i])) {
            char *value = strncmp(arg, "--", 2) == 0 ? strchr(arg, '=') : NULL;
            char *from = value ? value + 1 : arg;
            memset(from, '*', strlen(from));
            return;
        }
    }
}

static char **take_arguments(int argc, char **argv) {
    char **copies = xcalloc((size_t)argc + 1, sizeof *copies);
    for (int i = 0; i < argc; i++) {
        copies[i] = xstrdup(argv[i]);
        hide_secret(argv[i]);
    }
    return copies;
}

/* ---- built-in modules ---- */

static int compare_module(const void *name, const void *module) {
    return strcmp(name, ((const struct library_module *)module)->name);
}

static int load_from_tree(lua_State *L, const char *dir, const char *name) {
    static const char *const forms[] = {"%s/%s.lua", "%s/%s/init.lua"};
    const char *relative = luaL_gsub(L, name, ".", "/");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char path[PATH_LENGTH_MAX];
        int n = snprintf(path, sizeof path, forms[i], dir, relative);
        if (n > 0 && n < (int)sizeof path && access(path, R_OK) == 0) {
            if (luaL_loadfilex(L, path, "t") != LUA_OK) {
                return lua_error(L);
            }
            lua_pushstring(L, path);
            return 2;
        }
    }
    lua_pushfstring(L, "no file '%s/%s.lua'", dir, relative);
    return 1;
}

/* A searcher of `require`: the loader and where it came from, or why there is none. */
static int search_library(lua_State *L) {
    const struct program *p = lua_touserdata(L, lua_upvalueindex(1));
    const char *name = luaL_checkstring(L, 1);
    if (p->lua_dir) {
        return load_from_tree(L, p->lua_dir, name);
    }
    const struct library_module *m =
        bsearch(name, library_modules, library_count, sizeof *m, compare_module);
    if (!m) {
        lua_pushfstring(L, "no built-in module '%s'", name);
        return 1;
    }
    if (luaL_loadbufferx(L, m->code, m->len, m->chunk, NULL) != LUA_OK) {
        return lua_error(L);
    }
    lua_pushstring(L, m->chunk);
    return 2;
}

/* Built-in modules come before files of the same name, so that a stray file cannot replace them. */
static void install_library(lua_State *L, struct program *p) {
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, LUA_LOADLIBNAME);
    lua_getfield(L, -1, "searchers");
    for (lua_Integer i = luaL_len(L, -1); i >= 2; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushlightuserdata(L, p);
    lua_pushcclosure(L, search_library, 1);
    lua_rawseti(L, -2, 2);
    lua_pop(L, 3);
}

/* ---- what the commands leave for the end of the process, as the module `cli.process` ---- */

static int open_process(lua_State *L) {
    lua_newtable(L);
    return 1;
}

/* ---- the run ---- */

/* A closure over what the functions of synod.core have as their first upvalue. */
static int find_vm(lua_State *L) {
    struct program *p = lua_touserdata(L, 1);
    p->vm = bind_vm(L);
    return 0;
}

static void take_vm(lua_State *L, struct program *p) {
    luaL_requiref(L, "synod.core", luaopen_synod_core, 0);
    lua_getfield(L, -1, "versions");
    if (!lua_getupvalue(L, -1, 1)) {
        luaL_error(L, "synod.core has no vm");
    }
    lua_pushcclosure(L, find_vm, 1);
    lua_pushlightuserdata(L, p);
    lua_call(L, 1, 0);
    lua_pop(L, 2);
}

static void require_module(lua_State *L, const char *name) {
    lua_getglobal(L, "require");
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
}

/* (program) -> the dispatcher and its argument, a list with the program's name at 0. Which world the command wants is
 * noted in the program. */
static int prepare(lua_State *L) {
    struct program *p = lua_touserdata(L, 1);
    luaL_openlibs(L);
    install_library(L, p);
    take_vm(L, p);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushcfunction(L, open_process);
    lua_setfield(L, -2, "cli.process");
    lua_pop(L, 1);
    require_module(L, "cli");
    lua_createtable(L, p->argc, 1);
    for (int i = 0; i < p->argc; i++) {
        lua_pushstring(L, p->argv[i]);
        lua_rawseti(L, -2, i);
    }
    if (lua_istable(L, -2)) { /* a library of somebody's own may be but a function */
        lua_getfield(L, -2, "is_virtual");
        lua_pushvalue(L, -2);
        lua_call(L, 1, 1);
        p->is_virtual = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    return 2;
}

/* (error, traceback) -> the text to print, the exit code or nil */
static int describe(lua_State *L) {
    require_module(L, "cli.failure");
    lua_insert(L, 1);
    lua_call(L, 2, 2);
    return 2;
}

/* Prints why the run failed; takes the error and the traceback off the stack. A heap at its limit has
 * its limit lifted first: there must be room to say so. Returns the exit code. */
static int say_failure(lua_State *L, int exit_code) {
    vm_limit_memory(L, 0);
    lua_pushcfunction(L, describe);
    lua_insert(L, -3);
    if (lua_pcall(L, 2, 2, 0) != LUA_OK) {
        const char *why = lua_tostring(L, -1);
        fprintf(stderr, "synod: %s\n", why ? why : "failed, and could not say why");
        lua_pop(L, 1);
        return exit_code;
    }
    fputs(lua_tostring(L, -2), stderr);
    if (lua_isinteger(L, -1)) {
        exit_code = (int)lua_tointeger(L, -1);
    }
    lua_pop(L, 2);
    return exit_code;
}

/* What a command wants said when all is over, stores closed: cli.process.at_end(seconds) -> text or nil. */
static int ask_at_end(lua_State *L) {
    require_module(L, "cli.process");
    if (lua_getfield(L, -1, "at_end") == LUA_TNIL) {
        return 1;
    }
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static void say_at_end(lua_State *L, int64_t ns) {
    vm_limit_memory(L, 0);
    lua_pushcfunction(L, ask_at_end);
    lua_pushnumber(L, seconds_from_ns(ns));
    bool failed = lua_pcall(L, 1, 1, 0) != LUA_OK;
    const char *text = lua_tostring(L, -1);
    if (text) {
        fprintf(stderr, failed ? "synod: %s\n" : "%s", text);
    }
    lua_pop(L, 1);
}

/* The one that a signal stops: a handler has nothing but what lies here. */
static struct vm *volatile stopped_by_signal;

static void on_signal(int number) {
    int saved = errno;
    vm_signal(stopped_by_signal, number);
    errno = saved;
}

static void catch_signals(struct vm *vm) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    stopped_by_signal = vm;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 &&
        hangup.sa_handler != SIG_IGN) { /* not under nohup */
        sigaction(SIGHUP, &action, NULL);
    }
}

static int run(lua_State *L, struct program *p) {
    lua_pushcfunction(L, prepare);
    lua_pushlightuserdata(L, p);
    if (lua_pcall(L, 1, 2, 0) != LUA_OK) {
        lua_pushnil(L);
        return say_failure(L, EXIT_FAILED);
    }
    p->world = p->is_virtual ? world_virtual_new(1) : world_real_new();
    struct vm_end end = {.exit_code = EXIT_FAILED};
    catch_signals(p->vm);
    int64_t begun = world_now(p->world);
    int results = vm_run(L, p->vm, p->world, 1, &end);
    int64_t took = world_now(p->world) - begun;
    if (end.failed) {
        int exit_code = say_failure(L, end.exit_code);
        say_at_end(L, took);
        return exit_code;
    }
    say_at_end(L, took);
    bool returned = end.signal == 0 && end.exit_code == 0; /* and was not told to exit */
    if (returned && results > 0 && lua_isinteger(L, -results)) {
        return (int)lua_tointeger(L, -results);
    }
    return end.exit_code;
}

/* Under the sanitizers everything is given back first, so that what is left was lost. */
static _Noreturn void leave(lua_State *L, struct program *p, int exit_code) {
#ifdef __SANITIZE_ADDRESS__
    sigset_t all; /* the handler would find nothing there any more */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    vm_state_free(L);
    if (p->world) {
        world_free(p->world);
    }
    for (int i = 0; i < p->argc; i++) {
        free(p->argv[i]);
    }
    free(p->argv);
    exit(exit_code);
#else
    (void)L;
    (void)p;
    _exit(exit_code);
#endif
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], LEASH_ARGUMENT) == 0) {
        leash_main(argc, argv);
        fputs("synod: " LEASH_ARGUMENT " is how synod starts itself beside a command; "
              "'synod help lock' explains how to run one\n",
              stderr);
        return EXIT_WRONG_USE;
    }
    struct program program = {.argc = argc, .argv = take_arguments(argc, argv)};
    const char *dir = getenv("SYNOD_LUA_DIR");
    program.lua_dir = dir && *dir ? dir : NULL;
    lua_State *L = vm_state_new();
    if (!L) {
        fputs("synod: no memory to start\n", stderr);
        return EXIT_FAILED;
    }
    int exit_code = run(L, &program);
    if (fflush(NULL) != 0 && exit_code == 0) {
        fprintf(stderr, "synod: the output could not be written: %s\n", strerror(errno));
        exit_code = EXIT_FAILED;
    }
    leave(L, &program, bind_output_end(L, exit_code));
}
