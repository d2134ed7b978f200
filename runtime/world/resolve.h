/* resolve.h -- from a host's name to its addresses, however long the name server takes.
 *
 *     struct resolve *r = resolve_start(w, "example.net", "80", false, on_resolved, me);
 *     ... on_resolved(r) runs once, inside world_wait: resolve_error(r), resolve_next(r, ...) ...
 *     resolve_free(r);            at any time: before the answer it means that nobody wants it any more
 *
 * The system's resolver blocks, so each question has a short-lived thread of its own; one that nobody
 * waits for any more ends unseen. The world is held meanwhile: a name takes no virtual time.
 */
#ifndef SYNOD_WORLD_RESOLVE_H
#define SYNOD_WORLD_RESOLVE_H

#include <stdbool.h>
#include <sys/socket.h>

#include "world/world.h"

struct resolve;

/* `host` NULL: any address (to listen) or this machine (to connect). NULL: no thread can be started. */
struct resolve *resolve_start(struct world *w, const char *host, const char *port, bool to_listen,
                              void (*resolved)(struct resolve *r), void *owner);
void resolve_free(struct resolve *r);
void *resolve_owner(const struct resolve *r);
bool resolve_done(const struct resolve *r);
const char *
resolve_error(const struct resolve *r); /* why there is no address; NULL: there is one */
/* The next address; false after the last. */
bool resolve_next(struct resolve *r, const struct sockaddr **address, socklen_t *len);

#endif
