/* leash_part.h -- what the two sides of a leash say to each other; nobody else includes it. */
#ifndef SYNOD_LEASE_LEASH_PART_H
#define SYNOD_LEASE_LEASH_PART_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* From us to the leash: below PIPE_BUF, so that it is written whole or not at all. */
struct leash_message {
    int64_t soft, hard; /* boot-time ns; of a signal: 0 */
    int32_t signal;     /* 0: these are the deadlines */
    int32_t unused;
};

/* From the leash, or from a command that cannot be executed. The first one counts. */
struct leash_report {
    int32_t result; /* enum process_result */
    int32_t code;
};

/* What the leash is to do. */
struct leash_plan {
    pid_t runtime;       /* whose end is the command's */
    int control, report; /* its ends of the two pipes */
    bool terminal;
    int bond; /* for the leash and the anchor alone, to the end of both; 0: none */
    const char *file;
    char *const *argv;
};

/* The leash: in a process of its own, which leads its group. */
_Noreturn void leash_run(const struct leash_plan *plan);

/* Kills the children of this process that have not ended; false: there is none left to kill. Async-signal-safe. */
bool leash_kill_children(void);
/* The state letter of a process in /proc, 0 when there is none; its parent goes to *parent. */
char leash_process_state(pid_t pid, pid_t *parent);

#endif
