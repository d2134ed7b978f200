#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p) {
    if (!p) {
        fputs("synod: the machine has no memory left; end other programs and start again\n",
              stderr);
        abort();
    }
    return p;
}

void *xmalloc(size_t n) {
    return must(malloc(n ? n : 1));
}

void *xcalloc(size_t count, size_t size) {
    return must(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n) {
    return must(realloc(p, n ? n : 1));
}

char *xstrdup(const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(xmalloc(n), s, n);
}
