/* heap.c -- a script's memory: counted, and limited when asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/vm.h"

/* Lua takes and gives back small blocks all the time, of few sizes, and says their size when it gives them
 * back: the last ones of each size are kept at hand, which costs a tenth of malloc and free. */
enum {
    SMALLEST = 24, /* and then in steps of 16: the sizes that malloc really gives */
    STEP = 16,
    CLASSES = 16,
    RESERVE_PART = 8, /* of the limit: what is kept for a script that has reached it */
    RESERVE_LEAST = 65536,
    SMALL_MAX = SMALLEST + (CLASSES - 1) * STEP, /* bytes of a block that is kept */
#ifdef __SANITIZE_ADDRESS__
    KEPT_MAX = 0, /* so that the sanitizer sees each use of what was given back */
#else
    KEPT_MAX = 256, /* blocks of each size */
#endif
};

struct kept {
    struct kept *next;
};

struct heap {
    size_t used, limit; /* limit 0: none */
    size_t room;        /* beyond the limit, once it was reached: to say so and to clean up */
    struct kept *kept[CLASSES];
    int count[CLASSES];
};

static size_t class_of(size_t n) {
    return n <= SMALLEST ? 0 : (n - SMALLEST + STEP - 1) / STEP;
}

static void *block_take(struct heap *h, size_t n) {
    if (n > SMALL_MAX) {
        return malloc(n);
    }
    size_t class = class_of(n);
    struct kept *block = h->kept[class];
    if (!block) {
        return malloc(SMALLEST + class * STEP);
    }
    h->kept[class] = block->next;
    h->count[class]--;
    return block;
}

static void block_give_back(struct heap *h, void *p, size_t n) {
    size_t class = n > 0 && n <= SMALL_MAX ? class_of(n) : CLASSES;
    if (!p || class == CLASSES || h->count[class] >= KEPT_MAX) {
        free(p);
        return;
    }
    struct kept *block = p;
    block->next = h->kept[class];
    h->kept[class] = block;
    h->count[class]++;
}

/* Lua takes for granted that a block can be made smaller. */
static void *block_resize(struct heap *h, void *p, size_t old, size_t n) {
    if (old > SMALL_MAX && n > SMALL_MAX) {
        return realloc(p, n);
    }
    if (old <= SMALL_MAX && n <= SMALL_MAX && class_of(old) == class_of(n)) {
        return p;
    }
    void *q = block_take(h, n);
    if (!q) {
        return n < old ? p : NULL;
    }
    memcpy(q, p, n < old ? n : old);
    block_give_back(h, p, old);
    return q;
}

static void *heap_alloc(void *ud, void *p, size_t old, size_t n) {
    struct heap *h = ud;
    if (!p) {
        old = 0; /* then it is a type tag */
    }
    if (n == 0) {
        block_give_back(h, p, old);
        h->used -= old;
        return NULL;
    }
    if (n > old && h->limit && h->used + (n - old) > h->limit + h->room) {
        return NULL; /* Lua collects garbage and tries again before it raises */
    }
    void *q = old == 0 ? block_take(h, n) : block_resize(h, p, old, n);
    if (q) {
        h->used += n - old;
    }
    return q;
}

static void heap_free(struct heap *h) {
    for (int i = 0; h && i < CLASSES; i++) {
        while (h->kept[i]) {
            struct kept *block = h->kept[i];
            h->kept[i] = block->next;
            free(block);
        }
    }
    free(h);
}

static int panic(lua_State *L) {
    const char *message = lua_tostring(L, -1);
    fprintf(stderr, "synod: the runtime met an error where none may be raised: %s\n",
            message ? message : "(no message)");
    return 0; /* Lua aborts */
}

lua_State *vm_state_new(void) {
    struct heap *h = calloc(1, sizeof *h);
    lua_State *L = h ? lua_newstate(heap_alloc, h) : NULL;
    if (!L) {
        heap_free(h);
        return NULL;
    }
    lua_atpanic(L, panic);
    return L;
}

static struct heap *heap_of(lua_State *L) {
    void *ud;
    return lua_getallocf(L, &ud) == heap_alloc ? ud : NULL;
}

void vm_state_free(lua_State *L) {
    struct heap *h = heap_of(L);
    lua_close(L);
    heap_free(h);
}

bool vm_limit_memory(lua_State *L, size_t bytes) {
    struct heap *h = heap_of(L);
    if (h) {
        h->limit = bytes;
        h->room = 0;
    }
    return h != NULL;
}

void vm_open_reserve(lua_State *L) {
    struct heap *h = heap_of(L);
    if (h && h->limit) {
        h->room = h->limit / RESERVE_PART + RESERVE_LEAST;
    }
}

size_t vm_memory_limit(lua_State *L) {
    struct heap *h = heap_of(L);
    return h ? h->limit : 0;
}
