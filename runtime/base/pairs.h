/* pairs.h -- a short list of names and values, such as a blob's metadata.
 *
 * Kept as one flat text, "name\0value\0name\0value\0", in the order of insertion: cheap to copy, to
 * compare and to keep in a record. Names are compared without regard to case, as the service does.
 */
#ifndef SYNOD_BASE_PAIRS_H
#define SYNOD_BASE_PAIRS_H

#include "base/buf.h"

enum { PAIRS_MAX = 16 * 1024 };

struct pairs {
    struct buf text;
};

void pairs_init(struct pairs *p);
void pairs_release(struct pairs *p);
void pairs_clear(struct pairs *p);
bool pairs_add(struct pairs *p, const char *name, const char *value); /* no check for a double */
void pairs_remove(struct pairs *p, const char *name);
const char *pairs_get(const struct pairs *p, const char *name); /* NULL when absent */
bool pairs_copy(struct pairs *to, const struct pairs *from);

/* for (const char *name = pairs_first(p); name; name = pairs_next(p, name)) use(pairs_value(name)); */
const char *pairs_first(const struct pairs *p);
const char *pairs_next(const struct pairs *p, const char *name);
const char *pairs_value(const char *name);

#endif
