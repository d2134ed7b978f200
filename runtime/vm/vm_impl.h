/* vm_impl.h -- what the files of this room share; nobody else includes it. */
#ifndef SYNOD_VM_VM_IMPL_H
#define SYNOD_VM_VM_IMPL_H

#include <signal.h>
#include <time.h>

#include "vm/scope.h"
#include "vm/task.h"
#include "vm/vm.h"
#include "vm/watchdog.h"

enum {
    TURN_SKIPS = 32,         /* answers a task may take at once before the others have a turn */
    POLL_EVERY_US = 200,     /* the world is polled this often while tasks are always ready */
    TRACE_MAX = 16 * 1024,   /* bytes of a traceback to which one more is added */
    HOOK_AGAIN_AFTER = 1000, /* instructions, when a stop cannot be raised yet */
    TICK_MS = 10,            /* of CPU time between two polls while a task computes */
    STOP_TOTAL_S = 30,       /* a controlled stop, in all */
    STOP_HANDLERS_S = 10,    /* of these, for the `stopping` handlers */
    WIND_DOWN_S = 10,        /* clean-up of what is left when the main task has ended */
    CANCEL_AGAIN_S = 1,
    LIBRARY_PATH_MAX = 256,
};

enum task_state { TASK_NEW, TASK_READY, TASK_RUNNING, TASK_PARKED, TASK_ENDED };

struct task {
    struct vm *vm;
    lua_State *co;
    struct task *next;          /* in the ready queue, or the ring of a waitlist; never both */
    struct task *prev;          /* in the ring of a waitlist */
    struct waitlist *list;      /* the one it waits in, or NULL */
    struct task *older, *newer; /* all tasks that have not ended */
    struct scope *scope;        /* a reference; NULL: none */
    lua_State *innermost;       /* where it parked: its own coroutine or one inside */
    struct alarm alarm;
    void *arg; /* of the wait, with its two ends */
    task_done_f done;
    task_cancel_f cancel;
    struct waitlist joiners;
    uint32_t id;
    uint32_t fault;   /* which of the run's errors it began to fail with; 0: it obeys */
    int anchor;       /* reference that keeps it from being collected until it ends */
    int results;      /* how many values it left on `co` */
    unsigned cancels; /* still to be raised */
    unsigned char state;
    bool woken;       /* before it parked */
    bool interrupted; /* the wait was given up: raise instead of `done` */
    bool timed_out;
    bool detached;
    bool failed;
    bool joined; /* somebody has seen its error, or nobody needs to */
    bool was_cancelled;
    bool stop_due; /* the error of its scope is still to be raised */
    bool was_stopped;
};

/* A coroutine of the script that is being resumed, on the C stack of its resumer. */
struct frame {
    struct frame *outer;
    lua_State *resumer;
    bool may_wait; /* Lua can suspend all the way up to the task */
};

enum phase { PHASE_RUN, PHASE_HANDLERS, PHASE_CANCEL };

struct vm {
    lua_State *L; /* the state's main thread: only a place to push, and `from` of resumes */
    struct world *world;
    struct task *running;
    struct frame *frame;
    unsigned closing;              /* vm_close calls under way */
    lua_CFunction pcall, xpcall;   /* Lua's own, to be known on a stack */
    lua_State *volatile innermost; /* the running coroutine, for the tick's handler */
    struct task *ready, **ready_end;
    struct task *oldest, *newest; /* all that have not ended */
    struct task *orphans;         /* ended with an error that nobody has joined, by `next` */
    unsigned tasks, holding;      /* not ended; of these, not detached */
    unsigned errands;             /* see vm_errand_begin */
    uint32_t next_id;
    uint32_t faults;
    unsigned runs; /* begun */
    bool parking;  /* the yield under way is a wait */
    bool look_for_orphans;
    int skips;
    int64_t polled;
    struct vm_resource *resources;
    struct scope *scopes;      /* all that have not been freed */
    struct watchdog *watchdog; /* made for the first of them */
    vm_push_error_f push_error;

    /* the end of a run */
    enum phase phase;
    struct task *stopper;
    struct alarm again; /* cancel once more */
    int64_t give_up;    /* after this, what is left is dropped */
    bool has_fatal;     /* an orphan's error ended the run: kept in the registry */
    bool stuck;         /* nothing could ever happen any more */
    bool exiting;
    int exit_code;
    bool cut; /* somebody was cancelled by the end of the run */

    /* written by the signal handler */
    volatile sig_atomic_t signal;
    volatile sig_atomic_t kill_at_tick;

    char library[LIBRARY_PATH_MAX]; /* how the names of the library's own chunks begin; may be "" */

    /* hook.c */
    bool ticking;
    timer_t cpu_timer, wall_timer;
    bool guarding;       /* there is a guard timer */
    timer_t guard_timer; /* the next stop of a scope */
    lua_State *hooked;   /* whose own hook is saved here */
    lua_Hook old_hook;
    int old_mask, old_count;
};

/* Places in the registry: the addresses of these are the keys. */
struct vm_keys {
    char vm, anchors, reasons, tracebacks, fatal, stopper, stop_task, joined_error, joined_trace,
        code;
};
extern const struct vm_keys VM_KEYS;

/* The only way into Lua: task.c. */
int vm_resume(struct vm *vm, lua_State *co, lua_State *from, int nargs, int *nresults);
/* Closes what a coroutine left open, which runs Lua too. LUA_OK, or the error is on its stack. */
int vm_close(struct vm *vm, lua_State *co);
void task_run_ready(struct vm *vm);
/* It fails with the error on top of the stack, unless it was told to. */
void task_note_fault(struct task *t, lua_State *L);
void task_enqueue(struct task *t);
int task_body(
    lua_State *L); /* what a task's coroutine runs: the task, its function, the arguments */
void task_interrupt(struct task *t); /* the reason, if any, is already noted */
void task_drop(struct task *t);      /* the run ends without it */
void task_stop(struct task *t);      /* its scope has stopped, or ends */
int task_raise_cancel(lua_State *L, struct task *t);
int task_raise_stop(lua_State *L, struct task *t);

/* stack.c: what stands on a stack. Whether a to-be-closed handler does, in L or in a coroutine outside it:
 * of the running task, and of a parked one. */
bool stack_closes(const struct vm *vm, lua_State *L);
bool stack_closes_parked(const struct task *t);
bool stack_in_library(const struct vm *vm,
                      lua_State *L); /* its innermost function is the library's */

/* coroutine.c: the coroutine that waits for this one, which waits itself. */
lua_State *coroutine_resumer(lua_State *co);

/* scope.c, for tasks. */
struct scope *scope_enter(struct scope *s); /* a task begins in it; NULL: in none */
void scope_leave(struct scope *s);          /* and ends; the reference too */
void scope_begin(struct task *t);           /* it is about to enter Lua: clocks are compared */
void scope_pause(struct scope *s);          /* it has left Lua */
bool scope_is_hard(const struct scope *s);
void scope_end_run(struct vm *vm); /* the world ends: all of them are closed */

void hook_start(struct vm *vm);
void hook_stop(struct vm *vm);
/* L is hooked after this many instructions. */
void hook_arm(struct vm *vm, lua_State *L, int after);
/* The innermost coroutine is hooked at this instant, boot-time ns. */
void hook_at(struct vm *vm, int64_t at);
void hook_end_process_after(struct vm *vm, time_t seconds); /* async-signal-safe */

/* Notices a signal; calls no Lua, so the hook may call it too. */
void run_notice(struct vm *vm);

#endif
