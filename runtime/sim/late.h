/* late.h -- a request that arrives when nobody waits for it any more: held up on its way by a network or a proxy.
 *
 *     struct late *l = late_new(inner, attempt, at, &list);    sends a copy of the attempt's request at `at`
 *     lates_free(&list);                                       those that were not sent are forgotten
 *
 * What comes of it is heard by nobody. Only writes of containers and blobs can be late; for others NULL is given.
 */
#ifndef SYNOD_SIM_LATE_H
#define SYNOD_SIM_LATE_H

#include "store/transport.h"

struct late;

struct late *late_new(struct transport *inner, const struct attempt *a, int64_t at,
                      struct late **list);
/* Before the inner transport is freed: it answers those under way, which are freed then. */
void lates_free(struct late **list);

#endif
