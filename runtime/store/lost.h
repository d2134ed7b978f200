/* lost.h -- what a lost answer means, call by call.
 *
 * An answer is lost when the request may have reached the store and no word came back on which one can
 * rely: a time-out, a broken connection, an answer that cannot be read, a 5xx. The write may have
 * happened. What follows depends on the call alone:
 *
 *   call                            repeated?  and when the repetition is refused
 *   ------------------------------  ---------  ------------------------------------------------------
 *   reads, lists                    yes        the refusal stands
 *   unconditional put, metadata     yes        the refusal stands: repeating changes nothing
 *   create of a container,          yes        any 409 or 412 is looked into: when the nonce stored
 *   put, metadata or copy under                there is this call's own, the call has succeeded, and its
 *   a condition                                props are those now found; else the refusal stands
 *   block of an upload              yes        the refusal stands: repeating changes nothing
 *   commit of an upload             yes        as a put under a condition; InvalidBlockList too is looked
 *                                              into
 *   delete                          yes        404 (and ContainerBeingDeleted): it is done. ConditionNotMet,
 *                                              which an ETag of what is gone gives too, is looked into:
 *                                              not there is done. Else the refusal stands
 *   append at a position            yes        AppendPositionConditionNotMet, ConditionNotMet: the bytes
 *                                              there are read back and compared; equal is success, else
 *                                              the refusal stands
 *   append anywhere                 never      AnswerLost: it would be there twice
 *   create of a queue               yes        the refusal stands: equal metadata is no refusal
 *   queue: clear                    yes        the refusal stands: what came in between is cleared too
 *   message: put                    yes        the refusal stands. It may then be there twice
 *   message: put once               never      AnswerLost
 *   messages: get                   yes        the refusal stands. What the lost answer had taken is
 *                                              visible again when its time is over
 *   message: update                 yes        PopReceiptMismatch, 404: the receipt was replaced, by this
 *                                              call or by another: AnswerLost, nobody can tell
 *   message: delete                 yes        404: it is done. PopReceiptMismatch stands: it is there, and
 *                                              another has it
 *   create of a table               yes        the refusal stands: it says that the table is there
 *   entity: insert; replace and     yes        any 409 or 412 is looked into: when the nonce stored
 *   merge under an ETag                        there is this call's own, the call has succeeded; else
 *                                              the refusal stands
 *   entity: upserts; replace and    yes        the refusal stands: repeating changes nothing
 *   merge of any version
 *   lease: acquire, renew, change   yes        the refusal stands: whose own id is there is answered well
 *   lease: release, break           yes        not present, another's id, 404: it is done; else stands
 *   batch                           yes        looked into like an insert, at the first entity that it
 *                                              writes: a batch happens as a whole. Of deletes alone, more
 *                                              than one: 404 is AnswerLost
 *   any other write                 never      AnswerLost
 *
 * A look that is refused itself, as by a SAS that permits writing alone, tells nothing: AnswerLost. A refusal that stands
 * without a look says in its message that the attempt before may have happened.
 *
 * The nonce is 16 random bytes in hex, one a call, in the metadata as `synod_nonce`, or a property of that
 * name. An entity's content alone would not do: two that insert, or that count up from the same version, may
 * well write the same. One that has no room for the property is not repeated: AnswerLost. Who reads through
 * the client never sees it, and an unconditional write drops one that was copied from elsewhere.
 */
#ifndef SYNOD_STORE_LOST_H
#define SYNOD_STORE_LOST_H

#include "base/random.h"
#include "store/request.h"

#define NONCE_NAME "synod_nonce"

enum lost_rule {
    LOST_REPEAT,    /* repeating is harmless */
    LOST_NONCE,     /* repeat; a refusal is settled by whose nonce is there */
    LOST_DELETE,    /* repeat; gone is done */
    LOST_RELEASE,   /* repeat; no longer leased, or not under this id, is done */
    LOST_READ_BACK, /* repeat; a refused position is settled by reading the bytes back */
    LOST_DOUBT,     /* repeat; that it is gone, or has another receipt, may be our own doing or not:
                       AnswerLost */
    LOST_NEVER,     /* not repeated once it may have been sent */
};

enum lost_verdict {
    LOST_STANDS,  /* the refusal is the call's answer */
    LOST_DONE,    /* it shows that the lost attempt had succeeded */
    LOST_UNKNOWN, /* nobody can tell: AnswerLost */
    LOST_LOOK,    /* look first: lost_look, lost_is_own */
};

enum lost_rule lost_rule_of(const struct store_request *req);
/* Was this error the loss of an answer? `sent`: see struct attempt. */
bool lost_answer(const struct error *e, bool sent);
/* A repetition was refused with `e` after a lost answer. */
enum lost_verdict lost_judge(enum lost_rule rule, enum store_verb verb, const struct error *e);
/* The request that looks: filled in from `req`, whose strings it borrows. */
void lost_look(const struct store_request *req, struct store_request *look);
/* Has the look told anything? Else nobody can tell: AnswerLost. `found`: its outcome. */
bool lost_look_tells(const struct store_request *req, const struct error *found);
/* Is what the look found, a refusal too, the doing of this call? */
bool lost_is_own(const struct store_request *req, const char *nonce,
                 const struct store_reply *found);

void nonce_draw(struct random *r, char nonce[NONCE_TEXT]);
/* Takes any nonce out of the request's metadata and puts this one there (NULL: none). False: no memory. */
bool nonce_stamp(struct store_request *req, struct arena *arena, const char *nonce);

/* The same for what writes entities: the request's entity, or one of its batch, becomes a copy with the nonce.
 * The rule is then LOST_NEVER when there is no room for it. False: no memory. */
bool nonce_stamp_entity(struct store_request *req, struct arena *arena, const char *nonce,
                        enum lost_rule *rule);
/* A merge was refused because the entity there would become too large: it may be the nonce that was too much.
 * True: the request is now without one, and its rule LOST_NEVER. */
bool nonce_withdraw(struct store_request *req, struct arena *arena, const struct error *refusal);
/* Of a batch that was settled by a look: its results, of which only the one looked at has an ETag. */
bool lost_batch_results(const struct store_request *req, struct store_reply *reply);

#endif
