#include "store/lost.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_conditional(const struct store_conditions *when) {
    return when->if_match || when->if_none_match || when->if_modified_since != UNSET ||
           when->if_unmodified_since != UNSET;
}

enum lost_rule lost_rule_of(const struct store_request *req) {
    switch (req->verb) {
    case VERB_CONTAINER_CREATE:
        return LOST_NONCE;
    case VERB_BLOB_PUT:
    case VERB_BLOB_SET_METADATA:
    case VERB_CONTAINER_SET_METADATA:
        return is_conditional(&req->when) ? LOST_NONCE : LOST_REPEAT;
    case VERB_CONTAINER_DELETE:
    case VERB_BLOB_DELETE:
        return LOST_DELETE;
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

enum lost_verdict lost_judge(enum lost_rule rule, const struct error *e) {
    switch (rule) {
    case LOST_NONCE:
        return e->status == 409 || e->status == 412 ? LOST_LOOK : LOST_STANDS;
    case LOST_DELETE:
        return e->status == 404 || e->code == ERR_CONTAINER_BEING_DELETED ? LOST_DONE : LOST_STANDS;
    case LOST_READ_BACK:
        return e->code == ERR_APPEND_POSITION_CONDITION_NOT_MET || e->code == ERR_CONDITION_NOT_MET
                   ? LOST_LOOK
                   : LOST_STANDS;
    case LOST_REPEAT:
    case LOST_NEVER:
        break;
    }
    return LOST_STANDS;
}

void lost_look(const struct store_request *req, struct store_request *look) {
    bool container = req->verb == VERB_CONTAINER_CREATE || req->verb == VERB_CONTAINER_SET_METADATA;
    request_init(look, container                       ? VERB_CONTAINER_HEAD
                       : req->verb == VERB_BLOB_APPEND ? VERB_BLOB_GET
                                                       : VERB_BLOB_HEAD);
    look->container = req->container;
    look->name = req->name;
    look->deadline = req->deadline;
    look->try_ns = req->try_ns;
    look->retries = req->retries;
    if (req->verb == VERB_BLOB_APPEND) {
        look->range_start = req->position;
        look->range_end = req->position + (int64_t)req->body_len - 1;
    }
}

bool lost_is_own(const struct store_request *req, const char *nonce,
                 const struct store_reply *found) {
    if (req->verb == VERB_BLOB_APPEND) {
        return found->body.len == req->body_len &&
               memcmp(buf_str(&found->body), req->body, req->body_len) == 0;
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
