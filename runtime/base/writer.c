#include "base/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"

enum { COMPACT_AT = 256 * 1024, FD_PATH_MAX = 32, SOCKET_CHUNK = 256 * 1024 };

/* The same pipe or terminal, opened for ourselves; -1 where that is not allowed. */
static int open_again(int fd) {
    char path[FD_PATH_MAX];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static enum writer_kind kind_of(int fd, bool *again) {
    struct stat st;
    *again = false;
    descriptor_occupy(fd);
    if (fstat(fd, &st) != 0) {
        return WRITER_FILE;
    }
    if (S_ISSOCK(st.st_mode)) {
        return WRITER_SOCKET;
    }
    *again = S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(fd));
    return *again ? WRITER_SHARED : WRITER_FILE;
}

void writer_open(struct writer *w, int fd) {
    memset(w, 0, sizeof *w);
    buf_init(&w->pending, WRITER_MAX);
    w->fd = fd;
    w->given = fd;
    w->ready_fd = -1;
    bool again;
    w->kind = kind_of(fd, &again);
    int own = again ? open_again(fd) : -1;
    if (own >= 0) {
        w->fd = own;
        w->kind = WRITER_OWN;
    }
}

void writer_close(struct writer *w) {
    if (w->fd != w->given) {
        close(w->fd);
    }
    if (w->ready_fd >= 0) {
        close(w->ready_fd);
    }
    buf_release(&w->pending);
    w->fd = w->ready_fd = -1;
    w->error = EBADF;
}

size_t writer_pending(const struct writer *w) {
    return w->pending.len - w->written;
}

static void compact(struct writer *w) {
    if (w->written == w->pending.len) {
        if (w->pending.cap > (size_t)WRITER_BATCH * 2) {
            buf_release(&w->pending); /* a burst is over */
        }
        buf_clear(&w->pending);
        w->written = 0;
    } else if (w->written >= COMPACT_AT) {
        buf_drop(&w->pending, w->written);
        w->written = 0;
    }
}

bool writer_put(struct writer *w, const void *data, size_t n) {
    if (w->error || n > WRITER_MAX - w->pending.len) {
        return false;
    }
    bool kept = buf_append(&w->pending, data, n);
    w->pending.failed = false; /* short of memory: nothing was kept, what is there is still good */
    return kept;
}

static ssize_t write_some(const struct writer *w, const char *data, size_t n) {
    switch (w->kind) {
    case WRITER_SOCKET:
        return send(w->fd, data, n < SOCKET_CHUNK ? n : SOCKET_CHUNK, MSG_DONTWAIT | MSG_NOSIGNAL);
    case WRITER_SHARED:
        if (!descriptor_is_ready(w->fd, POLLOUT)) {
            errno = EAGAIN;
            return -1;
        }
        return write(w->fd, data, n < PIPE_BUF ? n : PIPE_BUF);
    case WRITER_FILE:
    case WRITER_OWN:
        break;
    }
    return write(w->fd, data, n);
}

static int fail(struct writer *w, int error) {
    w->error = error;
    buf_release(&w->pending);
    w->written = 0;
    return -error;
}

int writer_flush(struct writer *w) {
    while (!w->error && writer_pending(w) > 0) {
        ssize_t n = write_some(w, w->pending.data + w->written, writer_pending(w));
        if (n >= 0) {
            w->written += (size_t)n;
            w->total += (uint64_t)n;
        } else if (errno == EAGAIN) {
            compact(w);
            return -EAGAIN;
        } else if (errno != EINTR) {
            return fail(w, errno);
        }
    }
    compact(w);
    return -w->error;
}

int writer_ready_fd(struct writer *w) {
    if (w->ready_fd < 0) {
        struct epoll_event e = {.events = EPOLLOUT};
        w->ready_fd = epoll_create1(EPOLL_CLOEXEC);
        if (w->ready_fd >= 0 && epoll_ctl(w->ready_fd, EPOLL_CTL_ADD, w->fd, &e) != 0) {
            close(w->ready_fd);
            w->ready_fd = -1;
        }
    }
    return w->ready_fd;
}

int writer_drain(struct writer *w, int patience_ms) {
    int rc;
    while ((rc = writer_flush(w)) == -EAGAIN) {
        struct pollfd p = {.fd = w->fd, .events = POLLOUT};
        if (poll(&p, 1, patience_ms) == 0) {
            return -EAGAIN;
        }
    }
    return rc;
}

bool writer_is_terminal(const struct writer *w) {
    return w->fd >= 0 && isatty(w->fd);
}
