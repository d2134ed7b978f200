/* task.c -- tasks, and the one door through which Lua is entered.
 *
 * States. Each arrow names the only function that may take it.
 *   NEW, READY -task_run-> RUNNING -task_park-> PARKED -enqueue-> READY
 *   RUNNING -task_end-> ENDED            its function returned or raised
 *   NEW, READY, PARKED -task_drop-> ENDED    the run is over and did not wait for it
 *
 * wait.c has the waits, body.c what a task's coroutine runs. A task's coroutine runs task_body,
 * which calls the task's function protected. So an error unwinds inside the coroutine, where
 * to-be-closed variables run and may wait; and lua_resume returns an error only when memory is short.
 */
#include "vm/task.h"

#include <lauxlib.h>
#include <string.h>

#include "vm/vm_impl.h"

/* ---- the beginning ---- */

static void register_task(struct vm *vm, struct task *t) {
    t->vm = vm;
    t->id = ++vm->next_id;
    t->older = vm->newest;
    if (vm->newest) {
        vm->newest->newer = t;
    } else {
        vm->oldest = t;
    }
    vm->newest = t;
    vm->tasks++;
    vm->holding++;
    task_enqueue(t);
    t->state = TASK_NEW;
}

struct task *task_spawn(lua_State *L, struct vm *vm, int nargs) {
    return task_spawn_in(L, vm, nargs, scope_running(vm));
}

struct task *task_spawn_in(lua_State *L, struct vm *vm, int nargs, struct scope *scope) {
    int function = lua_gettop(L) - nargs;
    struct task *t = lua_newuserdatauv(L, sizeof *t, 1);
    memset(t, 0, sizeof *t);
    t->state = TASK_ENDED; /* until all is in place */
    luaL_setmetatable(L, TASK_TYPE);
    t->co = lua_newthread(L);
    lua_setiuservalue(L, -2, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.anchors);
    lua_pushvalue(L, -2);
    int anchor = luaL_ref(L, -2);
    lua_pop(L, 1);
    lua_insert(L, function);
    if (!lua_checkstack(t->co, nargs + 4)) {
        luaL_error(L, "a task cannot take %d arguments", nargs);
    }
    lua_pushcfunction(t->co, task_body);
    lua_pushlightuserdata(t->co, t);
    lua_xmove(L, t->co, nargs + 1);
    t->anchor = anchor;
    t->innermost = t->co;
    t->scope = scope_enter(scope);
    register_task(vm, t);
    return t;
}

/* ---- the door ---- */

/* A coroutine that swallows its stop does not keep it from those outside. */
static void pass_on_stop(struct vm *vm, lua_State *outer) {
    struct task *t = vm->running;
    if (outer && t && t->stop_due && scope_is_hard(t->scope)) {
        hook_arm(vm, outer, 1);
    }
}

int vm_resume(struct vm *vm, lua_State *co, lua_State *from, int nargs, int *nresults) {
    lua_State *outer = vm->innermost;
    vm->innermost = co;
    int status = lua_resume(co, from, nargs, nresults);
    vm->innermost = outer;
    pass_on_stop(vm, outer);
    return status;
}

int vm_close(struct vm *vm, lua_State *co) {
    lua_State *outer = vm->innermost;
    vm->innermost = co;
    vm->closing++;
    int status = lua_resetthread(co);
    vm->closing--;
    vm->innermost = outer;
    pass_on_stop(vm, outer);
    return status;
}

static void forget_notes(struct vm *vm, const void *table, struct task *t) {
    lua_rawgetp(vm->L, LUA_REGISTRYINDEX, table);
    lua_pushnil(vm->L);
    lua_rawsetp(vm->L, -2, t);
    lua_pop(vm->L, 1);
}

/* It no longer belongs to the run; the last reference to it may be gone after this. */
static void unregister(struct task *t) {
    struct vm *vm = t->vm;
    t->state = TASK_ENDED;
    *(t->older ? &t->older->newer : &vm->oldest) = t->newer;
    *(t->newer ? &t->newer->older : &vm->newest) = t->older;
    vm->tasks--;
    vm->holding -= !t->detached;
    if (t->was_cancelled) {
        forget_notes(vm, &VM_KEYS.reasons, t);
    }
    scope_leave(t->scope);
    t->scope = NULL;
    lua_rawgetp(vm->L, LUA_REGISTRYINDEX, &VM_KEYS.anchors);
    luaL_unref(vm->L, -1, t->anchor);
    lua_pop(vm->L, 1);
}

static bool is_error(lua_State *L, enum err expected) {
    if (!lua_istable(L, -1)) {
        return false;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.code); /* a literal would take memory here */
    lua_rawget(L, -2);
    const char *code = lua_tostring(L, -1);
    bool yes = code && strcmp(code, err_word(expected)) == 0;
    lua_pop(L, 1);
    return yes;
}

/* It ends as it was told to: nobody needs to see that. */
static bool obeys(struct task *t, lua_State *L) {
    return (t->was_cancelled && is_error(L, ERR_CANCELLED)) ||
           (t->was_stopped && is_error(L, scope_error(t->scope)->code));
}

void task_note_fault(struct task *t, lua_State *L) {
    if (!t->fault && !obeys(t, L)) {
        t->fault = ++t->vm->faults;
    }
}

static void task_end(struct task *t, int status, int nresults) {
    struct vm *vm = t->vm;
    t->results = nresults;
    if (status != LUA_OK) { /* memory was short, or another library yielded: close what is open */
        vm_close(vm, t->co);
        if (status == LUA_YIELD) {
            lua_pushliteral(t->co,
                            "another library suspended the task: it cannot be used with synod");
        }
        t->failed = true;
        t->results = 1;
    }
    if (t->failed) {
        task_note_fault(t, t->co);
        t->joined = t->joiners.first || !t->fault;
        if (!t->joined) {
            t->next = vm->orphans;
            vm->orphans = t;
            vm->look_for_orphans = true;
        }
    }
    waitlist_wake(&t->joiners);
    unregister(t);
}

static void task_run(struct task *t) {
    struct vm *vm = t->vm;
    int nargs = t->state == TASK_NEW ? lua_gettop(t->co) - 1 : 0;
    int nresults;
    if (t->scope) {
        scope_begin(t);
    }
    t->state = TASK_RUNNING;
    vm->running = t;
    vm->parking = false;
    vm->skips = TURN_SKIPS;
    int status = vm_resume(vm, t->co, vm->L, nargs, &nresults);
    vm->running = NULL;
    if (t->scope) {
        scope_pause(t->scope);
    }
    if (status != LUA_YIELD || !vm->parking) {
        task_end(t, status, nresults);
    }
}

/* One turn for each that is ready now. */
void task_run_ready(struct vm *vm) {
    struct task *t = vm->ready;
    vm->ready = NULL;
    vm->ready_end = &vm->ready;
    while (t) {
        struct task *next = t->next;
        task_run(t);
        t = next;
    }
}

void task_drop(struct task *t) {
    if (t->state == TASK_PARKED) {
        t->cancel(t->arg);
    }
    unregister(t);
}

/* ---- what others may know of it ---- */

void task_detach(struct task *t) {
    if (t->state != TASK_ENDED && !t->detached) {
        t->vm->holding--;
    }
    t->detached = true;
}

bool task_ended(const struct task *t) {
    return t->state == TASK_ENDED;
}

bool task_failed(const struct task *t) {
    return t->failed;
}

uint32_t task_id(const struct task *t) {
    return t->id;
}

static void no_orphan(struct task *t) {
    for (struct task **p = &t->vm->orphans; *p; p = &(*p)->next) {
        if (*p == t) {
            *p = t->next;
            break;
        }
    }
}

/* Of the error joined last, for who raises it again. */
static void note_joined(lua_State *L, struct task *t) {
    lua_pushvalue(t->co, -1);
    lua_xmove(t->co, L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &VM_KEYS.joined_error);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.tracebacks);
    lua_rawgetp(L, -1, t);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &VM_KEYS.joined_trace);
    lua_pop(L, 1);
}

int task_push_results(lua_State *L, struct task *t) {
    luaL_checkstack(L, t->results + 4, "too many results");
    if (!lua_checkstack(t->co, t->results + 1)) {
        return luaL_error(L, "too many results");
    }
    if (t->failed) {
        note_joined(L, t);
    }
    if (t->failed && !t->joined) {
        t->joined = true;
        no_orphan(t);
    }
    int first = lua_gettop(t->co) - t->results + 1;
    for (int i = 0; i < t->results; i++) {
        lua_pushvalue(t->co, first + i);
    }
    lua_xmove(t->co, L, t->results);
    return t->results;
}

/* Nobody can join it any more: its error, if nobody has seen it, ends the run. */
void task_collect(lua_State *L, struct task *t) {
    struct vm *vm = t->vm;
    if (!vm || !t->failed) {
        return;
    }
    if (!t->joined) {
        no_orphan(t);
        if (!vm->has_fatal) {
            vm->has_fatal = true;
            lua_pushvalue(L, 1);
            lua_rawsetp(L, LUA_REGISTRYINDEX, &VM_KEYS.fatal);
            return; /* the traceback is still wanted */
        }
    }
    forget_notes(vm, &VM_KEYS.tracebacks, t);
}
