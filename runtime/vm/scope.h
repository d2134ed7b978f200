/* scope.h -- what was started under a guard belongs together, and ends before the guard's lease can.
 *
 * A scope is a set of tasks and resources (connections, listeners, commands). What a task starts
 * belongs to its own scope; scopes nest, and the earliest deadline on the way out counts. A scope
 * has two instants of the boot-time clock:
 *
 *   soft   the scope's error (LeaseLost) is raised once in each of its tasks: at its wait, or in the middle of a
 *          computation, but not inside a to-be-closed handler, nor (when computing) inside library code.
 *          Clean-up may run and wait.
 *   hard   the error is raised at every wait and at every tick, there too; the resources are closed. Where even
 *          that does not end what runs (a call into C), the watchdog ends the process, `slice` later.
 *
 *     struct scope *s = scope_new(vm, &options);            within the running task's scope
 *     task_spawn_in(L, vm, nargs, s);
 *     scope_set_deadlines(s, soft, hard);                   with each confirmed renewal
 *     scope_stop(s, &error);                                or the loss, at once
 *     scope_cancel(L, s, false);  wait until scope_is_idle(s)
 *     scope_close(s);  scope_unref(s);
 *
 * Stages. Each arrow names the only function that may take it.
 *   OPEN -scope_soften-> SOFT      the soft instant has passed, or scope_stop
 *   OPEN, SOFT -scope_harden-> HARD    the hard instant has passed, or scope_end
 * A scope that stops takes those inside it along. No way leads back: a loss is never undone, and
 * no later deadline is taken.
 *
 * Clocks are compared by alarms of the world, by a kernel timer that reaches a task which computes
 * (not in a virtual world), and before each entry into Lua, so that a process which was stopped
 * meets its deadline on its first instruction. A vm without scopes pays for none of it.
 */
#ifndef SYNOD_VM_SCOPE_H
#define SYNOD_VM_SCOPE_H

#include "vm/task.h"

#define SCOPE_GRACE (NS_PER_S) /* from a sudden loss to the hard stop, at most */
#define SCOPE_SLICE (100 * NS_PER_MS)

struct scope;

/* Told of a scope's deadlines: a command's leash. The memory is the watcher's. */
struct scope_watch {
    /* scope_soft and scope_hard have moved. Not called in a task; must not run Lua or leave the
     * scope. */
    void (*moved)(struct scope_watch *w, struct scope *s);
    struct scope_watch *prev, *next; /* the scope's */
};

/* The leased blob: writes on exactly this one are sent with the lease's id. */
struct scope_lease {
    const void *store; /* which store: compared, never used */
    const char *container, *name;
    const char *id; /* "": none is needed (a record) */
};

/* All strings are copied. */
struct scope_options {
    int64_t soft, hard;       /* boot-time ns; NEVER: none yet */
    int64_t slice;            /* ns; 0: SCOPE_SLICE */
    const char *name;         /* what is guarded, for messages ("flags/leader"); NULL: not told */
    struct scope_lease lease; /* name NULL: none */
    /* The scope was closed, or freed without that: nothing of it is used any more. NULL: nobody to
     * tell. */
    void (*closed)(struct scope *s, void *arg);
    void *arg;
};

/* Within the running task's scope. One reference, the caller's. NULL: no memory. */
struct scope *scope_new(struct vm *vm, const struct scope_options *options);
struct scope *scope_ref(struct scope *s);
void scope_unref(struct scope *s); /* NULL: no effect */
/* The scope of the running task; NULL: none. */
struct scope *scope_running(struct vm *vm);

/* The scope's own deadlines. No effect once a stop has begun, or its instant has passed. */
void scope_set_deadlines(struct scope *s, int64_t soft, int64_t hard);
/* It is lost: the soft stop now, with this error, and the hard one after as much grace as was
 * planned. */
void scope_stop(struct scope *s, const struct error *why);
/* The hard stop now: for what does not end in time. */
void scope_end(struct scope *s);

/* The earliest of its own and those outside it. */
int64_t scope_soft(const struct scope *s);
int64_t scope_hard(const struct scope *s);
/* Until when what is started now may go on: the soft stop; in clean-up after it the hard one. Of
 * the running task; NEVER without a scope. Requests get no later deadline. */
int64_t vm_deadline(struct vm *vm);
bool scope_is_stopped(const struct scope *s); /* not OPEN any more, by the clock too */
const struct error *scope_error(const struct scope *s);
const char *scope_name(const struct scope *s); /* for messages; NULL: not told */

void scope_watch(struct scope *s, struct scope_watch *w);
void scope_unwatch(struct scope *s, struct scope_watch *w);

/* The id to send with a write on this blob by the running task; NULL: none. Valid while the task
 * runs. */
const char *scope_lease_id(struct vm *vm, const void *store, const char *container,
                           const char *name);

/* A resource of the running task's scope: vm_keep, and closed with the scope. */
void scope_keep(struct vm *vm, struct vm_resource *r);

/* The error on top of L's stack (popped) is raised in each task of the scope itself at its wait,
 * as task_cancel does. `again`: also in those that were cancelled before. What is inside an inner
 * guard is its guard's. */
void scope_cancel(lua_State *L, struct scope *s, bool again);
bool scope_is_idle(const struct scope *s);      /* no task in it or inside it is left */
struct waitlist *scope_idlers(struct scope *s); /* woken when that has become true */
/* Closes what is left of its resources; it takes no more deadlines, and tells `closed`. May be
 * called twice. */
void scope_close(struct scope *s);

#endif
