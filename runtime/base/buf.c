#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST = 64 };

void buf_init(struct buf *b, size_t max) {
    memset(b, 0, sizeof *b);
    b->max = max;
}

void buf_release(struct buf *b) {
    free(b->data);
    buf_init(b, b->max);
}

void buf_clear(struct buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data) {
        b->data[0] = '\0';
    }
}

bool buf_reserve(struct buf *b, size_t more) {
    if (b->failed || more > b->max - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap) {
        return true;
    }
    size_t cap = b->cap ? b->cap : BUF_FIRST;
    while (cap < need) {
        cap += cap / 2;
    }
    if (cap > b->max + 1) {
        cap = b->max + 1;
    }
    char *data = realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

bool buf_append(struct buf *b, const void *data, size_t n) {
    if (!buf_reserve(b, n)) {
        return false;
    }
    if (n) {
        memcpy(b->data + b->len, data, n);
    }
    b->len += n;
    b->data[b->len] = '\0';
    return true;
}

bool buf_puts(struct buf *b, const char *s) {
    return buf_append(b, s, strlen(s));
}

bool buf_putc(struct buf *b, char c) {
    return buf_append(b, &c, 1);
}

bool buf_printf(struct buf *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    bool ok = n >= 0 && buf_reserve(b, (size_t)n);
    if (ok) {
        vsnprintf(b->data + b->len, (size_t)n + 1, format, again);
        b->len += (size_t)n;
    } else {
        b->failed = true;
    }
    va_end(again);
    return ok;
}

void buf_drop(struct buf *b, size_t n) {
    if (n >= b->len) {
        n = b->len;
    }
    if (n) {
        memmove(b->data, b->data + n, b->len - n + 1);
        b->len -= n;
    }
}

const char *buf_str(const struct buf *b) {
    return b->data ? b->data : "";
}

void buf_move(struct buf *to, struct buf *from) {
    free(to->data);
    *to = *from;
    buf_init(from, from->max);
}
