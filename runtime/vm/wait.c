/* wait.c -- how a task waits: parked, woken, or given up with an error to be raised at the wait.
 *
 * A wait ends for one of two reasons, and the first to come wins: task_wake (what it waits for is
 * there: `done` will be called) or give_up (it was cancelled, or its scope has stopped: `cancel`
 * has been called, and the error is raised at the wait).
 */
#include <lauxlib.h>

#include "base/alloc.h"
#include "vm/vm_impl.h"

/* ---- waking ---- */

void task_enqueue(struct task *t) {
    struct vm *vm = t->vm;
    t->state = TASK_READY;
    t->next = NULL;
    *vm->ready_end = t;
    vm->ready_end = &t->next;
}

void task_wake(struct task *t) {
    if (t->state == TASK_PARKED) {
        task_enqueue(t);
    } else {
        t->woken = true;
    }
}

static void give_up(struct task *t) {
    t->cancel(t->arg);
    t->interrupted = true;
    task_enqueue(t);
}

void task_interrupt(struct task *t) {
    t->cancels++;
    t->was_cancelled = true;
    if (t->state == TASK_PARKED) {
        give_up(t);
    }
}

/* Inside a to-be-closed handler only the hard stop ends a wait. */
void task_stop(struct task *t) {
    t->stop_due = t->was_stopped = true;
    if (t->state == TASK_PARKED && (scope_is_hard(t->scope) || !stack_closes_parked(t))) {
        give_up(t);
    }
}

/* ---- raising a cancel, or a stop ---- */

/* Pushes the reason noted first, or false. */
static bool take_reason(lua_State *L, struct task *t) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.reasons);
    if (lua_rawgetp(L, -1, t) != LUA_TTABLE) {
        lua_pop(L, 2);
        return false;
    }
    lua_Integer n = luaL_len(L, -1);
    lua_rawgeti(L, -1, 1);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, -2, i + 1);
        lua_rawseti(L, -3, i);
    }
    lua_replace(L, -3);
    lua_pop(L, 1);
    return !lua_isnil(L, -1) || (lua_pop(L, 1), false);
}

/* From a hard stop on it stays due. */
int task_raise_stop(lua_State *L, struct task *t) {
    t->stop_due = scope_is_hard(t->scope);
    t->vm->push_error(L, scope_error(t->scope), "guard", scope_name(t->scope));
    return lua_error(L);
}

int task_raise_cancel(lua_State *L, struct task *t) {
    t->cancels--;
    if (!take_reason(L, t)) {
        struct error e;
        error_set(&e, ERR_CANCELLED, "the instance is stopping");
        t->vm->push_error(L, &e, NULL, NULL);
    }
    return lua_error(L);
}

void task_cancel(lua_State *L, struct task *t) {
    if (t->state == TASK_ENDED) {
        lua_pop(L, 1);
        return;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.reasons);
    if (lua_rawgetp(L, -1, t) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, -3, t);
    }
    lua_pushvalue(L, -3);
    lua_rawseti(L, -2, luaL_len(L, -2) + 1);
    lua_pop(L, 3);
    task_interrupt(t);
}

/* ---- the wait ---- */

struct vm *task_enter(lua_State *L, const char *name) {
    struct vm *vm = lua_touserdata(L, lua_upvalueindex(1));
    if (!vm->world) {
        luaL_error(
            L,
            "%s works only while synod runs the script: start it with `synod run`, or call it "
            "inside synod.main(fn)",
            name);
    }
    return vm;
}

bool task_may_wait(lua_State *L, struct vm *vm) {
    return vm->running && lua_isyieldable(L) && (!vm->frame || vm->frame->may_wait);
}

static bool stop_may_be_raised(lua_State *L, struct task *t) {
    return scope_is_hard(t->scope) || !stack_closes(t->vm, L);
}

struct vm *task_enter_wait(lua_State *L, const char *name) {
    struct vm *vm = task_enter(L, name);
    if (!task_may_wait(L, vm)) {
        luaL_error(L,
                   "%s cannot wait here: Lua cannot suspend inside a callback of table.sort or "
                   "string.gsub, inside coroutine.close, a finaliser, or another library's "
                   "callback; wait before or after it",
                   name);
    }
    struct task *t = vm->running;
    if (t->stop_due && stop_may_be_raised(L, t)) {
        task_raise_stop(L, t);
    }
    if (t->cancels) {
        task_raise_cancel(L, t);
    }
    return vm;
}

struct task *task_running(struct vm *vm) {
    return vm->running;
}

static int park_done(lua_State *L, int status, lua_KContext ctx) {
    struct task *t = (struct task *)ctx;
    (void)status;
    if (t->interrupted) {
        t->interrupted = false;
        bool stop = t->stop_due && stop_may_be_raised(L, t);
        return stop ? task_raise_stop(L, t) : task_raise_cancel(L, t);
    }
    return t->done(L, t->arg);
}

int task_park(lua_State *L, struct vm *vm, void *arg, task_done_f done, task_cancel_f cancel) {
    struct task *t = vm->running;
    t->arg = arg;
    t->done = done;
    t->cancel = cancel;
    t->innermost = L;
    if (t->woken) {
        t->woken = false;
        task_enqueue(t);
    } else {
        t->state = TASK_PARKED;
    }
    vm->parking = true;
    return lua_yieldk(L, 0, (lua_KContext)t, park_done);
}

bool task_may_skip_park(struct vm *vm) {
    return vm->skips-- > 0;
}

/* ---- waiting for a time, or in a list ---- */

static void leave_list(struct task *t) {
    struct waitlist *list = t->list;
    if (!list) {
        return;
    }
    if (t->next == t) {
        list->first = NULL;
    } else {
        t->prev->next = t->next;
        t->next->prev = t->prev;
        if (list->first == t) {
            list->first = t->next;
        }
    }
    t->list = NULL;
}

static void join_list(struct task *t, struct waitlist *list) {
    t->list = list;
    if (!list->first) {
        list->first = t->next = t->prev = t;
        return;
    }
    struct task *first = list->first;
    t->next = first;
    t->prev = first->prev;
    first->prev->next = t;
    first->prev = t;
}

static void wait_cancel(void *arg) {
    struct task *t = arg;
    leave_list(t);
    alarm_clear(t->vm->world, &t->alarm);
}

static void wait_over(struct alarm *a) {
    struct task *t = container_of(a, struct task, alarm);
    t->timed_out = true;
    leave_list(t);
    task_wake(t);
}

int task_wait(lua_State *L, struct vm *vm, struct waitlist *list, int64_t deadline,
              task_done_f done) {
    struct task *t = vm->running;
    t->timed_out = false;
    if (list) {
        join_list(t, list);
    }
    if (deadline != NEVER) {
        t->alarm.ring = wait_over;
        alarm_set(vm->world, &t->alarm, deadline);
    }
    return task_park(L, vm, t, done, wait_cancel);
}

bool task_timed_out(const struct task *t) {
    return t->timed_out;
}

void waitlist_wake(struct waitlist *list) {
    while (list->first) {
        struct task *t = list->first;
        wait_cancel(t);
        task_wake(t);
    }
}

struct waitlist *task_joiners(struct task *t) {
    return &t->joiners;
}
