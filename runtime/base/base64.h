/* base64.h -- bytes as text: the standard alphabet with padding (RFC 4648, section 4). */
#ifndef SYNOD_BASE_BASE64_H
#define SYNOD_BASE_BASE64_H

#include "base/buf.h"

/* Characters that n bytes take. */
size_t base64_length(size_t n);
/* Appends the text of n bytes; false when it does not fit. */
bool base64_encode(struct buf *out, const void *data, size_t n);
/* The bytes that the text stands for, written to `out`, which has room for n / 4 * 3 of them. False when
 * the text is not base64 with its padding; blanks and line ends are not skipped. */
bool base64_decode(const char *text, size_t n, char *out, size_t *len);

#endif
