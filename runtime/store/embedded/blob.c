#include <string.h>

#include "store/embedded/part.h"

/* Bytes of content that lie in the blob's record; more lies apart, as a block. */
enum { INLINE_CONTENT_MAX = 64 * 1024 };

static bool check_put(struct answer *a) {
    const struct store_request *req = a->req;
    if (req->body_len > PUT_BYTES_MAX) {
        return refuse(a, ERR_REQUEST_BODY_TOO_LARGE);
    }
    if (req->type != BLOB_BLOCK && req->body_len > 0) {
        return refuse_word(a, "InvalidOperation", 400,
                           "a page or append blob is created empty; content comes later");
    }
    if (req->type == BLOB_PAGE && (req->size < 0 || req->size % PAGE_SIZE != 0)) {
        return refuse_because(a, ERR_INVALID_HEADER_VALUE,
                              "the size of a page blob is a multiple of 512 bytes");
    }
    return true;
}

static bool is_create_only(const struct store_request *req) {
    return req->when.if_none_match && strcmp(req->when.if_none_match, "*") == 0;
}

bool blob_may_be_replaced(struct answer *a, const struct row *before) {
    return lease_allows(a, CONDITION_WRITE, before) &&
           conditions_hold(a, CONDITION_WRITE, before) &&
           (!before || !is_create_only(a->req) || refuse(a, ERR_BLOB_ALREADY_EXISTS));
}

/* The lease, if it is held, stays. */
bool blob_replace(struct answer *a, struct row *row, const struct row *before) {
    row->lease = (struct row_lease){.end = UNSET, .break_end = UNSET};
    if (before) {
        row->lease = before->lease;
        lease_after_write(a, row);
    }
    row_take_metadata(a, row);
    row_touch(a, row);
    row->created = before ? before->created : row->modified;
    struct row_key key = blob_key(a);
    bool appended = before && before->type == BLOB_APPEND;
    if ((appended && !a->rows->ops->clear(a->rows, &key)) ||
        !a->rows->ops->put(a->rows, &key, row, true)) {
        return refuse_keeper(a);
    }
    props_tell_version(&a->reply->props, row);
    return true;
}

void answer_blob_put(struct answer *a) {
    const struct store_request *req = a->req;
    struct row row;
    bool found;
    if (!check_put(a) || !answer_blob(a, false, &row, &found) ||
        !blob_may_be_replaced(a, found ? &row : NULL)) {
        return;
    }
    struct row fresh = {
        .name = req->name,
        .type = req->type,
        .content_type = req->content_type,
        .length = req->type == BLOB_PAGE ? req->size : (int64_t)req->body_len,
        .content = req->body,
        .content_len = req->body_len,
    };
    char upload[UPLOAD_TEXT_MAX + 1];
    bool apart = req->body_len > INLINE_CONTENT_MAX;
    if (apart) {
        blocks_name(a, upload);
        fresh.content = upload;
        fresh.content_len = strlen(upload);
        fresh.blocks = 1;
    }
    if (blob_replace(a, &fresh, found ? &row : NULL) && (!apart || blocks_put(a, upload, 0)) &&
        !blocks_clear(a, apart ? upload : NULL)) {
        refuse_keeper(a);
    }
}

/* A blob that must exist, with its lease and conditions checked. */
static bool find_blob(struct answer *a, enum condition_use use, bool content, struct row *row) {
    bool found;
    if (!answer_blob(a, content, row, &found)) {
        return false;
    }
    const struct row *there = found ? row : NULL;
    if (found && !lease_allows(a, use, there)) {
        return false;
    }
    return conditions_hold(a, use, there) && (found || refuse(a, ERR_BLOB_NOT_FOUND));
}

static bool tell_blob(struct answer *a, const struct row *row) {
    struct store_props *props = &a->reply->props;
    if (row->type == BLOB_APPEND) {
        props->block_count = row->blocks;
    }
    return props_tell_all(a->now, props, ROW_BLOB, row, true) || refuse(a, ERR_NO_MEMORY);
}

void answer_blob_head(struct answer *a) {
    struct row row;
    if (find_blob(a, CONDITION_READ, false, &row)) {
        tell_blob(a, &row);
    }
}

/* The bytes asked for. A range that ends before it starts is no range, as for the service. */
static bool choose_range(struct answer *a, const struct row *row, int64_t *first, int64_t *last) {
    const struct store_request *req = a->req;
    bool given = req->range_start != UNSET || req->range_end != UNSET;
    *first = req->range_start == UNSET ? 0 : req->range_start;
    *last = req->range_end == UNSET ? INT64_MAX : req->range_end;
    if (!given || *last < *first || *first < 0) {
        *first = 0;
        *last = row->length - 1;
        return true;
    }
    if (*first >= row->length) { /* also of an empty blob: nothing of it can be a part */
        return refuse(a, ERR_INVALID_RANGE);
    }
    if (*last >= row->length) {
        *last = row->length - 1;
    }
    return true;
}

static bool append_zeros(struct buf *out, size_t n) {
    if (!buf_reserve(out, n)) {
        return false;
    }
    static const char ZEROS[PAGE_SIZE];
    for (size_t left = n; left > 0;) {
        size_t piece = left < sizeof ZEROS ? left : sizeof ZEROS;
        buf_append(out, ZEROS, piece);
        left -= piece;
    }
    return true;
}

static bool read_content(struct answer *a, const struct row *row, int64_t first, int64_t last) {
    struct buf *out = &a->reply->body;
    size_t n = (size_t)(last - first + 1);
    switch (row->type) {
    case BLOB_PAGE: /* nothing writes pages: all of it is zeros */
        return append_zeros(out, n) || refuse(a, ERR_NO_MEMORY);
    case BLOB_BLOCK:
        if (row->blocks > 0) {
            return blocks_read(a, row, first, last);
        }
        return buf_append(out, row->content + first, n) || refuse(a, ERR_NO_MEMORY);
    case BLOB_APPEND:
        break;
    }
    struct row_key key = blob_key(a);
    return a->rows->ops->read(a->rows, &key, first, last, out) || refuse_keeper(a);
}

void answer_blob_get(struct answer *a) {
    struct row row;
    int64_t first, last;
    if (!find_blob(a, CONDITION_READ, true, &row) || !choose_range(a, &row, &first, &last)) {
        return;
    }
    if (last - first >= BODY_MAX) {
        refuse(a, ERR_ANSWER_TOO_LARGE);
        return;
    }
    if (tell_blob(a, &row) && last >= first) {
        read_content(a, &row, first, last);
    }
}

void answer_blob_delete(struct answer *a) {
    struct row row;
    struct row_key key = blob_key(a);
    if (!find_blob(a, CONDITION_WRITE, false, &row)) {
        return;
    }
    if ((row.type == BLOB_APPEND && !a->rows->ops->clear(a->rows, &key)) ||
        !a->rows->ops->remove(a->rows, &key) || !blocks_clear(a, NULL)) {
        refuse_keeper(a);
    }
}

void answer_blob_set_metadata(struct answer *a) {
    struct row row;
    if (!find_blob(a, CONDITION_WRITE, false, &row)) {
        return;
    }
    row_take_metadata(a, &row);
    row_touch(a, &row);
    lease_after_write(a, &row);
    struct row_key key = blob_key(a);
    if (!a->rows->ops->put(a->rows, &key, &row, false)) {
        refuse_keeper(a);
        return;
    }
    props_tell_version(&a->reply->props, &row);
}

static bool check_append_size(struct answer *a) {
    size_t n = a->req->body_len;
    if (n > APPEND_BYTES_MAX) {
        return refuse_because(a, ERR_REQUEST_BODY_TOO_LARGE, "one append takes at most 4 MiB");
    }
    return n > 0 || refuse_because(a, ERR_INVALID_HEADER_VALUE, "there is nothing to append");
}

/* The append blob, if it takes one more. Here the service judges existence and type before the lease
 * and the conditions. */
static bool find_append_blob(struct answer *a, struct row *row) {
    bool found;
    if (!answer_blob(a, false, row, &found)) {
        return false;
    }
    if (!found || row->type != BLOB_APPEND) {
        return refuse(a, found ? ERR_INVALID_BLOB_TYPE : ERR_BLOB_NOT_FOUND);
    }
    if (!lease_allows(a, CONDITION_WRITE, row) || !conditions_hold(a, CONDITION_WRITE, row)) {
        return false;
    }
    if (row->blocks >= APPEND_BLOCKS_MAX) {
        return refuse(a, ERR_BLOCK_COUNT_EXCEEDS_LIMIT);
    }
    return a->req->position == UNSET || a->req->position == row->length ||
           refuse(a, ERR_APPEND_POSITION_CONDITION_NOT_MET);
}

void answer_blob_append(struct answer *a) {
    const struct store_request *req = a->req;
    struct row row;
    if (!check_append_size(a) || !find_append_blob(a, &row)) {
        return;
    }
    int64_t offset = row.length;
    row.length += (int64_t)req->body_len;
    row.blocks++;
    row_touch(a, &row);
    lease_after_write(a, &row);
    struct row_key key = blob_key(a);
    if (!a->rows->ops->append(a->rows, &key, offset, req->body, req->body_len) ||
        !a->rows->ops->put(a->rows, &key, &row, false)) {
        refuse_keeper(a);
        return;
    }
    struct store_props *props = &a->reply->props;
    props_tell_version(props, &row);
    props->append_offset = offset;
    props->block_count = row.blocks;
}
