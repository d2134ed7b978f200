/* meter.c -- runs a command and says what it cost.
 *
 *   meter [-r RUNS] [-o FILE] [-t SECONDS] -- COMMAND [ARG...]      one after another
 *   meter -n COPIES [-s SECONDS] [-o FILE] [-t SECONDS] -- COMMAND [ARG...]      all at once
 *   meter -k -- COMMAND [ARG...]      becomes the command, which ends when its parent does
 *
 * -o FILE: standard output is appended there, else dropped. -t SECONDS: what still runs then is killed.
 * -s SECONDS: after so long the private memory of each copy is read, and SIGTERM ends them. Standard input is
 * a pipe in which nothing comes.
 * "%i" in an argument is the number of the run or copy, from 0.
 *
 * Prints one JSON object of lists, an item for each run or copy. "peak_kb" cannot fall below what this
 * program itself takes: it is linked statically, so that this is less than any command measured.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COPIES_MAX = 2000, TIMEOUT_S = 300 };

struct options {
    int count; /* of runs or copies */
    bool at_once;
    double sample_s;   /* negative: never */
    int64_t give_up;   /* monotonic ns */
    int input, output; /* descriptors; input -1: ours */
    char **command;
};

struct run {
    pid_t pid; /* 0: not running */
    int64_t started;
    double wall_ms, cpu_ms;
    long peak_kb, private_kb, switches;
    int exit;
};

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "meter: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* A copy of the arguments in which "%i" is the number. */
static char **numbered(char **from, int number) {
    size_t count = 0;
    while (from[count]) {
        count++;
    }
    char **to = calloc(count + 1, sizeof *to);
    for (size_t i = 0; to && i < count; i++) {
        const char *mark = strstr(from[i], "%i");
        if (!mark) {
            to[i] = from[i];
        } else if (asprintf(&to[i], "%.*s%d%s", (int)(mark - from[i]), from[i], number, mark + 2) <
                   0) {
            fail("arguments");
        }
    }
    return to ? to : (fail("arguments"), NULL);
}

static _Noreturn void become(char **command, int input, int output) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (input >= 0) {
        dup2(input, STDIN_FILENO);
    }
    if (output >= 0) {
        dup2(output, STDOUT_FILENO);
    }
    execvp(command[0], command);
    _exit(127);
}

/* Not fork: the copy of our memory would be a part of what is measured. */
static __attribute__((noinline)) pid_t spawn(char **command, int input, int output) {
    pid_t pid = vfork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        become(command, input, output);
    }
    return pid;
}

static void run_start(struct run *run, const struct options *o, int number) {
    char **command = numbered(o->command, number);
    run->started = now();
    run->pid = spawn(command, o->input, o->output);
    if (run->pid < 0) {
        fail("vfork");
    }
    for (size_t i = 0; command[i]; i++) {
        if (command[i] != o->command[i]) {
            free(command[i]);
        }
    }
    free(command);
}

static double ms(struct timeval t) {
    return (double)t.tv_sec * 1e3 + (double)t.tv_usec / 1e3;
}

static void run_ended(struct run *run, int status, const struct rusage *used) {
    run->pid = 0;
    run->wall_ms = (double)(now() - run->started) / 1e6;
    run->cpu_ms = ms(used->ru_utime) + ms(used->ru_stime);
    run->peak_kb = used->ru_maxrss;
    run->switches = used->ru_nvcsw + used->ru_nivcsw;
    run->exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int alive(const struct run *runs, int count) {
    int n = 0;
    for (int i = 0; i < count; i++) {
        n += runs[i].pid != 0;
    }
    return n;
}

static void signal_all(const struct run *runs, int count, int signal) {
    for (int i = 0; i < count; i++) {
        if (runs[i].pid) {
            kill(runs[i].pid, signal);
        }
    }
}

/* Takes those that have ended. */
static void reap(struct run *runs, int count) {
    struct rusage used;
    int status;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
        for (int i = 0; i < count; i++) {
            if (runs[i].pid == pid) {
                run_ended(&runs[i], status, &used);
            }
        }
    }
}

/* Until none of them runs, or the instant has come. */
static void wait_until(struct run *runs, int count, int64_t instant, const sigset_t *child) {
    for (;;) {
        reap(runs, count);
        int64_t left = instant - now();
        if (left <= 0 || alive(runs, count) == 0) {
            return;
        }
        struct timespec t = {left / 1000000000LL, left % 1000000000LL};
        sigtimedwait(child, NULL, &t);
    }
}

static void wait_all(struct run *runs, int count, const struct options *o, const sigset_t *child) {
    wait_until(runs, count, o->give_up, child);
    if (alive(runs, count)) {
        fprintf(stderr, "meter: the time is up, killing %d\n", alive(runs, count));
        signal_all(runs, count, SIGKILL);
        wait_until(runs, count, INT64_MAX, child);
    }
}

static long private_kb(pid_t pid) {
    char path[64], line[256];
    long sum = 0, n;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "Private_Clean: %ld", &n) == 1 ||
            sscanf(line, "Private_Dirty: %ld", &n) == 1) {
            sum += n;
        }
    }
    if (f) {
        fclose(f);
    }
    return sum;
}

static void run_all(struct run *runs, const struct options *o, const sigset_t *child) {
    for (int i = 0; i < o->count; i++) {
        run_start(&runs[i], o, i);
        if (!o->at_once) {
            wait_all(runs + i, 1, o, child);
        }
    }
    if (o->sample_s >= 0) {
        wait_until(runs, o->count, now() + (int64_t)(o->sample_s * 1e9), child);
        for (int i = 0; i < o->count; i++) {
            runs[i].private_kb = runs[i].pid ? private_kb(runs[i].pid) : 0;
        }
        signal_all(runs, o->count, SIGTERM);
    }
    wait_all(runs, o->count, o, child);
}

static void print_list(const char *name, const struct run *runs, int count,
                       double (*value)(const struct run *)) {
    printf("%s\"%s\":[", strcmp(name, "wall_ms") ? "," : "{", name);
    for (int i = 0; i < count; i++) {
        printf("%s%.10g", i ? "," : "", value(&runs[i]));
    }
    printf("]");
}

#define VALUE_LIST(X) X(wall_ms) X(cpu_ms) X(peak_kb) X(private_kb) X(switches) X(exit)
#define VALUE_FUNCTION(field)                                                                      \
    static double value_##field(const struct run *run) {                                           \
        return (double)run->field;                                                                 \
    }
VALUE_LIST(VALUE_FUNCTION)

static _Noreturn void usage(void) {
    fprintf(stderr, "meter [-r RUNS | -n COPIES [-s SECONDS] | -k] [-o FILE] [-t SECONDS] -- "
                    "COMMAND [ARG...]\n");
    exit(2);
}

/* Its other end stays open, and silent, until we end. */
static int silent_pipe(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fail("pipe");
    }
    return ends[0];
}

static struct options parse(int argc, char **argv) {
    struct options o = {.count = 1, .sample_s = -1, .input = -1};
    const char *output = "/dev/null";
    double timeout = TIMEOUT_S;
    bool keep = false;
    int option;
    while ((option = getopt(argc, argv, "+r:n:s:o:t:k")) != -1) {
        switch (option) {
        case 'r':
        case 'n':
            o.count = atoi(optarg);
            o.at_once = option == 'n';
            break;
        case 's':
            o.sample_s = atof(optarg);
            break;
        case 'o':
            output = optarg;
            break;
        case 't':
            timeout = atof(optarg);
            break;
        case 'k':
            keep = true;
            break;
        default:
            usage();
        }
    }
    if (!argv[optind] || o.count < 1 || o.count > COPIES_MAX) {
        usage();
    }
    o.command = argv + optind;
    prctl(PR_SET_PDEATHSIG, keep ? SIGKILL : SIGTERM); /* a server may take its time with SIGTERM */
    if (keep) {
        become(o.command, -1, -1);
    }
    o.output = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (o.output < 0) {
        fail(output);
    }
    if (o.sample_s >= 0) {
        o.input = silent_pipe();
    }
    o.give_up = now() + (int64_t)(timeout * 1e9);
    return o;
}

int main(int argc, char **argv) {
    struct options o = parse(argc, argv);
    struct run *runs = calloc((size_t)o.count, sizeof *runs);
    if (!runs) {
        fail("memory");
    }
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    run_all(runs, &o, &child);
#define VALUE_PRINT(field) print_list(#field, runs, o.count, value_##field);
    VALUE_LIST(VALUE_PRINT)
    printf("}\n");
    free(runs);
    return 0;
}
