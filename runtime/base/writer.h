/* writer.h -- output to a descriptor that nobody may be reading, without ever waiting for it.
 *
 *     struct writer w;
 *     writer_open(&w, STDOUT_FILENO);
 *     writer_put(&w, data, n);               kept until it can be written
 *     switch (writer_flush(&w)) ...          0: all written; -EAGAIN: watch writer_ready_fd; else lost
 *     writer_drain(&w, -1);                  at the end: wait until it is read
 *     writer_close(&w);
 *
 * The descriptor may be shared with other processes (a terminal, a pipe inherited from a shell), and
 * O_NONBLOCK belongs to all who share it: it is never set there. Pipes and terminals are opened once
 * more, which gives a description of our own; where that is refused, only what surely fits is written
 * (PIPE_BUF bytes after the kernel said that there is room). Regular files are always ready.
 *
 * What was put is written in full and in order, or the writer has failed; a failure sticks.
 */
#ifndef SYNOD_BASE_WRITER_H
#define SYNOD_BASE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    WRITER_FULL = 1024 * 1024,     /* from here on whoever prints waits for room */
    WRITER_ROOM = 512 * 1024,      /* and goes on when no more than this is left */
    WRITER_MAX = 16 * 1024 * 1024, /* whoever cannot wait may print up to this */
    WRITER_BATCH = 64 * 1024,      /* written without waiting for the end of the turn */
};

enum writer_kind { WRITER_FILE, WRITER_OWN, WRITER_SOCKET, WRITER_SHARED };

struct writer {
    int fd; /* what is written to: the one given, or our own opening of it */
    int given;
    int ready_fd; /* an epoll descriptor; -1 before it is needed */
    enum writer_kind kind;
    struct buf pending;
    size_t written; /* bytes at the front of `pending` that are gone */
    uint64_t total; /* bytes ever written: shows progress */
    int error;      /* errno of the failure, 0 while there is none */
};

void writer_open(struct writer *w, int fd);
void writer_close(struct writer *w); /* drops what is pending; the descriptor given stays open */
/* False: there is no room for it (WRITER_MAX), or the writer has failed. Nothing was kept then. */
bool writer_put(struct writer *w, const void *data, size_t n);
size_t writer_pending(const struct writer *w); /* bytes */
/* Writes what can be written at once. 0, -EAGAIN, or the failure's -errno. */
int writer_flush(struct writer *w);
/* Readable when writer_flush can go on; may be watched by any means. -1: it cannot be watched. */
int writer_ready_fd(struct writer *w);
/* Waits until all is written, for at most so many ms without progress (-1: for ever). As writer_flush. */
int writer_drain(struct writer *w, int patience_ms);
bool writer_is_terminal(const struct writer *w);

#endif
