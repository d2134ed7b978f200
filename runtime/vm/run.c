/* run.c -- a run from its main task's first instruction to the end of the last task.
 *
 * Phases. Each arrow names the only function that may take it.
 *   RUN -run_notice-> HANDLERS          a signal has come; the `stopping` handlers run as a task
 *   RUN, HANDLERS -begin_cancel-> CANCEL
 *        from HANDLERS when they have ended or their time is over; from RUN when the main task has
 *        failed, or ended with only detached tasks left, when an error that nobody can join came up,
 *        when nothing can ever happen any more, or when the script asks to exit
 *
 * In CANCEL all tasks are cancelled, again each second; what has not ended at `give_up` is dropped.
 */
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "vm/vm_impl.h"

/* ---- the phases ---- */

static void cancel_all(struct vm *vm) {
    struct task *newer;
    for (struct task *t = vm->oldest; t; t = newer) {
        newer = t->newer;
        task_interrupt(t);
        vm->cut = true;
    }
}

static void again_rings(struct alarm *a);

static void begin_cancel(struct vm *vm, int64_t give_up) {
    if (vm->phase == PHASE_CANCEL) {
        return;
    }
    vm->phase = PHASE_CANCEL;
    vm->give_up = give_up;
    cancel_all(vm);
    vm->again.ring = again_rings;
    alarm_set(vm->world, &vm->again, world_now(vm->world) + CANCEL_AGAIN_S * NS_PER_S);
}

static void again_rings(struct alarm *a) {
    struct vm *vm = container_of(a, struct vm, again);
    if (vm->phase == PHASE_HANDLERS) {
        begin_cancel(vm, vm->give_up);
        return;
    }
    cancel_all(vm);
    alarm_set(vm->world, a, world_now(vm->world) + CANCEL_AGAIN_S * NS_PER_S);
}

static int64_t after(struct vm *vm, int64_t seconds) {
    return world_now(vm->world) + seconds * NS_PER_S;
}

static bool has_stopper(struct vm *vm) {
    bool yes = lua_rawgetp(vm->L, LUA_REGISTRYINDEX, &VM_KEYS.stopper) == LUA_TFUNCTION;
    lua_pop(vm->L, 1);
    return yes;
}

void run_notice(struct vm *vm) {
    if (!vm->signal || vm->phase != PHASE_RUN) {
        return;
    }
    if (!has_stopper(vm)) {
        begin_cancel(vm, after(vm, STOP_TOTAL_S));
        return;
    }
    vm->phase = PHASE_HANDLERS;
    vm->give_up = after(vm, STOP_TOTAL_S);
    vm->again.ring = again_rings;
    alarm_set(vm->world, &vm->again, after(vm, STOP_HANDLERS_S));
}

void vm_signal(struct vm *vm, int number) {
    if (vm->signal && number == SIGINT) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT); /* delivered when the handler returns */
        return;
    }
    if (!vm->signal) {
        vm->signal = number;
        hook_end_process_after(vm, STOP_TOTAL_S);
    }
    if (vm->world) {
        world_wake(vm->world);
    }
}

int vm_signalled(const struct vm *vm) {
    return (int)vm->signal;
}

void vm_exit(struct vm *vm, int code) {
    if (!vm->exiting) {
        vm->exiting = true;
        vm->exit_code = code;
        begin_cancel(vm, after(vm, WIND_DOWN_S));
    }
}

void vm_errand_begin(struct vm *vm) {
    vm->errands++;
}

void vm_errand_end(struct vm *vm) {
    vm->errands--;
}

/* ---- the loop ---- */

static int spawn_stopper(lua_State *L) {
    struct vm *vm = vm_of(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.stopper);
    lua_pushinteger(L, vm->signal);
    vm->stopper = task_spawn(L, vm, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &VM_KEYS.stop_task); /* kept until the next run */
    return 0;
}

static void run_stopper(struct vm *vm) {
    if (!vm->stopper) {
        lua_pushcfunction(vm->L, spawn_stopper);
        if (lua_pcall(vm->L, 0, 0, 0) != LUA_OK) {
            lua_pop(vm->L, 1); /* no memory for the handlers */
            begin_cancel(vm, vm->give_up);
        }
    } else if (task_ended(vm->stopper)) {
        begin_cancel(vm, vm->give_up);
    }
}

/* An error that nobody has joined is fatal once nobody can: when its task is garbage. */
static void look_for_orphans(struct vm *vm) {
    if (vm->look_for_orphans && !vm->ready) {
        vm->look_for_orphans = false;
        lua_gc(vm->L, LUA_GCCOLLECT);
        lua_gc(vm->L, LUA_GCCOLLECT);
    }
}

/* True while the loop should go on. */
static bool attend(struct vm *vm, struct task *main) {
    run_notice(vm);
    if (vm->phase == PHASE_HANDLERS) {
        run_stopper(vm);
    }
    look_for_orphans(vm);
    bool main_is_over = task_ended(main) && (task_failed(main) || vm->holding == 0);
    if (vm->tasks && vm->phase == PHASE_RUN && (main_is_over || vm->has_fatal)) {
        begin_cancel(vm, after(vm, WIND_DOWN_S));
    }
    if (vm->phase == PHASE_CANCEL && world_now(vm->world) >= vm->give_up) {
        return false;
    }
    return vm->tasks > 0 || vm->errands > 0;
}

static void poll_now_and_then(struct vm *vm) {
    int64_t now = world_now(vm->world);
    if (now - vm->polled >= POLL_EVERY_US * NS_PER_US || world_is_virtual(vm->world)) {
        vm->polled = now;
        world_poll(vm->world);
    }
}

static void loop(struct vm *vm, struct task *main) {
    while (attend(vm, main)) {
        if (!vm->ready) {
            world_poll(vm->world);
        }
        if (!vm->ready && !world_wait(vm->world)) {
            vm->stuck = true;
            begin_cancel(vm, after(vm, WIND_DOWN_S));
        }
        while (vm->ready) {
            task_run_ready(vm);
            poll_now_and_then(vm);
            if (vm->signal || vm->phase != PHASE_RUN || vm->look_for_orphans) {
                break;
            }
        }
    }
    while (vm->oldest) {
        task_drop(vm->oldest);
    }
    vm->ready = NULL;
    vm->ready_end = &vm->ready;
}

/* ---- entering and leaving ---- */

static lua_CFunction global_function(lua_State *L, const char *name) {
    lua_getglobal(L, name);
    lua_CFunction f = lua_tocfunction(L, -1);
    lua_pop(L, 1);
    return f;
}

static void swap_coroutine_library(lua_State *L, struct vm *vm) {
    static const char *const names[] = {"resume", "wrap", "close", "yield", NULL};
    lua_getglobal(L, "coroutine");
    if (lua_istable(L, -1)) {
        coroutine_library(L, vm);
        lua_newtable(L); /* theirs, put back at the end */
        for (int i = 0; names[i]; i++) {
            lua_getfield(L, -3, names[i]);
            lua_setfield(L, -2, names[i]);
            lua_getfield(L, -2, names[i]);
            lua_setfield(L, -4, names[i]);
        }
        lua_remove(L, -2);
    } else {
        lua_pushnil(L);
    }
} /* leaves coroutine, theirs */

static void restore_coroutine_library(lua_State *L, int coroutine) {
    if (!lua_istable(L, coroutine + 1)) {
        return;
    }
    lua_pushnil(L);
    while (lua_next(L, coroutine + 1)) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_settable(L, coroutine);
    }
}

static void reset(struct vm *vm, struct world *w) {
    vm->world = w;
    vm->phase = PHASE_RUN;
    vm->stopper = NULL;
    vm->orphans = NULL;
    vm->look_for_orphans = vm->has_fatal = vm->stuck = vm->exiting = vm->cut = false;
    vm->next_id = 0;
    vm->faults = 0;
    vm->runs++;
    vm->errands = 0;
    vm->polled = 0;
    memset(&vm->again, 0, sizeof vm->again);
    lua_State *L = vm->L;
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &VM_KEYS.fatal);
}

static void close_resources(struct vm *vm) {
    while (vm->resources) {
        struct vm_resource *r = vm->resources;
        vm_forget(vm, r);
        r->close(r);
    }
}

/* An uncaught err table says by its code how the process ends. */
static int exit_code_of(lua_State *L, int error) {
    int code = 1;
    if (lua_istable(L, error)) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.code);
        lua_rawget(L, error);
        const char *word = lua_tostring(L, -1);
        code = word ? err_exit_code(err_from_word(word)) : 1;
        lua_pop(L, 1);
    }
    return code;
}

static void push_trace(lua_State *L, struct task *failed) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.tracebacks);
    lua_rawgetp(L, -1, failed);
    lua_remove(L, -2);
}

static void add_trace(lua_State *L, struct task *failed) {
    lua_pushliteral(L, "\nand then, in another task: ");
    push_trace(L, failed);
    if (lua_isstring(L, -3) && lua_isstring(L, -1)) {
        lua_concat(L, 3);
    } else {
        lua_pop(L, 2);
    }
}

static int push_failure(lua_State *L, struct vm *vm, struct task *failed, struct vm_end *end) {
    end->failed = true;
    int top = lua_gettop(L);
    if (failed) {
        task_push_results(L, failed);
        push_trace(L, failed);
    } else {
        struct error e;
        error_set(&e, ERR_STUCK, NULL);
        vm->push_error(L, &e, NULL, NULL);
        lua_pushnil(L);
    }
    end->exit_code = exit_code_of(L, top + 1);
    return 2;
}

static int push_end(lua_State *L, struct vm *vm, struct task *main, struct vm_end *end) {
    struct task *fatal = NULL;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.fatal) == LUA_TUSERDATA) {
        fatal = lua_touserdata(L, -1);
    }
    lua_pop(L, 1);
    bool main_failed = task_failed(main) && !main->joined;
    if (vm->stuck && !vm->signal) {
        return push_failure(L, vm, NULL, end);
    }
    if (fatal && main_failed) { /* the later one may be of the other's making */
        bool main_first = main->fault < fatal->fault;
        int n = push_failure(L, vm, main_first ? main : fatal, end);
        add_trace(L, main_first ? fatal : main);
        return n;
    }
    if (fatal || main_failed || vm->orphans) {
        return push_failure(L, vm, fatal ? fatal : main_failed ? main : vm->orphans, end);
    }
    if (vm->exiting) {
        end->exit_code = vm->exit_code;
    } else if (vm->signal && vm->cut) {
        end->signal = vm->signal;
        end->exit_code = 128 + vm->signal;
    }
    return task_failed(main) ? 0 : task_push_results(L, main);
}

int vm_run(lua_State *L, struct vm *vm, struct world *w, int nargs, struct vm_end *end) {
    memset(end, 0, sizeof *end);
    reset(vm, w);
    struct task *main = task_spawn(L, vm, nargs); /* its userdata stays on the stack */
    vm->pcall = global_function(L, "pcall");
    vm->xpcall = global_function(L, "xpcall");
    swap_coroutine_library(L, vm);
    int coroutine = lua_gettop(L) - 1;
    if (!world_is_virtual(w)) {
        hook_start(vm);
    }
    loop(vm, main);
    alarm_clear(w, &vm->again);
    scope_end_run(vm);
    close_resources(vm); /* which may wait for who reads our output: a stop ends that too */
    hook_stop(vm);
    restore_coroutine_library(L, coroutine);
    lua_settop(L, coroutine - 1);
    int n = push_end(L, vm, main, end);
    for (struct task *t = vm->orphans; t; t = t->next) {
        t->joined = true; /* told, or another was: nothing of it is for the next run */
    }
    vm->orphans = NULL;
    vm->world = NULL;
    return n;
}
