/* list.c -- pages of containers, blobs and queues, in byte order of their names.
 *
 * A marker is the name with which the next page begins. With a delimiter, all names that go on with it
 * after the prefix become one item, named up to and with the delimiter and without an ETag; the scan
 * then jumps behind them. */
#include <string.h>

#include "store/embedded/part.h"

/* The smallest text above all that begin with `text`: cut the 0xFF bytes at its end, raise the last
 * byte. False: there is none. */
static bool text_above(struct buf *text) {
    while (text->len > 0 && (unsigned char)text->data[text->len - 1] == 0xFF) {
        text->len--;
    }
    if (text->len == 0) {
        return false;
    }
    text->data[text->len - 1]++;
    text->data[text->len] = '\0';
    return true;
}

struct listing {
    struct answer *a;
    enum row_kind kind;
    const char *parent;
    const char *prefix;
    size_t prefix_len;
    int64_t left; /* items this page still takes */
};

/* Of a queue a list tells nothing else. */
static bool tell_metadata(struct store_props *props, const struct row *row, bool metadata) {
    props->has_metadata = metadata;
    return !metadata || row->metadata_len == 0 ||
           buf_append(&props->metadata.text, row->metadata, row->metadata_len);
}

static bool add_row(struct listing *l, const struct row *row) {
    struct store_item *item = reply_add_item(l->a->reply, row->name, strlen(row->name));
    if (item && l->kind == ROW_QUEUE) {
        return tell_metadata(&item->props, row, l->a->req->with_metadata) ||
               refuse(l->a, ERR_NO_MEMORY);
    }
    return (item &&
            props_tell_all(l->a->now, &item->props, l->kind, row, l->a->req->with_metadata)) ||
           refuse(l->a, ERR_NO_MEMORY);
}

/* Adds the folder that `name` lies in and jumps behind it. */
static bool add_folder(struct listing *l, const char *name, size_t len) {
    if (!reply_add_item(l->a->reply, name, len)) {
        return refuse(l->a, ERR_NO_MEMORY);
    }
    struct buf above;
    buf_init(&above, NAME_MAX_BLOB * 4);
    bool ok = buf_append(&above, name, len) && text_above(&above);
    ok = ok && l->a->rows->ops->seek(l->a->rows, l->kind, l->parent, above.data);
    buf_release(&above);
    return ok || refuse_keeper(l->a);
}

/* The length of the folder name `name` begins with, 0 when it lies in none. */
static size_t folder_length(const struct listing *l, const char *name) {
    const char *delimiter = l->kind == ROW_BLOB ? l->a->req->delimiter : NULL;
    if (!delimiter || !delimiter[0]) {
        return 0;
    }
    const char *at = strstr(name + l->prefix_len, delimiter);
    return at ? (size_t)(at - name) + strlen(delimiter) : 0;
}

static bool add(struct listing *l, const struct row *row) {
    size_t folder = folder_length(l, row->name);
    return folder ? add_folder(l, row->name, folder) : add_row(l, row);
}

static bool list_page(struct listing *l) {
    struct answer *a = l->a;
    for (;;) {
        struct row row;
        enum rows_found found = a->rows->ops->next(a->rows, &row);
        if (found == ROWS_FAILED) {
            return refuse_keeper(a);
        }
        if (found == ROWS_ABSENT || strncmp(row.name, l->prefix, l->prefix_len) != 0) {
            return true;
        }
        if (l->left-- == 0) {
            a->reply->next_marker = arena_strdup(&a->reply->arena, row.name);
            return a->reply->next_marker || refuse(a, ERR_NO_MEMORY);
        }
        if (!add(l, &row)) {
            return false;
        }
    }
}

void answer_page(struct answer *a, enum row_kind kind, const char *parent) {
    const struct store_request *req = a->req;
    if (req->max_results != UNSET && req->max_results < 1) {
        refuse_because(a, ERR_OUT_OF_RANGE_QUERY_PARAMETER_VALUE,
                       "a page has between 1 and 5000 items");
        return;
    }
    struct listing l = {.a = a, .kind = kind, .parent = parent};
    l.prefix = req->prefix ? req->prefix : "";
    l.prefix_len = strlen(l.prefix);
    bool bounded = req->max_results != UNSET && req->max_results < LIST_PAGE_MAX;
    l.left = bounded ? req->max_results : LIST_PAGE_MAX;
    const char *from = req->marker && strcmp(req->marker, l.prefix) > 0 ? req->marker : l.prefix;
    if (!a->rows->ops->seek(a->rows, kind, parent, from)) {
        refuse_keeper(a);
        return;
    }
    list_page(&l);
}

void answer_container_list(struct answer *a) {
    answer_page(a, ROW_CONTAINER, "");
}

void answer_blob_list(struct answer *a) {
    struct row container;
    if (answer_container(a, &container)) {
        answer_page(a, ROW_BLOB, a->req->container);
    }
}
