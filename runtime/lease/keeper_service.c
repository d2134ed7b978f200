/* keeper_service.c -- the service's own lease: taken, renewed, handed over and released by lease calls; the fence
 * is raised by a conditional write under the lease. */
#include "lease/keeper_kind.h"

static struct store_call *complete(struct store_call *call, bool complete) {
    if (complete) {
        return call;
    }
    store_call_free(call);
    return NULL;
}

/* `proposed`: of an acquire or change; else NULL. */
static struct store_call *lease_call(struct keeper *k, enum lease_action action,
                                     const char *proposed) {
    bool blob = k->options.name != NULL;
    struct store_call *call = keeper_call(k, blob ? VERB_BLOB_LEASE : VERB_CONTAINER_LEASE);
    if (!call) {
        return NULL;
    }
    struct store_request *req = &call->req;
    const char *held = action == LEASE_ACQUIRE ? NULL : k->id;
    req->action = action;
    if (action == LEASE_ACQUIRE) {
        req->lease_seconds = k->options.timing.ttl / NS_PER_S;
    }
    return complete(call, keeper_copy(call, &req->when.lease, held) &&
                              keeper_copy(call, &req->proposed_id, proposed));
}

/* k->fence was made when the look was judged. */
static struct store_call *fence_call(struct keeper *k) {
    struct store_call *call = keeper_call(k, VERB_BLOB_SET_METADATA);
    struct mark mark;
    if (!call) {
        return NULL;
    }
    keeper_own_mark(k, &mark, k->fence);
    return complete(call, keeper_copy(call, &call->req.when.lease, k->id) &&
                              keeper_copy(call, &call->req.when.if_match, k->sight.etag) &&
                              keeper_put_mark(k, call, &mark));
}

static struct store_call *service_ask(struct keeper *k, enum keeper_step step) {
    switch (step) {
    case KEEPER_TAKE:
        return lease_call(k, LEASE_ACQUIRE, k->id);
    case KEEPER_FENCE:
        return fence_call(k);
    case KEEPER_RENEW:
        return lease_call(k, LEASE_RENEW, NULL);
    case KEEPER_RELEASE:
        return lease_call(k, LEASE_RELEASE, NULL);
    case KEEPER_CHANGE:
        return lease_call(k, LEASE_CHANGE, k->next_id);
    default:
        return keeper_ask_look(k, step);
    }
}

/* Only what the store says of the lease ends it: any other refusal may pass before the soft stop does. */
static enum keeper_verdict judge_renewal(enum keeper_verdict plain) {
    switch (plain) {
    case KEEPER_LOOK_AGAIN:
        return KEEPER_OTHERS;
    case KEEPER_REFUSED:
        return KEEPER_AGAIN;
    default:
        return plain;
    }
}

/* The client has repeated and settled what it could. */
static enum keeper_verdict judge_settled(enum keeper_verdict plain) {
    return plain == KEEPER_DOUBT ? KEEPER_REFUSED : plain;
}

static enum keeper_verdict service_judge(struct keeper *k, enum keeper_step step,
                                         struct store_call *call) {
    enum keeper_verdict plain = keeper_plain_verdict(call);
    switch (step) {
    case KEEPER_TAKE:
        return plain;
    case KEEPER_RENEW:
        return judge_renewal(plain);
    case KEEPER_FENCE:
    case KEEPER_RELEASE:
    case KEEPER_CHANGE:
        return judge_settled(plain);
    default:
        return keeper_judge_look(k, step, call);
    }
}

const struct keeper_kind KEEPER_SERVICE = {
    .fences = true,
    .ask = service_ask,
    .judge = service_judge,
};
