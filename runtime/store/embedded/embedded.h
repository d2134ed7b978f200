/* embedded.h -- the storage service's semantics over records: what both embedded stores answer.
 *
 * A function of the request, the records and the time given; it waits for nothing and knows no clock.
 * Status and code are the service's own. Order of the checks: the request itself, the container, the
 * lease, the conditions, existence; a refusal leaves every record as it was.
 *
 * embedded.c        which verb is answered where
 * container.c, blob.c, blocks.c, copy.c, queue.c, message.c, table.c, table_entity.c, table_query.c
 * list.c            pages of containers, blobs and queues; filter.c  which entities a query takes
 * conditions.c, names.c   the checks
 * lease.c           leases, by the rules of lease_rules.h
 * file.c, memory.c                          the transports
 */
#ifndef SYNOD_STORE_EMBEDDED_H
#define SYNOD_STORE_EMBEDDED_H

#include "store/request.h"
#include "store/embedded/rows.h"

struct embedded_now {
    int64_t boot; /* boot-time ns: leases */
    int64_t wall; /* date in ns: Last-Modified */
    const char *boot_id;
};

/* Answers a request between the keeper's begin and commit. The reply is cleared before. When its code is
 * that of a failing keeper (rows->err) the transaction must be rolled back. */
void embedded_answer(struct rows *rows, const struct embedded_now *now,
                     const struct store_request *req, struct store_reply *reply);

#endif
