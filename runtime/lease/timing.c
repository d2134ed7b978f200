#include "lease/timing.h"

#include <stdio.h>

static const struct { int64_t request, slice; } SERVICE = {2 * NS_PER_S, 100 * NS_PER_MS};

enum {
    RHO_PERCENT = 1,
    RECORD_REQUEST_PART = 8, /* R of a record is this part of its ttl */
    RECORD_SLICE_MS = 25,
    GRACE_PART = 10,
    GRACE_MAX_MS = 1000,
    RENEW_PART = 3,
    TRY_PART = 5,
    TRY_MAX_MS = 3000,
    RETRY_PART = 4, /* of what is left to the soft stop */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static bool ttl_fits(int64_t ttl, char why[LEASE_FAULT_MAX]) {
    bool service = ttl >= LEASE_SERVICE_MIN && ttl <= LEASE_SERVICE_MAX && ttl % NS_PER_S == 0;
    bool record = ttl >= LEASE_RECORD_MIN && ttl < LEASE_SERVICE_MIN;
    if (!service && !record) {
        snprintf(
            why, LEASE_FAULT_MAX,
            "a ttl of %.10g s is not possible: 15 to 60 whole seconds are the store's own lease, "
            "0.5 to below 15 s a record kept by conditional writes",
            seconds_from_ns(ttl));
    }
    return service || record;
}

/* A renewal and one attempt of it must be over before the holder stops, or it stops without a fault. */
static bool renewals_fit(const struct lease_timing *t, char why[LEASE_FAULT_MAX]) {
    int64_t soft = lease_soft(t, 0);
    if (t->renew > 0 && t->try >= LEASE_TRY_MIN && t->renew + t->try <= soft) {
        return true;
    }
    snprintf(why, LEASE_FAULT_MAX,
             "a renewal each %.4g s with %.4g s for an attempt does not fit into a ttl of %.4g s: "
             "the holder must "
             "stop %.4g - %.4g (clock rates) - %.4g (a request's life) - %.4g (slice) - %.4g "
             "(grace) = %.4g s after "
             "its last renewal was sent, and %.4g + %.4g = %.4g",
             seconds_from_ns(t->renew), seconds_from_ns(t->try), seconds_from_ns(t->ttl),
             seconds_from_ns(t->ttl), seconds_from_ns(t->drift), seconds_from_ns(t->request),
             seconds_from_ns(t->slice), seconds_from_ns(t->grace), seconds_from_ns(soft),
             seconds_from_ns(t->renew), seconds_from_ns(t->try),
             seconds_from_ns(t->renew + t->try));
    if (t->renew <= 0 || t->try < LEASE_TRY_MIN) {
        snprintf(why, LEASE_FAULT_MAX,
                 "a renewal each %.4g s with %.4g s for an attempt is not possible: an interval is "
                 "above 0, and an "
                 "attempt needs %.4g s at least",
                 seconds_from_ns(t->renew), seconds_from_ns(t->try),
                 seconds_from_ns(LEASE_TRY_MIN));
    }
    return false;
}

bool lease_timing_make(struct lease_timing *t, const struct lease_settings *settings,
                       char why[LEASE_FAULT_MAX]) {
    int64_t ttl = settings->ttl;
    if (!ttl_fits(ttl, why)) {
        return false;
    }
    bool record = ttl < LEASE_SERVICE_MIN;
    *t = (struct lease_timing) {
        .ttl = ttl, .drift = ttl / 100 * RHO_PERCENT,
        .request = record ? ttl / RECORD_REQUEST_PART : SERVICE.request,
        .slice = record ? RECORD_SLICE_MS * NS_PER_MS : SERVICE.slice,
        .grace = least(GRACE_MAX_MS * NS_PER_MS, ttl / GRACE_PART),
        .renew = settings->renew ? settings->renew : ttl / RENEW_PART,
        .try = settings->try ? settings->try : least(TRY_MAX_MS * NS_PER_MS, ttl / TRY_PART),
    };
    return renewals_fit(t, why);
}

bool lease_is_record(const struct lease_timing *t) {
    return t->ttl < LEASE_SERVICE_MIN;
}

int64_t lease_hard(const struct lease_timing *t, int64_t sent) {
    return sent + t->ttl - t->drift - t->request - t->slice;
}

int64_t lease_soft(const struct lease_timing *t, int64_t sent) {
    return lease_hard(t, sent) - t->grace;
}

int64_t lease_renew_at(const struct lease_timing *t, int64_t sent) {
    return sent + t->renew;
}

int64_t lease_retry_at(int64_t soft, int64_t now) {
    return now + most((soft - now) / RETRY_PART, LEASE_RETRY_MIN);
}

int64_t lease_try(const struct lease_timing *t, int64_t soft, int64_t now) {
    return most(least(t->try, (soft - now) / 2), LEASE_TRY_MIN);
}
