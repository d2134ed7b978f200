/* filter.h -- the filter of a query: parsed once, asked of each entity.
 *
 *     PartitionKey eq 'worker' and (age ge 18 or not (name eq 'O''Neil')) and seen lt datetime'2026-01-02T00:00:00Z'
 *
 * Comparisons eq ne gt ge lt le between properties and literals, and or not, parentheses; a boolean property
 * may stand alone. Literals: 'text', 1, 1L, 1.5, true, datetime'...', guid'...', X'..' or binary'..'. `and`
 * binds closer than `or`, `not` takes the comparison that follows it.
 *
 * Numbers compare by value, whatever their types. Otherwise a comparison of different types, or with a
 * property that the entity has not, is false, `ne` included. Text compares by its bytes.
 */
#ifndef SYNOD_STORE_FILTER_H
#define SYNOD_STORE_FILTER_H

#include "base/arena.h"
#include "base/error.h"
#include "store/entity.h"

enum {
    FILTER_BYTES_MAX = 32 * 1024,
    FILTER_DEPTH_MAX = 64,   /* parentheses and nots inside each other */
    FILTER_NODES_MAX = 1024, /* comparisons and what joins them */
};

struct filter;

/* NULL: err says what is wrong, and where; code InvalidInput. Lives in the arena. */
const struct filter *filter_parse(struct arena *arena, const char *text, struct error *err);
bool filter_takes(const struct filter *f, const struct entity *e);

#endif
