/* queue.c -- queues: made, removed, listed, emptied, counted. */
#include <string.h>

#include "store/embedded/part.h"

int64_t queue_now(struct answer *a) {
    int64_t highest = a->rows->ops->latest(a->rows) * NS_PER_S;
    return a->now->wall > highest ? a->now->wall : highest;
}

static struct row_key queue_key(const struct answer *a) {
    return (struct row_key){ROW_QUEUE, "", a->req->container};
}

bool answer_queue(struct answer *a, struct row *row) {
    struct row_key key = queue_key(a);
    switch (a->rows->ops->get(a->rows, &key, false, row)) {
    case ROWS_FOUND:
        return true;
    case ROWS_ABSENT:
        return refuse(a, ERR_QUEUE_NOT_FOUND);
    case ROWS_FAILED:
        break;
    }
    return refuse_keeper(a);
}

static const char *pair_after(const char *name) {
    const char *value = pairs_value(name);
    return value + strlen(value) + 1;
}

/* Do all pairs of the request stand in the other list, and are they as many? */
static bool same_metadata(const struct store_request *req, const struct pairs *there) {
    int given = 0, found = 0;
    const char *end = req->metadata_len ? req->metadata + req->metadata_len : req->metadata;
    for (const char *name = req->metadata; name < end; name = pair_after(name), given++) {
        const char *value = pairs_get(there, name);
        if (!value || strcmp(value, pairs_value(name)) != 0) {
            return false;
        }
    }
    for (const char *name = pairs_first(there); name; name = pairs_next(there, name)) {
        found++;
    }
    return given == found;
}

/* Making it again with the same metadata is no refusal. */
static void judge_existing(struct answer *a, const struct row *row) {
    struct pairs there;
    pairs_init(&there);
    if (row->metadata_len && !buf_append(&there.text, row->metadata, row->metadata_len)) {
        refuse(a, ERR_NO_MEMORY);
    } else if (!same_metadata(a->req, &there)) {
        refuse(a, ERR_QUEUE_ALREADY_EXISTS);
    }
    pairs_release(&there);
}

void answer_queue_create(struct answer *a) {
    struct row_key key = queue_key(a);
    struct row row;
    switch (a->rows->ops->get(a->rows, &key, false, &row)) {
    case ROWS_FOUND:
        judge_existing(a, &row);
        return;
    case ROWS_FAILED:
        refuse_keeper(a);
        return;
    case ROWS_ABSENT:
        break;
    }
    row_make(a, &key, &row);
}

void answer_queue_delete(struct answer *a) {
    struct row_key key = queue_key(a);
    struct row row;
    if (answer_queue(a, &row) &&
        (!a->rows->ops->remove_below(a->rows, ROW_MESSAGE, a->req->container) ||
         !a->rows->ops->remove(a->rows, &key))) {
        refuse_keeper(a);
    }
}

void answer_queue_clear(struct answer *a) {
    struct row row;
    if (answer_queue(a, &row) &&
        !a->rows->ops->remove_below(a->rows, ROW_MESSAGE, a->req->container)) {
        refuse_keeper(a);
    }
}

void answer_queue_head(struct answer *a) {
    struct row row;
    struct store_props *props = &a->reply->props;
    if (!answer_queue(a, &row)) {
        return;
    }
    props->has_metadata = true;
    if (row.metadata_len && !buf_append(&props->metadata.text, row.metadata, row.metadata_len)) {
        refuse(a, ERR_NO_MEMORY);
        return;
    }
    a->reply->count = a->rows->ops->count_messages(a->rows, a->req->container, queue_now(a));
    if (a->reply->count < 0) {
        refuse_keeper(a);
    }
}

void answer_queue_list(struct answer *a) {
    answer_page(a, ROW_QUEUE, "");
}
