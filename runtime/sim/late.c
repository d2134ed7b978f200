#include "sim/late.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { ANSWER_S = 10 };

struct late {
    struct late *prev, *next, **list;
    struct transport *inner;
    struct attempt attempt;
    struct store_request req;
    struct store_reply reply;
    struct arena arena; /* of the request's strings */
    struct alarm alarm;
};

static bool copy_texts(struct late *l) {
    struct store_request *r = &l->req;
    const char **texts[] = {&r->container,          &r->name,       &r->when.if_match,
                            &r->when.if_none_match, &r->when.lease, &r->content_type,
                            &r->proposed_id,        &r->upload};
    bool ok = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *given = *texts[i];
        *texts[i] = arena_strdup(&l->arena, given);
        ok = ok && (*texts[i] || !given);
    }
    const char *metadata = r->metadata, *body = r->body;
    r->metadata = metadata ? arena_copy(&l->arena, metadata, r->metadata_len) : NULL;
    r->body = body ? arena_copy(&l->arena, body, r->body_len) : NULL;
    return ok && (r->metadata || !metadata) && (r->body || !body);
}

static void late_free(struct late *l) {
    alarm_clear(l->inner->world, &l->alarm);
    *(l->prev ? &l->prev->next : l->list) = l->next;
    if (l->next) {
        l->next->prev = l->prev;
    }
    reply_release(&l->reply);
    arena_release(&l->arena);
    free(l);
}

static void late_done(struct attempt *a) {
    late_free(container_of(a, struct late, attempt));
}

static void late_send(struct alarm *alarm) {
    struct late *l = container_of(alarm, struct late, alarm);
    l->attempt = (struct attempt){
        .req = &l->req,
        .reply = &l->reply,
        .deadline = instant_add(world_now(l->inner->world), ANSWER_S * NS_PER_S),
        .done = late_done,
    };
    l->inner->ops->send(l->inner, &l->attempt);
}

struct late *late_new(struct transport *inner, const struct attempt *a, int64_t at,
                      struct late **list) {
    if (!verb_writes(a->req->verb) || a->req->verb > VERB_BLOB_LEASE ||
        a->req->verb == VERB_BLOB_COPY) {
        return NULL;
    }
    struct late *l = xcalloc(1, sizeof *l);
    *l = (struct late){.inner = inner, .req = *a->req, .list = list, .next = *list};
    if (l->next) {
        l->next->prev = l;
    }
    *list = l;
    l->alarm.ring = late_send;
    arena_init(&l->arena);
    reply_init(&l->reply);
    if (!copy_texts(l)) {
        late_free(l);
        return NULL;
    }
    alarm_set(inner->world, &l->alarm, at);
    return l;
}

void lates_free(struct late **list) {
    for (struct late *l = *list, *next; l; l = next) {
        next = l->next;
        if (alarm_is_set(&l->alarm)) {
            late_free(l);
        }
    }
}
