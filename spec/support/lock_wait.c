/* lock_wait.c -- waits for a lock that is never given, until the last nanosecond of the second that runs: says whether
 * it got it. */
#include <stdio.h>
#include <sys/file.h>
#include <time.h>

#include "base/instant.h"
#include "store/embedded/lock.h"

int main(int argc, char **argv) {
    struct store_lock held, wanted;
    struct error err;
    struct timespec now;
    if (argc != 2 || !lock_open(&held, argv[1], &err) || !lock_open(&wanted, argv[1], &err) ||
        !lock_try(&held)) {
        return 2;
    }
    lock_prepare_thread();
    clock_gettime(CLOCK_BOOTTIME, &now);
    puts(lock_wait(&wanted, now.tv_sec * NS_PER_S + NS_PER_S - 1) ? "taken" : "over");
    return 0;
}
