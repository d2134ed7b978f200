/* rows_memory.c -- records in memory: an array sorted by kind, parent and name.
 *
 * Finding is a binary search, inserting moves pointers: at the ten thousands of records that an instance
 * or a simulation has, cheaper than a tree and without chance. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "store/json.h"
#include "store/rows.h"

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

struct memory {
    struct rows rows;
    struct node **nodes;
    size_t count, room;
    int64_t etag, second, tick;
    /* the scan under way */
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
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(m->nodes[middle], kind, parent, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *there = low < m->count && compare(m->nodes[low], kind, parent, name) == 0;
    return low;
}

static struct node *find(const struct memory *m, const struct row_key *key) {
    bool there;
    size_t at = place(m, key->kind, key->parent, key->name, &there);
    return there ? m->nodes[at] : NULL;
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

static bool seek(struct rows *rows, enum row_kind kind, const char *parent, const char *name) {
    struct memory *m = memory_of(rows);
    bool there;
    m->at = place(m, kind, parent, name, &there);
    m->kind = kind;
    if (parent != m->parent) {
        free(m->parent);
        m->parent = xstrdup(parent);
    }
    return true;
}

static enum rows_found next(struct rows *rows, struct row *out) {
    struct memory *m = memory_of(rows);
    struct node *node = m->at < m->count ? m->nodes[m->at] : NULL;
    if (!node || node->kind != m->kind || strcmp(node->parent, m->parent) != 0) {
        return ROWS_ABSENT;
    }
    m->at++;
    show(node, false, out);
    return ROWS_FOUND;
}

static struct node *insert(struct memory *m, const struct row_key *key) {
    if (m->count == m->room) {
        m->room = m->room ? m->room * 2 : NODES_FIRST;
        m->nodes = xrealloc(m->nodes, m->room * sizeof(struct node *));
    }
    bool there;
    size_t at = place(m, key->kind, key->parent, key->name, &there);
    memmove(m->nodes + at + 1, m->nodes + at, (m->count - at) * sizeof(struct node *));
    struct node *node = xcalloc(1, sizeof *node);
    node->kind = key->kind;
    node->parent = xstrdup(key->parent);
    node->name = xstrdup(key->name);
    buf_init(&node->content, CONTENT_MAX);
    m->nodes[at] = node;
    m->count++;
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
    node = node ? node : insert(m, key);
    copy.name = node->name;
    arena_release(&node->arena);
    node->arena = arena;
    node->row = copy;
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
        node_free(m->nodes[at]);
        m->count--;
        memmove(m->nodes + at, m->nodes + at + 1, (m->count - at) * sizeof(struct node *));
    }
    return true;
}

static bool remove_below(struct rows *rows, enum row_kind kind, const char *parent) {
    struct memory *m = memory_of(rows);
    bool there;
    size_t first = place(m, kind, parent, "", &there), end = first;
    while (end < m->count && m->nodes[end]->kind == kind &&
           strcmp(m->nodes[end]->parent, parent) == 0) {
        node_free(m->nodes[end++]);
    }
    memmove(m->nodes + first, m->nodes + end, (m->count - end) * sizeof(struct node *));
    m->count -= end - first;
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

static int64_t stamp(struct rows *rows, int64_t tick) {
    struct memory *m = memory_of(rows);
    m->tick = tick > m->tick ? tick : m->tick + 1;
    return m->tick;
}

static void memory_free(struct rows *rows) {
    struct memory *m = memory_of(rows);
    json_free(rows->json);
    for (size_t i = 0; i < m->count; i++) {
        node_free(m->nodes[i]);
    }
    free(m->nodes);
    free(m->parent);
    free(m);
}

static const struct rows_ops OPS = {
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .get = get,
    .seek = seek,
    .next = next,
    .put = put,
    .remove = remove_row,
    .remove_below = remove_below,
    .append = append,
    .read = read_bytes,
    .clear = clear,
    .next_etag = next_etag,
    .date = date,
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
