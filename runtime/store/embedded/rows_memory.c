/* rows_memory.c -- records in memory: an array sorted by kind, parent and name, and for messages one for each
 * order.
 *
 * Finding is a binary search, inserting moves pointers: at the ten thousands of records that an instance
 * or a simulation has, cheaper than a tree and without chance. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "store/json.h"
#include "store/embedded/rows.h"

enum { NODES_FIRST = 64 };

/* Bytes of one blob: APPEND_BLOCKS_MAX blocks of APPEND_BYTES_MAX. */
#define CONTENT_MAX ((size_t)APPEND_BLOCKS_MAX * APPEND_BYTES_MAX)

struct node {
    enum row_kind kind;
    char *parent, *name;
    struct row row; /* its strings lie in the arena */
    struct arena arena;
    struct buf content;
};

struct sorted {
    struct node **nodes;
    size_t count, room;
};

struct memory {
    struct rows rows;
    struct sorted all;
    struct sorted orders[ROW_ORDERS]; /* of messages */
    int64_t etag, second, tick;
    /* the scan under way */
    const struct sorted *scanned;
    enum row_kind kind;
    char *parent;
    size_t at;
};

static struct memory *memory_of(struct rows *rows) {
    return container_of(rows, struct memory, rows);
}

static int compare(const struct node *node, enum row_kind kind, const char *parent,
                   const char *name) {
    if (node->kind != kind) {
        return node->kind < kind ? -1 : 1;
    }
    int order = strcmp(node->parent, parent);
    return order ? order : strcmp(node->name, name);
}

/* Where the record is or would be. */
static size_t place(const struct memory *m, enum row_kind kind, const char *parent,
                    const char *name, bool *there) {
    size_t low = 0, high = m->all.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(m->all.nodes[middle], kind, parent, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *there = low < m->all.count && compare(m->all.nodes[low], kind, parent, name) == 0;
    return low;
}

static void sorted_insert(struct sorted *s, size_t at, struct node *node) {
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : NODES_FIRST;
        s->nodes = xrealloc(s->nodes, s->room * sizeof(struct node *));
    }
    memmove(s->nodes + at + 1, s->nodes + at, (s->count - at) * sizeof(struct node *));
    s->nodes[at] = node;
    s->count++;
}

/* Takes out those from `first` to before `end`. */
static void sorted_remove(struct sorted *s, size_t first, size_t end) {
    if (end > first) {
        memmove(s->nodes + first, s->nodes + end, (s->count - end) * sizeof(struct node *));
        s->count -= end - first;
    }
}

/* --- the orders of messages --- */

static int64_t order_key(const struct node *node, enum row_order order) {
    return order == BY_EXPIRY ? node->row.expires : node->row.next_visible;
}

/* Where a message with this key and name is or would be; with INT64_MIN the first of the queue. */
static size_t order_place(const struct memory *m, enum row_order order, const char *queue,
                          int64_t key, const char *name) {
    const struct sorted *s = &m->orders[order];
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct node *node = s->nodes[middle];
        int64_t there = order_key(node, order);
        int by_queue = strcmp(node->parent, queue);
        bool before = by_queue       ? by_queue < 0
                      : there != key ? there < key
                                     : strcmp(node->name, name) < 0;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low;
}

static void orders_add(struct memory *m, struct node *node) {
    for (int order = 0; order < ROW_ORDERS && node->kind == ROW_MESSAGE; order++) {
        enum row_order o = (enum row_order)order;
        sorted_insert(&m->orders[o],
                      order_place(m, o, node->parent, order_key(node, o), node->name), node);
    }
}

static void orders_drop(struct memory *m, const struct node *node) {
    for (int order = 0; order < ROW_ORDERS && node->kind == ROW_MESSAGE; order++) {
        enum row_order o = (enum row_order)order;
        size_t at = order_place(m, o, node->parent, order_key(node, o), node->name);
        sorted_remove(&m->orders[o], at, at + 1);
    }
}

static void orders_drop_queue(struct memory *m, const char *queue) {
    for (int order = 0; order < ROW_ORDERS; order++) {
        struct sorted *s = &m->orders[order];
        size_t first = order_place(m, (enum row_order)order, queue, INT64_MIN, ""), end = first;
        while (end < s->count && strcmp(s->nodes[end]->parent, queue) == 0) {
            end++;
        }
        sorted_remove(s, first, end);
    }
}

static struct node *find(const struct memory *m, const struct row_key *key) {
    bool there;
    size_t at = place(m, key->kind, key->parent, key->name, &there);
    return there ? m->all.nodes[at] : NULL;
}

static void node_free(struct node *node) {
    arena_release(&node->arena);
    buf_release(&node->content);
    free(node->parent);
    free(node->name);
    free(node);
}

static bool begin(struct rows *rows, bool writes) {
    (void)writes;
    error_clear(&rows->err);
    return true;
}

static bool commit(struct rows *rows) {
    (void)rows;
    return true;
}

static void rollback(struct rows *rows) {
    (void)rows;
}

static bool out_of_memory(struct rows *rows) {
    error_set(&rows->err, ERR_NO_MEMORY, NULL);
    return false;
}

static void show(const struct node *node, bool content, struct row *out) {
    *out = node->row;
    out->content = content ? buf_str(&node->content) : NULL;
    out->content_len = content ? node->content.len : 0;
}

static enum rows_found get(struct rows *rows, const struct row_key *key, bool content,
                           struct row *out) {
    struct node *node = find(memory_of(rows), key);
    if (!node) {
        return ROWS_ABSENT;
    }
    show(node, content, out);
    return ROWS_FOUND;
}

static void scan_begin(struct memory *m, const struct sorted *in, enum row_kind kind,
                       const char *parent) {
    m->scanned = in;
    m->kind = kind;
    if (parent != m->parent) {
        free(m->parent);
        m->parent = xstrdup(parent);
    }
}

static bool seek(struct rows *rows, enum row_kind kind, const char *parent, const char *name) {
    struct memory *m = memory_of(rows);
    bool there;
    m->at = place(m, kind, parent, name, &there);
    scan_begin(m, &m->all, kind, parent);
    return true;
}

static bool seek_messages(struct rows *rows, const char *queue, enum row_order order) {
    struct memory *m = memory_of(rows);
    m->at = order_place(m, order, queue, INT64_MIN, "");
    scan_begin(m, &m->orders[order], ROW_MESSAGE, queue);
    return true;
}

static enum rows_found next(struct rows *rows, struct row *out) {
    struct memory *m = memory_of(rows);
    struct node *node = m->at < m->scanned->count ? m->scanned->nodes[m->at] : NULL;
    if (!node || node->kind != m->kind || strcmp(node->parent, m->parent) != 0) {
        return ROWS_ABSENT;
    }
    m->at++;
    show(node, false, out);
    return ROWS_FOUND;
}

static int64_t count_messages(struct rows *rows, const char *queue, int64_t date) {
    struct memory *m = memory_of(rows);
    size_t at = order_place(m, BY_EXPIRY, queue, instant_add(date, 1), "");
    const struct sorted *s = &m->orders[BY_EXPIRY];
    int64_t count = 0;
    while (at < s->count && strcmp(s->nodes[at++]->parent, queue) == 0) {
        count++;
    }
    return count;
}

static struct node *insert(struct memory *m, const struct row_key *key) {
    bool there;
    size_t at = place(m, key->kind, key->parent, key->name, &there);
    struct node *node = xcalloc(1, sizeof *node);
    node->kind = key->kind;
    node->parent = xstrdup(key->parent);
    node->name = xstrdup(key->name);
    buf_init(&node->content, CONTENT_MAX);
    sorted_insert(&m->all, at, node);
    return node;
}

/* Copies what the record points to, which may be the memory of the one that it replaces. */
static bool row_copy(struct arena *arena, const struct row *row, struct row *copy) {
    *copy = *row;
    copy->content = NULL;
    copy->content_len = 0;
    copy->content_type = arena_strdup(arena, row->content_type);
    copy->metadata = row->metadata ? arena_copy(arena, row->metadata, row->metadata_len) : NULL;
    copy->lease.id = arena_strdup(arena, row->lease.id);
    copy->lease.boot = arena_strdup(arena, row->lease.boot);
    return (!row->metadata || copy->metadata) && (!row->content_type || copy->content_type) &&
           (!row->lease.id || copy->lease.id) && (!row->lease.boot || copy->lease.boot);
}

static bool put(struct rows *rows, const struct row_key *key, const struct row *row, bool content) {
    struct memory *m = memory_of(rows);
    struct buf fresh;
    buf_init(&fresh, CONTENT_MAX);
    struct arena arena;
    arena_init(&arena);
    struct row copy;
    if ((content && row->content_len && !buf_append(&fresh, row->content, row->content_len)) ||
        !row_copy(&arena, row, &copy)) {
        buf_release(&fresh);
        arena_release(&arena);
        return out_of_memory(rows);
    }
    struct node *node = find(m, key);
    if (node) {
        orders_drop(m, node);
    } else {
        node = insert(m, key);
    }
    copy.name = node->name;
    arena_release(&node->arena);
    node->arena = arena;
    node->row = copy;
    orders_add(m, node);
    if (content) {
        buf_release(&node->content);
        node->content = fresh;
    }
    return true;
}

static bool remove_row(struct rows *rows, const struct row_key *key) {
    struct memory *m = memory_of(rows);
    bool there;
    size_t at = place(m, key->kind, key->parent, key->name, &there);
    if (there) {
        orders_drop(m, m->all.nodes[at]);
        node_free(m->all.nodes[at]);
        sorted_remove(&m->all, at, at + 1);
    }
    return true;
}

static bool remove_below(struct rows *rows, enum row_kind kind, const char *parent) {
    struct memory *m = memory_of(rows);
    bool there;
    size_t first = place(m, kind, parent, "", &there), end = first;
    if (kind == ROW_MESSAGE) {
        orders_drop_queue(m, parent);
    }
    while (end < m->all.count && m->all.nodes[end]->kind == kind &&
           strcmp(m->all.nodes[end]->parent, parent) == 0) {
        node_free(m->all.nodes[end++]);
    }
    sorted_remove(&m->all, first, end);
    return true;
}

/* Not for messages, which stand in other orders too. */
static bool remove_between(struct rows *rows, enum row_kind kind, const char *parent,
                           const char *first, const char *end) {
    struct memory *m = memory_of(rows);
    bool there;
    size_t from = place(m, kind, parent, first, &there), to = place(m, kind, parent, end, &there);
    for (size_t i = from; i < to; i++) {
        node_free(m->all.nodes[i]);
    }
    if (to > from) {
        sorted_remove(&m->all, from, to);
    }
    return true;
}

static bool append(struct rows *rows, const struct row_key *key, int64_t position, const char *data,
                   size_t len) {
    struct node *node = find(memory_of(rows), key);
    (void)position; /* it is the end */
    if (buf_append(&node->content, data, len)) {
        return true;
    }
    node->content.failed = false;
    return out_of_memory(rows);
}

static bool read_bytes(struct rows *rows, const struct row_key *key, int64_t first, int64_t last,
                       struct buf *out) {
    struct node *node = find(memory_of(rows), key);
    return buf_append(out, node->content.data + first, (size_t)(last - first + 1)) ||
           out_of_memory(rows);
}

static bool clear(struct rows *rows, const struct row_key *key) {
    struct node *node = find(memory_of(rows), key);
    if (node) {
        buf_release(&node->content);
    }
    return true;
}

static int64_t next_etag(struct rows *rows) {
    return memory_of(rows)->etag++;
}

static int64_t date(struct rows *rows, int64_t second) {
    struct memory *m = memory_of(rows);
    m->second = second > m->second ? second : m->second;
    return m->second;
}

static int64_t latest(struct rows *rows) {
    return memory_of(rows)->second;
}

static int64_t stamp(struct rows *rows, int64_t tick) {
    struct memory *m = memory_of(rows);
    m->tick = tick > m->tick ? tick : m->tick + 1;
    return m->tick;
}

static void memory_free(struct rows *rows) {
    struct memory *m = memory_of(rows);
    json_free(rows->json);
    for (size_t i = 0; i < m->all.count; i++) {
        node_free(m->all.nodes[i]);
    }
    free(m->all.nodes);
    for (int order = 0; order < ROW_ORDERS; order++) {
        free(m->orders[order].nodes);
    }
    free(m->parent);
    free(m);
}

static const struct rows_ops OPS = {
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .get = get,
    .seek = seek,
    .seek_messages = seek_messages,
    .next = next,
    .count_messages = count_messages,
    .put = put,
    .remove = remove_row,
    .remove_below = remove_below,
    .remove_between = remove_between,
    .append = append,
    .read = read_bytes,
    .clear = clear,
    .next_etag = next_etag,
    .date = date,
    .latest = latest,
    .stamp = stamp,
    .free = memory_free,
};

struct rows *rows_memory_new(int64_t first_etag) {
    struct memory *m = xcalloc(1, sizeof *m);
    m->rows.ops = &OPS;
    m->rows.content_max = SIZE_MAX;
    m->etag = first_etag;
    m->parent = xstrdup("");
    return &m->rows;
}
