#include "store/embedded/part.h"

void answer_container_create(struct answer *a) {
    struct row_key key = container_key(a);
    struct row row;
    switch (a->rows->ops->get(a->rows, &key, false, &row)) {
    case ROWS_FOUND:
        refuse(a, ERR_CONTAINER_ALREADY_EXISTS);
        return;
    case ROWS_FAILED:
        refuse_keeper(a);
        return;
    case ROWS_ABSENT:
        break;
    }
    if (row_make(a, &key, &row)) {
        props_tell_version(&a->reply->props, &row);
    }
}

/* Leases of the blobs inside do not matter to it. */
void answer_container_delete(struct answer *a) {
    struct row row;
    if (!answer_container(a, &row) || !lease_allows(a, CONDITION_WRITE, &row) ||
        !conditions_hold(a, CONDITION_WRITE, &row)) {
        return;
    }
    struct row_key key = container_key(a);
    if (!a->rows->ops->remove_below(a->rows, ROW_BLOB, a->req->container) ||
        !a->rows->ops->remove_below(a->rows, ROW_BLOCK, a->req->container) ||
        !a->rows->ops->remove(a->rows, &key)) {
        refuse_keeper(a);
    }
}

/* Neither a look at a container nor its metadata needs the id of its lease. */
void answer_container_head(struct answer *a) {
    struct row row;
    if (answer_container(a, &row) && lease_allows(a, CONDITION_READ, &row) &&
        !props_tell_all(a->now, &a->reply->props, ROW_CONTAINER, &row, true)) {
        refuse(a, ERR_NO_MEMORY);
    }
}

void answer_container_set_metadata(struct answer *a) {
    struct row row;
    if (!answer_container(a, &row) || !lease_allows(a, CONDITION_READ, &row) ||
        !conditions_hold(a, CONDITION_WRITE, &row)) {
        return;
    }
    row_take_metadata(a, &row);
    row_touch(a, &row);
    struct row_key key = container_key(a);
    if (!a->rows->ops->put(a->rows, &key, &row, false)) {
        refuse_keeper(a);
        return;
    }
    props_tell_version(&a->reply->props, &row);
}
