/* hook.c -- a script that computes without waiting cannot starve the runtime.
 *
 * A count hook that is always on doubles the time of a computing script, so it is armed on demand, by
 * two kernel timers aimed at this thread: one on its CPU time, every TICK_MS, which is silent while it
 * waits, and one on the boot-time clock for the instant when a stop must end the process. The
 * first guard adds a third, for the next stop of a scope, so that a process that was stopped meets
 * it at once. The handler arms the innermost running coroutine; the hook, at the next instruction,
 * polls the world (callbacks only store, so this is safe in the middle of a script), raises a stop
 * that is due, and disarms itself.
 *
 * A stop is not raised inside library code or a to-be-closed handler: the hook stays armed and tries
 * again a little later. Only a scope's hard stop is, at every instruction from then on.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/vm_impl.h"

#define TICK_SIGNAL (SIGRTMIN + 1)
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static void on_hook(lua_State *L, lua_Debug *ar);

void hook_arm(struct vm *vm, lua_State *L, int after) {
    if (lua_gethook(L) != on_hook) {
        vm->hooked = NULL;
        if (lua_gethook(L)) {
            vm->hooked = L;
            vm->old_hook = lua_gethook(L);
            vm->old_mask = lua_gethookmask(L);
            vm->old_count = lua_gethookcount(L);
        }
    }
    lua_sethook(L, on_hook, LUA_MASKCOUNT, after);
}

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
    if (L) {
        hook_arm(vm, L, 1);
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

/* After a hard stop at each instruction. */
static int raise_stop(lua_State *L, struct task *t) {
    hook_arm(t->vm, L, scope_is_hard(t->scope) ? 1 : HOOK_AGAIN_AFTER);
    return task_raise_stop(L, t);
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
    bool cancel = t && vm->phase == PHASE_CANCEL && t->cancels;
    if (!cancel && !(t && t->stop_due)) {
        return;
    }
    bool calm = !stack_in_library(vm, L) && !stack_closes(vm, L);
    if (t->stop_due && (calm || scope_is_hard(t->scope))) {
        raise_stop(L, t);
    }
    if (cancel && calm) {
        task_raise_cancel(L, t);
    }
    hook_arm(vm, L, HOOK_AGAIN_AFTER);
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
    vm->guarding = false;
    struct itimerspec every = {{0, TICK_MS * NS_PER_MS}, {0, TICK_MS * NS_PER_MS}};
    timer_settime(vm->cpu_timer, 0, &every, NULL);
    vm->ticking = true;
}

void hook_stop(struct vm *vm) {
    if (vm->ticking) {
        timer_delete(vm->cpu_timer);
        timer_delete(vm->wall_timer);
        if (vm->guarding) {
            timer_delete(vm->guard_timer);
        }
        vm->guarding = vm->ticking = false;
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

/* Made for the first guard of a run. Without it the tick of CPU time serves, at most TICK_MS later. */
void hook_at(struct vm *vm, int64_t at) {
    if (!vm->ticking) {
        return;
    }
    if (!vm->guarding) {
        vm->guarding = make_timer(vm, CLOCK_BOOTTIME, &vm->guard_timer);
    }
    if (vm->guarding) {
        struct itimerspec once = {{0, 0}, {0, 0}};
        if (at != NEVER) {
            once.it_value.tv_sec = (time_t)(at / NS_PER_S);
            once.it_value.tv_nsec = (long)(at % NS_PER_S) + (at == 0);
        }
        timer_settime(vm->guard_timer, TIMER_ABSTIME, &once, NULL);
    }
}
