/* list.c -- pages of containers, blobs and queues, in byte order of their names.
 *
 * A marker is the name with which the next page begins. */
#include <string.h>

#include "store/embedded/part.h"

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
        if (!add_row(l, &row)) {
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
