/* faults.h -- a transport that does harm by script: it stands before another one.
 *
 *     struct fault f[] = {{.verb = VERB_BLOB_PUT, .ordinal = 1, .kind = FAULT_LOST_RESPONSE}};
 *     struct transport *t = transport_faulty_new(inner, f, 1);      takes `inner` over
 *
 * Each fault strikes the ordinal-th attempt of its verb, counted from 1, once (ordinal 0: each one).
 * When several match, the first of the list strikes. Whatever the kind, the client cannot tell a lost
 * request from a lost response: both end at the attempt's deadline with `sent` set.
 */
#ifndef SYNOD_SIM_FAULTS_H
#define SYNOD_SIM_FAULTS_H

#include "store/transport.h"

/* X(enum, word in scripts, effect) */
#define FAULT_LIST(X)                                                                              \
    X(LOST_REQUEST, "lost-request", "it never reaches the store")                                  \
    X(LOST_RESPONSE, "lost-response", "it is done, and the answer is lost")                        \
    X(DELAY, "delay", "it is done, and the answer takes `ns` longer")                              \
    X(THROTTLE, "throttle", "refused as `code` (ServerBusy), asking to wait for `ns`")             \
    X(ERROR_AFTER_APPLY, "error-after-apply",                                                      \
      "it is done, and answered as `code` (InternalError)")                                        \
    X(LATE_APPLY, "late-apply",                                                                    \
      "the answer is lost, and a write of a container or blob is done `ns` after it was sent")

#define FAULT_ENUM(name, word, effect) FAULT_##name,
enum fault_kind { FAULT_LIST(FAULT_ENUM) FAULT_KIND_COUNT };
#undef FAULT_ENUM

const char *fault_word(enum fault_kind kind);

struct fault {
    enum fault_kind kind;
    bool any_verb; /* strikes whatever the verb; ordinals then count all attempts */
    enum store_verb verb;
    int64_t ordinal; /* which attempt, from 1; 0: each one */
    int64_t ns;      /* delay; late-apply; throttle: what Retry-After asks for (0: nothing) */
    enum err code;   /* ERR_OK: the kind's usual one */
};

/* The faults are copied. */
struct transport *transport_faulty_new(struct transport *inner, const struct fault *faults,
                                       size_t count);

#endif
