/* stream.h -- a TCP socket that never blocks: one that listens, one that connects, one that is connected.
 *
 *     struct stream s;
 *     stream_init(&s, w, on_ready);
 *     int rc = stream_connect(&s, address, len);        -EINPROGRESS: await WATCH_WRITE, then
 *     rc = stream_connected(&s);                        0, or -errno
 *     rc = stream_fill(&s);                             -EAGAIN: await WATCH_READ
 *     size_t len = stream_line(&s);  ... the first len bytes of stream_data(&s) ...  stream_take(&s, len);
 *     stream_close(&s);
 *
 * Nothing is read that nobody asked for and nothing is kept to be written, so that a slow peer slows
 * the writer down, and a slow reader its peer: what waits is in the kernel, and at most STREAM_IN_MAX here.
 */
#ifndef SYNOD_WORLD_STREAM_H
#define SYNOD_WORLD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/buf.h"
#include "world/world.h"

enum {
    STREAM_IN_MAX = 16 * 1024 * 1024, /* bytes of one line or block */
    STREAM_NAME_MAX = 64,
    STREAM_BACKLOG = 512, /* connections that nobody has accepted yet */
};

struct stream {
    struct world *world;
    int fd; /* -1: closed */
    struct watch watch;
    int awaited; /* WATCH_READ | WATCH_WRITE */
    struct buf in;
    size_t taken;                                /* bytes at the front of `in` that were used */
    size_t sought;                               /* bytes after these that hold no newline */
    void (*ready)(struct stream *s, int events); /* once for each event awaited */
    void *owner;                                 /* not touched here */
};

void stream_init(struct stream *s, struct world *w, void (*ready)(struct stream *s, int events));
void stream_close(struct stream *s); /* may be called twice */

/* Each 0, or -errno. */
int stream_listen(struct stream *s, const struct sockaddr *address, socklen_t len);
int stream_accept(struct stream *listener, struct stream *s); /* -EAGAIN: await WATCH_READ */
int stream_connect(struct stream *s, const struct sockaddr *address, socklen_t len);
/* One end of a connection whose other end, *theirs, is for a child process; the caller closes it. */
int stream_pair(struct stream *s, int *theirs);
/* The end that a parent gave us; not closed when it is no socket. */
int stream_adopt(struct stream *s, int fd);
int stream_connected(struct stream *s);
int stream_await(struct stream *s, int events); /* together with those awaited already */

/* 1: something was read; 0: the peer has ended; -EAGAIN; -ENOBUFS: STREAM_IN_MAX is reached; -errno. */
int stream_fill(struct stream *s);
size_t stream_available(const struct stream *s);
const char *stream_data(const struct stream *s); /* what is available */
/* Bytes of the first line with its newline; 0: there is no whole line yet. */
size_t stream_line(struct stream *s);
void stream_take(struct stream *s, size_t n);
/* Bytes taken, -EAGAIN: await WATCH_WRITE, or -errno. */
ssize_t stream_send(struct stream *s, const void *data, size_t n);
/* "127.0.0.1:80", "[::1]:80"; "" when it has none (any more) */
void stream_name(const struct stream *s, bool of_peer, char out[STREAM_NAME_MAX]);

#endif
