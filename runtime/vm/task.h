/* task.h -- tasks: coroutines that take turns; the one door through which Lua is entered.
 *
 * How a call waits. The binding starts something that will call task_wake later, and parks:
 *
 *     static int sleep_done(lua_State *L, void *arg) { ... push results; may raise ...; return n; }
 *     static void sleep_cancel(void *arg)            { ... nothing may wake after this ... }
 *     return task_park(L, vm, arg, sleep_done, sleep_cancel);        must be the last act
 *
 * Exactly one of the two is called, once. `done` runs in the task when it was woken, under protection
 * (it may push, allocate and raise); `cancel` runs when the task is cancelled or the run ends before it
 * was woken. A task that was woken is not cancelled out of the wait it has finished: the cancel waits
 * for its next one, so that no result is lost. Either one frees `arg`.
 *
 * Callbacks of the world call task_wake and nothing else of Lua.
 */
#ifndef SYNOD_VM_TASK_H
#define SYNOD_VM_TASK_H

#include "vm/vm.h"

typedef int (*task_done_f)(lua_State *L, void *arg);
typedef void (*task_cancel_f)(void *arg);

/* Every binding begins with this. Raises when called outside of a run. `name` is what the script
 * calls it ("synod.sleep"). In a simulation a pause or a crash may begin here. */
struct vm *task_enter(lua_State *L, const char *name);

/* The same for calls that wait: raises too where Lua cannot suspend (a table.sort or string.gsub
 * callback, a finaliser), and raises a cancel that is due. Call it before anything is started. */
struct vm *task_enter_wait(lua_State *L, const char *name);

/* For what can also do without waiting: whether task_enter_wait would find Lua able to suspend. */
bool task_may_wait(lua_State *L, struct vm *vm);

struct task *task_running(struct vm *vm);
int task_park(lua_State *L, struct vm *vm, void *arg, task_done_f done, task_cancel_f cancel);
/* Makes a parked task ready. Once for each park; before task_park only when task_may_skip_park said
 * no. */
void task_wake(struct task *t);

/* A call whose answer is there at once need not wait for it, but must not keep the others waiting for
 * ever either: true while the running task has not yet used up its turn. When false: task_wake the
 * running task, then park; it goes on after the others had their turn. */
bool task_may_skip_park(struct vm *vm);

/* Replaces the function and its `nargs` arguments on top of the stack by a new, ready task. */
struct task *task_spawn(lua_State *L, struct vm *vm, int nargs);
/* The same, in another scope than the running task's (NULL: in none). See scope.h. */
struct task *task_spawn_in(lua_State *L, struct vm *vm, int nargs, struct scope *scope);
/* The error on top of L's stack (popped) is raised in the task at its current or next wait, once for
 * each call. No effect on one that has ended. */
void task_cancel(lua_State *L, struct task *t);
void task_detach(struct task *t); /* the run need not wait for it */
bool task_ended(const struct task *t);
bool task_failed(const struct task *t); /* it ended with an error */
uint32_t task_id(const struct task *t); /* 1 is the main task */
/* Pushes what it returned, or its error, and returns how many; the error counts as joined. */
int task_push_results(lua_State *L, struct task *t);
/* The userdata is being collected. */
void task_collect(lua_State *L, struct task *t);

/* Tasks that wait for the same thing, in the order they came. Zero-initialise. */
struct waitlist {
    struct task *first; /* of a ring */
};

/* Parks the running task in the list (NULL: in none) until it is woken or the deadline (NEVER: none)
 * has passed. `arg` of `done` is the task. */
int task_wait(lua_State *L, struct vm *vm, struct waitlist *list, int64_t deadline,
              task_done_f done);
bool task_timed_out(const struct task *t); /* in `done`: the deadline came first */
void waitlist_wake(struct waitlist *list); /* all of them */
/* The list of those who wait for a task's end. */
struct waitlist *task_joiners(struct task *t);

/* `coroutine` with resume, wrap, close and yield that let a wait inside a script's own coroutine pass
 * up to its task. vm_run puts it in place and takes it away again. */
void coroutine_library(lua_State *L, struct vm *vm); /* pushes a table of those four */

#define TASK_TYPE "synod.task"

#endif
