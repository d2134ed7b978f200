/* keeper_kind.h -- what the two kinds of lease share with their machine (keeper.c), and nobody else's business.
 *
 * The machine decides when: it makes one store call after the other, each an attempt with its own first-send
 * instant and no retries hidden below, and never more than one at a time. A kind decides what: `ask` makes the call
 * of a step, `judge` says what its answer means. Neither starts calls, sets alarms or touches the deadlines.
 *
 *   LOOK -> (MAKE_CONTAINER, MAKE_BLOB ->) TAKE -> (FENCE ->) held;  RENEW ...;  RELEASE or CHANGE
 *
 * A kind that raises the fence within TAKE answers TAKE with KEEPER_DONE and k->fence set; for it the machine
 * skips FENCE (`fences` is false). LOOK and the two MAKE steps are the same for both: keeper_look.c.
 *
 * An attempt's own first-send instant is k->sent while it is judged. Where the answer shows that an earlier attempt
 * has succeeded (its nonce is found), `judge` sets k->sent to the instant of that one: the deadline counts from
 * there. `k->doubt` is true while an earlier attempt of the same step may still have happened; `ask` may then make a
 * call that only reads.
 */
#ifndef SYNOD_LEASE_KEEPER_KIND_H
#define SYNOD_LEASE_KEEPER_KIND_H

#include "base/pairs.h"
#include "lease/keeper.h"
#include "store/lease_rules.h"
#include "world/world.h"

enum keeper_step {
    KEEPER_LOOK,           /* head: what is there */
    KEEPER_MAKE_CONTAINER, /* create-only; there already is well */
    KEEPER_MAKE_BLOB,      /* the same; done: the answer is taken as a look at it */
    KEEPER_TAKE,
    KEEPER_FENCE,
    KEEPER_RENEW,
    KEEPER_RELEASE,
    KEEPER_CHANGE,
};

enum keeper_verdict {
    KEEPER_DONE,         /* confirmed. Of a look: it looks free */
    KEEPER_DOUBT,        /* it may have happened or not: try again */
    KEEPER_AGAIN,        /* it has not happened, and may next time: try again */
    KEEPER_NEXT,         /* the step goes on at once, with another call */
    KEEPER_LOOK_AGAIN,   /* it has not happened, since what was seen is no longer so */
    KEEPER_OTHERS,       /* another holds it: k->mark, k->again */
    KEEPER_NO_CONTAINER, /* of a look or MAKE_BLOB */
    KEEPER_NO_BLOB,      /* of a look */
    KEEPER_REFUSED,      /* for good: the call's error, or k->why when that is set */
};

struct keeper_kind {
    bool
        fences; /* has a FENCE step of its own when options.fence is set; else TAKE raises it, always */
    /* A call that was not started, its timeout and retries left alone; NULL: no memory. */
    struct store_call *(*ask)(struct keeper *k, enum keeper_step step);
    enum keeper_verdict (*judge)(struct keeper *k, enum keeper_step step, struct store_call *call);
};

extern const struct keeper_kind KEEPER_SERVICE,
    KEEPER_RECORD; /* keeper_service.c, keeper_record.c */

/* What was last seen of the blob, and since when it has been just so. */
struct keeper_sight {
    char etag[80]; /* "": nothing is known */
    int64_t since; /* boot-time ns: the answer of the first look that found this ETag had come */
    int64_t date;  /* the store's Date with the last answer (ns since 1970); UNSET: not told */
    struct pairs metadata;
    bool leased; /* a service lease is on it */
};

struct keeper {
    /* what it is */
    struct store *store;
    struct world *world;
    const struct keeper_kind *kind;
    struct keeper_options options; /* strings in `arena` */
    struct arena arena;
    struct random random;

    /* what it saw: kept from try to try, and by successors */
    struct keeper_sight sight;
    struct mark mark;   /* of sight.metadata */
    int64_t fence_seen; /* the highest fence seen so far */
    int64_t again;      /* see keeper_again */

    /* the series, or the lease */
    enum keeper_state state;
    char id[LEASE_ID_TEXT];
    char next_id[LEASE_ID_TEXT]; /* CHANGE: the other's */
    int64_t fence;               /* to be written, or ours; 0: none */
    int64_t soft, hard;
    int64_t renewals, confirmed;
    bool given;        /* the id was: the lease may be there under it already */
    bool taken;        /* TAKE is confirmed; not yet held */
    bool maybe;        /* an attempt to take may have happened */
    bool others;       /* the store has said that the lease is another's: nothing to release */
    bool orphan;       /* nobody owns it: it frees itself when it has given back what it has */
    void *record;      /* the record kind's own; freed with free */
    struct error err;  /* of the last try, release or change */
    struct error lost; /* how it was lost; code OK: it was not */
    struct error last; /* the last answer that was no success */
    struct error
        why; /* set by `judge` when the call's own error does not say it; code OK: it does */

    /* the step under way: the machine's, but `sent` and `doubt` are for `judge` and `ask` */
    enum keeper_step step;
    struct store_call *call; /* NULL: none is under way */
    int64_t sent;            /* the first-send instant of the attempt under way */
    bool doubt;              /* an earlier attempt of this step may have happened */
    int attempts;            /* of this step */
    int turns;               /* of this try, to look again */
    int64_t until;           /* the try, release or change ends */
    int64_t rest;            /* the last back-off */
    int64_t retry_after;     /* ns, as the last answer asked; UNSET */
    struct alarm next;       /* the next attempt: after a back-off, or a renewal */
    struct alarm stop;       /* the soft stop */
    enum keeper_step leave;  /* RELEASE or CHANGE: begins when the renewal under way has ended */
    void (*done)(struct keeper *k);
    void *owner;
    struct keeper_listener *listeners;
};

/* LOOK and the MAKE steps of every kind. `judge` takes what it finds into k->sight and k->mark. */
struct store_call *keeper_ask_look(struct keeper *k, enum keeper_step step);
enum keeper_verdict keeper_judge_look(struct keeper *k, enum keeper_step step,
                                      struct store_call *call);
/* Another holds it. Says who in k->why. */
enum keeper_verdict keeper_others(struct keeper *k);
/* The metadata with our own mark under this fence become the call's. False: no memory. */
bool keeper_put_mark(struct keeper *k, struct store_call *call, const struct mark *mark);
/* The mark of a new holder: who we are, since now, under the fence. */
void keeper_own_mark(struct keeper *k, struct mark *mark, int64_t fence);

/* A call for the keeper's blob or container, urgent; NULL: no memory. */

struct store_call *keeper_call(struct keeper *k, enum store_verb verb);
/* Takes a string, or NULL, into the call's arena. False: no memory. */
bool keeper_copy(struct store_call *call, const char **field, const char *text);
/* What an answer means for a write, whatever it is: DONE; DOUBT when none came on which one can rely; OTHERS when
 * somebody else's lease is there; LOOK_AGAIN when the ETag is another, or the blob has gone; else REFUSED. */
enum keeper_verdict keeper_plain_verdict(const struct store_call *call);
/* Takes the props that a look, create or write brought into k->sight and k->mark; `metadata` NULL: those of the
 * props. */
enum err keeper_take_sight(struct keeper *k, struct store_call *call, const struct pairs *metadata);

/* ---- between keeper.c and keeper_step.c ---- */

void keeper_step_begin(struct keeper *k, enum keeper_step step);
void keeper_next_rang(struct alarm *a);
void keeper_stop_rang(struct alarm *a);
void keeper_lose(struct keeper *k);      /* HELD -> LOST; k->others, k->store and k->last say how */
void keeper_give_back(struct keeper *k); /* of a try: what was taken, or may have been */
void keeper_leave_answered(struct keeper *k, enum keeper_verdict verdict, const struct error *e);
void keeper_tell(struct keeper *k);
void keeper_finish(struct keeper *k, const struct error *e); /* calls `done`: touch nothing after */

#endif
