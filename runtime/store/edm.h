/* edm.h -- the typed values of table entities (OData's Entity Data Model, the part that tables have).
 *
 * A value is kept so that nothing is lost and equal values look equal: times as ticks of 100 ns, GUIDs in
 * small letters, binary as bytes.
 */
#ifndef SYNOD_STORE_EDM_H
#define SYNOD_STORE_EDM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(enum, the wire's word, what a script calls it) */
#define EDM_LIST(X)                                                                                \
    X(STRING, "Edm.String", "string")                                                              \
    X(INT32, "Edm.Int32", "int32")                                                                 \
    X(INT64, "Edm.Int64", "integer")                                                               \
    X(DOUBLE, "Edm.Double", "float")                                                               \
    X(BOOLEAN, "Edm.Boolean", "boolean")                                                           \
    X(TIME, "Edm.DateTime", "time")                                                                \
    X(GUID, "Edm.Guid", "guid")                                                                    \
    X(BINARY, "Edm.Binary", "binary")

#define EDM_ENUM(name, word, script) EDM_##name,
enum edm_type { EDM_LIST(EDM_ENUM) EDM_COUNT };
#undef EDM_ENUM

enum {
    EDM_TIME_TEXT = 32,   /* "2006-01-02T15:04:05.1234567Z" and a NUL */
    EDM_GUID_TEXT = 37,   /* "01234567-89ab-cdef-0123-456789abcdef" and a NUL */
    EDM_DOUBLE_TEXT = 32, /* the longest double */
    TICKS_PER_S = 10 * 1000 * 1000,
    NS_PER_TICK = 100,
};

struct edm_value {
    enum edm_type type;
    int64_t integer;  /* int32, int64; boolean: 0 or 1; time: ticks since 1970 */
    double number;    /* double */
    const char *text; /* string (UTF-8), guid, binary (bytes); a NUL follows */
    size_t len;
};

const char *edm_word(enum edm_type type);      /* "Edm.Int64" */
const char *edm_script(enum edm_type type);    /* "integer" */
enum edm_type edm_from_word(const char *word); /* EDM_COUNT: unknown */

/* The same type and value. NaN equals NaN, 0.0 differs from -0.0. */
bool edm_equal(const struct edm_value *a, const struct edm_value *b);
/* Bytes of the value as the service counts an entity's size. */
size_t edm_size(const struct edm_value *v);

/* ISO 8601 in UTC with up to 7 fraction digits, from the year 1601 to 9999; more digits are refused. "Z" may
 * be missing, an offset such as +02:00 may stand in its place. */
bool edm_time_parse(const char *text, size_t len, int64_t *ticks);
/* With 7 fraction digits, always. */
void edm_time_text(int64_t ticks, char out[EDM_TIME_TEXT]);
bool edm_time_fits(int64_t ticks);
/* With or without hyphens or braces; what comes out has hyphens and small letters. */
bool edm_guid_parse(const char *text, size_t len, char out[EDM_GUID_TEXT]);
/* The shortest text that gives the number again; it has a dot or an exponent. Not for NaN and infinity. */
void edm_double_text(double number, char out[EDM_DOUBLE_TEXT]);

/* The number of UTF-16 units of a UTF-8 text, -1 when it is none. */
int64_t utf16_length(const char *text, size_t len);

#endif
