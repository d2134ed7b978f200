/* meter.h -- transactions counted by operation and by what came of them: what a service bills.
 *
 * One attempt is one transaction, whatever the call makes of it: a call that was repeated twice has three. It is
 * counted when it ends, once, in client.c. One that was kept back, for want of a token, is none.
 */
#ifndef SYNOD_STORE_METER_H
#define SYNOD_STORE_METER_H

#include "store/transport.h"

/* X(enum, word). The list is closed: everything that can happen to an attempt is one of these. */
#define METER_OUTCOME_LIST(X)                                                                      \
    X(DONE, "done")           /* the store did what was asked */                                   \
    X(REFUSED, "refused")     /* it did not, for what is there or what was asked: 304, 4xx */      \
    X(DENIED, "denied")       /* the credentials did not do: 401, 403 */                           \
    X(THROTTLED, "throttled") /* it was too busy: 429, 503 */                                      \
    X(FAILED, "failed")       /* an error of its own (5xx), or an answer that cannot be read */    \
    X(LOST, "lost")     /* sent, and nobody knows: no answer in time, or a broken connection */    \
    X(UNSENT, "unsent") /* it never reached the store */

#define METER_OUTCOME_ENUM(name, word) METER_##name,
enum meter_outcome { METER_OUTCOME_LIST(METER_OUTCOME_ENUM) METER_OUTCOMES };
#undef METER_OUTCOME_ENUM

struct meter {
    uint64_t counts[VERB_COUNT][METER_OUTCOMES];
};

const char *meter_outcome_word(enum meter_outcome outcome);
void meter_count(struct meter *m, const struct attempt *a); /* one that has ended */
uint64_t meter_total(const struct meter *m, enum store_verb verb);

#endif
