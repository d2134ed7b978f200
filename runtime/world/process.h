/* process.h -- a child process, and the pipes to it.
 *
 *     struct process p;
 *     process_init(&p, w, on_end);
 *     int rc = process_start(&p, &options);          0, or -errno: it was not started
 *     pipe_end_await(&p.pipes[1], on_ready);        then pipe_end_read, until it gives 0
 *     ... on_end(&p): p.end says how ...
 *     process_release(&p);
 *
 * A child is the leader of its own process group, with all signals at their defaults, and with no
 * descriptor but those it was given. It cannot be left behind: it is killed when this process ends in
 * whatever way (PR_SET_PDEATHSIG), and what is left of its group is killed when it has ended, before
 * its number can be anybody else's. Only members that made a group of their own (setsid, daemons)
 * get away.
 *
 * Whether the program could be executed is known in the child alone, so a wrong name is an end
 * (PROCESS_NOT_RUN), not a refusal of process_start.
 *
 * The world is held (world_hold) from the start to the end, and while a pipe is awaited: a command takes
 * no virtual time.
 */
#ifndef SYNOD_WORLD_PROCESS_H
#define SYNOD_WORLD_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "world/pipe.h"
#include "world/world.h"

enum { PROCESS_PASSED_MAX = 8, PROCESS_STREAMS = 3 };

/* What a standard stream of the child is. A pipe: ours to write for stdin, to read for the others. */
enum process_stdio { PROCESS_NULL, PROCESS_INHERIT, PROCESS_PIPE };

struct process_options {
    const char *file;      /* a name without a slash is looked for in the child's PATH */
    char *const *argv;     /* NULL-terminated, argv[0] included */
    char *const *environ;  /* NULL-terminated "NAME=value"; NULL: ours */
    const char *directory; /* NULL: ours */
    enum process_stdio stdio[PROCESS_STREAMS];
    /* descriptors above 2 that the child keeps, by the same number */
    int passed[PROCESS_PASSED_MAX];
    size_t passed_count;
    bool foreground; /* on a terminal that is ours its group becomes the one that Ctrl-C reaches */
    bool guarded;    /* what it starts ends with us too, not only the child itself */
    /* Runs in the child in place of the file, and must not return. A copy of this process, whose other threads are
     * gone: nothing that takes a lock. */
    void (*entry)(void *arg);
    void *entry_arg;
};

enum process_result { PROCESS_EXITED, PROCESS_KILLED, PROCESS_NOT_RUN };

struct process_end {
    enum process_result result;
    int code;          /* the exit code, the signal, or the errno */
    bool in_directory; /* not run: the directory was the reason, not the file */
};

struct process {
    struct world *world;
    pid_t pid;   /* 0: not started, or its end was seen */
    pid_t guard; /* 0: none */
    int pidfd;
    bool foreground;        /* the terminal is lent to it */
    struct pipe_end report; /* the child writes here why it could not run */
    struct pipe_end pipes[PROCESS_STREAMS];
    struct watch watch;
    void (*ended)(struct process *p); /* runs once, inside world_wait */
    struct process_end end;           /* set before `ended` runs */
};

void process_init(struct process *p, struct world *w, void (*ended)(struct process *p));
int process_start(struct process *p, const struct process_options *options);
/* Sends a signal to the child's whole group; no effect once its end was seen. */
void process_kill(struct process *p, int signal);
bool process_is_running(const struct process *p);
/* Waits here, at most PROCESS_REAP_MS, until it has ended; `ended` has not run then. False: it has not. */
bool process_await_end(struct process *p);
/* Kills the group if it is still there, waits for its end (at most PROCESS_REAP_MS) without calling
 * `ended`, closes everything. May be called twice, and after a failed start. */
void process_release(struct process *p);

enum { PROCESS_REAP_MS = 2000 };

#endif
