#include "store/embedded/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/instant.h"

/* glibc before 2.41 has no name for the member. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { DISTURB_AGAIN_NS = 10 * 1000 * 1000 };

/* Ends a flock that waits, by its mere arrival. */
static int disturb_signal(void) {
    return SIGRTMIN + 6;
}

static void on_disturb(int signal) {
    (void)signal;
}

bool lock_open(struct store_lock *lock, const char *path, struct error *err) {
    *lock = (struct store_lock){.fd = -1};
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        int error = errno;
        bool full = error == ENOSPC || error == EDQUOT;
        error_set(err, full ? ERR_STORE_FULL : ERR_STORE_READ_ONLY, "cannot open %s: %s", path,
                  strerror(error));
        return false;
    }
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid()) {
        close(fd);
        error_set(err, ERR_STORE_FOREIGN, "%s belongs to another user", path);
        return false;
    }
    lock->fd = fd;
    return true;
}

void lock_close(struct store_lock *lock) {
    if (lock->has_timer) {
        timer_delete(lock->timer);
        lock->has_timer = false;
    }
    if (lock->fd >= 0) {
        close(lock->fd);
        lock->fd = -1;
    }
}

bool lock_try(struct store_lock *lock) {
    return flock(lock->fd, LOCK_EX | LOCK_NB) == 0;
}

void lock_give(struct store_lock *lock) {
    flock(lock->fd, LOCK_UN);
}

static bool make_timer(struct store_lock *lock) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = disturb_signal()};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    lock->has_timer = timer_create(CLOCK_BOOTTIME, &event, &lock->timer) == 0;
    return lock->has_timer;
}

/* The signal may arrive just before the wait begins: so it comes again and again. */
static void set_timer(struct store_lock *lock, int64_t at) {
    struct itimerspec when = {0};
    if (at != NEVER) {
        when.it_value.tv_sec = at / NS_PER_S;
        when.it_value.tv_nsec = at % NS_PER_S + (at == 0); /* 0 would switch it off */
        when.it_interval.tv_nsec = DISTURB_AGAIN_NS;
    }
    timer_settime(lock->timer, TIMER_ABSTIME, &when, NULL);
}

bool lock_wait(struct store_lock *lock, int64_t until) {
    if (lock_try(lock)) {
        return true;
    }
    if (!lock->has_timer && !make_timer(lock)) {
        return false;
    }
    set_timer(lock, until);
    bool got = flock(lock->fd, LOCK_EX) == 0;
    set_timer(lock, NEVER);
    return got;
}

void lock_prepare_thread(void) {
    struct sigaction action = {.sa_handler = on_disturb}; /* no SA_RESTART: the wait must end */
    sigaction(disturb_signal(), &action, NULL);
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, disturb_signal());
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

void lock_disturb(unsigned long thread) {
    pthread_kill((pthread_t)thread, disturb_signal());
}
