/* buf.h -- a growing byte buffer that knows its maximum.
 *
 *     struct buf b;
 *     buf_init(&b, BODY_MAX);
 *     buf_append(&b, data, n);            false once the maximum is passed or memory is short;
 *     if (b.failed) ...                   the failure sticks, so a chain may be checked once
 *     buf_release(&b);
 *
 * `data` is always NUL-terminated once anything was appended (the NUL is not counted in `len`).
 */
#ifndef SYNOD_BASE_BUF_H
#define SYNOD_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; /* NULL while empty and never used */
    size_t len;
    size_t cap;
    size_t max;  /* bytes it may ever hold */
    bool failed; /* sticky: something did not fit */
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b);
void buf_clear(struct buf *b); /* empty again, memory kept */
bool buf_reserve(struct buf *b, size_t more);
bool buf_append(struct buf *b, const void *data, size_t n);
bool buf_puts(struct buf *b, const char *s);
bool buf_putc(struct buf *b, char c);
bool buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_drop(struct buf *b, size_t n);          /* remove n bytes from the front */
const char *buf_str(const struct buf *b);        /* never NULL */
void buf_move(struct buf *to, struct buf *from); /* `to` takes the memory, `from` is empty after */

#endif
