/* lease_rules.h -- what a lease lets happen: the service's rules as functions of lease, request and time.
 *
 * No I/O and no clock: who asks says what time it is, on a clock of nanoseconds that counts while the
 * machine sleeps. Nothing happens when an end passes: the state follows from the instants that are kept.
 *
 *   AVAILABLE -acquire-> LEASED -end passes-> EXPIRED -break-> BROKEN
 *   LEASED -break-> BREAKING -break end passes-> BROKEN
 *   LEASED, EXPIRED -renew-> LEASED            EXPIRED, BROKEN -acquire-> LEASED
 *   any that holds an id -release-> AVAILABLE  EXPIRED, BROKEN -a write-> AVAILABLE
 */
#ifndef SYNOD_STORE_LEASE_RULES_H
#define SYNOD_STORE_LEASE_RULES_H

#include "base/random.h"
#include "store/request.h"

enum {
    LEASE_SECONDS_MIN = 15,
    LEASE_SECONDS_MAX = 60,
    LEASE_FOREVER = -1,
    LEASE_BREAK_MAX = 60, /* seconds */
    LEASE_ID_TEXT = 37,   /* with the zero */
};

/* What is kept of a lease. */
struct lease {
    char id[LEASE_ID_TEXT]; /* lower case, with hyphens; "": never leased, or forgotten */
    int64_t seconds;        /* for which it was taken, LEASE_FOREVER; a renewal takes it again */
    int64_t end;            /* UNSET: without end */
    int64_t break_end;      /* UNSET: nobody has broken it */
};

struct lease_request {
    enum lease_action action;
    const char *id; /* renew, change, release: the one that is held; NULL: not given */
    const char
        *proposed;   /* acquire, change. Where the service would make one up, the client does */
    int64_t seconds; /* acquire: the duration; break: the period; UNSET: not given */
};

struct lease_answer {
    struct lease lease; /* as it is from now on; of a refusal: as it was */
    enum err code;
    int status;      /* the service's */
    const char *why; /* of a refusal; NULL: the list's sentence */
    bool tells_id;   /* lease.id is part of the answer */
    int64_t seconds; /* break: whole seconds after which it is over at the latest; else UNSET */
};

/* A GUID as N, D, B or P (32 digits; with hyphens; those in braces or in parentheses), in whichever case,
 * becomes lower case with hyphens. False: it is none. */
bool lease_id_read(const char *text, char out[LEASE_ID_TEXT]);

/* A new one, random (version 4). */
void lease_id_draw(struct random *r, char out[LEASE_ID_TEXT]);

void lease_forget(struct lease *l);
enum lease_state lease_state_at(const struct lease *l, int64_t now);
bool lease_state_locks(enum lease_state state);

/* What is wrong with the request whatever it is for: ERR_OK, or a code with status 400 and a sentence. */
enum err lease_request_fault(const struct lease_request *req, const char **why);
struct lease_answer lease_decide(const struct lease *l, const struct lease_request *req,
                                 int64_t now);

/* May a blob be read, or written, or a container deleted, with this lease id (NULL: none)? */
enum lease_use { LEASE_BLOB_READ, LEASE_BLOB_WRITE, LEASE_CONTAINER_READ, LEASE_CONTAINER_DELETE };
enum err lease_use_fault(const struct lease *l, enum lease_use use, const char *id, int64_t now);
/* A write ends the memory of a lease that is over. */
void lease_written(struct lease *l, int64_t now);

#endif
