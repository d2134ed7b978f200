/* json.h -- entities and the table service's answers as JSON text, the form they have on the wire.
 *
 *     {"PartitionKey":"p","RowKey":"r","n@odata.type":"Edm.Int64","n":"5","f":1.5,"s":"text"}
 *
 * Whole numbers of 64 bits, times, GUIDs and binary travel as strings with their type beside them; so do NaN
 * and the infinities. A number without a type is an Int32 when it is whole, else a Double. What is null is
 * absent. Depth and lengths are limited; what is not exactly such an answer is refused.
 */
#ifndef SYNOD_STORE_JSON_H
#define SYNOD_STORE_JSON_H

#include "base/buf.h"
#include "base/error.h"
#include "store/entity.h"

enum {
    JSON_ERROR_MESSAGE_MAX = 1024,
    JSON_PROPERTIES_MAX =
        1024, /* of one entity; the service has fewer, an emulator may not count */
    JSON_ENTITY_MAX =
        16 * 1024 * 1024, /* bytes of one entity's text: escapes may take six for one */
};

struct json;

/* NULL and err when jansson cannot be had. */
struct json *json_new(struct error *err);
void json_free(struct json *j);

/* Each takes the memory of what it reads from the arena. False, NULL: err says why. */

/* An entity with its keys, or (`keys` NULL) with those. */
struct entity *json_read_entity(struct json *j, const char *text, size_t len,
                                const struct entity *keys, struct arena *arena, struct error *err);
/* The entities of a page, {"value":[...]}, in order. */
bool json_read_page(struct json *j, const char *text, size_t len, struct arena *arena,
                    struct entity **page, struct error *err);
/* The names of a page of tables, each given to `name`, which says whether to go on. */
bool json_read_tables(struct json *j, const char *text, size_t len,
                      bool (*name)(void *arg, const char *text), void *arg, struct error *err);

/* What an error body says. False when the text is none. */
struct json_error {
    char code[ERR_WORD_MAX];
    char message[JSON_ERROR_MESSAGE_MAX]; /* its first line */
};
bool json_read_error(struct json *j, const char *text, size_t len, struct json_error *out);

/* A field of an object as text: a string as it is, a whole number in digits. `room` bytes take as much of it as
 * goes in, with a NUL; `len` is its whole length, 0 when it is absent or something else. */
struct json_field {
    const char *name;
    char *text;
    size_t room;
    size_t len;
};
/* False when the text is no object. */
bool json_read_fields(struct json *j, const char *text, size_t len, struct json_field *fields,
                      size_t count, struct error *err);

/* Append the text of an entity: all of it, or its properties alone. False: it does not fit. */
bool json_write_entity(struct buf *out, const struct entity *e);
bool json_write_properties(struct buf *out, const struct entity *e);
bool json_write_string(struct buf *out, const char *text, size_t len);

#endif
