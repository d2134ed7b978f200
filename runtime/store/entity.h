/* entity.h -- a table's entity: two keys and typed properties, in an arena.
 *
 *     struct entity *e = entity_new(&arena, "worker", "3");
 *     entity_set(e, &arena, "port", &(struct edm_value){.type = EDM_INT32, .integer = 80});
 *     const char *fault = entity_fault(e, &word);        NULL: the service takes it
 *
 * The order of properties is that in which they came. A name stands at most once.
 */
#ifndef SYNOD_STORE_ENTITY_H
#define SYNOD_STORE_ENTITY_H

#include "base/arena.h"
#include "store/edm.h"

enum {
    ENTITY_BYTES_MAX = 1024 * 1024,  /* as the service counts them: see entity_size */
    ENTITY_PROPERTIES_MAX = 252,     /* beside the keys and the timestamp */
    PROPERTY_NAME_MAX = 255,         /* characters */
    PROPERTY_STRING_MAX = 32 * 1024, /* UTF-16 units, which are 64 KiB */
    PROPERTY_BINARY_MAX = 64 * 1024,
    KEY_MAX = 1024,                    /* bytes in UTF-8, and characters for the service */
    ENTITY_PAGE_MAX = 1000,            /* entities of one page of a query */
    BATCH_MAX = 100,                   /* operations of one batch */
    BATCH_BYTES_MAX = 4 * 1024 * 1024, /* and their size */
    ENTITY_ETAG_MAX = 80,
};

struct property {
    struct property *next;
    const char *name;
    struct edm_value value;
};

struct entity {
    struct entity *next; /* of a page, or of the operations of a batch */
    const char *partition, *row;
    int64_t timestamp; /* ticks since 1970; INT64_MIN: not told */
    char etag[ENTITY_ETAG_MAX];
    struct property *properties;
    struct property **last;
    int count;
};

/* Each copies what it is given. NULL, false: no memory. */
struct entity *entity_new(struct arena *arena, const char *partition, const char *row);
struct entity *entity_copy(struct arena *arena, const struct entity *from);
bool entity_set(struct entity *e, struct arena *arena, const char *name,
                const struct edm_value *value);
const struct edm_value *entity_get(const struct entity *e, const char *name);
void entity_remove(struct entity *e, const char *name);
/* Sets every property of `from`; those that it has not stay. */
bool entity_merge(struct entity *e, struct arena *arena, const struct entity *from);
/* Keeps the named properties alone; `names` is a list with commas. */
void entity_select(struct entity *e, const char *names);

/* Bytes as the service counts them. */
size_t entity_size(const struct entity *e);
/* The service's ETag of a timestamp. */
void entity_etag(int64_t timestamp, char out[ENTITY_ETAG_MAX]);

/* What the service forbids: a sentence that goes on after the name of the thing, or NULL. `word` is the code
 * that the service answers with, with status 400. */
const char *key_fault(const char *key, size_t len);
const char *property_name_fault(const char *name, size_t len);
const char *value_fault(const struct edm_value *value, const char **word);
const char *entity_fault(const struct entity *e, const char **word);

#endif
