/* embedded_lease.c -- the state of a lease, and what it lets a request do.
 *
 *   AVAILABLE -acquire-> LEASED -end passes-> EXPIRED -a write, release-> AVAILABLE
 *   LEASED -break-> BREAKING -break end passes-> BROKEN -a write, release-> AVAILABLE
 *
 * The passage of time is not written down: the state follows from the instants stored. An instant of
 * another boot has passed. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "store/embedded_part.h"

enum { LEASE_ID_LENGTH = 36 };

static bool passed(const struct row_lease *lease, int64_t at, const struct embedded_now *now) {
    return !lease->boot || strcmp(lease->boot, now->boot_id) != 0 || now->boot >= at;
}

enum lease_state lease_state_of(const struct row_lease *lease, const struct embedded_now *now) {
    if (!lease->id) {
        return LEASE_AVAILABLE;
    }
    if (lease->break_end != UNSET) {
        return passed(lease, lease->break_end, now) ? LEASE_BROKEN : LEASE_BREAKING;
    }
    if (lease->end == UNSET) {
        return LEASE_LEASED;
    }
    return passed(lease, lease->end, now) ? LEASE_EXPIRED : LEASE_LEASED;
}

/* 8-4-4-4-12 hexadecimal digits. */
static bool lease_id_allowed(const char *id) {
    if (strlen(id) != LEASE_ID_LENGTH) {
        return false;
    }
    for (int i = 0; i < LEASE_ID_LENGTH; i++) {
        bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
        if (hyphen ? id[i] != '-' : !isxdigit((unsigned char)id[i])) {
            return false;
        }
    }
    return true;
}

static bool of_container(const struct answer *a) {
    return a->req->verb <= VERB_CONTAINER_LEASE;
}

static bool refuse_mismatch(struct answer *a) {
    return refuse(a, of_container(a) ? ERR_LEASE_ID_MISMATCH_WITH_CONTAINER_OPERATION
                                     : ERR_LEASE_ID_MISMATCH_WITH_BLOB_OPERATION);
}

static bool refuse_not_present(struct answer *a) {
    return refuse(a, of_container(a) ? ERR_LEASE_NOT_PRESENT_WITH_CONTAINER_OPERATION
                                     : ERR_LEASE_NOT_PRESENT_WITH_BLOB_OPERATION);
}

bool lease_allows(struct answer *a, enum condition_use use, const struct row *row) {
    static const struct row_lease NONE = {.end = UNSET, .break_end = UNSET};
    const struct row_lease *lease = row ? &row->lease : &NONE;
    const char *given = a->req->when.lease;
    enum lease_state state = lease_state_of(lease, a->now);
    bool locked = state == LEASE_LEASED || state == LEASE_BREAKING;
    if (!given) {
        return !locked || use == CONDITION_READ || refuse(a, ERR_LEASE_ID_MISSING);
    }
    if (!lease_id_allowed(given)) {
        return refuse_because(a, ERR_INVALID_HEADER_VALUE, "a lease id is a GUID");
    }
    bool own = lease->id && strcasecmp(lease->id, given) == 0;
    if (locked) {
        return own || refuse_mismatch(a);
    }
    if (own && state == LEASE_EXPIRED && !of_container(a)) {
        return refuse_because(a, ERR_LEASE_LOST, "a lease id was given, but the lease has expired");
    }
    return refuse_not_present(a);
}

void lease_after_write(struct answer *a, struct row *row) {
    enum lease_state state = lease_state_of(&row->lease, a->now);
    if (state == LEASE_EXPIRED || state == LEASE_BROKEN) {
        row->lease = (struct row_lease){.end = UNSET, .break_end = UNSET};
    }
}
