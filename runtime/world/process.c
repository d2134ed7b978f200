/* process.c -- see process.h.
 *
 *     idle -process_start-> running -process_reap (pidfd is readable)-> ended
 *     running -process_release-> ended          killed and waited for, `ended` is not called
 *
 * `pid` is not 0 exactly while running; the child has not been reaped then, so that its number, which
 * is its group's too, is still its own.
 */
#include "world/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptor.h"
#include "world/child.h"

enum {
    FD_FIRST = 3, /* below are the standard streams */
    NO_FD = -1,
    EXIT_NOT_RUN = 127,
    GUARD_SIGNAL = SIGUSR1,
};

/* What the child writes into the report when it cannot become the program. */
struct report {
    int error;
    int in_directory;
};

/* What the child's side of the fork needs, all prepared before it. */
struct launch {
    const struct process_options *options;
    int streams[PROCESS_STREAMS]; /* becomes 0, 1, 2; NO_FD: stays what it is */
    int report;
    pid_t parent;
    bool foreground;
};

static void fd_close(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        *fd = NO_FD;
    }
}

void process_init(struct process *p, struct world *w, void (*ended)(struct process *p)) {
    memset(p, 0, sizeof *p);
    p->world = w;
    p->ended = ended;
    p->pidfd = NO_FD;
    pipe_end_init(&p->report, w);
    for (int i = 0; i < PROCESS_STREAMS; i++) {
        pipe_end_init(&p->pipes[i], w);
    }
}

/* ---- in the child: between fork and exec ---- */

static _Noreturn void child_fail(const struct launch *l, int error, int in_directory) {
    struct report r = {.error = error, .in_directory = in_directory};
    ssize_t n = write(l->report, &r, sizeof r);
    _exit(n == (ssize_t)sizeof r ? EXIT_NOT_RUN : EXIT_NOT_RUN - 1);
}

static void child_close_others(const struct launch *l) {
    child_close_on_exec(FD_FIRST);
    for (size_t i = 0; i < l->options->passed_count; i++) {
        fcntl(l->options->passed[i], F_SETFD, 0);
    }
}

/* Whether the terminal, if there is one, is ours to lend. */
static bool terminal_is_ours(void) {
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* SIGTTOU is blocked by both callers: it is for those who write without being in the foreground. */
static void terminal_give(pid_t group) {
    tcsetpgrp(STDIN_FILENO, group);
}

static _Noreturn void child_run(const struct launch *l) {
    setpgid(0, 0);
    if (l->foreground) {
        terminal_give(getpid());
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != l->parent) {
        _exit(EXIT_NOT_RUN); /* it ended before we could ask to end with it */
    }
    for (int i = 0; i < PROCESS_STREAMS; i++) {
        if (l->streams[i] != NO_FD && dup2(l->streams[i], i) < 0) {
            child_fail(l, errno, 0);
        }
    }
    child_signals_reset();
    child_close_others(l);
    const struct process_options *o = l->options;
    if (o->directory && chdir(o->directory) != 0) {
        child_fail(l, errno, 1);
    }
    if (o->environ) {
        environ = (char **)o->environ; /* execvp looks for PATH in it */
    }
    if (o->entry) {
        o->entry(o->entry_arg);
    }
    execvp(o->file, o->argv);
    child_fail(l, errno, 0);
}

/* ---- the guard: a child that ends its group when we have ended ---- */

/* All signals are blocked, so that one for the group does not end it. */
static _Noreturn void guard_run(pid_t group, pid_t parent) {
    sigset_t due;
    sigemptyset(&due);
    sigaddset(&due, GUARD_SIGNAL);
    if (setpgid(0, group) != 0) {
        _exit(EXIT_NOT_RUN); /* the group has ended already */
    }
    prctl(PR_SET_PDEATHSIG, GUARD_SIGNAL);
    child_close_but(NULL,
                    0); /* above all the pipes of the command, whose ends somebody waits for */
    while (getppid() == parent) {
        sigwaitinfo(&due, NULL);
    }
    kill(0, SIGKILL);
    _exit(EXIT_NOT_RUN);
}

/* Without a guard, where there can be no more processes, only the child itself ends with us. */
static void guard_start(struct process *p, pid_t parent) {
    pid_t pid = fork();
    if (pid == 0) {
        guard_run(p->pid, parent);
    }
    p->guard = pid > 0 ? pid : 0;
}

static void guard_end(struct process *p) {
    if (p->guard == 0) {
        return;
    }
    kill(p->guard, SIGKILL);
    while (waitid(P_PID, (id_t)p->guard, NULL, WEXITED) != 0 && errno == EINTR) {}
    p->guard = 0;
}

/* ---- start ---- */

static int stream_open(struct process *p, struct launch *l, int i) {
    enum process_stdio kind = l->options->stdio[i];
    if (kind == PROCESS_INHERIT) {
        return 0;
    }
    if (kind == PROCESS_NULL) {
        l->streams[i] = descriptor_lift(open("/dev/null", O_RDWR | O_CLOEXEC));
        return l->streams[i] < 0 ? -errno : 0;
    }
    l->streams[i] = pipe_end_open(&p->pipes[i], i == STDIN_FILENO);
    return l->streams[i] < 0 ? l->streams[i] : 0;
}

static int streams_open(struct process *p, struct launch *l) {
    l->report = pipe_end_open(&p->report, false);
    int rc = l->report < 0 ? l->report : 0;
    for (int i = 0; i < PROCESS_STREAMS && rc == 0; i++) {
        rc = stream_open(p, l, i);
    }
    return rc;
}

static void launch_release(struct launch *l) {
    for (int i = 0; i < PROCESS_STREAMS; i++) {
        fd_close(&l->streams[i]);
    }
    fd_close(&l->report);
}

/* All signals are blocked over the fork, so that no handler of ours runs in the child. */
static int process_fork(struct process *p, const struct launch *l) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    int error = errno;
    if (pid == 0) {
        child_run(l);
    }
    if (pid > 0) {
        setpgid(pid, pid); /* here too: a kill of the group must not come before the group */
        p->pid = pid;
        p->foreground = l->foreground;
        if (l->options->guarded) {
            guard_start(p, l->parent);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid < 0 ? -error : 0;
}

static void process_ready(struct watch *watch, int events);

static int process_watch(struct process *p) {
    p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (p->pidfd < 0) {
        return -errno;
    }
    fcntl(p->pidfd, F_SETFD, FD_CLOEXEC);
    p->watch.ready = process_ready;
    return watch_start(p->world, &p->watch, p->pidfd, WATCH_READ);
}

int process_start(struct process *p, const struct process_options *options) {
    struct launch l = {
        .options = options,
        .streams = {NO_FD, NO_FD, NO_FD},
        .report = NO_FD,
        .parent = getpid(),
        .foreground = options->foreground && terminal_is_ours(),
    };
    int rc = streams_open(p, &l);
    if (rc == 0) {
        rc = process_fork(p, &l);
    }
    launch_release(&l);
    if (rc == 0) {
        world_hold(p->world);
        rc = process_watch(p);
    }
    if (rc != 0) {
        process_release(p);
    }
    return rc;
}

/* ---- end ---- */

static void process_read_end(struct process *p, const siginfo_t *info) {
    struct report r;
    if (pipe_end_read(&p->report, &r, sizeof r) == (ssize_t)sizeof r) {
        p->end = (struct process_end){PROCESS_NOT_RUN, r.error, r.in_directory != 0};
    } else if (info->si_code == CLD_EXITED) {
        p->end = (struct process_end){.result = PROCESS_EXITED, .code = info->si_status};
    } else {
        p->end = (struct process_end){.result = PROCESS_KILLED, .code = info->si_status};
    }
}

static void terminal_take_back(struct process *p) {
    if (!p->foreground) {
        return;
    }
    sigset_t ttou, before;
    sigemptyset(&ttou);
    sigaddset(&ttou, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &ttou, &before);
    terminal_give(getpgrp());
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    p->foreground = false;
}

/* The child is a zombie: kill what is left of its group while its number is still taken, then reap. */
static void process_reap(struct process *p) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    kill(-p->pid, SIGKILL);
    while (waitid(P_PID, (id_t)p->pid, &info, WEXITED) != 0 && errno == EINTR) {}
    guard_end(p);
    process_read_end(p, &info);
    terminal_take_back(p);
    p->pid = 0;
    watch_stop(p->world, &p->watch);
    fd_close(&p->pidfd);
    pipe_end_close(&p->report);
    world_release(p->world);
}

static void process_ready(struct watch *watch, int events) {
    struct process *p = container_of(watch, struct process, watch);
    (void)events;
    process_reap(p);
    p->ended(p);
}

void process_kill(struct process *p, int signal) {
    if (p->pid != 0) {
        kill(-p->pid, signal);
    }
}

bool process_is_running(const struct process *p) {
    return p->pid != 0;
}

bool process_await_end(struct process *p) {
    if (p->pidfd == NO_FD) {
        return true;
    }
    struct pollfd fd = {.fd = p->pidfd, .events = POLLIN};
    int n;
    do {
        n = poll(&fd, 1, PROCESS_REAP_MS);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

void process_release(struct process *p) {
    if (p->pid != 0) {
        kill(-p->pid, SIGKILL);
        if (process_await_end(p)) {
            process_reap(p);
        } else { /* stuck in the kernel: it is dead, and init's as soon as we are */
            guard_end(p);
            p->pid = 0;
            watch_stop(p->world, &p->watch);
            world_release(p->world);
        }
    }
    for (int i = 0; i < PROCESS_STREAMS; i++) {
        pipe_end_close(&p->pipes[i]);
    }
    fd_close(&p->pidfd);
    pipe_end_close(&p->report);
}
