/* input.h -- standard input, read without blocking although it may be shared with other processes.
 *
 *     struct input in;
 *     input_init(&in, STDIN_FILENO, on_ready);
 *     ssize_t n = input_read(&in, data, sizeof data);     -EAGAIN: input_await, then again
 *     input_detach(&in);                                  at the end of a run
 *     input_release(&in);
 *
 * The descriptor is never made non-blocking (that would change it for all who share it): it is read when
 * the kernel says that there is something. The world is held while somebody waits: input takes no
 * virtual time.
 */
#ifndef SYNOD_WORLD_INPUT_H
#define SYNOD_WORLD_INPUT_H

#include <stdbool.h>
#include <sys/types.h>

#include "world/world.h"

struct input {
    int fd;
    int ready_fd;        /* an epoll descriptor; -1 before it is needed */
    struct world *world; /* while awaited */
    struct watch watch;
    void (*ready)(struct input *in);
};

void input_init(struct input *in, int fd, void (*ready)(struct input *in));
void input_release(struct input *in);
/* Bytes, 0 at the end, -EAGAIN: there is nothing at the moment, -errno. */
ssize_t input_read(struct input *in, void *out, size_t n);
/* The same, but waits for it. */
ssize_t input_read_blocking(struct input *in, void *out, size_t n);
/* Calls `ready` once; may be called again before. 0, or -errno. */
int input_await(struct input *in, struct world *w);
void input_detach(struct input *in); /* nobody waits any more */

#endif
