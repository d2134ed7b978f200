/* lease.c -- leases as the embedded stores keep them: lease_rules.h over a record's lease.
 *
 * Instants are boot-time nanoseconds. One that was written in another boot has passed. */
#include <string.h>

#include "store/embedded/part.h"
#include "store/lease_rules.h"

static int64_t instant_here(const struct row_lease *row, int64_t at,
                            const struct embedded_now *now) {
    bool same_boot = row->boot && strcmp(row->boot, now->boot_id) == 0;
    return at == UNSET || same_boot ? at : now->boot;
}

static struct lease lease_of_row(const struct row_lease *row, const struct embedded_now *now) {
    struct lease l;
    lease_forget(&l);
    if (row->id && lease_id_read(row->id, l.id)) {
        l.seconds = row->seconds;
        l.end = instant_here(row, row->end, now);
        l.break_end = instant_here(row, row->break_end, now);
    }
    return l;
}

/* The row borrows the lease's id. */
static void row_take_lease(struct row_lease *row, const struct lease *l,
                           const struct embedded_now *now) {
    *row = (struct row_lease){.end = UNSET, .break_end = UNSET};
    if (l->id[0]) {
        *row = (struct row_lease){.id = l->id,
                                  .seconds = l->seconds,
                                  .end = l->end,
                                  .break_end = l->break_end,
                                  .boot = now->boot_id};
    }
}

enum lease_state lease_state_of(const struct row_lease *row, const struct embedded_now *now) {
    struct lease l = lease_of_row(row, now);
    return lease_state_at(&l, now->boot);
}

static bool of_container(const struct answer *a) {
    return a->req->verb <= VERB_CONTAINER_LEASE;
}

static enum lease_use use_of(const struct answer *a, enum condition_use use) {
    if (of_container(a)) {
        return use == CONDITION_READ ? LEASE_CONTAINER_READ : LEASE_CONTAINER_DELETE;
    }
    return use == CONDITION_READ ? LEASE_BLOB_READ : LEASE_BLOB_WRITE;
}

bool lease_allows(struct answer *a, enum condition_use use, const struct row *row) {
    struct lease l;
    lease_forget(&l);
    if (row) {
        l = lease_of_row(&row->lease, a->now);
    }
    enum err fault = lease_use_fault(&l, use_of(a, use), a->req->when.lease, a->now->boot);
    switch (fault) {
    case ERR_OK:
        return true;
    case ERR_INVALID_HEADER_VALUE:
        return refuse_because(a, fault, "a lease id is a GUID");
    case ERR_LEASE_LOST:
        return refuse_because(a, fault, "a lease id was given, but the lease has expired");
    default:
        return refuse(a, fault);
    }
}

void lease_after_write(struct answer *a, struct row *row) {
    struct lease l = lease_of_row(&row->lease, a->now);
    lease_written(&l, a->now->boot);
    if (!l.id[0]) {
        row_take_lease(&row->lease, &l, a->now);
    }
}

/* ---- the requests ---- */

static struct lease_request rules_request(const struct store_request *req) {
    return (struct lease_request){.action = req->action,
                                  .id = req->when.lease,
                                  .proposed = req->proposed_id,
                                  .seconds = req->lease_seconds};
}

static bool request_is_good(struct answer *a) {
    struct lease_request req = rules_request(a->req);
    const char *why;
    enum err fault = lease_request_fault(&req, &why);
    return fault == ERR_OK || refuse_because(a, fault, why);
}

/* The record keeps its ETag and date: a lease is no change of what is leased. */
static void decide(struct answer *a, const struct row_key *key, struct row *row) {
    struct lease before = lease_of_row(&row->lease, a->now);
    struct lease_request req = rules_request(a->req);
    struct lease_answer answer = lease_decide(&before, &req, a->now->boot);
    if (answer.code != ERR_OK) {
        refuse(a, answer.code);
        return;
    }
    row_take_lease(&row->lease, &answer.lease, a->now);
    if (!a->rows->ops->put(a->rows, key, row, false)) {
        refuse_keeper(a);
        return;
    }
    struct store_reply *reply = a->reply;
    props_tell_version(&reply->props, row);
    reply->lease_time = answer.seconds;
    if (answer.tells_id) {
        memcpy(reply->lease_id, answer.lease.id, sizeof answer.lease.id);
    }
}

void answer_container_lease(struct answer *a) {
    struct row row;
    struct row_key key = container_key(a);
    if (request_is_good(a) && answer_container(a, &row) &&
        conditions_hold(a, CONDITION_WRITE, &row)) {
        decide(a, &key, &row);
    }
}

void answer_blob_lease(struct answer *a) {
    struct row row;
    bool found;
    struct row_key key = blob_key(a);
    if (!request_is_good(a) || !answer_blob(a, false, &row, &found) ||
        !conditions_hold(a, CONDITION_WRITE, found ? &row : NULL)) {
        return;
    }
    if (!found) {
        refuse(a, ERR_BLOB_NOT_FOUND);
        return;
    }
    decide(a, &key, &row);
}
