/* blocks.c -- blobs that came in blocks.
 *
 * A block is a record of its own: its name is the blob's, the upload's and the place of its first byte, so
 * that the blocks of an upload lie together and in order. A commit moves nothing: the blob's content is then
 * the name of the upload whose blocks it has, and `blocks` their number, which is above 0 for such blobs
 * alone. Blocks that no blob has are as harmless as they are to the service: nobody sees them, and they go
 * with the next put, commit or delete of the blob, with its container, or after a week, when another
 * upload to the blob begins. */
#include <stdio.h>
#include <string.h>

#include "store/embedded/part.h"

#define BETWEEN "\1"
#define AFTER "\2" /* no name of a blob or upload has either */

enum {
    BLOCK_NAME_MAX = 4 * NAME_MAX_BLOB + UPLOAD_TEXT_MAX + 32,
    STALE_S = 7 * 24 * 60 * 60, /* the service keeps uncommitted blocks so long */
};

struct block_name {
    char text[BLOCK_NAME_MAX];
};

static struct row_key block_key(const struct answer *a, struct block_name *name, const char *upload,
                                int64_t position) {
    snprintf(name->text, sizeof name->text, "%s" BETWEEN "%s" BETWEEN "%016lld", a->req->name,
             upload, (long long)position);
    return (struct row_key){ROW_BLOCK, a->req->container, name->text};
}

bool blocks_clear(struct answer *a, const char *but) {
    const struct store_request *req = a->req;
    const struct rows_ops *ops = a->rows->ops;
    struct block_name first, end;
    snprintf(first.text, sizeof first.text, "%s" BETWEEN, req->name);
    snprintf(end.text, sizeof end.text, "%s" AFTER, req->name);
    if (!but) {
        return ops->remove_between(a->rows, ROW_BLOCK, req->container, first.text, end.text);
    }
    struct block_name own, after;
    snprintf(own.text, sizeof own.text, "%s" BETWEEN "%s" BETWEEN, req->name, but);
    snprintf(after.text, sizeof after.text, "%s" BETWEEN "%s" AFTER, req->name, but);
    return ops->remove_between(a->rows, ROW_BLOCK, req->container, first.text, own.text) &&
           ops->remove_between(a->rows, ROW_BLOCK, req->container, after.text, end.text);
}

bool blocks_read(struct answer *a, const struct row *row, int64_t first, int64_t last) {
    const struct rows_ops *ops = a->rows->ops;
    char upload[UPLOAD_TEXT_MAX + 1];
    snprintf(upload, sizeof upload, "%.*s", (int)row->content_len, row->content);
    struct block_name name;
    struct row block;
    int64_t at = 0;
    block_key(a, &name, upload, 0);
    if (!ops->seek(a->rows, ROW_BLOCK, a->req->container, name.text)) {
        return refuse_keeper(a);
    }
    while (at <= last && ops->next(a->rows, &block) == ROWS_FOUND) {
        int64_t start = at;
        at += block.length;
        if (at <= first) {
            continue;
        }
        struct row_key key = block_key(a, &name, upload, start);
        if (ops->get(a->rows, &key, true, &block) != ROWS_FOUND) {
            break;
        }
        int64_t from = first > start ? first - start : 0;
        int64_t to = last < at - 1 ? last - start : block.length - 1;
        if (!buf_append(&a->reply->body, block.content + from, (size_t)(to - from + 1))) {
            return refuse(a, ERR_NO_MEMORY);
        }
    }
    if (a->rows->err.code != ERR_OK) {
        return refuse_keeper(a);
    }
    return at > last || refuse_because(a, ERR_INTERNAL_ERROR, "a block of the blob is missing");
}

/* The blob that a block or a list is meant for: absent, or made of blocks or able to be. As for an append,
 * the type is judged before the lease. */
static bool find_target(struct answer *a, struct row *row, bool *found) {
    if (!answer_blob(a, false, row, found)) {
        return false;
    }
    if (*found && row->type != BLOB_BLOCK) {
        return refuse(a, ERR_INVALID_BLOB_TYPE);
    }
    return lease_allows(a, CONDITION_WRITE, *found ? row : NULL);
}

/* Blocks of uploads that were given up: when all that this blob's name has are a week old. Those that a blob
 * has are told from the others at its next commit. */
static bool forget_stale(struct answer *a) {
    const struct rows_ops *ops = a->rows->ops;
    struct block_name first, end;
    struct row block;
    bool stale = true;
    snprintf(first.text, sizeof first.text, "%s" BETWEEN, a->req->name);
    snprintf(end.text, sizeof end.text, "%s" AFTER, a->req->name);
    if (!ops->seek(a->rows, ROW_BLOCK, a->req->container, first.text)) {
        return refuse_keeper(a);
    }
    while (stale && ops->next(a->rows, &block) == ROWS_FOUND && strcmp(block.name, end.text) < 0) {
        stale = block.modified + STALE_S <= a->now->wall / NS_PER_S;
    }
    if (a->rows->err.code != ERR_OK) {
        return refuse_keeper(a);
    }
    return !stale || blocks_clear(a, NULL) || refuse_keeper(a);
}

void blocks_name(struct answer *a, char upload[UPLOAD_TEXT_MAX + 1]) {
    snprintf(upload, UPLOAD_TEXT_MAX + 1, "own%016llx",
             (unsigned long long)a->rows->ops->next_etag(a->rows));
}

bool blocks_put(struct answer *a, const char *upload, int64_t position) {
    const struct store_request *req = a->req;
    struct row block = {
        .length = (int64_t)req->body_len,
        .modified = a->rows->ops->date(a->rows, a->now->wall / NS_PER_S),
        .lease = {.end = UNSET, .break_end = UNSET},
        .content = req->body,
        .content_len = req->body_len,
    };
    block.created = block.modified;
    struct block_name name;
    struct row_key key = block_key(a, &name, upload, position);
    return a->rows->ops->put(a->rows, &key, &block, true) || refuse_keeper(a);
}

static bool check_stage(struct answer *a) {
    const struct store_request *req = a->req;
    if (req->body_len == 0) {
        return refuse_because(a, ERR_INVALID_HEADER_VALUE, "a block is not empty");
    }
    if (req->block >= BLOCKS_MAX) {
        return refuse_because(a, ERR_BLOCK_COUNT_EXCEEDS_LIMIT, "a blob has at most 50,000 blocks");
    }
    return req->body_len <= BLOCK_BYTES_MAX || refuse(a, ERR_REQUEST_BODY_TOO_LARGE);
}

void answer_blob_stage(struct answer *a) {
    const struct store_request *req = a->req;
    struct row row;
    bool found;
    if (!check_stage(a) || !find_target(a, &row, &found)) {
        return;
    }
    bool first = req->block == 0 && !(found && row.blocks > 0);
    if (first && !forget_stale(a)) {
        return;
    }
    blocks_put(a, req->upload, req->position);
}

/* Are the blocks of the upload all there, one after the other? */
static bool is_complete(struct answer *a) {
    const struct store_request *req = a->req;
    const struct rows_ops *ops = a->rows->ops;
    struct block_name first, name;
    struct row block;
    int64_t at = 0, count = 0;
    block_key(a, &first, req->upload, 0);
    if (!ops->seek(a->rows, ROW_BLOCK, req->container, first.text)) {
        return refuse_keeper(a);
    }
    while (count < req->count && ops->next(a->rows, &block) == ROWS_FOUND) {
        block_key(a, &name, req->upload, at);
        if (strcmp(block.name, name.text) != 0) {
            break;
        }
        at += block.length;
        count++;
    }
    if (a->rows->err.code != ERR_OK) {
        return refuse_keeper(a);
    }
    return (count == req->count && at == req->size) || refuse(a, ERR_INVALID_BLOCK_LIST);
}

void answer_blob_commit(struct answer *a) {
    const struct store_request *req = a->req;
    struct row row;
    bool found;
    if (!find_target(a, &row, &found) || !blob_may_be_replaced(a, found ? &row : NULL) ||
        !is_complete(a) || !answer_blob(a, false, &row, &found)) { /* once more: see rows.h */
        return;
    }
    struct row fresh = {
        .name = req->name,
        .type = BLOB_BLOCK,
        .content_type = req->content_type,
        .length = req->size,
        .blocks = req->count,
        .content = req->upload,
        .content_len = strlen(req->upload),
    };
    if (blob_replace(a, &fresh, found ? &row : NULL) && !blocks_clear(a, req->upload)) {
        refuse_keeper(a);
    }
}

bool blocks_copy(struct answer *a, const struct row_key *from, const char *from_upload,
                 const char *upload, int64_t length) {
    const struct rows_ops *ops = a->rows->ops;
    struct block_name source, target;
    struct row block;
    for (int64_t at = 0; at < length; at += block.length) {
        snprintf(source.text, sizeof source.text, "%s" BETWEEN "%s" BETWEEN "%016lld", from->name,
                 from_upload, (long long)at);
        struct row_key key = {ROW_BLOCK, from->parent, source.text};
        enum rows_found found = ops->get(a->rows, &key, true, &block);
        if (found != ROWS_FOUND || block.length == 0) {
            return found == ROWS_FAILED
                       ? refuse_keeper(a)
                       : refuse_because(a, ERR_INTERNAL_ERROR, "a block of the blob is missing");
        }
        key = block_key(a, &target, upload, at);
        if (!ops->put(a->rows, &key, &block, true)) {
            return refuse_keeper(a);
        }
    }
    return true;
}
