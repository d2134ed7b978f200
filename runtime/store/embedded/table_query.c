/* table_query.c -- a page of a query, in the order of the keys.
 *
 * Keys given as such bound the scan; the filter is asked of each entity in between. A marker is the name of
 * the record with which the next page begins. A page ends early when it has read much, so that no query
 * holds up the others: it may then be empty and have a next one all the same. */
#include <string.h>

#include "store/embedded/part.h"
#include "store/entity.h"
#include "store/embedded/filter.h"

enum {
    SCANNED_MAX = 5000,                  /* records read for one page */
    SCANNED_BYTES_MAX = 4 * 1024 * 1024, /* and their text */
};

struct query {
    struct answer *a;
    const char *table;
    const struct filter *filter; /* NULL: takes all */
    struct entity **last;
    int64_t left; /* entities this page still takes */
    int scanned;
    size_t bytes;
};

/* The keys in a record's name, which is split in place: the row's. NULL: the name is no entity's. */
static char *split_name(char *name) {
    char *mark = strchr(name, '\1');
    if (!mark) {
        return NULL;
    }
    *mark = '\0';
    return mark + 1;
}

enum verdict { VERDICT_TAKE, VERDICT_SKIP, VERDICT_END };

static enum verdict judge_keys(const struct store_request *req, const char *partition,
                               const char *row) {
    if (req->partition && strcmp(partition, req->partition) != 0) {
        return VERDICT_END;
    }
    if (req->row && strcmp(row, req->row) < 0) {
        return VERDICT_SKIP;
    }
    if (req->row_to && strcmp(row, req->row_to) > 0) {
        return req->partition ? VERDICT_END : VERDICT_SKIP;
    }
    return VERDICT_TAKE;
}

static bool page_is_full(const struct query *q) {
    return q->left == 0 || q->scanned >= SCANNED_MAX || q->bytes >= SCANNED_BYTES_MAX;
}

static bool take(struct query *q, const struct row_key *key, const char *partition,
                 const char *row_key) {
    struct answer *a = q->a;
    struct row row;
    enum rows_found found = a->rows->ops->get(a->rows, key, true, &row);
    if (found != ROWS_FOUND) {
        return found == ROWS_FAILED ? refuse_keeper(a) : refuse(a, ERR_STORE_CORRUPT);
    }
    q->bytes += row.content_len;
    if (q->bytes > a->rows->content_max) { /* read elsewhere, where it holds up nobody */
        a->rows->large = true;
        error_set(&a->rows->err, ERR_ANSWER_TOO_LARGE, NULL);
        return refuse_keeper(a);
    }
    struct entity *e = entity_from_row(a, &row, partition, row_key);
    if (!e) {
        return false;
    }
    if (q->filter && !filter_takes(q->filter, e)) {
        return true;
    }
    if (a->req->select) {
        entity_select(e, a->req->select);
    }
    *q->last = e;
    q->last = &e->next;
    q->left--;
    return true;
}

/* One record; false: the page is complete, or refused. */
static bool step(struct query *q) {
    struct answer *a = q->a;
    struct row row;
    enum rows_found found = a->rows->ops->next(a->rows, &row);
    if (found != ROWS_FOUND) {
        return found == ROWS_FAILED && refuse_keeper(a);
    }
    const char *name = arena_strdup(&a->reply->arena, row.name);
    char *partition = arena_strdup(&a->reply->arena, row.name);
    if (!name || !partition) {
        return refuse(a, ERR_NO_MEMORY);
    }
    const char *row_key = split_name(partition);
    if (!row_key) {
        return refuse(a, ERR_STORE_CORRUPT);
    }
    enum verdict verdict = judge_keys(a->req, partition, row_key);
    if (verdict == VERDICT_END) {
        return false;
    }
    if (page_is_full(q)) {
        a->reply->next_marker = name;
        return false;
    }
    q->scanned++;
    struct row_key key = {ROW_ENTITY, q->table, name};
    return verdict == VERDICT_SKIP || take(q, &key, partition, row_key);
}

/* Where the scan begins. */
static const char *first_name(struct answer *a) {
    const struct store_request *req = a->req;
    if (req->marker) {
        return req->marker;
    }
    return req->partition ? entity_name(a, req->partition, req->row ? req->row : "") : "";
}

void answer_entity_query(struct answer *a) {
    const struct store_request *req = a->req;
    struct query q = {.a = a, .table = table_name(a), .last = &a->reply->entities};
    if (!q.table || !answer_table(a, q.table)) {
        return;
    }
    if (req->filter) {
        q.filter = filter_parse(&a->reply->arena, req->filter, &a->reply->err);
        if (!q.filter) {
            return;
        }
    }
    bool bounded = req->max_results != UNSET && req->max_results < ENTITY_PAGE_MAX;
    q.left = bounded ? req->max_results : ENTITY_PAGE_MAX;
    const char *from = first_name(a);
    if (!from) {
        return;
    }
    if (!a->rows->ops->seek(a->rows, ROW_ENTITY, q.table, from)) {
        refuse_keeper(a);
        return;
    }
    while (step(&q)) {}
}
