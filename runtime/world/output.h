/* output.h -- a writer that the world empties: standard output or standard error of a run.
 *
 *     output_init(&o, STDOUT_FILENO, false);
 *     output_attach(&o, w);                     while a run lasts
 *     if (output_put(&o, data, n) && output_is_full(&o)) wait until o.room is called
 *     output_detach(&o);                        waits until all was read
 *     output_release(&o);
 *
 * What is put is written at the end of the turn, or at once when it is `prompt` or much. While it is not
 * attached everything is written at once, however long that takes.
 *
 * When nobody has read for OUTPUT_STALL_S although there was something to read, `stalled` is called, once
 * in the life of the output.
 */
#ifndef SYNOD_WORLD_OUTPUT_H
#define SYNOD_WORLD_OUTPUT_H

#include "base/writer.h"
#include "world/world.h"

enum { OUTPUT_STALL_S = 10 };

struct output {
    struct writer writer;
    bool prompt;
    struct world *world; /* NULL: not attached */
    struct watch watch;
    struct alarm soon;  /* the end of the turn */
    struct alarm stall; /* OUTPUT_STALL_S after the last progress */
    uint64_t seen;      /* writer.total when `stall` was set */
    bool warned;
    bool holds;                     /* the world, while somebody may wait for room */
    void (*room)(struct output *o); /* after is_full: there is room again, or it has failed */
    void (*stalled)(struct output *o);
    void *owner; /* not touched here */
};

void output_init(struct output *o, int fd, bool prompt);
void output_release(struct output *o);
void output_attach(struct output *o, struct world *w);
void output_detach(struct output *o);
/* False as in writer_put. */
bool output_put(struct output *o, const void *data, size_t n);
bool output_is_full(const struct output *o);
void output_flush(struct output *o);      /* what can be written at once */
int output_error(const struct output *o); /* errno of its failure, or 0 */

#endif
