#include "store/lease_rules.h"

#include <string.h>

/* ---- ids ---- */

enum { ID_DIGITS = 32, ID_LENGTH = LEASE_ID_TEXT - 1 };

static bool hyphen_at(size_t i) {
    return i == 8 || i == 13 || i == 18 || i == 23;
}

/* The digit in lower case; 0: it is none. */
static char digit(char c) {
    if (c >= 'A' && c <= 'F') {
        return (char)(c - 'A' + 'a');
    }
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ? c : '\0';
}

bool lease_id_read(const char *text, char out[LEASE_ID_TEXT]) {
    size_t n = strlen(text);
    bool enclosed = n == ID_LENGTH + 2 && ((text[0] == '{' && text[n - 1] == '}') ||
                                           (text[0] == '(' && text[n - 1] == ')'));
    bool hyphens = enclosed || n == ID_LENGTH;
    if (!hyphens && n != ID_DIGITS) {
        return false;
    }
    const char *at = text + enclosed;
    for (size_t i = 0; i < ID_LENGTH; i++) {
        if (!hyphen_at(i)) {
            out[i] = digit(*at++);
        } else {
            out[i] = !hyphens || *at == '-' ? '-' : '\0';
            at += hyphens;
        }
        if (!out[i]) {
            return false;
        }
    }
    out[ID_LENGTH] = '\0';
    return true;
}

void lease_id_draw(struct random *r, char out[LEASE_ID_TEXT]) {
    static const char HEX[] = "0123456789abcdef";
    unsigned char bytes[ID_DIGITS / 2];
    random_fill(r, bytes, sizeof bytes);
    bytes[6] = (unsigned char)(0x40 | (bytes[6] & 0x0F)); /* version 4 */
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3F)); /* variant 1 */
    size_t at = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        if (hyphen_at(at)) {
            out[at++] = '-';
        }
        out[at++] = HEX[bytes[i] >> 4];
        out[at++] = HEX[bytes[i] & 15];
    }
    out[at] = '\0';
}

static bool holds_id(const struct lease *l, const char *given) {
    char id[LEASE_ID_TEXT];
    return l->id[0] && given && lease_id_read(given, id) && strcmp(l->id, id) == 0;
}

/* ---- states ---- */

void lease_forget(struct lease *l) {
    *l = (struct lease){.end = UNSET, .break_end = UNSET};
}

static bool is_over(int64_t end, int64_t now) {
    return end != UNSET && now >= end;
}

enum lease_state lease_state_at(const struct lease *l, int64_t now) {
    if (!l->id[0]) {
        return LEASE_AVAILABLE;
    }
    if (l->break_end != UNSET) {
        return is_over(l->break_end, now) ? LEASE_BROKEN : LEASE_BREAKING;
    }
    return is_over(l->end, now) ? LEASE_EXPIRED : LEASE_LEASED;
}

bool lease_state_locks(enum lease_state state) {
    return state == LEASE_LEASED || state == LEASE_BREAKING;
}

void lease_written(struct lease *l, int64_t now) {
    if (!lease_state_locks(lease_state_at(l, now))) {
        lease_forget(l);
    }
}

/* ---- bad input ---- */

static bool id_fault(const char *id, bool needed, enum err *code, const char **why) {
    char ignored[LEASE_ID_TEXT];
    if (!id && needed) {
        *code = ERR_MISSING_REQUIRED_HEADER;
        *why = "a lease id is missing";
    } else if (id && !lease_id_read(id, ignored)) {
        *code = ERR_INVALID_HEADER_VALUE;
        *why = "a lease id is a GUID";
    }
    return *code != ERR_OK;
}

static enum err seconds_fault(const struct lease_request *req, const char **why) {
    int64_t s = req->seconds;
    if (req->action == LEASE_ACQUIRE && s == UNSET) {
        *why = "the duration of the lease is missing";
        return ERR_MISSING_REQUIRED_HEADER;
    }
    if (req->action == LEASE_ACQUIRE && s != LEASE_FOREVER &&
        (s < LEASE_SECONDS_MIN || s > LEASE_SECONDS_MAX)) {
        *why = "a lease lasts 15 to 60 seconds, or -1: for ever";
        return ERR_INVALID_HEADER_VALUE;
    }
    if (req->action == LEASE_BREAK && s != UNSET && (s < 0 || s > LEASE_BREAK_MAX)) {
        *why = "a break takes 0 to 60 seconds";
        return ERR_INVALID_HEADER_VALUE;
    }
    return ERR_OK;
}

enum err lease_request_fault(const struct lease_request *req, const char **why) {
    enum err code = ERR_OK;
    enum lease_action action = req->action;
    bool needs_id = action == LEASE_RENEW || action == LEASE_CHANGE || action == LEASE_RELEASE;
    bool proposes = action == LEASE_ACQUIRE || action == LEASE_CHANGE;
    *why = NULL;
    if (id_fault(req->id, needs_id, &code, why) || id_fault(req->proposed, proposes, &code, why)) {
        return code;
    }
    return seconds_fault(req, why);
}

/* ---- the five actions ---- */

static void refuse(struct lease_answer *a, enum err code) {
    a->code = code;
    a->status = err_status(code);
}

static void tell_id(struct lease_answer *a, int status) {
    a->status = status;
    a->tells_id = true;
}

/* The clock starts again. */
static void lease_from(struct lease *l, int64_t seconds, int64_t now) {
    l->seconds = seconds;
    l->end = seconds == LEASE_FOREVER ? UNSET : now + seconds * NS_PER_S;
    l->break_end = UNSET;
}

static void acquire(struct lease_answer *a, const struct lease_request *req, enum lease_state state,
                    int64_t now) {
    bool own = holds_id(&a->lease, req->proposed);
    if (lease_state_locks(state) && !own) {
        refuse(a, ERR_LEASE_ALREADY_PRESENT);
    } else if (state == LEASE_BREAKING) {
        refuse(a, ERR_LEASE_IS_BREAKING_AND_CANNOT_BE_ACQUIRED);
    } else {
        lease_id_read(req->proposed, a->lease.id);
        lease_from(&a->lease, req->seconds, now);
        tell_id(a, 201);
    }
}

static void renew(struct lease_answer *a, const struct lease_request *req, enum lease_state state,
                  int64_t now) {
    if (!holds_id(&a->lease, req->id)) {
        refuse(a, ERR_LEASE_ID_MISMATCH_WITH_LEASE_OPERATION);
    } else if (state == LEASE_BREAKING || state == LEASE_BROKEN) {
        refuse(a, ERR_LEASE_IS_BROKEN_AND_CANNOT_BE_RENEWED);
    } else {
        lease_from(&a->lease, a->lease.seconds, now);
        tell_id(a, 200);
    }
}

/* Of a lease that is held, whoever proposes the id that it has is answered well, with whichever old id:
 * so a change may be repeated. */
static void change(struct lease_answer *a, const struct lease_request *req,
                   enum lease_state state) {
    bool own = holds_id(&a->lease, req->id);
    bool done = holds_id(&a->lease, req->proposed);
    if (!lease_state_locks(state)) {
        refuse(a, ERR_LEASE_NOT_PRESENT_WITH_LEASE_OPERATION);
    } else if (!own && !(done && state == LEASE_LEASED)) {
        refuse(a, ERR_LEASE_ID_MISMATCH_WITH_LEASE_OPERATION);
    } else if (state == LEASE_BREAKING) {
        refuse(a, ERR_LEASE_IS_BREAKING_AND_CANNOT_BE_CHANGED);
    } else {
        lease_id_read(req->proposed, a->lease.id);
        tell_id(a, 200);
    }
}

static void release(struct lease_answer *a, const struct lease_request *req) {
    if (!holds_id(&a->lease, req->id)) {
        refuse(a, ERR_LEASE_ID_MISMATCH_WITH_LEASE_OPERATION);
    } else {
        lease_forget(&a->lease);
        a->status = 200;
    }
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* When a break is over: no later than the lease or an earlier break would have been. */
static int64_t break_end_of(const struct lease *l, int64_t period, int64_t now) {
    int64_t asked = period == UNSET ? UNSET : now + period * NS_PER_S;
    int64_t latest = l->break_end != UNSET ? l->break_end : l->end;
    if (latest == UNSET) {
        return asked == UNSET ? now : asked;
    }
    return asked == UNSET ? latest : earlier(asked, latest);
}

/* The id is not asked for. Whoever breaks must wait the seconds told, so they are rounded up. */
static void break_off(struct lease_answer *a, const struct lease_request *req,
                      enum lease_state state, int64_t now) {
    if (state == LEASE_AVAILABLE) {
        refuse(a, ERR_LEASE_NOT_PRESENT_WITH_LEASE_OPERATION);
        return;
    }
    int64_t end = lease_state_locks(state) ? break_end_of(&a->lease, req->seconds, now) : now;
    a->lease.break_end = end;
    a->seconds = (end - now + NS_PER_S - 1) / NS_PER_S;
    a->status = 202;
}

struct lease_answer lease_decide(const struct lease *l, const struct lease_request *req,
                                 int64_t now) {
    struct lease_answer a = {.lease = *l, .code = ERR_OK, .seconds = UNSET};
    enum err fault = lease_request_fault(req, &a.why);
    if (fault != ERR_OK) {
        refuse(&a, fault);
        return a;
    }
    enum lease_state state = lease_state_at(l, now);
    switch (req->action) {
    case LEASE_ACQUIRE:
        acquire(&a, req, state, now);
        break;
    case LEASE_RENEW:
        renew(&a, req, state, now);
        break;
    case LEASE_CHANGE:
        change(&a, req, state);
        break;
    case LEASE_RELEASE:
        release(&a, req);
        break;
    case LEASE_BREAK:
        break_off(&a, req, state, now);
        break;
    }
    return a;
}

/* ---- use ---- */

static bool is_of_container(enum lease_use use) {
    return use == LEASE_CONTAINER_READ || use == LEASE_CONTAINER_DELETE;
}

enum err lease_use_fault(const struct lease *l, enum lease_use use, const char *id, int64_t now) {
    enum lease_state state = lease_state_at(l, now);
    bool own = holds_id(l, id), of_container = is_of_container(use);
    char ignored[LEASE_ID_TEXT];
    if (!id) {
        bool reads = use == LEASE_BLOB_READ || use == LEASE_CONTAINER_READ;
        return reads || !lease_state_locks(state) ? ERR_OK : ERR_LEASE_ID_MISSING;
    }
    if (!lease_id_read(id, ignored)) {
        return ERR_INVALID_HEADER_VALUE;
    }
    if (lease_state_locks(state)) {
        return own            ? ERR_OK
               : of_container ? ERR_LEASE_ID_MISMATCH_WITH_CONTAINER_OPERATION
                              : ERR_LEASE_ID_MISMATCH_WITH_BLOB_OPERATION;
    }
    if (of_container) {
        return ERR_LEASE_NOT_PRESENT_WITH_CONTAINER_OPERATION;
    }
    return own && state == LEASE_EXPIRED ? ERR_LEASE_LOST
                                         : ERR_LEASE_NOT_PRESENT_WITH_BLOB_OPERATION;
}
