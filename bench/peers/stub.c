/* stub.c -- a blob service that answers without thinking, so that what a client costs is all there is.
 *
 *   stub            prints its port, on the loopback; serves until SIGTERM; then prints what it served
 *
 * One thread. A PUT is answered with 201, a DELETE with 202, a HEAD with 200, a GET with 200 and a body of
 * 64 bytes, all with the headers that the service sends; the PUT of a lease with the id that was asked for,
 * and 200 unless it acquires it. What is not signed is refused with 403.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_MAX = 64 * 1024, EVENTS_MAX = 64, CONNECTIONS_MAX = 1024 };

#define BODY "a flag, a lock, a few bytes of state: what coordination writes.."
#define VERSION "2021-12-02"

struct connection {
    int fd;
    size_t len;
    char in[REQUEST_MAX];
};

struct served {
    uint64_t requests, refused, connections, bytes_in;
};

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "stub: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Where the value of a header begins, or NULL. `name` ends with a colon. */
static const char *header(const char *head, const char *end, const char *name) {
    size_t n = strlen(name);
    for (const char *p = head; p && p < end; p = memchr(p, '\n', (size_t)(end - p))) {
        p += *p == '\n';
        if ((size_t)(end - p) > n && strncasecmp(p, name, n) == 0) {
            return p + n + strspn(p + n, " ");
        }
    }
    return NULL;
}

static const char *date(void) {
    static char text[40];
    static time_t shown;
    time_t t = time(NULL);
    if (t != shown) {
        struct tm parts;
        shown = t;
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&t, &parts));
    }
    return text;
}

static int answer_refusal(char *out, size_t size) {
    return snprintf(out, size,
                    "HTTP/1.1 403 Forbidden\r\nServer: stub\r\nx-ms-request-id: 0\r\n"
                    "x-ms-error-code: AuthenticationFailed\r\nContent-Length: 0\r\n\r\n");
}

/* The header line that tells a lease's id: the one that the request names. */
static int lease_line(const char *head, const char *end, bool acquires, char *out, size_t size) {
    const char *id = header(head, end, acquires ? "x-ms-proposed-lease-id:" : "x-ms-lease-id:");
    return snprintf(out, size, "x-ms-lease-id: %.36s\r\n", id ? id : "");
}

static int answer(const struct served *served, const char *head, const char *end, char *out,
                  size_t size) {
    bool get = *head == 'G', read = get || *head == 'H';
    const char *lease = *head == 'P' ? header(head, end, "x-ms-lease-action:") : NULL;
    bool acquires = lease && *lease == 'a';
    int n = snprintf(out, size,
                     "HTTP/1.1 %s\r\nServer: stub\r\n"
                     "x-ms-request-id: 5f0c52a1-301e-0011-40d7-%012llx\r\n"
                     "x-ms-version: " VERSION "\r\nDate: %s\r\nConnection: keep-alive\r\n"
                     "ETag: \"0x8D9F0C52A1301E0\"\r\nLast-Modified: %s\r\n"
                     "x-ms-request-server-encrypted: true\r\nContent-Length: %zu\r\n",
                     read || (lease && !acquires) ? "200 OK"
                     : *head == 'D'               ? "202 Accepted"
                                                  : "201 Created",
                     (unsigned long long)served->requests & 0xFFFFFFFFFFFFULL, date(), date(),
                     read ? sizeof BODY - 1 : 0);
    if (read) {
        n += snprintf(out + n, size - (size_t)n,
                      "Content-Type: application/octet-stream\r\nAccept-Ranges: bytes\r\n"
                      "x-ms-blob-type: BlockBlob\r\nx-ms-lease-state: available\r\n"
                      "x-ms-lease-status: unlocked\r\nx-ms-creation-time: %s\r\n",
                      date());
    }
    if (lease) {
        n += lease_line(head, end, acquires, out + n, size - (size_t)n);
    }
    return n + snprintf(out + n, size - (size_t)n, "\r\n%s", get ? BODY : "");
}

/* Answers the request at the front of the connection's buffer; its length, 0 when it is not whole. */
static size_t serve(struct connection *c, struct served *served) {
    char out[2048];
    const char *end = memmem(c->in, c->len, "\r\n\r\n", 4);
    if (!end) {
        return 0;
    }
    const char *length = header(c->in, end, "Content-Length:");
    size_t whole = (size_t)(end + 4 - c->in) + (length ? strtoul(length, NULL, 10) : 0);
    if (c->len < whole) {
        return 0;
    }
    served->requests++;
    served->bytes_in += whole;
    const char *signature = header(c->in, end, "Authorization:");
    bool is_signed = signature && strncmp(signature, "SharedKey ", 10) == 0;
    served->refused += !is_signed;
    int n =
        is_signed ? answer(served, c->in, end, out, sizeof out) : answer_refusal(out, sizeof out);
    return write(c->fd, out, (size_t)n) == n ? whole : 0;
}

/* False when the connection is to be closed. */
static bool on_readable(struct connection *c, struct served *served) {
    ssize_t n = read(c->fd, c->in + c->len, sizeof c->in - c->len);
    if (n <= 0) {
        return n < 0 && errno == EAGAIN;
    }
    c->len += (size_t)n;
    size_t done;
    while (c->len > 0 && (done = serve(c, served)) > 0) {
        c->len -= done;
        memmove(c->in, c->in + done, c->len);
    }
    return c->len < sizeof c->in;
}

static void watch(int poll, int fd, void *owner) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = owner};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e) != 0) {
        fail("epoll");
    }
}

static void on_connection(int poll, int listener, struct served *served) {
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct connection *c = fd >= 0 && fd < CONNECTIONS_MAX ? malloc(sizeof *c) : NULL;
    if (!c) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->len = 0;
    served->connections++;
    watch(poll, fd, c);
}

static int listen_on_loopback(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0) {
        fail("listen");
    }
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static int stop_signal(void) {
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &stop, SFD_CLOEXEC);
}

int main(void) {
    struct served served = {0};
    struct epoll_event events[EVENTS_MAX];
    char stop_mark, listener_mark;
    int stop = stop_signal(), poll = epoll_create1(EPOLL_CLOEXEC), listener = listen_on_loopback();
    watch(poll, stop, &stop_mark);
    watch(poll, listener, &listener_mark);
    for (bool running = true; running;) {
        int n = epoll_wait(poll, events, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++) {
            void *owner = events[i].data.ptr;
            struct connection *c = owner;
            if (owner == &stop_mark) {
                running = false;
            } else if (owner == &listener_mark) {
                on_connection(poll, listener, &served);
            } else if (!on_readable(c, &served)) {
                close(c->fd);
                free(c);
            }
        }
    }
    printf("{\"requests\":%llu,\"refused\":%llu,\"connections\":%llu,\"bytes_in\":%llu}\n",
           (unsigned long long)served.requests, (unsigned long long)served.refused,
           (unsigned long long)served.connections, (unsigned long long)served.bytes_in);
    return 0;
}
