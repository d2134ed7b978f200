/* hook.c -- a script that computes without waiting cannot starve the runtime.
 *
 * A count hook that is always on doubles the time of a computing script, so it is armed on demand, by
 * two kernel timers aimed at this thread: one on its CPU time, every TICK_MS, which is silent while it
 * waits, and one on the boot-time clock for the instant when a stop must end the process. The handler
 * arms the innermost running coroutine; the hook, at the next instruction, polls the world (callbacks
 * only store, so this is safe in the middle of a script), raises a stop that is due, and disarms itself.
 *
 * A stop is not raised inside library code or a to-be-closed handler: the hook stays armed and tries
 * again a little later.
 */
#include <errno.h>
#include <lauxlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/vm_impl.h"

enum { AGAIN_AFTER = 1000 /* instructions */ };

#define TICK_SIGNAL (SIGRTMIN + 1)
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static void on_hook(lua_State *L, lua_Debug *ar);

static void on_tick(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    struct vm *vm = info->si_value.sival_ptr;
    int saved = errno;
    if (vm->kill_at_tick) {
        struct itimerspec left = {{0, 0}, {0, 0}};
        timer_gettime(vm->wall_timer, &left);
        if (!left.it_value.tv_sec && !left.it_value.tv_nsec) {
            _exit(128 + (int)vm->signal);
        }
    }
    lua_State *L = vm->innermost;
    if (L && lua_gethook(L) != on_hook) {
        vm->hooked = NULL;
        if (lua_gethook(L)) {
            vm->hooked = L;
            vm->old_hook = lua_gethook(L);
            vm->old_mask = lua_gethookmask(L);
            vm->old_count = lua_gethookcount(L);
        }
        lua_sethook(L, on_hook, LUA_MASKCOUNT, 1);
    }
    errno = saved;
}

static void disarm(struct vm *vm, lua_State *L) {
    if (vm->hooked == L) {
        vm->hooked = NULL;
        lua_sethook(L, vm->old_hook, vm->old_mask, vm->old_count);
    } else {
        lua_sethook(L, NULL, 0, 0);
    }
}

static bool is_library(const struct vm *vm, const lua_Debug *ar) {
    size_t n = strlen(vm->library);
    const char *rest = ar->source + n;
    return n && strncmp(ar->source, vm->library, n) == 0 &&
           (strncmp(rest, "synod/", 6) == 0 || strncmp(rest, "cli/", 4) == 0);
}

static bool may_raise(const struct vm *vm, lua_State *L) {
    lua_Debug ar;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sn", &ar);
        if (level == 0 && is_library(vm, &ar)) {
            return false;
        }
        if (ar.name && strcmp(ar.namewhat, "metamethod") == 0 && strcmp(ar.name, "close") == 0) {
            return false;
        }
    }
    return true;
}

static void on_hook(lua_State *L, lua_Debug *ar) {
    struct vm *vm = vm_of(L);
    (void)ar;
    disarm(vm, L);
    if (!vm->world) {
        return;
    }
    world_poll(vm->world);
    run_notice(vm);
    struct task *t = vm->running;
    if (vm->phase != PHASE_CANCEL || !t || !t->cancels) {
        return;
    }
    if (may_raise(vm, L)) {
        task_raise_cancel(L, t);
    }
    lua_sethook(L, on_hook, LUA_MASKCOUNT, AGAIN_AFTER);
}

static bool make_timer(struct vm *vm, clockid_t clock, timer_t *timer) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = TICK_SIGNAL;
    event.sigev_value.sival_ptr = vm;
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    return timer_create(clock, &event, timer) == 0;
}

void hook_start(struct vm *vm) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_tick;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(TICK_SIGNAL, &action, NULL);
    if (!make_timer(vm, CLOCK_THREAD_CPUTIME_ID, &vm->cpu_timer)) {
        return;
    }
    if (!make_timer(vm, CLOCK_BOOTTIME, &vm->wall_timer)) {
        timer_delete(vm->cpu_timer);
        return;
    }
    struct itimerspec every = {{0, TICK_MS * NS_PER_MS}, {0, TICK_MS * NS_PER_MS}};
    timer_settime(vm->cpu_timer, 0, &every, NULL);
    vm->ticking = true;
}

void hook_stop(struct vm *vm) {
    if (vm->ticking) {
        timer_delete(vm->cpu_timer);
        timer_delete(vm->wall_timer);
        vm->ticking = false;
        vm->kill_at_tick = 0;
    }
}

void hook_end_process_after(struct vm *vm, time_t seconds) {
    if (vm->ticking) {
        struct itimerspec once = {{0, 0}, {seconds, 0}};
        timer_settime(vm->wall_timer, 0, &once, NULL);
        vm->kill_at_tick = 1;
    }
}
