/* pipe.h -- our end of a pipe to another process, which never blocks.
 *
 *     ssize_t n = pipe_end_read(&end, data, sizeof data);
 *     if (n == -EAGAIN) pipe_end_await(&end, on_ready);        then again
 *     pipe_end_close(&end);
 *
 * The world is held while an end is awaited.
 */
#ifndef SYNOD_WORLD_PIPE_H
#define SYNOD_WORLD_PIPE_H

#include <stddef.h>
#include <sys/types.h>

#include "world/world.h"

struct pipe_end {
    struct world *world;
    int fd; /* -1: closed, or never opened */
    struct watch watch;
    void (*ready)(struct pipe_end *end);
    void *owner; /* for whoever awaits it; not touched here */
};

void pipe_end_init(struct pipe_end *end, struct world *w); /* closed */
/* Makes a pipe: `end` is ours to write (or to read), and the other one is returned: close-on-exec, above
 * 2, and blocking. -errno when there can be none. */
int pipe_end_open(struct pipe_end *end, bool to_write);
void pipe_end_close(struct pipe_end *end);

/* Bytes, 0 at the end of the stream (or when it is closed), -EAGAIN: await it, else -errno. */
ssize_t pipe_end_read(struct pipe_end *end, void *out, size_t n);
/* Bytes taken, -EAGAIN: await it, else -errno (-EPIPE: nobody reads it any more). */
ssize_t pipe_end_write(struct pipe_end *end, const void *data, size_t n);
/* Calls `ready` once, when reading or writing may go on. 0, or -errno. */
int pipe_end_await(struct pipe_end *end, void (*ready)(struct pipe_end *end));
void pipe_end_forget(struct pipe_end *end); /* `ready` will not be called after this */

#endif
