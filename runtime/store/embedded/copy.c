/* copy.c -- one blob becomes another's content, type and, when none is given, metadata.
 *
 * All of it in one transaction, piece by piece: no more than one block lies in memory. */
#include <stdio.h>
#include <string.h>

#include "store/embedded/part.h"

/* What is kept of the blob that is replaced while others are read. */
struct before {
    struct row row;
    bool found;
};

static const char *keep(struct answer *a, const char *text) {
    return text ? arena_strdup(&a->reply->arena, text) : NULL;
}

static bool look_at_target(struct answer *a, struct before *before) {
    struct row *row = &before->row;
    if (!answer_blob(a, false, row, &before->found) ||
        !blob_may_be_replaced(a, before->found ? row : NULL)) {
        return false;
    }
    if (before->found) {
        row->lease.id = keep(a, row->lease.id);
        row->lease.boot = keep(a, row->lease.boot);
    }
    return true;
}

static bool look_at_source(struct answer *a, const struct row_key *from, struct row *row) {
    switch (a->rows->ops->get(a->rows, from, true, row)) {
    case ROWS_FOUND:
        break;
    case ROWS_ABSENT:
        return refuse(a, ERR_BLOB_NOT_FOUND);
    case ROWS_FAILED:
        return refuse_keeper(a);
    }
    const char *wanted = a->req->source_if_match;
    return !wanted || etag_matches(wanted, row) || refuse(a, ERR_SOURCE_CONDITION_NOT_MET);
}

static bool is_same(const struct answer *a) {
    return strcmp(a->req->source_container, a->req->container) == 0 &&
           strcmp(a->req->source_name, a->req->name) == 0;
}

/* What an append blob holds, from a blob to another. */
static bool copy_appended(struct answer *a, const struct row_key *from, int64_t length) {
    const struct rows_ops *ops = a->rows->ops;
    struct row_key to = blob_key(a);
    struct buf piece;
    bool ok = true;
    buf_init(&piece, APPEND_BYTES_MAX);
    for (int64_t at = 0; ok && at < length; at += APPEND_BYTES_MAX) {
        int64_t last = at + APPEND_BYTES_MAX < length ? at + APPEND_BYTES_MAX - 1 : length - 1;
        buf_clear(&piece);
        ok = ops->read(a->rows, from, at, last, &piece) &&
             ops->append(a->rows, &to, at, piece.data, piece.len);
    }
    buf_release(&piece);
    return ok || refuse_keeper(a);
}

/* The source's metadata, unless the request has some. */
static bool take_metadata(struct answer *a, const struct row *source, struct store_request *req) {
    if (req->metadata_len || !source->metadata_len) {
        return true;
    }
    req->metadata = arena_copy(&a->reply->arena, source->metadata, source->metadata_len);
    req->metadata_len = source->metadata_len;
    return req->metadata || refuse(a, ERR_NO_MEMORY);
}

static bool copy(struct answer *a, const struct row_key *from, struct row *row,
                 const struct before *before) {
    char own[UPLOAD_TEXT_MAX + 1], theirs[UPLOAD_TEXT_MAX + 1] = "";
    int64_t length = row->length;
    bool in_blocks = row->type == BLOB_BLOCK && row->blocks > 0;
    bool appended = row->type == BLOB_APPEND;
    if (in_blocks) {
        snprintf(theirs, sizeof theirs, "%.*s", (int)row->content_len, row->content);
        blocks_name(a, own);
        row->content = own;
        row->content_len = strlen(own);
    }
    row->name = a->req->name;
    if (!blob_replace(a, row, before->found ? &before->row : NULL)) {
        return false;
    }
    if (appended) {
        return copy_appended(a, from, length);
    }
    return (!in_blocks || blocks_copy(a, from, theirs, own, length)) &&
           (blocks_clear(a, in_blocks ? own : NULL) || refuse_keeper(a));
}

/* A blob copied to itself keeps its content: only metadata, ETag and date are new. */
static bool copy_to_itself(struct answer *a, struct row *row, const struct before *before) {
    row->lease = before->row.lease;
    lease_after_write(a, row);
    row_take_metadata(a, row);
    row_touch(a, row);
    struct row_key key = blob_key(a);
    if (!a->rows->ops->put(a->rows, &key, row, false)) {
        return refuse_keeper(a);
    }
    props_tell_version(&a->reply->props, row);
    return true;
}

void answer_blob_copy(struct answer *a) {
    struct row_key from = {ROW_BLOB, a->req->source_container, a->req->source_name};
    struct store_request req = *a->req; /* with the metadata that it comes to have */
    struct before before;
    struct row source;
    if (!look_at_target(a, &before) || !look_at_source(a, &from, &source) ||
        !take_metadata(a, &source, &req)) {
        return;
    }
    if (before.found && before.row.type != source.type) {
        refuse(a, ERR_INVALID_BLOB_TYPE);
        return;
    }
    struct answer copying = *a;
    copying.req = &req;
    if (is_same(a)) {
        copy_to_itself(&copying, &source, &before);
    } else {
        copy(&copying, &from, &source, &before);
    }
}
