/* os_barrier.c -- a barrier of processes by the operating system alone: shared memory and a futex.
 *
 *   os_barrier PROCESSES      prints the milliseconds from the last arrival to the last pass
 *
 * No store, no storage, no network, and nothing survives a crash: the floor under every barrier.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared {
    pthread_barrier_t barrier;
    struct {
        double arrived, passed;
    } of[];
};

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static struct shared *shared_new(unsigned count) {
    struct shared *s = mmap(NULL, sizeof *s + count * sizeof s->of[0], PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    if (s == MAP_FAILED || pthread_barrier_init(&s->barrier, &shared, count) != 0) {
        perror("os_barrier");
        exit(1);
    }
    return s;
}

int main(int argc, char **argv) {
    unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    if (count < 1 || count > 10000) {
        fprintf(stderr, "os_barrier: give PROCESSES\n");
        return 2;
    }
    struct shared *s = shared_new(count);
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("os_barrier: fork");
            return 1;
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            s->of[i].arrived = now_ms();
            pthread_barrier_wait(&s->barrier);
            s->of[i].passed = now_ms();
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {}
    double arrived = 0, passed = 0;
    for (unsigned i = 0; i < count; i++) {
        arrived = s->of[i].arrived > arrived ? s->of[i].arrived : arrived;
        passed = s->of[i].passed > passed ? s->of[i].passed : passed;
    }
    printf("{\"spread_ms\":%.3f}\n", passed - arrived);
    return 0;
}
