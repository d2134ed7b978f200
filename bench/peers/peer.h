/* peer.h -- what the peers' clients share: a connection, two clocks, and what a series of cycles cost.
 *
 *   int server = peer_connect(port);
 *   struct cycles c = cycles_begin(1000);      after the warm-up
 *   cycle_add(&c, seconds);                    for each
 *   cycles_print(&c);                          one JSON object; frees what c has
 *
 * A client that fails says so and exits with 1: a benchmark has nothing to mend.
 */
#ifndef BENCH_PEERS_PEER_H
#define BENCH_PEERS_PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void peer_fail(const char *what) {
    perror(what);
    exit(1);
}

/* The clock that synod's instances and all peers name instants by, in seconds. */
static inline double boot_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline double cpu_ms(void) {
    return (double)clock() * 1e3 / CLOCKS_PER_SEC;
}

static inline void pause_s(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static inline struct sockaddr_in peer_address(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static inline int peer_connect(int port) {
    struct sockaddr_in a = peer_address(port);
    int one = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof a) != 0) {
        peer_fail("connect");
    }
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return s;
}

/* One turn of a lock that several want: who had it, when he asked, had it, and began to give it back. */
static inline void turn_print(int who, double asked, double locked, double unlocking) {
    printf("{\"who\":%d,\"asked\":%.6f,\"locked\":%.6f,\"unlocking\":%.6f}\n", who, asked, locked,
           unlocking);
    fflush(stdout);
}

struct cycles {
    double *ms; /* of each */
    size_t count, max;
    double cpu, wall; /* when they began */
    long requests;    /* counted by whoever makes them */
};

static inline struct cycles cycles_begin(size_t max) {
    struct cycles c = {.ms = calloc(max, sizeof(double)), .max = max};
    if (!c.ms) {
        peer_fail("memory");
    }
    c.cpu = cpu_ms();
    c.wall = boot_time();
    return c;
}

static inline void cycle_add(struct cycles *c, double seconds) {
    if (c->count < c->max) {
        c->ms[c->count++] = seconds * 1e3;
    }
}

static int cycles_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void cycles_print(struct cycles *c) {
    double cpu = cpu_ms() - c->cpu, wall = boot_time() - c->wall;
    qsort(c->ms, c->count, sizeof *c->ms, cycles_compare);
    printf("{\"cycles\":%zu,\"median_ms\":%.4f,\"worst_ms\":%.4f,\"cpu_ms\":%.3f,\"wall_ms\":%.3f,"
           "\"requests\":%ld}\n",
           c->count, c->ms[c->count / 2], c->ms[c->count - 1], cpu, wall * 1e3, c->requests);
    free(c->ms);
}

#endif
