#include "world/child.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLOSE_RANGE_TO_CLOEXEC = 4 /* CLOSE_RANGE_CLOEXEC of <linux/close_range.h>, Linux 5.11 */ };

void child_signals_reset(void) {
    struct sigaction fallback;
    memset(&fallback, 0, sizeof fallback);
    fallback.sa_handler = SIG_DFL;
    for (int s = 1; s < NSIG; s++) {
        sigaction(s, &fallback, NULL); /* refused for KILL and STOP: they have no other */
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void child_close_on_exec(int first) {
    if (syscall(SYS_close_range, first, ~0U, CLOSE_RANGE_TO_CLOEXEC) != 0) {
        long most = sysconf(_SC_OPEN_MAX);
        for (int fd = first; fd < most; fd++) {
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
    }
}

static void close_between(int first, int last) {
    if (first > last) {
        return;
    }
    if (syscall(SYS_close_range, first, last, 0) != 0) {
        long most = sysconf(_SC_OPEN_MAX);
        for (int fd = first; fd <= last && fd < most; fd++) {
            close(fd);
        }
    }
}

static void sort(int *list, size_t count) {
    for (size_t i = 1; i < count; i++) {
        int item = list[i];
        size_t at = i;
        for (; at > 0 && list[at - 1] > item; at--) {
            list[at] = list[at - 1];
        }
        list[at] = item;
    }
}

void child_close_but(int *kept, size_t count) {
    sort(kept, count);
    int from = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept[i] >= from) {
            close_between(from, kept[i] - 1);
            from = kept[i] + 1;
        }
    }
    close_between(from, ~0U >> 1);
}
