/* fuzz.h -- what the targets share. A target is one file:
 *
 *     int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
 *
 * It gives the bytes to one parser of what comes from outside, and checks what must hold of the result:
 * the sanitizers see what is read and written wrongly, `must` sees what is merely wrong.
 */
#ifndef SYNOD_FUZZ_H
#define SYNOD_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pairs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void must_hold(bool holds, const char *what, const char *file, int line) {
    if (!holds) {
        fprintf(stderr, "%s:%d: it does not hold: %s\n", file, line, what);
        abort();
    }
}

#define must(condition) must_hold(condition, #condition, __FILE__, __LINE__)

/* The bytes as a string of their own, to be freed: so that one read too far is seen. */
static inline char *fuzz_text(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* Takes "name: value" lines up to an empty one; gives where the body begins. */
static inline char *fuzz_headers(struct pairs *headers, char *line) {
    while (*line) {
        char *end = line + strcspn(line, "\n");
        bool last = !*end, empty = end == line;
        *end = '\0';
        char *colon = strstr(line, ": ");
        if (colon) {
            *colon = '\0';
            pairs_add(headers, line, colon + 2);
        }
        line = last ? end : end + 1;
        if (empty) {
            break;
        }
    }
    return line;
}

#endif
