/* utf8.h -- where a character ends. */
#ifndef SYNOD_BASE_UTF8_H
#define SYNOD_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the UTF-8 character at p, of which `left` may be read; 0 when it is none. Overlong forms and
 * surrogates are none. */
size_t utf8_length(const unsigned char *p, size_t left);

#endif
