/* message.c -- the messages of a queue.
 *
 * A message is visible from next_visible on and gone from expires on, whichever comes first; both instants
 * belong to the later state. It is found in the order of next_visible, then of insertion: the id, which is
 * its record's name, begins with the instant at which it was put. A receipt is the number of the last
 * put, get or update, and lives until the next one.
 *
 * Expired messages are passed over, and removed by those who put and get, a few each time. */
#include <stdio.h>
#include <string.h>

#include "store/embedded/part.h"

enum {
    TTL_S = 7 * 24 * 3600,   /* when nothing is said */
    VISIBILITY_S = 30,       /* the same for get */
    CLEANED_MAX = 256,       /* expired messages removed by one call */
    SCANNED_MAX = 20 * 1000, /* expired ones passed over by one get or peek */
    RECEIPT_TEXT = 17,
    ID_TEXT = 37,
    TICK_NS = 100,
};

/* 2200-12-31: what expires later is said to never do so. */
#define LAST_EXPIRY (INT64_C(7289654399) * NS_PER_S)

/* --- checks --- */

static bool within(struct answer *a, const char *what, int64_t value, int64_t least, int64_t most) {
    if (value == UNSET || (value >= least && value <= most)) {
        return true;
    }
    error_set(&a->reply->err, ERR_OUT_OF_RANGE_QUERY_PARAMETER_VALUE,
              "%s is %lld, and may be %lld to %lld", what, (long long)value, (long long)least,
              (long long)most);
    return false;
}

static bool visibility_within(struct answer *a, int64_t least) {
    return within(a, "the visibility timeout", a->req->visibility_s, least,
                  MESSAGE_VISIBILITY_MAX_S);
}

static bool check_body(struct answer *a) {
    return a->req->body_len <= MESSAGE_BYTES_MAX ||
           refuse_because(a, ERR_REQUEST_BODY_TOO_LARGE, "the message is larger than 64 KiB");
}

static bool check_put(struct answer *a) {
    int64_t ttl = a->req->ttl_s;
    if (!check_body(a) || !visibility_within(a, 0)) {
        return false;
    }
    if (ttl != UNSET && ttl < 1 && ttl != -1) {
        return refuse_because(a, ERR_INVALID_QUERY_PARAMETER_VALUE,
                              "the time to live is at least 1 second, or -1 for ever");
    }
    int64_t most = ttl == UNSET ? TTL_S : ttl;
    return ttl == -1 || a->req->visibility_s == UNSET || a->req->visibility_s < most ||
           refuse_because(a, ERR_INVALID_QUERY_PARAMETER_VALUE,
                          "the time to live must be longer than the time hidden");
}

/* --- replies --- */

static void receipt_text(int64_t number, char out[RECEIPT_TEXT]) {
    snprintf(out, RECEIPT_TEXT, "%016llx", (unsigned long long)number);
}

/* Dates are told in whole seconds, as the service does. */
static int64_t whole(int64_t date) {
    return date == NEVER ? NEVER : date / NS_PER_S * NS_PER_S;
}

/* What is told of a record; with its content when that was read. */
static struct store_message *tell(struct answer *a, const struct row *row, bool receipt) {
    struct arena *arena = &a->reply->arena;
    struct store_message *m = reply_add_message(a->reply);
    char text[RECEIPT_TEXT];
    receipt_text(row->etag, text);
    if (m) {
        m->id = arena_strdup(arena, row->name);
        m->receipt = receipt ? arena_strdup(arena, text) : NULL;
        m->body = row->content ? arena_copy(arena, row->content, row->content_len) : NULL;
        m->body_len = row->content ? row->content_len : 0;
        m->inserted = row->created * NS_PER_S;
        m->expires = whole(row->expires);
        m->next_visible = receipt ? whole(row->next_visible) : UNSET;
        m->dequeue_count = row->blocks;
    }
    if (!m || !m->id || (receipt && !m->receipt) || (row->content && !m->body)) {
        refuse(a, ERR_NO_MEMORY);
        return NULL;
    }
    return m;
}

/* --- choosing --- */

struct names {
    const char *of[CLEANED_MAX];
    int count;
};

static bool names_add(struct answer *a, struct names *names, const char *name) {
    const char *copy = arena_strdup(&a->reply->arena, name);
    names->of[names->count++] = copy;
    return copy || refuse(a, ERR_NO_MEMORY);
}

/* Up to `most` messages that are visible. */
static bool choose_visible(struct answer *a, int64_t now, int64_t most, struct names *names) {
    struct rows *rows = a->rows;
    struct row row;
    if (!rows->ops->seek_messages(rows, a->req->container, BY_NEXT_VISIBLE)) {
        return refuse_keeper(a);
    }
    for (int scanned = 0; names->count < most && scanned < SCANNED_MAX; scanned++) {
        enum rows_found found = rows->ops->next(rows, &row);
        if (found == ROWS_FAILED) {
            return refuse_keeper(a);
        }
        if (found == ROWS_ABSENT || row.next_visible > now) {
            return true;
        }
        if (row.expires > now && !names_add(a, names, row.name)) {
            return false;
        }
    }
    return true;
}

static bool choose_expired(struct answer *a, int64_t now, struct names *names) {
    struct rows *rows = a->rows;
    struct row row;
    if (!rows->ops->seek_messages(rows, a->req->container, BY_EXPIRY)) {
        return refuse_keeper(a);
    }
    while (names->count < CLEANED_MAX) {
        enum rows_found found = rows->ops->next(rows, &row);
        if (found == ROWS_FAILED) {
            return refuse_keeper(a);
        }
        if (found == ROWS_ABSENT || row.expires > now) {
            return true;
        }
        if (!names_add(a, names, row.name)) {
            return false;
        }
    }
    return true;
}

static bool remove_named(struct answer *a, const struct names *names) {
    for (int i = 0; i < names->count; i++) {
        struct row_key key = {ROW_MESSAGE, a->req->container, names->of[i]};
        if (!a->rows->ops->remove(a->rows, &key)) {
            return refuse_keeper(a);
        }
    }
    return true;
}

static bool read_message(struct answer *a, const char *id, struct row *row) {
    struct row_key key = {ROW_MESSAGE, a->req->container, id};
    enum rows_found found = a->rows->ops->get(a->rows, &key, true, row);
    return found == ROWS_FOUND ||
           (found == ROWS_FAILED ? refuse_keeper(a) : refuse(a, ERR_STORE_CORRUPT));
}

/* --- calls --- */

static bool put_row(struct answer *a, int64_t now, struct row *row) {
    const struct store_request *req = a->req;
    int64_t delay = req->visibility_s == UNSET ? 0 : req->visibility_s;
    int64_t ttl = req->ttl_s == UNSET ? TTL_S : req->ttl_s;
    bool ends = ttl != -1 && ttl <= (LAST_EXPIRY - now) / NS_PER_S;
    *row = (struct row){
        .name = req->name,
        .lease = {.end = UNSET, .break_end = UNSET},
        .next_visible = now + delay * NS_PER_S,
        .expires = ends ? now + ttl * NS_PER_S : NEVER,
        .length = (int64_t)req->body_len,
        .content = req->body,
        .content_len = req->body_len,
    };
    char id[ID_TEXT];
    unsigned long long tick = (unsigned long long)a->rows->ops->stamp(a->rows, now / TICK_NS);
    unsigned long long number = (unsigned long long)a->rows->ops->next_etag(a->rows);
    snprintf(id, sizeof id, "%08llx-%04llx-%04llx-%04llx-%012llx", tick >> 32, tick >> 16 & 0xFFFF,
             tick & 0xFFFF, number >> 48 & 0xFFFF, number & 0xFFFFFFFFFFFFULL);
    row_touch(a, row);
    row->created = row->modified;
    row->name = arena_strdup(&a->reply->arena, id);
    return row->name || refuse(a, ERR_NO_MEMORY);
}

void answer_message_put(struct answer *a) {
    struct row queue, row;
    struct names expired = {.count = 0};
    if (!check_put(a) || !answer_queue(a, &queue)) {
        return;
    }
    int64_t now = queue_now(a);
    if (!choose_expired(a, now, &expired) || !put_row(a, now, &row)) {
        return;
    }
    struct row_key key = {ROW_MESSAGE, a->req->container, row.name};
    if (remove_named(a, &expired) && !a->rows->ops->put(a->rows, &key, &row, true)) {
        refuse_keeper(a);
    }
    if (a->reply->err.code == ERR_OK) {
        row.content = NULL;
        tell(a, &row, true);
    }
}

static bool take(struct answer *a, const char *id, int64_t next_visible) {
    struct row row;
    if (!read_message(a, id, &row)) {
        return false;
    }
    row_touch(a, &row);
    row.blocks++;
    row.next_visible = next_visible;
    row.name = id;
    struct row_key key = {ROW_MESSAGE, a->req->container, id};
    return tell(a, &row, true) &&
           (a->rows->ops->put(a->rows, &key, &row, false) || refuse_keeper(a));
}

static int64_t wanted(const struct answer *a) {
    return a->req->count == UNSET ? 1 : a->req->count;
}

void answer_message_get(struct answer *a) {
    const struct store_request *req = a->req;
    struct row queue;
    struct names taken = {.count = 0}, expired = {.count = 0};
    if (!within(a, "the number of messages", req->count, 1, MESSAGES_MAX) ||
        !visibility_within(a, 1) || !answer_queue(a, &queue)) {
        return;
    }
    int64_t now = queue_now(a);
    int64_t visibility = req->visibility_s == UNSET ? VISIBILITY_S : req->visibility_s;
    if (!choose_visible(a, now, wanted(a), &taken) || !choose_expired(a, now, &expired) ||
        !remove_named(a, &expired)) {
        return;
    }
    for (int i = 0; i < taken.count; i++) {
        if (!take(a, taken.of[i], now + visibility * NS_PER_S)) {
            return;
        }
    }
}

void answer_message_peek(struct answer *a) {
    struct row queue, row;
    struct names seen = {.count = 0};
    if (!within(a, "the number of messages", a->req->count, 1, MESSAGES_MAX) ||
        !answer_queue(a, &queue) || !choose_visible(a, queue_now(a), wanted(a), &seen)) {
        return;
    }
    for (int i = 0; i < seen.count; i++) {
        if (!read_message(a, seen.of[i], &row)) {
            return;
        }
        row.name = seen.of[i];
        if (!tell(a, &row, false)) {
            return;
        }
    }
}

/* The message that the request names, when it is there and the receipt is its own. */
static bool find_own(struct answer *a, int64_t now, struct row *row) {
    struct row_key key = {ROW_MESSAGE, a->req->container, a->req->name};
    char receipt[RECEIPT_TEXT];
    enum rows_found found = a->rows->ops->get(a->rows, &key, false, row);
    if (found == ROWS_FAILED) {
        return refuse_keeper(a);
    }
    if (found == ROWS_ABSENT || row->expires <= now) {
        return refuse(a, ERR_MESSAGE_NOT_FOUND);
    }
    receipt_text(row->etag, receipt);
    return strcmp(receipt, a->req->receipt) == 0 || refuse(a, ERR_POP_RECEIPT_MISMATCH);
}

void answer_message_update(struct answer *a) {
    const struct store_request *req = a->req;
    struct row queue, row;
    if (!check_body(a) || !visibility_within(a, 0) || !answer_queue(a, &queue)) {
        return;
    }
    int64_t now = queue_now(a);
    if (!find_own(a, now, &row)) {
        return;
    }
    row.next_visible = now + (req->visibility_s == UNSET ? 0 : req->visibility_s) * NS_PER_S;
    if (row.next_visible > row.expires) {
        refuse_because(a, ERR_INVALID_QUERY_PARAMETER_VALUE,
                       "the message would be hidden beyond its expiry");
        return;
    }
    row_touch(a, &row);
    row.name = req->name;
    if (req->body) {
        row.length = (int64_t)req->body_len;
        row.content = req->body;
        row.content_len = req->body_len;
    }
    struct row_key key = {ROW_MESSAGE, req->container, req->name};
    if (!a->rows->ops->put(a->rows, &key, &row, req->body != NULL)) {
        refuse_keeper(a);
        return;
    }
    row.content = NULL;
    tell(a, &row, true);
}

void answer_message_delete(struct answer *a) {
    struct row queue, row;
    struct row_key key = {ROW_MESSAGE, a->req->container, a->req->name};
    if (answer_queue(a, &queue) && find_own(a, queue_now(a), &row) &&
        !a->rows->ops->remove(a->rows, &key)) {
        refuse_keeper(a);
    }
}
