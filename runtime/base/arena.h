/* arena.h -- strings that live and die together.
 *
 * Everything taken from an arena is freed by one arena_release. Nothing in it moves, so pointers stay
 * valid until then. Used for what one request carries.
 */
#ifndef SYNOD_BASE_ARENA_H
#define SYNOD_BASE_ARENA_H

#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks;
};

void arena_init(struct arena *a);
void arena_release(struct arena *a);
void *arena_alloc(struct arena *a, size_t n); /* aligned for any type; NULL: out of memory */
char *arena_copy(struct arena *a, const void *data, size_t n); /* n bytes and a NUL */
char *arena_strdup(struct arena *a, const char *s);            /* NULL in, NULL out */

#endif
