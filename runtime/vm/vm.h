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

#include "base/error.h"
#include "world/world.h"

struct scope;
struct task;
struct vm;

/* Something that must be closed when a run ends, whether Lua has collected it or not: an open store, a
 * socket, a child process. `close` is called once, after the last task has ended. */
struct vm_resource {
    struct vm_resource *prev, *next;
    struct scope *scope; /* that it belongs to, or NULL: see scope_keep */
    void (*close)(struct vm_resource *r);
};

/* A Lua state whose heap is counted and may be limited; no libraries are opened. NULL: no memory. */
lua_State *vm_state_new(void);
void vm_state_free(lua_State *L);
/* Bytes a script may use, 0 for no limit; false for a state that vm_state_new did not make. */
bool vm_limit_memory(lua_State *L, size_t bytes);
/* The limit was reached: a part more from now on, once and for all, to say so and to clean up. */
void vm_open_reserve(lua_State *L);
size_t vm_memory_limit(lua_State *L);

/* Pushes the userdata that owns it, which the registry keeps. */
struct vm *vm_new(lua_State *L);
struct vm *vm_of(lua_State *L); /* the one whose library is loaded in this state; NULL: none */
/* How the names of the library's own chunks begin: a stop is not raised inside them. */
void vm_set_library(struct vm *vm, const char *prefix);
struct world *vm_world(struct vm *vm);       /* NULL outside of a run */
unsigned vm_run_number(const struct vm *vm); /* from 1; how many runs it has begun */

/* How an err table is made: given from above, because errors are shown to Lua in one way only. */
typedef void (*vm_push_error_f)(lua_State *L, const struct error *e, const char *operation,
                                const char *target);
void vm_set_error_form(struct vm *vm, vm_push_error_f push);

/* How a run ended. */
struct vm_end {
    bool failed;   /* an error came out of the main task, or of one that nobody joined */
    int signal;    /* a controlled stop by this signal ended it, else 0 */
    int exit_code; /* what a process says of it: 0, 1, an err table's own, 128 + signal */
};

/* Runs the function below `nargs` arguments on top of L's stack as the main task, until it and every
 * task that is not detached have ended. Not while one runs already (vm_world). Leaves its results on the stack and returns their number; when
 * the run failed leaves two values, the error and its traceback (a string, or nil). The world stays
 * the caller's. Prints nothing. */
int vm_run(lua_State *L, struct vm *vm, struct world *w, int nargs, struct vm_end *end);

/* For a signal handler: SIGINT, SIGTERM or SIGHUP has come. The first begins a controlled stop: the `stopping`
 * handlers run (10 s), then all tasks are cancelled, again each second, and after 30 s the process
 * ends; a second SIGINT ends it at once. Async-signal-safe. */
void vm_signal(struct vm *vm, int signal);
/* The one that has begun a controlled stop; 0: none has. */
int vm_signalled(const struct vm *vm);

/* Begin to end the run with this exit code: every task is cancelled, so that clean-up runs (10 s). */
void vm_exit(struct vm *vm, int code);

/* The function on top of L's stack (popped) is run as a task at the beginning of a controlled stop; its
 * argument is the signal. */
void vm_set_stopper(lua_State *L, struct vm *vm);

/* Something goes on that no task waits for and that ends by itself, soon: the run does not end before it
 * (unless it is being given up). Each begin has one end. */
void vm_errand_begin(struct vm *vm);
void vm_errand_end(struct vm *vm);

void vm_keep(struct vm *vm, struct vm_resource *r);
void vm_forget(struct vm *vm, struct vm_resource *r); /* no effect when it is not kept */

#endif
