/* loop.c -- libuv below both worlds: readiness of descriptors, waking from outside, waiting.
 *
 * The end of a wait is a CLOCK_BOOTTIME timer descriptor, because libuv's own timers stop while the
 * machine is suspended and count in milliseconds. It is armed again for each wait, which also clears
 * it, so that nobody needs to read it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "world/world_impl.h"

struct loop {
    struct world *world;
    uv_loop_t uv;
    uv_async_t wake;
    uv_poll_t timer;
    int timer_fd;
    int64_t armed; /* what the timer was last set to */
};

static int64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_boottime(void) {
    return read_clock(CLOCK_BOOTTIME);
}

int64_t clock_realtime(void) {
    return read_clock(CLOCK_REALTIME);
}

static void must(int rc, const char *what) {
    if (rc != 0) {
        fprintf(stderr, "synod: cannot %s: %s; raise the limits of this user and start again\n",
                what, uv_strerror(rc));
        abort();
    }
}

static void arm(struct loop *l, int64_t at) {
    struct itimerspec spec = {0};
    if (at != NEVER) {
        spec.it_value.tv_sec = (time_t)(at / NS_PER_S);
        spec.it_value.tv_nsec = (long)(at % NS_PER_S);
    }
    timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    l->armed = at;
}

static void on_timer(uv_poll_t *handle, int status, int events) {
    (void)status;
    (void)events;
    arm(handle->data, NEVER);
}

static void on_wake(uv_async_t *handle) {
    struct loop *l = handle->data;
    world_run_wakeups(l->world);
}

struct loop *loop_new(struct world *w) {
    struct loop *l = xcalloc(1, sizeof *l);
    l->world = w;
    l->armed = NEVER;
    must(uv_loop_init(&l->uv), "open an event loop");
    must(uv_async_init(&l->uv, &l->wake, on_wake), "open an event descriptor");
    l->wake.data = l;
    l->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    must(l->timer_fd < 0 ? -errno : 0, "open a timer descriptor");
    must(uv_poll_init(&l->uv, &l->timer, l->timer_fd), "watch a timer descriptor");
    l->timer.data = l;
    must(uv_poll_start(&l->timer, UV_READABLE, on_timer), "watch a timer descriptor");
    return l;
}

static void close_rest(uv_handle_t *handle, void *arg) {
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void loop_free(struct loop *l) {
    uv_walk(&l->uv, close_rest, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    uv_loop_close(&l->uv);
    close(l->timer_fd);
    free(l);
}

void loop_poll(struct loop *l) {
    uv_run(&l->uv, UV_RUN_NOWAIT);
}

void loop_wait(struct loop *l, int64_t until) {
    if (until != l->armed) {
        arm(l, until);
    }
    uv_run(&l->uv, UV_RUN_ONCE);
}

void loop_wake(struct loop *l) {
    uv_async_send(&l->wake);
}

/* The handle outlives the watch by one turn of the loop, as libuv wants it. */
struct watched {
    uv_poll_t poll;
    struct watch *watch;
};

static void on_ready(uv_poll_t *handle, int status, int events) {
    struct watched *d = container_of(handle, struct watched, poll);
    int seen =
        ((events & UV_READABLE) ? WATCH_READ : 0) | ((events & UV_WRITABLE) ? WATCH_WRITE : 0);
    d->watch->ready(d->watch, status < 0 ? WATCH_READ | WATCH_WRITE : seen);
}

static void on_closed(uv_handle_t *handle) {
    free(container_of((uv_poll_t *)handle, struct watched, poll));
}

static int watch_open(struct world *w, struct watch *watch, int fd) {
    struct watched *d = xcalloc(1, sizeof *d);
    int rc = uv_poll_init(&w->loop->uv, &d->poll, fd);
    if (rc != 0) {
        free(d);
        return rc;
    }
    d->watch = watch;
    watch->impl = d;
    return 0;
}

int watch_start(struct world *w, struct watch *watch, int fd, int events) {
    if (!watch->impl) {
        int rc = watch_open(w, watch, fd);
        if (rc != 0) {
            return rc;
        }
    }
    struct watched *d = watch->impl;
    int wanted =
        ((events & WATCH_READ) ? UV_READABLE : 0) | ((events & WATCH_WRITE) ? UV_WRITABLE : 0);
    return uv_poll_start(&d->poll, wanted, on_ready);
}

void watch_stop(struct world *w, struct watch *watch) {
    (void)w;
    struct watched *d = watch->impl;
    if (d) {
        watch->impl = NULL;
        uv_poll_stop(&d->poll);
        uv_close((uv_handle_t *)&d->poll, on_closed);
    }
}
