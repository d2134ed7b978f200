#include "vm/watchdog.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/instant.h"
#include "world/world.h"

#define LOOK_EVERY (5 * NS_PER_MS) /* while an end has passed and nobody is inside */
#define PATIENCE (50 * NS_PER_MS)  /* see watchdog.h */

enum { STACK_BYTES = 64 * 1024, LINE_MAX_BYTES = 512, EXIT_LOST = 5 };

struct watchdog {
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    int timer_fd;
    bool over;
    int64_t earliest;
    bool inside; /* a guarded task runs */
    int64_t end; /* its own */
    const char *name;
};

static void arm(const struct watchdog *d, int64_t at) {
    struct itimerspec spec = {{0, LOOK_EVERY}, {0, 0}};
    if (at != NEVER) {
        spec.it_value.tv_sec = (time_t)(at / NS_PER_S);
        spec.it_value.tv_nsec = (long)(at % NS_PER_S) + (at == 0);
    }
    timerfd_settime(d->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Nobody is left to write it later, and a reader that is full must not keep us. */
static void end_process(const struct watchdog *d) {
    char line[LINE_MAX_BYTES];
    int n = snprintf(
        line, sizeof line,
        "synod: the lease of %s was lost, and the script did not stop in time (it is inside a "
        "call that does not return): the process ends\n",
        d->name ? d->name : "a guard");
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (n > 0 && poll(&out, 1, 0) == 1 && (out.revents & POLLOUT)) {
        size_t len = (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
        ssize_t written = write(STDERR_FILENO, line, len);
        (void)written;
    }
    _exit(EXIT_LOST);
}

static void *watch(void *arg) {
    struct watchdog *d = arg;
    int64_t patient_until = 0;
    uint64_t times;
    for (;;) {
        ssize_t n = read(d->timer_fd, &times, sizeof times);
        (void)n;
        pthread_mutex_lock(&d->mutex);
        if (d->over) {
            pthread_mutex_unlock(&d->mutex);
            return NULL;
        }
        int64_t now = clock_boottime();
        if (d->inside && now >= d->end) {
            if (now - d->end > PATIENCE && patient_until < d->end) {
                patient_until = now + PATIENCE;
            } else if (now >= patient_until) {
                end_process(d);
            }
        }
        pthread_mutex_unlock(&d->mutex);
    }
}

static bool start_thread(struct watchdog *d) {
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&d->thread, &attr, watch, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc == 0;
}

struct watchdog *watchdog_new(void) {
    struct watchdog *d = calloc(1, sizeof *d);
    if (!d) {
        return NULL;
    }
    pthread_mutex_init(&d->mutex, NULL);
    d->earliest = d->end = NEVER;
    d->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (d->timer_fd >= 0 && start_thread(d)) {
        return d;
    }
    if (d->timer_fd >= 0) {
        close(d->timer_fd);
    }
    free(d);
    return NULL;
}

void watchdog_free(struct watchdog *d) {
    if (!d) {
        return;
    }
    pthread_mutex_lock(&d->mutex);
    d->over = true;
    pthread_mutex_unlock(&d->mutex);
    arm(d, 0);
    pthread_join(d->thread, NULL);
    close(d->timer_fd);
    pthread_mutex_destroy(&d->mutex);
    free(d);
}

void watchdog_set(struct watchdog *d, int64_t earliest) {
    if (earliest != d->earliest) {
        d->earliest = earliest;
        arm(d, earliest);
    }
}

void watchdog_enter(struct watchdog *d, int64_t end, const char *name) {
    pthread_mutex_lock(&d->mutex);
    d->inside = true;
    d->end = end;
    d->name = name;
    pthread_mutex_unlock(&d->mutex);
}

void watchdog_leave(struct watchdog *d) {
    pthread_mutex_lock(&d->mutex);
    d->inside = false;
    pthread_mutex_unlock(&d->mutex);
}
