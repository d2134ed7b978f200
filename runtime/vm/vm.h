/* vm.h -- one instance: a Lua state, its tasks, the world they live in.
 *
 * A vm belongs to a Lua state and exists as long as the module `synod.core` is loaded there. It is
 * *running* between vm_run's entry and return; only then may tasks wait, and only then is `world` set.
 *
 *     for (;;) { world_wait(); while (ready) task_resume(); }       is all that vm_run does.
 */
#ifndef SYNOD_VM_VM_H
#define SYNOD_VM_VM_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "world/world.h"

struct task;
struct vm;

/* Something that must be closed when a run ends, whether Lua has collected it or not: an open store, a
 * socket, a child process. `close` is called once, after the last task has ended. */
struct vm_resource {
    struct vm_resource *prev, *next;
    void (*close)(struct vm_resource *r);
};

enum { VM_MEMORY_MIN_MB = 2 };

/* A Lua state whose heap is counted and may be limited; no libraries are opened. NULL: no memory. */
lua_State *vm_state_new(void);
/* Bytes a script may use, 0 for no limit; false for a state that vm_state_new did not make. */
bool vm_limit_memory(lua_State *L, size_t bytes);
size_t vm_memory_used(lua_State *L);

struct vm *vm_new(lua_State *L); /* pushes the userdata that owns it */

/* How a run ended. */
struct vm_end {
    bool failed;   /* an error came out of the main task, or of one that nobody joined */
    int signal;    /* a controlled stop by this signal ended it, else 0 */
    int exit_code; /* what a process says of it: 0, 1, an err table's own, 128 + signal */
};

/* Runs the function below `nargs` arguments on top of L's stack as the main task, until it and every
 * task that is not detached have ended. Leaves its results on the stack and returns their number; when
 * the run failed leaves two values, the error and its traceback (a string). The world stays the
 * caller's. Prints nothing. */
int vm_run(struct vm *vm, struct world *w, int nargs, struct vm_end *end);

/* Let SIGINT and SIGTERM stop the runs of this process in a controlled way (otherwise they keep their
 * usual effect). Only for the process's main thread. */
void vm_catch_signals(struct vm *vm);

struct world *vm_world(struct vm *vm); /* NULL outside of a run */
lua_State *vm_main_state(struct vm *vm);

void vm_keep(struct vm *vm, struct vm_resource *r);
void vm_forget(struct vm *vm, struct vm_resource *r); /* no effect when it is not kept */

#endif
