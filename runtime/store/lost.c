#include "store/lost.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "store/entity.h"

static bool is_conditional(const struct store_conditions *when) {
    return when->if_match || when->if_none_match || when->if_modified_since != UNSET ||
           when->if_unmodified_since != UNSET;
}

/* --- entities --- */

static bool names_version(const char *if_match) {
    return if_match && strcmp(if_match, "*") != 0;
}

/* Would a repetition be refused, or change more than the first did? */
static bool is_repeatable(enum store_verb verb, const char *if_match) {
    switch (verb) {
    case VERB_ENTITY_REPLACE:
    case VERB_ENTITY_MERGE:
        return !names_version(if_match);
    case VERB_ENTITY_UPSERT:
    case VERB_ENTITY_UPSERT_MERGE:
        return true;
    default:
        return false;
    }
}

static enum lost_rule rule_of_batch(const struct store_request *req) {
    bool repeatable = true, writes = false;
    for (const struct batch_operation *op = req->batch; op; op = op->next) {
        repeatable = repeatable && is_repeatable(op->verb, op->if_match);
        writes = writes || op->verb != VERB_ENTITY_DELETE;
    }
    return repeatable             ? LOST_REPEAT
           : writes               ? LOST_NONCE
           : req->batch_count > 1 ? LOST_DOUBT
                                  : LOST_DELETE;
}

enum lost_rule lost_rule_of(const struct store_request *req) {
    switch (req->verb) {
    case VERB_CONTAINER_CREATE:
        return LOST_NONCE;
    case VERB_BLOB_STAGE:
        return LOST_REPEAT;
    case VERB_BLOB_COMMIT: /* a repetition may find its blocks replaced by another writer's */
        return LOST_NONCE;
    case VERB_BLOB_COPY:
    case VERB_BLOB_PUT:
    case VERB_BLOB_SET_METADATA:
    case VERB_CONTAINER_SET_METADATA:
        return is_conditional(&req->when) ? LOST_NONCE : LOST_REPEAT;
    case VERB_CONTAINER_DELETE:
    case VERB_BLOB_DELETE:
        return LOST_DELETE;
    case VERB_CONTAINER_LEASE:
    case VERB_BLOB_LEASE:
        return req->action == LEASE_RELEASE || req->action == LEASE_BREAK ? LOST_RELEASE
                                                                          : LOST_REPEAT;
    case VERB_TABLE_DELETE:
    case VERB_ENTITY_DELETE:
        return LOST_DELETE;
    case VERB_TABLE_CREATE:
        return LOST_REPEAT;
    case VERB_QUEUE_CREATE: /* equal metadata is success, as it is the first time */
    case VERB_QUEUE_CLEAR:
    case VERB_MESSAGE_GET:
        return LOST_REPEAT;
    case VERB_MESSAGE_PUT:
        return req->once ? LOST_NEVER : LOST_REPEAT;
    case VERB_QUEUE_DELETE:
    case VERB_MESSAGE_DELETE:
        return LOST_DELETE;
    case VERB_MESSAGE_UPDATE:
        return LOST_DOUBT;
    case VERB_ENTITY_INSERT:
    case VERB_ENTITY_REPLACE:
    case VERB_ENTITY_MERGE:
    case VERB_ENTITY_UPSERT:
    case VERB_ENTITY_UPSERT_MERGE:
        return is_repeatable(req->verb, req->when.if_match) ? LOST_REPEAT : LOST_NONCE;
    case VERB_ENTITY_BATCH:
        return rule_of_batch(req);
    case VERB_BLOB_APPEND:
        return req->position == UNSET ? LOST_NEVER : LOST_READ_BACK;
    default:
        return verb_writes(req->verb) ? LOST_NEVER : LOST_REPEAT;
    }
}

bool lost_answer(const struct error *e, bool sent) {
    return sent && (e->code == ERR_TIMEOUT || e->code == ERR_UNREACHABLE ||
                    e->code == ERR_BAD_ANSWER || e->status >= 500);
}

/* An ETag of what is gone is such a condition too; tables and queues have other words for theirs. */
static bool delete_wants_look(enum store_verb verb, const struct error *e) {
    return e->code == ERR_CONDITION_NOT_MET &&
           (verb == VERB_BLOB_DELETE || verb == VERB_CONTAINER_DELETE);
}

enum lost_verdict lost_judge(enum lost_rule rule, enum store_verb verb, const struct error *e) {
    switch (rule) {
    case LOST_NONCE:
        return e->status == 409 || e->status == 412 || e->code == ERR_RESOURCE_NOT_FOUND ||
                       e->code == ERR_INVALID_BLOCK_LIST
                   ? LOST_LOOK
                   : LOST_STANDS;
    case LOST_DELETE:
        return e->status == 404 || e->code == ERR_CONTAINER_BEING_DELETED ||
                       e->code == ERR_TABLE_BEING_DELETED || e->code == ERR_QUEUE_BEING_DELETED
                   ? LOST_DONE
               : delete_wants_look(verb, e) ? LOST_LOOK
                                            : LOST_STANDS;
    case LOST_RELEASE:
        return e->status == 404 || e->code == ERR_LEASE_NOT_PRESENT_WITH_LEASE_OPERATION ||
                       e->code == ERR_LEASE_ID_MISMATCH_WITH_LEASE_OPERATION
                   ? LOST_DONE
                   : LOST_STANDS;
    case LOST_READ_BACK:
        return e->code == ERR_APPEND_POSITION_CONDITION_NOT_MET || e->code == ERR_CONDITION_NOT_MET
                   ? LOST_LOOK
                   : LOST_STANDS;
    case LOST_DOUBT:
        return e->code == ERR_POP_RECEIPT_MISMATCH ||
                       (e->status == 404 && e->code != ERR_QUEUE_NOT_FOUND)
                   ? LOST_UNKNOWN
                   : LOST_STANDS;
    case LOST_REPEAT:
    case LOST_NEVER:
        break;
    }
    return LOST_STANDS;
}

/* The entity that carries the nonce; NULL: none does. `place` is its place in a batch. */
static const struct entity *stamped_entity(const struct store_request *req, int *place) {
    *place = 0;
    for (const struct batch_operation *op = req->batch; op; op = op->next, ++*place) {
        if (entity_get(op->entity, NONCE_NAME)) {
            return op->entity;
        }
    }
    return req->entity && entity_get(req->entity, NONCE_NAME) ? req->entity : NULL;
}

static void look_at_entity(const struct store_request *req, struct store_request *look) {
    int place;
    const struct entity *e = stamped_entity(req, &place);
    look->verb = VERB_ENTITY_GET;
    look->partition = e->partition;
    look->row = e->row;
    look->select = NONCE_NAME;
}

void lost_look(const struct store_request *req, struct store_request *look) {
    bool container = req->verb == VERB_CONTAINER_CREATE || req->verb == VERB_CONTAINER_DELETE ||
                     req->verb == VERB_CONTAINER_SET_METADATA;
    request_init(look, container                       ? VERB_CONTAINER_HEAD
                       : req->verb == VERB_BLOB_APPEND ? VERB_BLOB_GET
                                                       : VERB_BLOB_HEAD);
    look->container = req->container;
    look->name = req->name;
    look->deadline = req->deadline;
    look->try_ns = req->try_ns;
    look->retries = req->retries;
    if (req->verb >= VERB_ENTITY_INSERT) {
        look_at_entity(req, look);
    }
    if (req->verb == VERB_BLOB_APPEND) {
        look->range_start = req->position;
        look->range_end = req->position + (int64_t)req->body_len - 1;
    }
}

/* Who makes a container asks only whether it is there, which the refusal has said. */
bool lost_look_tells(const struct store_request *req, const struct error *found) {
    return found->code == ERR_OK || found->status == 404 || found->code == ERR_INVALID_RANGE ||
           req->verb == VERB_CONTAINER_CREATE;
}

bool lost_is_own(const struct store_request *req, const char *nonce,
                 const struct store_reply *found) {
    if (req->verb == VERB_BLOB_DELETE || req->verb == VERB_CONTAINER_DELETE) {
        return found->err.status == 404;
    }
    if (found->err.code != ERR_OK) {
        return false;
    }
    if (req->verb == VERB_BLOB_APPEND) {
        return found->body.len == req->body_len &&
               memcmp(buf_str(&found->body), req->body, req->body_len) == 0;
    }
    if (req->verb >= VERB_ENTITY_INSERT) {
        const struct edm_value *own = entity_get(found->entities, NONCE_NAME);
        return own && own->type == EDM_STRING && strcmp(own->text, nonce) == 0;
    }
    const char *there = pairs_get(&found->props.metadata, NONCE_NAME);
    return there && strcmp(there, nonce) == 0;
}

void nonce_draw(struct random *r, char nonce[NONCE_TEXT]) {
    unsigned char bytes[NONCE_BYTES];
    random_fill(r, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
    }
}

static bool has_nonce(const char *text, const char *end) {
    while (text < end) {
        if (strcasecmp(text, NONCE_NAME) == 0) {
            return true;
        }
        text = pairs_value(text);
        text += strlen(text) + 1;
    }
    return false;
}

/* Copies all pairs but the nonces; returns the end of the copy. */
static char *copy_without_nonce(char *out, const char *text, const char *end) {
    while (text < end) {
        const char *value = pairs_value(text);
        size_t n = (size_t)(value - text) + strlen(value) + 1;
        if (strcasecmp(text, NONCE_NAME) != 0) {
            memcpy(out, text, n);
            out += n;
        }
        text += n;
    }
    return out;
}

bool nonce_stamp(struct store_request *req, struct arena *arena, const char *nonce) {
    const char *end = req->metadata_len ? req->metadata + req->metadata_len : req->metadata;
    if (!nonce && !has_nonce(req->metadata, end)) {
        return true;
    }
    char *text = arena_alloc(arena, req->metadata_len + sizeof NONCE_NAME + NONCE_TEXT);
    if (!text) {
        return false;
    }
    char *out = copy_without_nonce(text, req->metadata, end);
    if (nonce) {
        memcpy(out, NONCE_NAME, sizeof NONCE_NAME);
        memcpy(out + sizeof NONCE_NAME, nonce, NONCE_TEXT);
        out += sizeof NONCE_NAME + NONCE_TEXT;
    }
    req->metadata = text;
    req->metadata_len = (size_t)(out - text);
    return true;
}

/* What the nonce adds to an entity's size: see entity_size. */
enum { NONCE_BYTES_IN_ENTITY = 8 + 2 * (sizeof NONCE_NAME - 1) + 2 * (NONCE_TEXT - 1) + 4 };

static bool has_room(const struct entity *e) {
    return e->count < ENTITY_PROPERTIES_MAX &&
           entity_size(e) + NONCE_BYTES_IN_ENTITY <= ENTITY_BYTES_MAX;
}

/* The nonce comes first; the other properties are shared with the original. */
static const struct entity *with_nonce(const struct entity *e, struct arena *arena,
                                       const char *nonce) {
    struct entity *copy = arena_alloc(arena, sizeof *copy);
    struct property *own = arena_alloc(arena, sizeof *own);
    char *text = arena_strdup(arena, nonce);
    if (!copy || !own || !text) {
        return NULL;
    }
    *own = (struct property){
        .next = e->properties,
        .name = NONCE_NAME,
        .value = {.type = EDM_STRING, .text = text, .len = NONCE_TEXT - 1},
    };
    *copy = *e;
    copy->properties = own;
    copy->last = own->next ? e->last : &own->next;
    copy->count++;
    return copy;
}

bool nonce_stamp_entity(struct store_request *req, struct arena *arena, const char *nonce,
                        enum lost_rule *rule) {
    const struct entity **where = req->entity && has_room(req->entity) ? &req->entity : NULL;
    for (struct batch_operation *op = req->batch; op && !where; op = op->next) {
        where = op->verb != VERB_ENTITY_DELETE && has_room(op->entity) ? &op->entity : NULL;
    }
    if (!where) {
        *rule = LOST_NEVER;
        return true;
    }
    *where = with_nonce(*where, arena, nonce);
    return *where != NULL;
}

static bool is_too_large(const struct error *e) {
    const char *word = error_word(e);
    return strcmp(word, "TooManyProperties") == 0 || strcmp(word, "EntityTooLarge") == 0;
}

static const struct entity **stamped_merge(struct store_request *req) {
    if (req->verb == VERB_ENTITY_MERGE) {
        return &req->entity;
    }
    for (struct batch_operation *op = req->batch; op; op = op->next) {
        bool merges = op->verb == VERB_ENTITY_MERGE || op->verb == VERB_ENTITY_UPSERT_MERGE;
        if (merges && entity_get(op->entity, NONCE_NAME)) {
            return &op->entity;
        }
    }
    return NULL;
}

bool nonce_withdraw(struct store_request *req, struct arena *arena, const struct error *refusal) {
    const struct entity **where = is_too_large(refusal) ? stamped_merge(req) : NULL;
    struct entity *copy = where ? arena_alloc(arena, sizeof *copy) : NULL;
    if (!copy) {
        return false;
    }
    *copy = **where;
    copy->properties = copy->properties->next; /* the nonce stands first: with_nonce */
    copy->count--;
    *where = copy;
    return true;
}

bool lost_batch_results(const struct store_request *req, struct store_reply *reply) {
    int place;
    size_t count = (size_t)req->batch_count;
    reply->etags = arena_alloc(&reply->arena, count * sizeof *reply->etags);
    if (!reply->etags) {
        return false;
    }
    memset(reply->etags, 0, count * sizeof *reply->etags);
    stamped_entity(req, &place);
    reply->etags[place] = arena_strdup(&reply->arena, reply->props.etag);
    return reply->etags[place] != NULL;
}
