/* alloc.h -- memory for the runtime's own small needs.
 *
 * When the machine has none left these say so and end the process: the runtime's own structures are
 * small and bounded, so a refusal here means that nothing sensible can be done. What the outside
 * decides the size of (bodies, answers, a script's heap) goes through buf.h or the vm's allocator,
 * which report a refusal.
 */
#ifndef SYNOD_BASE_ALLOC_H
#define SYNOD_BASE_ALLOC_H

#include <stddef.h>

void *xmalloc(size_t n);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
