/* task.c -- tasks, and the one door through which Lua is entered.
 *
 * States. Each arrow names the only function that may take it.
 *   NEW, READY -task_run-> RUNNING -task_park-> PARKED -enqueue-> READY
 *   RUNNING -task_end-> ENDED            its function returned or raised
 *   NEW, READY, PARKED -task_drop-> ENDED    the run is over and did not wait for it
 *
 * PARKED -> READY happens for one of two reasons, and the first to come wins: task_wake (what it waits
 * for is there: `done` will be called) or task_interrupt (it was cancelled: `cancel` has been called, and
 * the error is raised at the wait).
 *
 * A task's coroutine runs task_body, which calls the task's function protected. So an error unwinds
 * inside the coroutine, where to-be-closed variables run and may wait; and lua_resume returns an error
 * only when memory is short.
 */
#include "vm/task.h"

#include <lauxlib.h>
#include <string.h>

#include "base/alloc.h"
#include "vm/vm_impl.h"

/* ---- waking ---- */

static void enqueue(struct task *t) {
    struct vm *vm = t->vm;
    t->state = TASK_READY;
    t->next = NULL;
    *vm->ready_end = t;
    vm->ready_end = &t->next;
}

void task_wake(struct task *t) {
    if (t->state == TASK_PARKED) {
        enqueue(t);
    } else {
        t->woken = true;
    }
}

void task_interrupt(struct task *t) {
    t->cancels++;
    t->was_cancelled = true;
    if (t->state == TASK_PARKED) {
        t->cancel(t->arg);
        t->interrupted = true;
        enqueue(t);
    }
}

/* ---- raising a cancel ---- */

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

struct vm *task_enter_wait(lua_State *L, const char *name) {
    struct vm *vm = task_enter(L, name);
    if (!task_may_wait(L, vm)) {
        luaL_error(L,
                   "%s cannot wait here: Lua cannot suspend inside a callback of table.sort or "
                   "string.gsub, inside coroutine.close, a finaliser, or another library's "
                   "callback; wait before or after it",
                   name);
    }
    if (vm->running->cancels) {
        task_raise_cancel(L, vm->running);
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
        return task_raise_cancel(L, t);
    }
    return t->done(L, t->arg);
}

int task_park(lua_State *L, struct vm *vm, void *arg, task_done_f done, task_cancel_f cancel) {
    struct task *t = vm->running;
    t->arg = arg;
    t->done = done;
    t->cancel = cancel;
    if (t->woken) {
        t->woken = false;
        enqueue(t);
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

/* ---- a task's own function ---- */

/* An error that came out of a join is raised again by those who do not expect it: where it came from
 * first is what a person wants to see. */
static bool push_first_traceback(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.joined_error);
    bool same = !lua_isnil(L, 1) && lua_rawequal(L, 1, -1);
    lua_pop(L, 1);
    if (same) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.joined_trace);
        lua_pushliteral(L, "\njoined, and raised again:\n");
    }
    return same;
}

static void push_message(lua_State *L) {
    if (lua_type(L, 1) == LUA_TSTRING) {
        lua_pushvalue(L, 1);
    } else if (luaL_getmetafield(L, 1, "__tostring") == LUA_TFUNCTION && lua_iscfunction(L, -1)) {
        luaL_tolstring(L, 1, NULL); /* an err table: no code of the script's runs here */
    } else {
        lua_pushliteral(L, "an error object");
    }
}

/* Keeps the message and the traceback beside the error, which stays what it was. When the task has
 * failed already, a to-be-closed handler has failed on the way out: the first error is kept below. */
static int note_traceback(lua_State *L) {
    struct vm *vm = vm_of(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.tracebacks);
    bool again = push_first_traceback(L);
    push_message(L);
    luaL_traceback(L, L, lua_tostring(L, -1), 1);
    lua_remove(L, -2);
    lua_concat(L, again ? 3 : 1);
    if (lua_rawgetp(L, 2, vm->running) == LUA_TSTRING && lua_rawlen(L, -1) < TRACE_MAX) {
        lua_pushliteral(L, "\nwhile cleaning up after: ");
        lua_insert(L, -2);
        lua_concat(L, 3);
    } else {
        lua_pop(L, 1);
    }
    lua_rawsetp(L, 2, vm->running);
    lua_settop(L, 1);
    return 1;
}

/* The error "not enough memory" says nothing of the limit that was set. */
static void explain_memory(lua_State *L, struct vm *vm) {
    size_t limit = vm_memory_limit(L);
    if (limit) {
        vm_open_reserve(L);
        struct error e;
        error_set(&e, ERR_NO_MEMORY, "the script needs more than its memory limit of %.4g MiB",
                  (double)limit / (1024 * 1024));
        vm->push_error(L, &e, NULL, NULL);
    }
}

static int body_done(lua_State *L, int status, lua_KContext ctx) {
    struct task *t = (struct task *)ctx;
    if (status == LUA_OK || status == LUA_YIELD) {
        return lua_gettop(L) - 1; /* the handler stays below */
    }
    t->failed = true;
    if (status == LUA_ERRMEM) {
        explain_memory(L, t->vm);
    }
    return 1;
}

/* Called with the task, its function and the arguments. */
static int task_body(lua_State *L) {
    struct task *t = lua_touserdata(L, 1);
    lua_pushcfunction(L, note_traceback);
    lua_replace(L, 1);
    int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, (lua_KContext)t, body_done);
    return body_done(L, status, (lua_KContext)t);
}

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
    enqueue(t);
    t->state = TASK_NEW;
}

struct task *task_spawn(lua_State *L, struct vm *vm, int nargs) {
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
    register_task(vm, t);
    return t;
}

/* ---- the door ---- */

int vm_resume(struct vm *vm, lua_State *co, lua_State *from, int nargs, int *nresults) {
    lua_State *outer = vm->innermost;
    vm->innermost = co;
    int status = lua_resume(co, from, nargs, nresults);
    vm->innermost = outer;
    return status;
}

int vm_close(struct vm *vm, lua_State *co) {
    lua_State *outer = vm->innermost;
    vm->innermost = co;
    int status = lua_resetthread(co);
    vm->innermost = outer;
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
    lua_rawgetp(vm->L, LUA_REGISTRYINDEX, &VM_KEYS.anchors);
    luaL_unref(vm->L, -1, t->anchor);
    lua_pop(vm->L, 1);
}

static bool is_cancelled_error(lua_State *L) {
    if (!lua_istable(L, -1)) {
        return false;
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.code); /* a literal would take memory here */
    lua_rawget(L, -2);
    const char *code = lua_tostring(L, -1);
    bool yes = code && strcmp(code, err_word(ERR_CANCELLED)) == 0;
    lua_pop(L, 1);
    return yes;
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
        t->joined = t->joiners.first || (t->was_cancelled && is_cancelled_error(t->co));
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
    t->state = TASK_RUNNING;
    vm->running = t;
    vm->parking = false;
    vm->skips = TURN_SKIPS;
    int status = vm_resume(vm, t->co, vm->L, nargs, &nresults);
    vm->running = NULL;
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
