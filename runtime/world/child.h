/* child.h -- what a forked child does to itself before it becomes something else. Async-signal-safe: nothing here
 * allocates or takes a lock. */
#ifndef SYNOD_WORLD_CHILD_H
#define SYNOD_WORLD_CHILD_H

#include <stddef.h>

/* Every signal at its default, none blocked. */
void child_signals_reset(void);
/* Descriptors from `first` on are closed by the next exec. */
void child_close_on_exec(int first);
/* Closes every descriptor but these, which are sorted in place. */
void child_close_but(int *kept, size_t count);

#endif
