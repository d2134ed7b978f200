/* table.c -- tables: made, removed, listed.
 *
 * A table is kept under its name in small letters, since the service makes no difference; the spelling that it
 * was made with stands in its metadata. */
#include <string.h>

#include "store/embedded/part.h"
#include "store/entity.h"
#include "store/names.h"

bool table_name_allowed(struct answer *a) {
    const struct store_request *req = a->req;
    if (req->verb == VERB_TABLE_LIST) {
        return true;
    }
    if (!req->container || name_fault_table(req->container, strlen(req->container))) {
        return refuse_because(a, ERR_INVALID_RESOURCE_NAME,
                              "a table's name has 3 to 63 letters and digits, a letter first");
    }
    return true;
}

const char *table_name(struct answer *a) {
    char *name = arena_strdup(&a->reply->arena, a->req->container);
    for (char *c = name; c && *c; c++) {
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    }
    if (!name) {
        refuse(a, ERR_NO_MEMORY);
    }
    return name;
}

/* True: the look was possible. */
static bool find_table(struct answer *a, const char *table, bool *found) {
    struct row_key key = {ROW_TABLE, "", table};
    struct row row;
    enum rows_found state = a->rows->ops->get(a->rows, &key, false, &row);
    *found = state == ROWS_FOUND;
    return state != ROWS_FAILED || refuse_keeper(a);
}

bool answer_table(struct answer *a, const char *table) {
    bool found;
    return find_table(a, table, &found) && (found || refuse(a, ERR_TABLE_NOT_FOUND));
}

static const char SPELLING[] = "name";

void answer_table_create(struct answer *a) {
    bool found;
    const char *table = table_name(a);
    if (!table || !find_table(a, table, &found)) {
        return;
    }
    if (found) {
        refuse(a, ERR_TABLE_ALREADY_EXISTS);
        return;
    }
    struct pairs spelling;
    pairs_init(&spelling);
    struct row row = {.name = table, .lease = {.end = UNSET, .break_end = UNSET}};
    row_touch(a, &row);
    row.created = row.modified;
    struct row_key key = {ROW_TABLE, "", table};
    if (!pairs_add(&spelling, SPELLING, a->req->container)) {
        refuse(a, ERR_NO_MEMORY);
    } else {
        row.metadata = spelling.text.data;
        row.metadata_len = spelling.text.len;
        if (!a->rows->ops->put(a->rows, &key, &row, true)) {
            refuse_keeper(a);
        }
    }
    pairs_release(&spelling);
}

void answer_table_delete(struct answer *a) {
    const char *table = table_name(a);
    if (!table || !answer_table(a, table)) {
        return;
    }
    struct row_key key = {ROW_TABLE, "", table};
    if (!a->rows->ops->remove_below(a->rows, ROW_ENTITY, table) ||
        !a->rows->ops->remove(a->rows, &key)) {
        refuse_keeper(a);
    }
}

/* The name as it was made, which follows the word in the pairs text. */
static const char *spelling_of(const struct row *row) {
    bool kept = row->metadata_len > sizeof SPELLING && strcmp(row->metadata, SPELLING) == 0;
    return kept ? pairs_value(row->metadata) : row->name;
}

void answer_table_list(struct answer *a) {
    const struct store_request *req = a->req;
    int64_t left = req->max_results != UNSET ? req->max_results : ENTITY_PAGE_MAX;
    if (left > ENTITY_PAGE_MAX) {
        left = ENTITY_PAGE_MAX;
    }
    struct row row;
    if (!a->rows->ops->seek(a->rows, ROW_TABLE, "", req->marker ? req->marker : "")) {
        refuse_keeper(a);
        return;
    }
    for (;;) {
        enum rows_found found = a->rows->ops->next(a->rows, &row);
        if (found != ROWS_FOUND) {
            if (found == ROWS_FAILED) {
                refuse_keeper(a);
            }
            return;
        }
        const char *name = spelling_of(&row);
        if (left-- == 0) {
            a->reply->next_marker = arena_strdup(&a->reply->arena, row.name);
            return;
        }
        if (!reply_add_item(a->reply, name, strlen(name))) {
            refuse(a, ERR_NO_MEMORY);
            return;
        }
    }
}
