#include "store/request.h"

#include <string.h>

#define VERB_ENTRY(name, word, phrase, writes) {word, phrase, writes},
static const struct {
    const char *word, *phrase;
    bool writes;
} VERBS[VERB_COUNT] = {STORE_VERB_LIST(VERB_ENTRY)};
#undef VERB_ENTRY

const char *verb_word(enum store_verb verb) {
    return VERBS[verb].word;
}

const char *verb_phrase(enum store_verb verb) {
    return VERBS[verb].phrase;
}

bool verb_writes(enum store_verb verb) {
    return VERBS[verb].writes;
}

const char *request_phrase(const struct store_request *req) {
    static const char *const OF_BLOB[] = {
        "acquire the lease of the blob", "renew the lease of the blob",
        "change the lease of the blob",  "release the lease of the blob",
        "break the lease of the blob",
    };
    static const char *const OF_CONTAINER[] = {
        "acquire the lease of the container", "renew the lease of the container",
        "change the lease of the container",  "release the lease of the container",
        "break the lease of the container",
    };
    return req->verb == VERB_BLOB_LEASE        ? OF_BLOB[req->action]
           : req->verb == VERB_CONTAINER_LEASE ? OF_CONTAINER[req->action]
                                               : verb_phrase(req->verb);
}

void request_init(struct store_request *req, enum store_verb verb) {
    memset(req, 0, sizeof *req);
    req->verb = verb;
    req->when.if_modified_since = UNSET;
    req->when.if_unmodified_since = UNSET;
    req->position = UNSET;
    req->range_start = UNSET;
    req->range_end = UNSET;
    req->max_results = UNSET;
    req->lease_seconds = UNSET;
    req->visibility_s = UNSET;
    req->ttl_s = UNSET;
    req->count = UNSET;
    req->deadline = NEVER;
    req->try_ns = NEVER;
}

static void reply_forget(struct store_reply *reply) {
    error_clear(&reply->err);
    reply->items = NULL;
    reply->messages = NULL;
    reply->entities = NULL;
    reply->etags = NULL;
    reply->failed_operation = 0;
    reply->next_marker = NULL;
    reply->lease_id[0] = '\0';
    reply->lease_time = UNSET;
    reply->count = UNSET;
    reply->retry_after = UNSET;
    reply->server_date = UNSET;
    reply->last_item = &reply->items;
    reply->last_message = &reply->messages;
}

void reply_init(struct store_reply *reply) {
    props_init(&reply->props);
    buf_init(&reply->body, BODY_MAX);
    arena_init(&reply->arena);
    reply_forget(reply);
}

static void items_release(struct store_reply *reply) {
    for (struct store_item *item = reply->items; item; item = item->next) {
        props_release(&item->props);
    }
    arena_release(&reply->arena);
}

void reply_clear(struct store_reply *reply) {
    items_release(reply);
    props_release(&reply->props);
    props_init(&reply->props);
    buf_clear(&reply->body);
    reply_forget(reply);
}

void reply_release(struct store_reply *reply) {
    items_release(reply);
    props_release(&reply->props);
    buf_release(&reply->body);
    reply_forget(reply);
}

void reply_move(struct store_reply *to, struct store_reply *from) {
    reply_release(to);
    *to = *from;
    if (!to->items) {
        to->last_item = &to->items;
    }
    if (!to->messages) {
        to->last_message = &to->messages;
    }
    reply_init(from);
}

struct store_item *reply_add_item(struct store_reply *reply, const char *name, size_t name_len) {
    struct store_item *item = arena_alloc(&reply->arena, sizeof *item);
    char *copy = item ? arena_copy(&reply->arena, name, name_len) : NULL;
    if (!copy) {
        return NULL;
    }
    item->next = NULL;
    item->name = copy;
    props_init(&item->props);
    *reply->last_item = item;
    reply->last_item = &item->next;
    return item;
}

struct store_message *reply_add_message(struct store_reply *reply) {
    struct store_message *m = arena_alloc(&reply->arena, sizeof *m);
    if (m) {
        *m = (struct store_message){.inserted = UNSET, .expires = UNSET, .next_visible = UNSET};
        *reply->last_message = m;
        reply->last_message = &m->next;
    }
    return m;
}
