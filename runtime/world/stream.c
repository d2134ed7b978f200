#include "world/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { CHUNK = 16 * 1024, NO_FD = -1 };

static void stream_ready(struct watch *watch, int events) {
    struct stream *s = container_of(watch, struct stream, watch);
    int due = s->awaited & events;
    s->awaited &= ~events;
    if (s->awaited) {
        watch_start(s->world, &s->watch, s->fd, s->awaited);
    } else {
        watch_stop(s->world, &s->watch);
    }
    if (due) {
        s->ready(s, due);
    }
}

void stream_init(struct stream *s, struct world *w, void (*ready)(struct stream *s, int events)) {
    memset(s, 0, sizeof *s);
    s->world = w;
    s->fd = NO_FD;
    s->watch.ready = stream_ready;
    s->ready = ready;
    buf_init(&s->in, STREAM_IN_MAX);
}

void stream_close(struct stream *s) {
    watch_stop(s->world, &s->watch);
    s->awaited = 0;
    if (s->fd != NO_FD) {
        close(s->fd);
        s->fd = NO_FD;
    }
    buf_release(&s->in);
    s->taken = s->sought = 0;
}

int stream_await(struct stream *s, int events) {
    s->awaited |= events;
    return watch_start(s->world, &s->watch, s->fd, s->awaited);
}

static void set_option(int fd, int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value); /* each is a wish */
}

static int open_socket(struct stream *s, int family) {
    s->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return s->fd < 0 ? -errno : 0;
}

static void connection_options(int fd) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

static int close_with(struct stream *s, int error) {
    stream_close(s);
    return -error;
}

int stream_listen(struct stream *s, const struct sockaddr *address, socklen_t len) {
    int rc = open_socket(s, address->sa_family);
    if (rc != 0) {
        return rc;
    }
    set_option(s->fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->sa_family == AF_INET6) {
        set_option(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    }
    if (bind(s->fd, address, len) != 0 || listen(s->fd, STREAM_BACKLOG) != 0) {
        return close_with(s, errno);
    }
    return 0;
}

int stream_accept(struct stream *listener, struct stream *s) {
    do {
        s->fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (s->fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (s->fd < 0) {
        return -errno;
    }
    connection_options(s->fd);
    return 0;
}

int stream_connect(struct stream *s, const struct sockaddr *address, socklen_t len) {
    int rc = open_socket(s, address->sa_family);
    if (rc != 0) {
        return rc;
    }
    connection_options(s->fd);
    if (connect(s->fd, address, len) == 0) {
        return 0;
    }
    return errno == EINPROGRESS || errno == EINTR ? -EINPROGRESS : close_with(s, errno);
}

int stream_pair(struct stream *s, int *theirs) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return -errno;
    }
    s->fd = ends[0];
    *theirs = ends[1];
    return fcntl(s->fd, F_SETFL, O_NONBLOCK) == 0 ? 0 : -errno;
}

int stream_adopt(struct stream *s, int fd) {
    int type = 0;
    socklen_t len = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0) {
        return -errno;
    }
    if (type != SOCK_STREAM || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        return -ENOTSUP;
    }
    s->fd = fd;
    return 0;
}

int stream_connected(struct stream *s) {
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    return error ? close_with(s, error) : 0;
}

size_t stream_available(const struct stream *s) {
    return s->in.len - s->taken;
}

const char *stream_data(const struct stream *s) {
    return buf_str(&s->in) + s->taken;
}

int stream_fill(struct stream *s) {
    char chunk[CHUNK];
    ssize_t n;
    do {
        n = recv(s->fd, chunk, sizeof chunk, 0);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return n == 0 ? 0 : -errno;
    }
    buf_drop(&s->in, s->taken);
    s->taken = 0;
    return buf_append(&s->in, chunk, (size_t)n) ? 1 : -ENOBUFS;
}

size_t stream_line(struct stream *s) {
    size_t available = stream_available(s);
    if (s->sought >= available) {
        return 0;
    }
    const char *data = stream_data(s);
    const char *newline = memchr(data + s->sought, '\n', available - s->sought);
    if (!newline) {
        s->sought = available;
        return 0;
    }
    return (size_t)(newline - data) + 1;
}

void stream_take(struct stream *s, size_t n) {
    s->taken += n;
    s->sought = 0;
    if (s->taken == s->in.len) {
        buf_clear(&s->in);
        s->taken = 0;
    }
}

ssize_t stream_send(struct stream *s, const void *data, size_t n) {
    ssize_t sent;
    do {
        sent = send(s->fd, data, n, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

static void name_of(const struct sockaddr_storage *a, char out[STREAM_NAME_MAX]) {
    char text[INET6_ADDRSTRLEN];
    const void *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    const void *v4 = &((const struct sockaddr_in *)(const void *)a)->sin_addr;
    unsigned port = ntohs(((const struct sockaddr_in *)(const void *)a)->sin_port);
    if (a->ss_family == AF_INET6 && inet_ntop(AF_INET6, v6, text, sizeof text)) {
        snprintf(out, STREAM_NAME_MAX, "[%s]:%u", text, port);
    } else if (a->ss_family == AF_INET && inet_ntop(AF_INET, v4, text, sizeof text)) {
        snprintf(out, STREAM_NAME_MAX, "%s:%u", text, port);
    }
}

void stream_name(const struct stream *s, bool of_peer, char out[STREAM_NAME_MAX]) {
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    out[0] = '\0';
    if ((of_peer ? getpeername : getsockname)(s->fd, (struct sockaddr *)&a, &len) == 0) {
        name_of(&a, out);
    }
}
