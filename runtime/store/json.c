#include "store/json.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "store/library.h"

struct jansson {
    LIBRARY_JSON_FUNCTIONS(LIBRARY_POINTER)
};

static const char *const SYMBOLS[] = {LIBRARY_JSON_FUNCTIONS(LIBRARY_SYMBOL)};

struct json {
    struct jansson lib;
};

#define TYPE_MARK "@odata.type"

struct json *json_new(struct error *err) {
    struct json *j = xcalloc(1, sizeof *j);
    if (!library_load(LIBRARY_JSON, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, &j->lib, err)) {
        free(j);
        return NULL;
    }
    return j;
}

/* NULL is allowed. */
void json_free(struct json *j) {
    free(j);
}

/* --- reading --- */

/* What one reading is about. */
struct reading {
    const struct jansson *lib;
    struct arena *arena;
    struct error *err;
};

static bool refuse(struct reading *r, const char *why) {
    error_set(r->err, ERR_BAD_ANSWER, "an answer in JSON is malformed: %s", why);
    return false;
}

static bool no_memory(struct reading *r) {
    error_set(r->err, ERR_NO_MEMORY, NULL);
    return false;
}

static json_t *load(struct reading *r, const char *text, size_t len) {
    json_error_t why;
    json_t *root = r->lib->json_loadb(text, len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    if (!root || !json_is_object(root)) {
        refuse(r, root ? "it is no object" : why.text);
        if (root) {
            r->lib->json_delete(root);
        }
        return NULL;
    }
    return root;
}

/* A string without NUL; NULL when the field is something else. */
static const char *plain_text(const struct jansson *lib, const json_t *object, const char *field) {
    const json_t *value = lib->json_object_get(object, field);
    if (!value || !json_is_string(value)) {
        return NULL;
    }
    const char *text = lib->json_string_value(value);
    return strlen(text) == lib->json_string_length(value) ? text : NULL;
}

static bool parse_integer(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *text && !strchr(" \t\n\v\f\r+", *text) && !*end && errno == 0;
}

static bool parse_double(const char *text, double *out) {
    static const struct {
        const char *word;
        double number;
    } WORDS[] = {{"NaN", __builtin_nan("")},
                 {"Infinity", __builtin_inf()},
                 {"-Infinity", -__builtin_inf()},
                 {"INF", __builtin_inf()},
                 {"-INF", -__builtin_inf()}};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strcmp(text, WORDS[i].word) == 0) {
            *out = WORDS[i].number;
            return true;
        }
    }
    char *end;
    *out = strtod(text, &end);
    return *text && strchr("-.0123456789", *text) && !*end;
}

static bool read_binary(struct reading *r, const char *text, size_t len, struct edm_value *out) {
    char *bytes = arena_alloc(r->arena, len / 4 * 3 + 1);
    if (!bytes) {
        return no_memory(r);
    }
    if (!base64_decode(text, len, bytes, &out->len)) {
        return refuse(r, "binary that is no base64 text");
    }
    bytes[out->len] = '\0';
    out->text = bytes;
    return true;
}

static bool read_guid(struct reading *r, const char *text, size_t len, struct edm_value *out) {
    char guid[EDM_GUID_TEXT];
    if (!edm_guid_parse(text, len, guid)) {
        return refuse(r, "a GUID that is none");
    }
    out->text = arena_strdup(r->arena, guid);
    out->len = EDM_GUID_TEXT - 1;
    return out->text || no_memory(r);
}

/* A string in the JSON, for a value of a type that may be written so. */
static bool read_text(struct reading *r, const json_t *json, struct edm_value *out) {
    const char *text = r->lib->json_string_value(json);
    size_t len = r->lib->json_string_length(json);
    switch (out->type) {
    case EDM_STRING:
        out->text = arena_copy(r->arena, text, len);
        out->len = len;
        return out->text || no_memory(r);
    case EDM_INT32:
    case EDM_INT64:
        return parse_integer(text, &out->integer) || refuse(r, "an integer that is none");
    case EDM_DOUBLE:
        return parse_double(text, &out->number) || refuse(r, "a double that is none");
    case EDM_TIME:
        return edm_time_parse(text, len, &out->integer) || refuse(r, "a time that is none");
    case EDM_GUID:
        return read_guid(r, text, len, out);
    case EDM_BINARY:
        return read_binary(r, text, len, out);
    case EDM_BOOLEAN:
    case EDM_COUNT:
        break;
    }
    return refuse(r, "a value that is not of its type");
}

static bool read_number(struct reading *r, const json_t *json, struct edm_value *out) {
    bool whole = json_is_integer(json);
    double number = whole ? 0 : r->lib->json_real_value(json);
    int64_t integer = whole ? r->lib->json_integer_value(json) : 0;
    if (out->type == EDM_DOUBLE) {
        out->number = whole ? (double)integer : number;
        return true;
    }
    out->integer = integer;
    return (whole && (out->type == EDM_INT32 || out->type == EDM_INT64)) ||
           refuse(r, "a number that is not of its type");
}

/* The type when none is written. */
static enum edm_type type_of(const struct jansson *lib, const json_t *json) {
    switch (json_typeof(json)) {
    case JSON_INTEGER: {
        int64_t n = lib->json_integer_value(json);
        return n >= INT32_MIN && n <= INT32_MAX ? EDM_INT32 : EDM_INT64;
    }
    case JSON_REAL:
        return EDM_DOUBLE;
    case JSON_TRUE:
    case JSON_FALSE:
        return EDM_BOOLEAN;
    default:
        return EDM_STRING;
    }
}

static bool read_value(struct reading *r, const json_t *json, const char *type,
                       struct edm_value *out) {
    *out = (struct edm_value){.type = type ? edm_from_word(type) : type_of(r->lib, json)};
    if (out->type == EDM_COUNT) {
        return refuse(r, "a value of an unknown type");
    }
    if (json_is_string(json)) {
        return read_text(r, json, out);
    }
    if (json_is_number(json)) {
        return read_number(r, json, out);
    }
    if (json_is_boolean(json) && out->type == EDM_BOOLEAN) {
        out->integer = json_is_true(json);
        return true;
    }
    return refuse(r, "a value that is not of its type");
}

static bool read_property(struct reading *r, struct entity *e, const json_t *object,
                          const char *name, const json_t *json) {
    char mark[sizeof TYPE_MARK + 4 * PROPERTY_NAME_MAX];
    if (strchr(name, '@') || strncmp(name, "odata.", 6) == 0 || json_is_null(json) ||
        strcmp(name, "PartitionKey") == 0 || strcmp(name, "RowKey") == 0) {
        return true;
    }
    if ((size_t)snprintf(mark, sizeof mark, "%s" TYPE_MARK, name) >= sizeof mark) {
        return refuse(r, "a property's name is too long");
    }
    bool is_timestamp = strcmp(name, "Timestamp") == 0;
    struct edm_value value;
    const char *type = is_timestamp ? "Edm.DateTime" : plain_text(r->lib, object, mark);
    if (!read_value(r, json, type, &value)) {
        return false;
    }
    if (is_timestamp) {
        e->timestamp = value.integer;
        return true;
    }
    if (e->count >= JSON_PROPERTIES_MAX) {
        return refuse(r, "an entity with too many properties");
    }
    return entity_set(e, r->arena, name, &value) || no_memory(r);
}

static struct entity *read_object(struct reading *r, json_t *object, const struct entity *keys) {
    const struct jansson *lib = r->lib;
    const char *partition = keys ? keys->partition : plain_text(lib, object, "PartitionKey");
    const char *row = keys ? keys->row : plain_text(lib, object, "RowKey");
    if (!partition || !row) {
        refuse(r, "an entity without its keys");
        return NULL;
    }
    struct entity *e = entity_new(r->arena, partition, row);
    if (!e) {
        no_memory(r);
        return NULL;
    }
    const char *etag = plain_text(lib, object, "odata.etag");
    if (etag && strlen(etag) < sizeof e->etag) {
        strcpy(e->etag, etag);
    }
    for (void *at = lib->json_object_iter(object); at;
         at = lib->json_object_iter_next(object, at)) {
        if (!read_property(r, e, object, lib->json_object_iter_key(at),
                           lib->json_object_iter_value(at))) {
            return NULL;
        }
    }
    return e;
}

struct entity *json_read_entity(struct json *j, const char *text, size_t len,
                                const struct entity *keys, struct arena *arena, struct error *err) {
    struct reading r = {&j->lib, arena, err};
    json_t *root = load(&r, text, len);
    if (!root) {
        return NULL;
    }
    struct entity *e = read_object(&r, root, keys);
    j->lib.json_delete(root);
    return e;
}

static json_t *load_list(struct reading *r, const char *text, size_t len, const json_t **list) {
    json_t *root = load(r, text, len);
    if (!root) {
        return NULL;
    }
    *list = r->lib->json_object_get(root, "value");
    if (!*list || !json_is_array(*list)) {
        refuse(r, "a page without its list");
        r->lib->json_delete(root);
        return NULL;
    }
    return root;
}

bool json_read_page(struct json *j, const char *text, size_t len, struct arena *arena,
                    struct entity **page, struct error *err) {
    struct reading r = {&j->lib, arena, err};
    const json_t *list;
    json_t *root = load_list(&r, text, len, &list);
    if (!root) {
        return false;
    }
    bool ok = true;
    struct entity **last = page;
    *page = NULL;
    for (size_t i = 0; ok && i < j->lib.json_array_size(list); i++) {
        json_t *item = j->lib.json_array_get(list, i);
        struct entity *e = json_is_object(item) ? read_object(&r, item, NULL) : NULL;
        ok = e || (json_is_object(item) ? false : refuse(&r, "an entity that is no object"));
        if (e) {
            *last = e;
            last = &e->next;
        }
    }
    j->lib.json_delete(root);
    return ok;
}

bool json_read_tables(struct json *j, const char *text, size_t len,
                      bool (*name)(void *arg, const char *text), void *arg, struct error *err) {
    struct reading r = {&j->lib, NULL, err};
    const json_t *list;
    json_t *root = load_list(&r, text, len, &list);
    if (!root) {
        return false;
    }
    bool ok = true;
    for (size_t i = 0; ok && i < j->lib.json_array_size(list); i++) {
        const json_t *item = j->lib.json_array_get(list, i);
        const char *table = json_is_object(item) ? plain_text(&j->lib, item, "TableName") : NULL;
        ok = table ? name(arg, table) || no_memory(&r) : refuse(&r, "a table without a name");
    }
    j->lib.json_delete(root);
    return ok;
}

/* {"odata.error":{"code":"...","message":{"lang":"en-US","value":"text\nRequestId:..."}}} */
bool json_read_error(struct json *j, const char *text, size_t len, struct json_error *out) {
    struct error ignored;
    struct reading r = {&j->lib, NULL, &ignored};
    json_t *root = load(&r, text, len);
    if (!root) {
        return false;
    }
    const json_t *error = j->lib.json_object_get(root, "odata.error");
    bool ok = error && json_is_object(error);
    if (ok) {
        const json_t *said = j->lib.json_object_get(error, "message");
        const char *code = plain_text(&j->lib, error, "code");
        const char *message =
            said && json_is_object(said) ? plain_text(&j->lib, said, "value") : NULL;
        snprintf(out->code, sizeof out->code, "%s", code ? code : "");
        snprintf(out->message, sizeof out->message, "%s", message ? message : "");
        out->message[strcspn(out->message, "\r\n")] = '\0';
    }
    j->lib.json_delete(root);
    return ok;
}

static void read_field(const struct jansson *lib, const json_t *object, struct json_field *f) {
    const json_t *value = lib->json_object_get(object, f->name);
    char digits[32];
    const char *said = plain_text(lib, object, f->name);
    if (value && json_is_integer(value)) {
        snprintf(digits, sizeof digits, "%lld", (long long)lib->json_integer_value(value));
        said = digits;
    }
    f->len = said ? strlen(said) : 0;
    snprintf(f->text, f->room, "%s", said ? said : "");
}

bool json_read_fields(struct json *j, const char *text, size_t len, struct json_field *fields,
                      size_t count, struct error *err) {
    struct reading r = {&j->lib, NULL, err};
    json_t *root = load(&r, text, len);
    if (!root) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        read_field(&j->lib, root, &fields[i]);
    }
    j->lib.json_delete(root);
    return true;
}

/* --- writing --- */

/* U+2028 and U+2029, which some readers take for the end of a line. */
static bool is_line_end(const char *s, size_t left) {
    return left >= 3 && (unsigned char)s[0] == 0xE2 && (unsigned char)s[1] == 0x80 &&
           ((unsigned char)s[2] == 0xA8 || (unsigned char)s[2] == 0xA9);
}

bool json_write_string(struct buf *out, const char *text, size_t len) {
    buf_putc(out, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') {
            buf_putc(out, '\\');
            buf_putc(out, (char)c);
        } else if (c < 0x20 || c == 0x7F) {
            buf_printf(out, "\\u%04x", c);
        } else if (c == 0xE2 && is_line_end(text + i, len - i)) {
            buf_puts(out, (unsigned char)text[i + 2] == 0xA8 ? "\\u2028" : "\\u2029");
            i += 2;
        } else {
            buf_putc(out, (char)c);
        }
    }
    return buf_putc(out, '"');
}

static bool write_double(struct buf *out, double number) {
    char text[EDM_DOUBLE_TEXT];
    if (number != number) {
        return buf_puts(out, "\"NaN\"");
    }
    if (__builtin_isinf(number)) {
        return buf_puts(out, number > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    }
    edm_double_text(number, text);
    return buf_puts(out, text);
}

static bool write_value(struct buf *out, const struct edm_value *v) {
    char text[EDM_TIME_TEXT];
    switch (v->type) {
    case EDM_INT32:
        return buf_printf(out, "%lld", (long long)v->integer);
    case EDM_INT64:
        return buf_printf(out, "\"%lld\"", (long long)v->integer);
    case EDM_DOUBLE:
        return write_double(out, v->number);
    case EDM_BOOLEAN:
        return buf_puts(out, v->integer ? "true" : "false");
    case EDM_TIME:
        edm_time_text(v->integer, text);
        return buf_printf(out, "\"%s\"", text);
    case EDM_BINARY:
        buf_putc(out, '"');
        base64_encode(out, v->text, v->len);
        return buf_putc(out, '"');
    case EDM_STRING:
    case EDM_GUID:
    case EDM_COUNT:
        break;
    }
    return json_write_string(out, v->text, v->len);
}

/* What a reader would not know from the value alone. */
static bool needs_type(enum edm_type type) {
    return type != EDM_STRING && type != EDM_INT32 && type != EDM_BOOLEAN;
}

static bool write_property(struct buf *out, const struct property *p) {
    if (needs_type(p->value.type)) {
        buf_printf(out, "\"%s" TYPE_MARK "\":\"%s\",", p->name, edm_word(p->value.type));
    }
    buf_printf(out, "\"%s\":", p->name);
    return write_value(out, &p->value);
}

bool json_write_properties(struct buf *out, const struct entity *e) {
    buf_putc(out, '{');
    for (const struct property *p = e->properties; p; p = p->next) {
        write_property(out, p);
        if (p->next) {
            buf_putc(out, ',');
        }
    }
    return buf_putc(out, '}') && !out->failed;
}

bool json_write_entity(struct buf *out, const struct entity *e) {
    buf_puts(out, "{\"PartitionKey\":");
    json_write_string(out, e->partition, strlen(e->partition));
    buf_puts(out, ",\"RowKey\":");
    json_write_string(out, e->row, strlen(e->row));
    for (const struct property *p = e->properties; p; p = p->next) {
        buf_putc(out, ',');
        write_property(out, p);
    }
    return buf_putc(out, '}') && !out->failed;
}
