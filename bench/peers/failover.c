/* failover.c -- kills whoever holds a lock, and says when the next one held it.
 *
 *   failover COPIES SETTLE_S LIMIT_S COMMAND [ARG...]
 *
 * Each of the COPIES prints a line when it holds the lock, and then keeps it; "pid":N in the line says which process
 * that is, else it is the copy itself. The first holder is left alone for SETTLE_S, then it gets SIGKILL. "%i" in an
 * argument is the number of the copy, from 0. Prints {"ms":...}: from the kill to the next holder's line. Exit code 1
 * when a second one held before the kill, or none within LIMIT_S after it; then what the copies wrote to standard
 * error is shown.
 */
#include "peer.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { COPIES_MAX = 16, LINE_MAX_BYTES = 512, GRACE_LOOKS = 250 };

static const double START_LIMIT_S = 30, LOOK_S = 0.02;

struct copy {
    pid_t pid; /* 0: it has ended */
    char line[LINE_MAX_BYTES];
    size_t len;
};

struct crowd {
    int count;
    FILE *errors; /* what all of them say there */
    struct copy copies[COPIES_MAX];
    struct pollfd outputs[COPIES_MAX];
};

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
            to[i] = NULL;
        }
    }
    return to;
}

/* The group of its own takes in what the copy starts, except for what leaves it on purpose. */
static void copy_start(struct crowd *crowd, int i, char **command) {
    int ends[2];
    if (pipe(ends) != 0) {
        peer_fail("failover: pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        dup2(ends[1], STDOUT_FILENO);
        dup2(fileno(crowd->errors), STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        char **own = numbered(command, i);
        execvp(own[0], own);
        _exit(127);
    }
    if (pid < 0) {
        peer_fail("failover: fork");
    }
    close(ends[1]);
    crowd->copies[i].pid = pid;
    crowd->outputs[i] = (struct pollfd){.fd = ends[0], .events = POLLIN};
}

static void reap(struct crowd *crowd) {
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        for (int i = 0; i < crowd->count; i++) {
            crowd->copies[i].pid = crowd->copies[i].pid == pid ? 0 : crowd->copies[i].pid;
        }
    }
}

static int alive(struct crowd *crowd) {
    int n = 0;
    reap(crowd);
    for (int i = 0; i < crowd->count; i++) {
        n += crowd->copies[i].pid != 0;
    }
    return n;
}

static void signal_all(const struct crowd *crowd, int signal) {
    for (int i = 0; i < crowd->count; i++) {
        if (crowd->copies[i].pid) {
            kill(-crowd->copies[i].pid, signal);
        }
    }
}

/* Politely first: a supervisor has instances to end. */
static void end_all(struct crowd *crowd) {
    signal_all(crowd, SIGTERM);
    for (int i = 0; i < GRACE_LOOKS && alive(crowd); i++) {
        pause_s(LOOK_S);
    }
    signal_all(crowd, SIGKILL);
}

static _Noreturn void give_up(struct crowd *crowd, const char *why) {
    int c;
    fprintf(stderr, "failover: %s\n", why);
    end_all(crowd);
    rewind(crowd->errors);
    while ((c = getc(crowd->errors)) != EOF) {
        putc(c, stderr);
    }
    exit(1);
}

/* The process that a whole line says to hold, or 0; the line is taken away. An empty one says nothing. */
static pid_t line_take(struct copy *copy) {
    char *end;
    pid_t holder = 0;
    while (!holder && (end = strchr(copy->line, '\n'))) {
        const char *named = strstr(copy->line, "\"pid\":");
        if (end > copy->line) {
            holder = named && named < end ? (pid_t)atoi(named + 6) : copy->pid;
        }
        copy->len = strlen(end + 1);
        memmove(copy->line, end + 1, copy->len + 1);
    }
    return holder;
}

/* What has come of a copy's output: who holds, or 0. */
static pid_t copy_read(struct crowd *crowd, int i) {
    struct copy *copy = &crowd->copies[i];
    ssize_t n =
        read(crowd->outputs[i].fd, copy->line + copy->len, sizeof copy->line - 1 - copy->len);
    if (n <= 0) {
        crowd->outputs[i].fd = -1; /* poll passes it over */
        return 0;
    }
    copy->len += (size_t)n;
    copy->line[copy->len] = '\0';
    return line_take(copy);
}

/* Who holds next, or 0 when nobody said so within the time. */
static pid_t next_holder(struct crowd *crowd, double seconds) {
    double finish = boot_time() + seconds;
    for (;;) {
        double left = finish - boot_time();
        if (left <= 0) {
            return 0;
        }
        poll(crowd->outputs, (nfds_t)crowd->count, (int)(left * 1e3) + 1);
        for (int i = 0; i < crowd->count; i++) {
            pid_t holder = crowd->outputs[i].revents & (POLLIN | POLLHUP) ? copy_read(crowd, i) : 0;
            if (holder) {
                return holder;
            }
        }
    }
}

int main(int argc, char **argv) {
    static struct crowd crowd;
    if (argc < 5 || atoi(argv[1]) < 1 || atoi(argv[1]) > COPIES_MAX) {
        fprintf(stderr, "failover COPIES SETTLE_S LIMIT_S COMMAND [ARG...]\n");
        return 2;
    }
    crowd.count = atoi(argv[1]);
    crowd.errors = tmpfile();
    if (!crowd.errors) {
        peer_fail("failover: a file");
    }
    for (int i = 0; i < crowd.count; i++) {
        copy_start(&crowd, i, argv + 4);
    }
    pid_t holder = next_holder(&crowd, START_LIMIT_S);
    if (!holder) {
        give_up(&crowd, "nobody held it");
    }
    if (next_holder(&crowd, atof(argv[2]))) {
        give_up(&crowd, "two held it at once");
    }
    double killed = boot_time();
    kill(holder, SIGKILL);
    if (!next_holder(&crowd, atof(argv[3]))) {
        give_up(&crowd, "nobody held it after the kill");
    }
    printf("{\"ms\":%.3f}\n", (boot_time() - killed) * 1e3);
    fflush(stdout);
    end_all(&crowd);
    return 0;
}
