/* heap.c -- a script's memory: counted, and limited when asked. */
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>

#include "vm/vm.h"

struct heap {
    size_t used, limit; /* limit 0: none */
};

static void *heap_alloc(void *ud, void *p, size_t old, size_t n) {
    struct heap *h = ud;
    if (!p) {
        old = 0; /* then it is a type tag */
    }
    if (n == 0) {
        free(p);
        h->used -= old;
        return NULL;
    }
    if (n > old && h->limit && h->used + (n - old) > h->limit) {
        return NULL; /* Lua collects garbage and tries again before it raises */
    }
    void *q = realloc(p, n);
    if (q) {
        h->used += n - old;
    }
    return q;
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
        free(h);
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
    free(h);
}

bool vm_limit_memory(lua_State *L, size_t bytes) {
    struct heap *h = heap_of(L);
    if (h) {
        h->limit = bytes;
    }
    return h != NULL;
}

size_t vm_memory_limit(lua_State *L) {
    struct heap *h = heap_of(L);
    return h ? h->limit : 0;
}

size_t vm_memory_used(lua_State *L) {
    struct heap *h = heap_of(L);
    return h ? h->used : 0;
}
