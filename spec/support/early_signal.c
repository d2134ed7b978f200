/* early_signal.c -- preloaded: SIGTERM comes when the program has begun to catch it, and done nothing else. Its
 * tick is not to be had, so that nothing but a wait can notice. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <time.h>

typedef int (*timer_create_f)(clockid_t, struct sigevent *, timer_t *);

int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer) {
    timer_create_f next = (timer_create_f)dlsym(RTLD_NEXT, "timer_create");
    if (clock != CLOCK_THREAD_CPUTIME_ID) {
        return next(clock, event, timer);
    }
    raise(SIGTERM);
    return -1;
}
