/* leash.c -- our side of a leash: it is started, told, and judged. */
#include "lease/leash.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "lease/leash_part.h"

enum { FIXED_ARGUMENTS = 4 /* the program's name, LEASH_ARGUMENT, the numbers, the file */ };

/* The program defines it: then /proc/self/exe knows LEASH_ARGUMENT. */
extern const char synod_is_the_program[] __attribute__((weak));

void leash_init(struct leash *l, struct world *w) {
    pipe_end_init(&l->control, w);
    pipe_end_init(&l->report, w);
}

/* ---- start ---- */

static void run_as_fork(void *arg) {
    leash_run(arg);
}

/* Whether this program can be executed again as a leash. */
static bool program_is_ours(void) {
    return synod_is_the_program && access("/proc/self/exe", X_OK) == 0;
}

/* The command line of a leash; freed with `free`, its strings are not its own but `numbers`. */
static char **make_arguments(const struct leash_plan *plan, char *numbers, size_t size) {
    size_t count = 0;
    while (plan->argv[count]) {
        count++;
    }
    snprintf(numbers, size, "%d,%d,%d,%d,%d", (int)plan->runtime, plan->control, plan->report,
             plan->terminal, plan->bond);
    char **args = xcalloc(count + FIXED_ARGUMENTS + 1, sizeof *args);
    args[0] = (char *)"synod";
    args[1] = (char *)LEASH_ARGUMENT;
    args[2] = numbers;
    args[3] = (char *)plan->file;
    memcpy(args + FIXED_ARGUMENTS, plan->argv, count * sizeof *args);
    return args;
}

static int start(struct process *p, const struct process_options *asked, struct leash_plan *plan) {
    struct process_options o = *asked;
    o.guarded = o.foreground = false;
    o.passed[0] = plan->control;
    o.passed[1] = plan->report;
    o.passed_count = 2;
    if (plan->bond > 0) {
        o.passed[o.passed_count++] = plan->bond;
    }
    if (!program_is_ours()) {
        o.entry = run_as_fork;
        o.entry_arg = plan;
        return process_start(p, &o);
    }
    char numbers[64];
    char **args = make_arguments(plan, numbers, sizeof numbers);
    o.file = "/proc/self/exe";
    o.argv = args;
    int rc = process_start(p, &o);
    free(args);
    return rc;
}

int leash_start(struct leash *l, struct process *p, const struct process_options *options,
                const struct leash_times *times) {
    struct leash_plan plan = {
        .runtime = getpid(),
        .terminal = times->terminal,
        .bond = times->bond,
        .file = options->file,
        .argv = options->argv,
    };
    plan.control = pipe_end_open(&l->control, true);
    plan.report = plan.control < 0 ? plan.control : pipe_end_open(&l->report, false);
    int rc = plan.report < 0 ? plan.report : 0;
    if (rc == 0) {
        leash_move(l, times->soft, times->hard); /* there is room in a new pipe */
        rc = start(p, options, &plan);
    }
    if (plan.control >= 0) {
        close(plan.control);
    }
    if (plan.report >= 0) {
        close(plan.report);
    }
    if (rc != 0) {
        leash_release(l, p);
    }
    return rc;
}

/* ---- while it lasts ---- */

bool leash_is_on(const struct leash *l) {
    return l->control.fd >= 0;
}

static bool tell(struct leash *l, const struct leash_message *m) {
    return pipe_end_write(&l->control, m, sizeof *m) == (ssize_t)sizeof *m;
}

bool leash_move(struct leash *l, int64_t soft, int64_t hard) {
    struct leash_message m = {.soft = soft, .hard = hard};
    return tell(l, &m);
}

bool leash_signal(struct leash *l, int signal) {
    struct leash_message m = {.signal = signal};
    return tell(l, &m);
}

/* ---- the end ---- */

/* Without a report the leash has not lived to write one: then the anchor and the kernel kill the command, and
 * how the leash was ended is all there is to say. */
void leash_judge(struct leash *l, struct process *p) {
    struct leash_report r;
    if (pipe_end_read(&l->report, &r, sizeof r) == (ssize_t)sizeof r) {
        p->end.result = (enum process_result)r.result;
        p->end.code = r.code;
    } else if (p->end.result == PROCESS_EXITED) {
        p->end = (struct process_end){.result = PROCESS_KILLED, .code = SIGKILL};
    }
    pipe_end_close(&l->control);
    pipe_end_close(&l->report);
}

void leash_release(struct leash *l, struct process *p) {
    bool was_on = leash_is_on(l) && process_is_running(p);
    pipe_end_close(&l->control); /* the end of the pipe: it kills what there is, and ends */
    if (was_on) {
        process_kill(p, SIGCONT); /* should somebody have stopped it */
        process_await_end(p);
    }
    process_release(p);
    if (was_on) {
        leash_judge(l, p);
    }
    pipe_end_close(&l->report);
}
