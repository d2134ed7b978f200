/* interrupted.c -- preloaded: a signal comes in the middle of calls that it may cut short, each second time: of a look
 * that would have found nothing (poll without waiting), and of posix_fallocate. No pipe can be opened again. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>

typedef int (*poll_f)(struct pollfd *, nfds_t, int);
typedef int (*fallocate_f)(int, off_t, off_t);
typedef int (*open_f)(const char *, int, ...);

int poll(struct pollfd *fds, nfds_t count, int timeout) {
    static unsigned looks;
    poll_f next = (poll_f)dlsym(RTLD_NEXT, "poll");
    int n = next(fds, count, timeout);
    if (n == 0 && timeout == 0 && looks++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return n;
}

int posix_fallocate(int fd, off_t from, off_t len) {
    static unsigned calls;
    fallocate_f next = (fallocate_f)dlsym(RTLD_NEXT, "posix_fallocate");
    return calls++ % 2 == 0 ? EINTR : next(fd, from, len);
}

static int open_by(const char *name, const char *path, int flags, int mode) {
    open_f next = (open_f)dlsym(RTLD_NEXT, name);
    if (strncmp(path, "/proc/self/fd/", 14) == 0) {
        errno = EACCES;
        return -1;
    }
    return next(path, flags, mode);
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        int mode = va_arg(args, int);                                                              \
        va_end(args);                                                                              \
        return open_by(#name, path, flags, mode);                                                  \
    }

OPEN(open)
OPEN(open64)
