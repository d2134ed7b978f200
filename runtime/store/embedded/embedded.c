#include "store/embedded/embedded.h"

#include <string.h>

#include "store/embedded/part.h"

typedef void (*handler)(struct answer *a);

static const handler HANDLERS[VERB_COUNT] = {
    [VERB_CONTAINER_CREATE] = answer_container_create,
    [VERB_CONTAINER_DELETE] = answer_container_delete,
    [VERB_CONTAINER_HEAD] = answer_container_head,
    [VERB_CONTAINER_LIST] = answer_container_list,
    [VERB_CONTAINER_SET_METADATA] = answer_container_set_metadata,
    [VERB_CONTAINER_LEASE] = answer_container_lease,
    [VERB_BLOB_PUT] = answer_blob_put,
    [VERB_BLOB_GET] = answer_blob_get,
    [VERB_BLOB_HEAD] = answer_blob_head,
    [VERB_BLOB_DELETE] = answer_blob_delete,
    [VERB_BLOB_SET_METADATA] = answer_blob_set_metadata,
    [VERB_BLOB_APPEND] = answer_blob_append,
    [VERB_BLOB_STAGE] = answer_blob_stage,
    [VERB_BLOB_COMMIT] = answer_blob_commit,
    [VERB_BLOB_COPY] = answer_blob_copy,
    [VERB_BLOB_LIST] = answer_blob_list,
    [VERB_BLOB_LEASE] = answer_blob_lease,
    [VERB_QUEUE_CREATE] = answer_queue_create,
    [VERB_QUEUE_DELETE] = answer_queue_delete,
    [VERB_QUEUE_HEAD] = answer_queue_head,
    [VERB_QUEUE_LIST] = answer_queue_list,
    [VERB_QUEUE_CLEAR] = answer_queue_clear,
    [VERB_MESSAGE_PUT] = answer_message_put,
    [VERB_MESSAGE_GET] = answer_message_get,
    [VERB_MESSAGE_PEEK] = answer_message_peek,
    [VERB_MESSAGE_UPDATE] = answer_message_update,
    [VERB_MESSAGE_DELETE] = answer_message_delete,
    [VERB_TABLE_CREATE] = answer_table_create,
    [VERB_TABLE_DELETE] = answer_table_delete,
    [VERB_TABLE_LIST] = answer_table_list,
    [VERB_ENTITY_INSERT] = answer_entity_write,
    [VERB_ENTITY_REPLACE] = answer_entity_write,
    [VERB_ENTITY_MERGE] = answer_entity_write,
    [VERB_ENTITY_UPSERT] = answer_entity_write,
    [VERB_ENTITY_UPSERT_MERGE] = answer_entity_write,
    [VERB_ENTITY_DELETE] = answer_entity_write,
    [VERB_ENTITY_GET] = answer_entity_get,
    [VERB_ENTITY_QUERY] = answer_entity_query,
    [VERB_ENTITY_BATCH] = answer_entity_batch,
};

void embedded_answer(struct rows *rows, const struct embedded_now *now,
                     const struct store_request *req, struct store_reply *reply) {
    struct answer a = {.rows = rows, .now = now, .req = req, .reply = reply};
    reply->server_date = now->wall;
    handler handle = HANDLERS[req->verb];
    if (!handle) {
        refuse_because(&a, ERR_UNSUPPORTED, "the embedded store cannot do that");
        return;
    }
    if (names_allowed(&a) && metadata_allowed(&a)) {
        handle(&a);
    }
}

bool refuse(struct answer *a, enum err code) {
    error_set(&a->reply->err, code, NULL);
    return false;
}

bool refuse_because(struct answer *a, enum err code, const char *why) {
    error_set(&a->reply->err, code, "%s", why);
    return false;
}

bool refuse_word(struct answer *a, const char *word, int status, const char *why) {
    struct error *e = &a->reply->err;
    error_set(e, ERR_OTHER, "%s", why);
    strncpy(e->word, word, sizeof e->word - 1);
    e->status = status;
    return false;
}

bool refuse_keeper(struct answer *a) {
    a->reply->err = a->rows->err;
    return false;
}

struct row_key container_key(const struct answer *a) {
    return (struct row_key){ROW_CONTAINER, "", a->req->container};
}

struct row_key blob_key(const struct answer *a) {
    return (struct row_key){ROW_BLOB, a->req->container, a->req->name};
}

bool answer_container(struct answer *a, struct row *row) {
    struct row_key key = container_key(a);
    switch (a->rows->ops->get(a->rows, &key, false, row)) {
    case ROWS_FOUND:
        return true;
    case ROWS_ABSENT:
        return refuse(a, ERR_CONTAINER_NOT_FOUND);
    case ROWS_FAILED:
        break;
    }
    return refuse_keeper(a);
}

bool answer_blob(struct answer *a, bool content, struct row *row, bool *found) {
    struct row_key key = blob_key(a);
    switch (a->rows->ops->get(a->rows, &key, content, row)) {
    case ROWS_FOUND:
        *found = true;
        return true;
    case ROWS_ABSENT:
        *found = false;
        return answer_container(a, row); /* a blob that is there has its container */
    case ROWS_FAILED:
        break;
    }
    return refuse_keeper(a);
}

void row_touch(struct answer *a, struct row *row) {
    row->etag = a->rows->ops->next_etag(a->rows);
    row->modified = a->rows->ops->date(a->rows, a->now->wall / NS_PER_S);
}

void row_take_metadata(struct answer *a, struct row *row) {
    row->metadata = a->req->metadata;
    row->metadata_len = a->req->metadata_len;
}

bool row_make(struct answer *a, const struct row_key *key, struct row *row) {
    *row = (struct row){.name = key->name, .lease = {.end = UNSET, .break_end = UNSET}};
    row_take_metadata(a, row);
    row_touch(a, row);
    row->created = row->modified;
    return a->rows->ops->put(a->rows, key, row, true) || refuse_keeper(a);
}

void props_tell_version(struct store_props *props, const struct row *row) {
    etag_text(row->etag, props->etag);
    props->last_modified = row->modified * NS_PER_S;
}

static void props_tell_lease(const struct embedded_now *now, struct store_props *props,
                             const struct row_lease *lease) {
    props->has_lease = true;
    props->lease_state = lease_state_of(lease, now);
    props->locked = props->lease_state == LEASE_LEASED || props->lease_state == LEASE_BREAKING;
    if (props->lease_state == LEASE_LEASED) {
        props->lease_duration = lease->seconds < 0 ? -1 : 1;
    }
}

bool props_tell_all(const struct embedded_now *now, struct store_props *props, enum row_kind kind,
                    const struct row *row, bool metadata) {
    props_tell_version(props, row);
    props_tell_lease(now, props, &row->lease);
    if (kind == ROW_BLOB) {
        props->has_type = true;
        props->type = row->type;
        props->length = row->length;
        const char *type = row->content_type ? row->content_type : "application/octet-stream";
        strncpy(props->content_type, type, sizeof props->content_type - 1);
    }
    props->has_metadata = metadata;
    return !metadata || row->metadata_len == 0 ||
           buf_append(&props->metadata.text, row->metadata, row->metadata_len);
}
