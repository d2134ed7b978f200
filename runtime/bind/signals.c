/* signals.c -- signals as something that is waited for, in place of the controlled stop that they begin.
 *
 *     core.signals{2, 15} -> signals, earlier     from now on these begin no stop; one that came before has: it is
 *                                             `earlier`, else nil
 *     signals:wait() -> number                one task at a time; equal ones that came together count once
 *     signals:close()                         as it was before
 *
 * None is lost between the two: they are blocked, and read from a descriptor. Only for the thread that runs
 * the tasks, and those that it starts later: to be called before a store is opened. Children begin with no signal
 * blocked. One that was ignored when the program was started (SIGHUP under nohup) stays so.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptor.h"
#include "bind/bind.h"

#define SIGNALS_TYPE "synod.signals"

struct signals {
    struct vm *vm;
    struct vm_resource resource;
    struct watch watch;
    int fd; /* -1: closed */
    sigset_t before;
    struct task *waiter;
};

static void wake(struct signals *s) {
    struct task *t = s->waiter;
    s->waiter = NULL;
    watch_stop(vm_world(s->vm), &s->watch);
    if (t) {
        task_wake(t);
    }
}

static void signals_ready(struct watch *watch, int events) {
    (void)events;
    wake(container_of(watch, struct signals, watch));
}

static void signals_close(struct signals *s) {
    if (s->fd >= 0) {
        vm_forget(s->vm, &s->resource);
        wake(s);
        close(s->fd);
        s->fd = -1;
        pthread_sigmask(SIG_SETMASK, &s->before, NULL);
    }
}

static void resource_close(struct vm_resource *r) {
    signals_close(container_of(r, struct signals, resource));
}

static int l_signals(lua_State *L) {
    struct vm *vm = task_enter(L, "signals");
    luaL_checktype(L, 1, LUA_TTABLE);
    sigset_t taken;
    sigemptyset(&taken);
    for (lua_Integer i = 1; lua_geti(L, 1, i) != LUA_TNIL; i++) {
        luaL_argcheck(L, sigaddset(&taken, (int)luaL_checkinteger(L, -1)) == 0, 1, "no signal");
        lua_pop(L, 1);
    }
    struct signals *s = lua_newuserdatauv(L, sizeof *s, 0);
    memset(s, 0, sizeof *s);
    s->vm = vm;
    s->resource.close = resource_close;
    s->watch.ready = signals_ready;
    s->fd = descriptor_lift(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    luaL_setmetatable(L, SIGNALS_TYPE);
    if (s->fd < 0) {
        return luaL_error(L, "signals cannot be waited for: %s", strerror(errno));
    }
    pthread_sigmask(SIG_BLOCK, &taken, &s->before);
    vm_keep(vm, &s->resource);
    if (vm_signalled(vm) == 0) {
        return 1;
    }
    lua_pushinteger(L, vm_signalled(vm));
    return 2;
}

static struct signals *check_signals(lua_State *L) {
    return luaL_checkudata(L, 1, SIGNALS_TYPE);
}

static int wait_done(lua_State *L, void *arg) {
    struct signals *s = arg;
    struct signalfd_siginfo info;
    if (s->fd < 0 || read(s->fd, &info, sizeof info) != (ssize_t)sizeof info) {
        return 0; /* closed meanwhile */
    }
    lua_pushinteger(L, info.ssi_signo);
    return 1;
}

static void wait_cancel(void *arg) {
    struct signals *s = arg;
    s->waiter = NULL;
    watch_stop(vm_world(s->vm), &s->watch);
}

static int l_wait(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "signals:wait");
    struct signals *s = check_signals(L);
    if (s->waiter || s->fd < 0) {
        return luaL_error(L, s->waiter ? "another task waits for these signals" : "closed");
    }
    int rc = watch_start(vm_world(vm), &s->watch, s->fd, WATCH_READ);
    if (rc != 0) {
        return luaL_error(L, "signals cannot be waited for: %s", strerror(-rc));
    }
    s->waiter = task_running(vm);
    return task_park(L, vm, s, wait_done, wait_cancel);
}

static int l_close(lua_State *L) {
    signals_close(check_signals(L));
    return 0;
}

void bind_signals(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {{"signals", l_signals}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"wait", l_wait}, {"close", l_close}, {NULL, NULL}};
    static const luaL_Reg metamethods[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
    bind_functions(L, vm, functions);
    bind_type(L, vm, SIGNALS_TYPE, methods, metamethods);
}
