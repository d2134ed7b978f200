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

struct task *task_running(struct vm *vm);
int task_park(lua_State *L, struct vm *vm, void *arg, task_done_f done, task_cancel_f cancel);
/* Makes a parked task ready. Once for each park; may be called before task_park was reached only by
 * work that completes at once: then do not park but push the results (see task_may_skip_park). */
void task_wake(struct task *t);

/* A call whose answer is there at once need not wait for it, but must not keep the others waiting for
 * ever either: true while the running task has not yet used up its turn. When false, task_wake and park. */
bool task_may_skip_park(struct vm *vm);

#endif
