/* leash.h -- the parent process of a command that must not outlive its lease.
 *
 *     struct leash l;
 *     leash_init(&l, w);
 *     process_init(&p, w, on_end);
 *     int rc = leash_start(&l, &p, &options, &times);   in place of process_start; 0, or -errno
 *     leash_move(&l, soft, hard);                        each time that a renewal is confirmed
 *     leash_signal(&l, SIGINT);                          for the command's group
 *     ... on_end(&p): leash_judge(&l, &p); p.end says how the command ended ...
 *     leash_release(&l, &p);                             in place of process_release
 *
 * Between us and the command stands a process of our own. It has the command as its child, the end of a pipe, and a
 * clock that includes suspension. At `soft` it sends TERM to the command's group, at `hard` KILL; at the end of the
 * pipe, which is our end too, KILL at once. What it was told last counts, until it has sent TERM: no later
 * deadline takes that back.
 *
 *   - It is in a process group of its own with all signals blocked, so nothing done to the command's group, or
 *     to ours, or at the terminal, reaches it. Signals sent to it by number are passed on to the command.
 *   - It passes on how the command ended, when that and the rest of its group are gone.
 *   - A third process, the anchor, is a member of the command's group. It keeps the group's number from becoming another's,
 *     waits for the same deadline, our end and the leash's, and kills the group at the first of them: so a leash
 *     that is killed or stopped, or whose pipe is full, lets nothing overstay. One that is stopped it makes go on.
 *   - When a deadline or our death ended the command, all that it has started is killed, daemons in sessions of their
 *     own included; orphans come to the leash (PR_SET_CHILD_SUBREAPER), as long as nobody kills it. When the command
 *     ended by itself, what is left of its group is killed, and daemons get away, as those of any command do.
 *   - With a `terminal`: a command that has the terminal for input and output gets the foreground, else it gets it when
 *     it asks (SIGTTIN, SIGTTOU); it is given back at the end, and while the command is stopped (Ctrl-Z), which stops our
 *     own job as well. Both go on together. That is why the leash is no session of its own: the command's group
 *     would be an orphan, and could not be stopped from the terminal.
 *
 * The leash is this program once more (/proc/self/exe), which begins with LEASH_ARGUMENT; under another program
 * (lua5.4 with core.so) a fork of it that executes nothing.
 */
#ifndef SYNOD_LEASE_LEASH_H
#define SYNOD_LEASE_LEASH_H

#include "world/process.h"

/* The first argument of a leash. */
#define LEASH_ARGUMENT "--leash"

enum { LEASH_REAP_MS = 1500 /* how long what was killed is waited for; below PROCESS_REAP_MS */ };

struct leash {
    struct pipe_end control; /* ours to write; closed: no leash, or it has been let go */
    struct pipe_end report;  /* ours to read: how the command ended */
};

struct leash_times {
    int64_t soft, hard; /* boot-time ns, NEVER: without end */
    bool terminal;      /* the command may have ours */
    int bond; /* a descriptor that stays open, here and not in the command, until all is over; 0: none */
};

void leash_init(struct leash *l, struct world *w);
/* `options` as for process_start; `guarded` and `foreground` have no meaning here. A command whose soft stop has
 * passed is not run: it counts as killed. */
int leash_start(struct leash *l, struct process *p, const struct process_options *options,
                const struct leash_times *times);
bool leash_is_on(const struct leash *l);
/* False: the leash takes no more, because it has ended or is stopped; then the deadlines it knows stand. */
bool leash_move(struct leash *l, int64_t soft, int64_t hard);
bool leash_signal(struct leash *l, int signal);
/* Puts the command's end in place of the leash's own. */
void leash_judge(struct leash *l, struct process *p);
/* Ends the command and all it has started, and waits for that, at most PROCESS_REAP_MS. May be called twice. */
void leash_release(struct leash *l, struct process *p);

/* The process itself: for main, with its whole command line, when the first argument is LEASH_ARGUMENT. Returns only
 * when that line is none of ours. */
void leash_main(int argc, char **argv);

#endif
