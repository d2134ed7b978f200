#include "world/input.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptor.h"

static void input_ready(struct watch *watch, int events) {
    struct input *in = container_of(watch, struct input, watch);
    (void)events;
    input_detach(in);
    in->ready(in);
}

void input_init(struct input *in, int fd, void (*ready)(struct input *in)) {
    memset(in, 0, sizeof *in);
    descriptor_occupy(fd);
    in->fd = fd;
    in->ready_fd = -1;
    in->ready = ready;
    in->watch.ready = input_ready;
}

void input_release(struct input *in) {
    input_detach(in);
    if (in->ready_fd >= 0) {
        close(in->ready_fd);
        in->ready_fd = -1;
    }
}

ssize_t input_read_blocking(struct input *in, void *out, size_t n) {
    ssize_t got;
    do {
        got = read(in->fd, out, n);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

ssize_t input_read(struct input *in, void *out, size_t n) {
    return descriptor_is_ready(in->fd, POLLIN) ? input_read_blocking(in, out, n) : -EAGAIN;
}

/* An epoll descriptor stands between, since libuv makes what it watches non-blocking. */
static int ready_fd(struct input *in) {
    struct epoll_event e = {.events = EPOLLIN};
    if (in->ready_fd >= 0) {
        return 0;
    }
    in->ready_fd = epoll_create1(EPOLL_CLOEXEC);
    if (in->ready_fd < 0 || epoll_ctl(in->ready_fd, EPOLL_CTL_ADD, in->fd, &e) != 0) {
        int error = errno;
        input_release(in);
        return -error;
    }
    return 0;
}

int input_await(struct input *in, struct world *w) {
    if (in->world) {
        return 0;
    }
    int rc = ready_fd(in);
    if (rc == 0) {
        rc = watch_start(w, &in->watch, in->ready_fd, WATCH_READ);
    }
    if (rc == 0) {
        in->world = w;
        world_hold(w);
    }
    return rc;
}

void input_detach(struct input *in) {
    if (in->world) {
        watch_stop(in->world, &in->watch);
        world_release(in->world);
        in->world = NULL;
    }
}
