#include "world/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptor.h"

enum { NO_FD = -1 };

void pipe_end_init(struct pipe_end *end, struct world *w) {
    memset(end, 0, sizeof *end);
    end->world = w;
    end->fd = NO_FD;
}

int pipe_end_open(struct pipe_end *end, bool to_write) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -errno;
    }
    ends[0] = descriptor_lift(ends[0]);
    ends[1] = descriptor_lift(ends[1]);
    if (ends[0] < 0 || ends[1] < 0) {
        int error = errno;
        close(ends[0] < 0 ? ends[1] : ends[0]);
        return -error;
    }
    end->fd = ends[to_write];
    fcntl(end->fd, F_SETFL, O_NONBLOCK);
    return ends[!to_write];
}

ssize_t pipe_end_read(struct pipe_end *end, void *out, size_t n) {
    if (end->fd == NO_FD) {
        return 0;
    }
    ssize_t got;
    do {
        got = read(end->fd, out, n);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

ssize_t pipe_end_write(struct pipe_end *end, const void *data, size_t n) {
    if (end->fd == NO_FD) {
        return -EPIPE;
    }
    ssize_t put;
    do {
        put = write(end->fd, data, n);
    } while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : put;
}

static void end_ready(struct watch *watch, int events) {
    struct pipe_end *end = container_of(watch, struct pipe_end, watch);
    (void)events;
    void (*ready)(struct pipe_end *) = end->ready;
    pipe_end_forget(end);
    ready(end);
}

int pipe_end_await(struct pipe_end *end, void (*ready)(struct pipe_end *end)) {
    bool writes = (fcntl(end->fd, F_GETFL) & O_ACCMODE) == O_WRONLY;
    end->watch.ready = end_ready;
    int rc = watch_start(end->world, &end->watch, end->fd, writes ? WATCH_WRITE : WATCH_READ);
    if (rc == 0) {
        end->ready = ready;
        world_hold(end->world);
    }
    return rc;
}

void pipe_end_forget(struct pipe_end *end) {
    if (end->ready) {
        end->ready = NULL;
        watch_stop(end->world, &end->watch);
        world_release(end->world);
    }
}

void pipe_end_close(struct pipe_end *end) {
    pipe_end_forget(end);
    if (end->fd != NO_FD) {
        close(end->fd);
        end->fd = NO_FD;
    }
}
