#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

/* With its head 1 KiB: what malloc keeps at hand for the next one. */
enum { CHUNK_BYTES = 992 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    max_align_t data[];
};

void arena_init(struct arena *a) {
    a->chunks = NULL;
}

void arena_release(struct arena *a) {
    while (a->chunks) {
        struct arena_chunk *next = a->chunks->next;
        free(a->chunks);
        a->chunks = next;
    }
}

void *arena_alloc(struct arena *a, size_t n) {
    n = (n + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct arena_chunk *c = a->chunks;
    if (!c || c->size - c->used < n) {
        size_t size = n > CHUNK_BYTES ? n : CHUNK_BYTES;
        c = malloc(sizeof *c + size);
        if (!c) {
            return NULL;
        }
        c->next = a->chunks;
        c->used = 0;
        c->size = size;
        a->chunks = c;
    }
    void *p = (char *)c->data + c->used;
    c->used += n;
    return p;
}

char *arena_copy(struct arena *a, const void *data, size_t n) {
    char *p = arena_alloc(a, n + 1);
    if (p) {
        if (n) {
            memcpy(p, data, n);
        }
        p[n] = '\0';
    }
    return p;
}

char *arena_strdup(struct arena *a, const char *s) {
    return s ? arena_copy(a, s, strlen(s)) : NULL;
}
