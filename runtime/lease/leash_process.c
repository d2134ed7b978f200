/* leash_process.c -- the leash itself, and the anchor.
 *
 *     begin -start_command-> HELD -look_at_clock-> TERMED -look_at_clock-> end
 *     HELD, TERMED -look_at_children, the end of the pipe-> end
 *
 * It is a small process, or a fork of a large one whose other threads are gone: from here on nothing allocates and
 * nothing takes a lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/instant.h"
#include "lease/leash.h"
#include "lease/leash_part.h"
#include "world/child.h"

enum {
    EXIT_NOT_RUN = 127,
    LOOK_MS = 200, /* while everything is stopped by Ctrl-Z: whether our job goes on */
    ROUND_MS = 10, /* between two looks for what was killed and is not gone */
};

enum { FD_CONTROL, FD_SIGNALS, FD_SOFT, FD_HARD, FD_COUNT };

struct keep {
    const struct leash_plan *plan;
    struct pollfd fds[FD_COUNT];
    int runtime, self; /* pidfds, for the anchor */
    int64_t soft, hard;
    bool termed;   /* the soft stop has come: deadlines are final */
    bool overrun;  /* a deadline or our runtime's death ends it: nothing may be left */
    pid_t command; /* its group's number too, until it is reaped */
    pid_t anchor;

    int terminal;   /* -1: there is none to lend */
    pid_t job;      /* the group of the runtime, whose terminal it is */
    bool suspended; /* stopped at the terminal, with the job */
};

/* ---- the terminal ---- */

static void terminal_find(struct keep *k) {
    k->terminal = -1;
    k->job = getpgid(k->plan->runtime);
    if (k->plan->terminal && k->job > 0) {
        k->terminal = isatty(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, FD_COUNT)
                                           : open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    }
}

/* From one group to the other, unless a third has it. SIGTTOU is blocked. */
static bool terminal_pass(const struct keep *k, pid_t from, pid_t to) {
    return k->terminal >= 0 && tcgetpgrp(k->terminal) == from && tcsetpgrp(k->terminal, to) == 0;
}

static void command_continue(struct keep *k) {
    k->suspended = false;
    kill(-k->command, SIGCONT);
}

/* The command was stopped. By Ctrl-Z, or in want of a terminal that our job has not got: then our job stops as it
 * would have without us. A plain SIGSTOP is somebody's wish for the command alone. */
static void command_stopped(struct keep *k, int signal) {
    if (k->terminal < 0 || signal == SIGSTOP) {
        return;
    }
    if (signal != SIGTSTP && terminal_pass(k, k->job, k->command)) {
        command_continue(k);
        return;
    }
    terminal_pass(k, k->command, k->job);
    k->suspended = true;
    kill(-k->job, SIGTSTP);
}

/* Nobody tells us that our job goes on, or that it could not be stopped (nobody could continue it). */
static void look_at_job(struct keep *k) {
    pid_t parent;
    if (leash_process_state(k->plan->runtime, &parent) != 'T') {
        terminal_pass(k, k->job, k->command);
        command_continue(k);
    }
}

/* ---- the command ---- */

static _Noreturn void command_run(struct keep *k, pid_t leash) {
    setpgid(0, 0);
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
        terminal_pass(k, k->job, getpid());
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != leash) {
        _exit(EXIT_NOT_RUN);
    }
    child_signals_reset();
    child_close_on_exec(STDERR_FILENO + 1);
    execvp(k->plan->file, k->plan->argv);
    struct leash_report r = {.result = PROCESS_NOT_RUN, .code = errno};
    ssize_t n = write(k->plan->report, &r, sizeof r);
    _exit(n == (ssize_t)sizeof r ? EXIT_NOT_RUN : EXIT_NOT_RUN - 1);
}

/* -1: there is none. */
static int bond_of(const struct keep *k) {
    return k->plan->bond > 0 ? k->plan->bond : -1;
}

/* A member of the command's group that kills it, itself included, when the leash cannot. It shares the leash's
 * timer: moved there, it is moved here. A leash that is stopped is made to go on, since only it finds what has escaped
 * from the group. The ends of the report and of the bond are kept so that their readers see no end before ours. */
static _Noreturn void anchor_run(const struct keep *k) {
    setpgid(0, k->command);
    int kept[] = {k->fds[FD_HARD].fd, k->runtime, k->self, k->plan->report, bond_of(k)};
    child_close_but(kept, sizeof kept / sizeof *kept);
    struct pollfd fds[] = {
        {.fd = k->fds[FD_HARD].fd, .events = POLLIN},
        {.fd = k->runtime, .events = POLLIN},
        {.fd = k->self, .events = POLLIN},
    };
    for (;;) {
        poll(fds, sizeof fds / sizeof *fds, -1);
        struct itimerspec left = {{0, 0}, {0, 0}};
        timerfd_gettime(fds[0].fd, &left);
        bool moved = left.it_value.tv_sec || left.it_value.tv_nsec; /* since it rang */
        if (((fds[0].revents & POLLIN) && !moved) || fds[1].revents || fds[2].revents) {
            syscall(SYS_pidfd_send_signal, k->self, SIGCONT, NULL, 0);
            kill(0, SIGKILL);
        }
    }
}

static _Noreturn void report_and_leave(const struct keep *k, int result, int code) {
    struct leash_report r = {.result = result, .code = code};
    while (write(k->plan->report, &r, sizeof r) < 0 && errno == EINTR) {}
    _exit(0);
}

static void start_command(struct keep *k) {
    pid_t leash = getpid();
    k->command = fork();
    if (k->command == 0) {
        command_run(k, leash);
    }
    if (k->command < 0) {
        report_and_leave(k, PROCESS_NOT_RUN, errno);
    }
    setpgid(k->command, k->command);
    k->anchor = fork();
    if (k->anchor == 0) {
        anchor_run(k);
    }
    if (k->anchor < 0) {
        int error = errno;
        kill(-k->command, SIGKILL);
        report_and_leave(k, PROCESS_NOT_RUN, error);
    }
    setpgid(k->anchor, k->command);
}

/* A signal that ends a process has no effect on one that is stopped. */
static void command_signal(struct keep *k, int signal) {
    kill(-k->command, signal);
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT) {
        command_continue(k);
    }
}

/* ---- what happens ---- */

static void timer_move(int fd, int64_t at) {
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (at != NEVER) {
        at = at > 0 ? at : 1; /* 0 would be never */
        when.it_value.tv_sec = at / NS_PER_S;
        when.it_value.tv_nsec = at % NS_PER_S;
    }
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void deadlines_take(struct keep *k, const struct leash_message *m) {
    if (k->termed) {
        return;
    }
    k->soft = m->soft;
    k->hard = m->hard;
    timer_move(k->fds[FD_SOFT].fd, k->soft);
    timer_move(k->fds[FD_HARD].fd, k->hard);
}

/* False: the end of the pipe. */
static bool read_control(struct keep *k) {
    struct leash_message m;
    ssize_t n;
    while ((n = read(k->plan->control, &m, sizeof m)) == (ssize_t)sizeof m) {
        if (m.signal != 0) {
            command_signal(k, m.signal);
        } else {
            deadlines_take(k, &m);
        }
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void read_signals(struct keep *k) {
    struct signalfd_siginfo s;
    while (read(k->fds[FD_SIGNALS].fd, &s, sizeof s) == (ssize_t)sizeof s) {
        if (s.ssi_signo != SIGCHLD) {
            command_signal(k, (int)s.ssi_signo);
        }
    }
}

/* False: the hard stop. */
static bool look_at_clock(struct keep *k) {
    int64_t now = clock_boottime();
    if (now >= k->hard) {
        return false;
    }
    if (now >= k->soft && !k->termed) {
        k->termed = true;
        timer_move(k->fds[FD_SOFT].fd, NEVER);
        command_signal(k, SIGTERM);
    }
    return true;
}

static void reap(idtype_t type, pid_t id, siginfo_t *info) {
    memset(info, 0, sizeof *info);
    while (waitid(type, (id_t)id, info, WEXITED) != 0 && errno == EINTR) {}
}

/* Orphans that came to us are reaped. False: the command has ended; it stays a zombie, and its group's number its own. */
static bool look_at_children(struct keep *k) {
    siginfo_t info;
    for (;;) {
        memset(&info, 0, sizeof info);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
            break;
        }
        if (info.si_pid == k->command) {
            return false;
        }
        reap(P_PID, info.si_pid, &info);
    }
    memset(&info, 0, sizeof info);
    if (waitid(P_PID, (id_t)k->command, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0) {
        command_stopped(k, info.si_status);
    }
    return true;
}

/* Until the command is to be ended, or has. */
static void watch_over(struct keep *k) {
    for (;;) {
        bool waited = poll(k->fds, FD_COUNT, k->suspended ? LOOK_MS : -1) == 0;
        /* Then the anchor has killed the group, whatever has come meanwhile. */
        bool late = clock_boottime() >= k->hard;
        read_signals(k);
        bool told = read_control(k);
        if (!look_at_children(k)) {
            k->overrun |= late || !told || k->termed;
            return;
        }
        if (late || !told || !look_at_clock(k)) {
            k->overrun = true;
            return;
        }
        if (k->suspended && waited) { /* a job takes a moment to stop */
            look_at_job(k);
        }
    }
}

/* ---- the end ---- */

static bool pause_until(int64_t give_up) {
    if (clock_boottime() >= give_up) {
        return false;
    }
    poll(NULL, 0, ROUND_MS);
    return true;
}

/* How the command ended goes to *end, else it stays as it is. False: what was killed is not gone. */
static bool reap_all(idtype_t type, pid_t id, pid_t command, siginfo_t *end, int64_t give_up) {
    for (;;) {
        siginfo_t info;
        memset(&info, 0, sizeof info);
        if (waitid(type, (id_t)id, &info, WEXITED | WNOHANG) != 0) {
            return errno == ECHILD;
        }
        if (info.si_pid == command) {
            *end = info;
        }
        if (info.si_pid == 0 && !pause_until(give_up)) {
            return false;
        }
    }
}

/* What escaped from the group comes to us when its parent is killed. */
static void kill_escaped(int64_t give_up) {
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0) {
        bool killed = leash_kill_children();
        memset(&info, 0, sizeof info);
        if (!killed && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == 0) {
            return; /* nothing that we could see */
        }
        if (!pause_until(give_up)) {
            return;
        }
    }
}

static _Noreturn void finish(struct keep *k) {
    int64_t give_up = clock_boottime() + LEASH_REAP_MS * NS_PER_MS;
    siginfo_t end;
    memset(&end, 0, sizeof end);
    end.si_code = CLD_KILLED;
    end.si_status = SIGKILL;
    kill(-k->command, SIGKILL);
    kill(k->command, SIGKILL); /* it may have gone into another group */
    reap_all(P_PID, k->command, k->command, &end, give_up);
    reap_all(P_PGID, k->command, k->command, &end, give_up);
    if (k->overrun) {
        kill_escaped(give_up);
    }
    terminal_pass(k, k->command, k->job);
    report_and_leave(k, end.si_code == CLD_EXITED ? PROCESS_EXITED : PROCESS_KILLED, end.si_status);
}

/* ---- begin ---- */

static void watch_signals(struct keep *k) {
    static const int passed[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t all, taken;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        sigaddset(&taken, passed[i]);
        signal(passed[i], SIG_DFL); /* an ignored SIGCHLD would reap by itself */
    }
    k->fds[FD_SIGNALS].fd = descriptor_lift(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

/* False: the runtime has ended already, or there are no descriptors. */
static bool prepare(struct keep *k) {
    prctl(PR_SET_NAME, "synod-leash");
    prctl(PR_SET_PDEATHSIG, SIGCONT); /* one that is stopped sees the end of the pipe */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    watch_signals(k);
    k->fds[FD_CONTROL].fd = k->plan->control;
    fcntl(k->plan->control, F_SETFL, O_NONBLOCK);
    k->fds[FD_SOFT].fd = descriptor_lift(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC));
    k->fds[FD_HARD].fd = descriptor_lift(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC));
    k->runtime = descriptor_lift((int)syscall(SYS_pidfd_open, k->plan->runtime, 0));
    k->self = descriptor_lift((int)syscall(SYS_pidfd_open, getpid(), 0));
    terminal_find(k);
    bool all = k->runtime >= 0 && k->self >= 0 && getppid() == k->plan->runtime;
    for (int i = 0; i < FD_COUNT; i++) {
        k->fds[i].events = POLLIN;
        all &= k->fds[i].fd >= 0;
    }
    return all;
}

/* The command has its standard streams now; an end of a pipe here would keep its reader waiting. */
static void close_others(const struct keep *k) {
    int kept[FD_COUNT + 5] = {k->runtime, k->self, k->terminal, k->plan->report, bond_of(k)};
    for (int i = 0; i < FD_COUNT; i++) {
        kept[5 + i] = k->fds[i].fd;
    }
    child_close_but(kept, sizeof kept / sizeof *kept);
}

_Noreturn void leash_run(const struct leash_plan *plan) {
    struct keep k;
    memset(&k, 0, sizeof k);
    k.plan = plan;
    k.soft = k.hard = NEVER;
    if (!prepare(&k)) {
        report_and_leave(&k, PROCESS_NOT_RUN, errno ? errno : EAGAIN);
    }
    struct leash_message first;
    if (read(plan->control, &first, sizeof first) != (ssize_t)sizeof first ||
        clock_boottime() >= first.soft) {
        report_and_leave(&k, PROCESS_KILLED, SIGKILL);
    }
    deadlines_take(&k, &first);
    start_command(&k);
    close_others(&k);
    watch_over(&k);
    finish(&k);
}

/* "RUNTIME,CONTROL,REPORT,TERMINAL,BOND", FILE, ARGUMENT... */
void leash_main(int argc, char **argv) {
    struct leash_plan plan;
    int runtime, terminal;
    if (argc < 5 || sscanf(argv[2], "%d,%d,%d,%d,%d", &runtime, &plan.control, &plan.report,
                           &terminal, &plan.bond) != 5) {
        return;
    }
    plan.runtime = runtime;
    plan.terminal = terminal != 0;
    plan.file = argv[3];
    plan.argv = argv + 4;
    if (getppid() == plan.runtime && fcntl(plan.control, F_GETFD) >= 0) {
        leash_run(&plan);
    }
}
