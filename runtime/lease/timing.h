/* timing.h -- the instants of a lease, as functions of its time to live and of when its last confirmed attempt was
 * first sent. Arithmetic only: no clock, no store. All times are nanoseconds; instants are boot-time.
 *
 *     struct lease_timing t;
 *     char why[LEASE_FAULT_MAX];
 *     if (!lease_timing_make(&t, &(struct lease_settings){.ttl = 15 * NS_PER_S}, why)) refuse(why);
 *     lease_renew_at(&t, sent) < lease_soft(&t, sent) < lease_hard(&t, sent) < sent + t.ttl
 *
 *   sent ---- renew ---- (tries, sooner and sooner) ---- soft --grace-- hard --slice-- -- R -- drift -- sent + ttl
 *
 *   soft   LeaseLost is raised once; clean-up may run and wait
 *   hard   the contract's instant: nothing guarded goes on; one slice later the process is gone at the latest
 *   R      what was sent before the hard stop may live this much longer and still arrive while the lease is ours
 *   drift  our clock may be slower than the judge's by this much over the whole time: 1 %
 */
#ifndef SYNOD_LEASE_TIMING_H
#define SYNOD_LEASE_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"

/* The service's own leases last 15 to 60 whole seconds; a record lasts 0.5 to below 15. */
#define LEASE_RECORD_MIN (NS_PER_S / 2)
#define LEASE_SERVICE_MIN (15 * NS_PER_S)
#define LEASE_SERVICE_MAX (60 * NS_PER_S)
/* After a failed renewal the next is not sooner than this. */
#define LEASE_RETRY_MIN (50 * NS_PER_MS)
/* No attempt gets less time than this, however near the stop. */
#define LEASE_TRY_MIN (10 * NS_PER_MS)

enum { LEASE_FAULT_MAX = 400 };

/* What a user may choose; 0: not chosen. */
struct lease_settings {
    int64_t ttl;
    int64_t renew; /* from one renewal to the next; a third of the ttl */
    int64_t try;   /* one attempt; 3 s or a fifth of the ttl, whichever is less */
};

struct lease_timing {
    int64_t ttl;
    int64_t drift;   /* ttl * rho */
    int64_t request; /* R */
    int64_t slice;
    int64_t grace; /* from the soft stop to the hard one */
    int64_t renew;
    int64_t try;
};

/* False: with these settings two could hold at once, or nobody could hold for long; `why` says so with the
 * arithmetic. A ttl in one of the two ranges and nothing else chosen always succeeds. */
bool lease_timing_make(struct lease_timing *t, const struct lease_settings *settings,
                       char why[LEASE_FAULT_MAX]);
bool lease_is_record(const struct lease_timing *t);

/* `sent`: when the last confirmed attempt was first sent. */
int64_t lease_hard(const struct lease_timing *t, int64_t sent);
int64_t lease_soft(const struct lease_timing *t, int64_t sent);
int64_t lease_renew_at(const struct lease_timing *t, int64_t sent);
/* When to try again after an attempt that failed `now`: sooner and sooner, the nearer the soft stop. */
int64_t lease_retry_at(int64_t soft, int64_t now);
/* The longest that an attempt sent `now` may take, so that another one fits before the stop. */
int64_t lease_try(const struct lease_timing *t, int64_t soft, int64_t now);

#endif
