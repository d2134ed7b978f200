/* store_options.c -- the options of store calls: each known by name, each read by one function. */
#include "bind/store.h"

#include <string.h>
#include <strings.h>

#include "store/lease_rules.h"
#include "store/names.h"

#define PAGE_BLOB_MAX (INT64_C(8) << 40) /* bytes, the service's limit */

static void wrong_type(lua_State *L, const char *name, const char *expected) {
    luaL_error(L, "option '%s': %s expected, got %s", name, expected, luaL_typename(L, -1));
}

static int64_t whole_number(lua_State *L, const char *name, int64_t least) {
    int whole = 0;
    int64_t value = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &whole) : 0;
    if (!whole) {
        wrong_type(L, name, "whole number");
    }
    if (value < least) {
        luaL_error(L, "option '%s': at least %d expected, got %I", name, (int)least,
                   (LUAI_UACINT)value);
    }
    return value;
}

static int64_t seconds(lua_State *L, const char *name) {
    lua_Number s = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    if (lua_type(L, -1) != LUA_TNUMBER) {
        wrong_type(L, name, "number of seconds");
    }
    if (!(s >= 0)) {
        luaL_error(L, "option '%s': seconds must not be negative, got %f", name, s);
    }
    return ns_from_seconds(s);
}

/* What travels in a header: nothing in it may end the header. */
static const char *header_text(lua_State *L, struct store_call *call, const char *name) {
    if (lua_type(L, -1) != LUA_TSTRING) {
        wrong_type(L, name, "string");
    }
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    const char *fault = name_fault_value(text, len);
    if (fault || len == 0) {
        luaL_error(L, "option '%s': it %s", name, fault ? fault : "must not be empty");
    }
    return call_copy(L, call, text, len);
}

static void read_timeout(lua_State *L, struct store_call *call, const char *name) {
    call->timeout = seconds(L, name);
}

static void read_try_timeout(lua_State *L, struct store_call *call, const char *name) {
    call->req.try_ns = seconds(L, name);
    if (call->req.try_ns == 0) {
        luaL_error(L, "option '%s': it must not be 0", name);
    }
}

static void read_retries(lua_State *L, struct store_call *call, const char *name) {
    int64_t n = whole_number(L, name, 0);
    call->req.retries = n < INT32_MAX ? (int)n : INT32_MAX;
}

static void read_if_match(lua_State *L, struct store_call *call, const char *name) {
    call->req.when.if_match = header_text(L, call, name);
}

static void read_if_none_match(lua_State *L, struct store_call *call, const char *name) {
    call->req.when.if_none_match = header_text(L, call, name);
}

static void read_if_modified_since(lua_State *L, struct store_call *call, const char *name) {
    call->req.when.if_modified_since = seconds(L, name);
}

static void read_if_unmodified_since(lua_State *L, struct store_call *call, const char *name) {
    call->req.when.if_unmodified_since = seconds(L, name);
}

const char *check_lease_id(lua_State *L, int index, struct store_call *call, const char *whose) {
    char id[LEASE_ID_TEXT];
    if (lua_type(L, index) != LUA_TSTRING) {
        luaL_error(L, "%s: string expected, got %s", whose, luaL_typename(L, index));
    }
    size_t len;
    const char *text = lua_tolstring(L, index, &len);
    if (strlen(text) != len || !lease_id_read(text, id)) {
        luaL_error(L, "%s: a lease id is a GUID, such as 6a1d3c52-9e0b-4f6e-8d5a-0c9b7e3f2a14",
                   whose);
    }
    return call_copy(L, call, id, sizeof id - 1);
}

static void read_lease(lua_State *L, struct store_call *call, const char *name) {
    (void)name;
    call->req.when.lease = check_lease_id(L, -1, call, "option 'lease'");
}

static void read_lease_id(lua_State *L, struct store_call *call, const char *name) {
    (void)name;
    call->req.proposed_id = check_lease_id(L, -1, call, "option 'id'");
}

static void read_duration(lua_State *L, struct store_call *call, const char *name) {
    int64_t s = whole_number(L, name, LEASE_FOREVER);
    if (s != LEASE_FOREVER && (s < LEASE_SECONDS_MIN || s > LEASE_SECONDS_MAX)) {
        luaL_error(L, "option '%s': %d to %d seconds expected, or -1 (for ever), got %I", name,
                   LEASE_SECONDS_MIN, LEASE_SECONDS_MAX, (LUAI_UACINT)s);
    }
    call->req.lease_seconds = s;
}

static void read_type(lua_State *L, struct store_call *call, const char *name) {
    for (int type = BLOB_BLOCK; type <= BLOB_APPEND; type++) {
        if (lua_type(L, -1) == LUA_TSTRING &&
            strcmp(lua_tostring(L, -1), blob_type_word((enum blob_type)type)) == 0) {
            call->req.type = (enum blob_type)type;
            return;
        }
    }
    luaL_error(L, "option '%s': 'block', 'page' or 'append' expected, got %s", name,
               luaL_tolstring(L, -1, NULL));
}

static void read_size(lua_State *L, struct store_call *call, const char *name) {
    call->req.size = whole_number(L, name, 0);
    if (call->req.size > PAGE_BLOB_MAX) {
        luaL_error(L, "option '%s': at most %I bytes (8 TiB) expected, got %I", name,
                   (LUAI_UACINT)PAGE_BLOB_MAX, (LUAI_UACINT)call->req.size);
    }
    if (call->req.size % PAGE_SIZE != 0) {
        luaL_error(L, "option '%s': a multiple of %d expected, got %I", name, PAGE_SIZE,
                   (LUAI_UACINT)call->req.size);
    }
}

static void read_content_type(lua_State *L, struct store_call *call, const char *name) {
    call->req.content_type = header_text(L, call, name);
}

static void read_metadata(lua_State *L, struct store_call *call, const char *name) {
    if (!lua_istable(L, -1)) {
        wrong_type(L, name, "table");
    }
    call_metadata(L, lua_gettop(L), call);
}

static void read_position(lua_State *L, struct store_call *call, const char *name) {
    call->req.position = whole_number(L, name, 0);
}

static void read_offset(lua_State *L, struct store_call *call, const char *name) {
    call->req.range_start = whole_number(L, name, 0);
}

/* Becomes the last byte's place once the offset is known: blob_get. */
static void read_length(lua_State *L, struct store_call *call, const char *name) {
    call->req.range_end = whole_number(L, name, 1);
}

static void read_source_if_match(lua_State *L, struct store_call *call, const char *name) {
    call->req.source_if_match = header_text(L, call, name);
}

static void read_prefix(lua_State *L, struct store_call *call, const char *name) {
    if (lua_type(L, -1) != LUA_TSTRING) {
        wrong_type(L, name, "string");
    }
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    if (strlen(text) != len) {
        luaL_error(L, "option '%s': it may not hold a zero byte", name);
    }
    call->req.prefix = call_copy(L, call, text, len);
}

static void read_with_metadata(lua_State *L, struct store_call *call, const char *name) {
    if (!lua_isboolean(L, -1)) {
        wrong_type(L, name, "true or false");
    }
    call->req.with_metadata = lua_toboolean(L, -1);
}

static void read_page(lua_State *L, struct store_call *call, const char *name) {
    call->req.max_results = whole_number(L, name, 1);
    if (call->req.max_results > LIST_PAGE_MAX) {
        luaL_error(L, "option '%s': at most %d expected", name, LIST_PAGE_MAX);
    }
}

/* clang-format off */
#define PATIENCE                                                                                   \
    {"timeout", read_timeout},                                                                     \
    {"try_timeout", read_try_timeout},                                                             \
    {"retries", read_retries}
#define VERSIONS                                                                                   \
    {"if_match", read_if_match},                                                                   \
    {"if_none_match", read_if_none_match},                                                         \
    {"if_modified_since", read_if_modified_since},                                                 \
    {"if_unmodified_since", read_if_unmodified_since}
#define CONDITIONS VERSIONS, {"lease", read_lease}
#define END {NULL, NULL}

const struct call_option READ_OPTIONS[] = {PATIENCE, CONDITIONS, END};
const struct call_option LEASE_OPTIONS[] = {PATIENCE, VERSIONS, END};
const struct call_option ACQUIRE_OPTIONS[] = {
    PATIENCE, VERSIONS, {"duration", read_duration}, {"id", read_lease_id}, END};
const struct call_option CONTAINER_LEASE_OPTIONS[] = {
    PATIENCE, {"if_modified_since", read_if_modified_since},
    {"if_unmodified_since", read_if_unmodified_since}, END};
const struct call_option CONTAINER_ACQUIRE_OPTIONS[] = {
    PATIENCE, {"if_modified_since", read_if_modified_since},
    {"if_unmodified_since", read_if_unmodified_since}, {"duration", read_duration},
    {"id", read_lease_id}, END};
const struct call_option CONTAINER_READ_OPTIONS[] = {PATIENCE, {"lease", read_lease}, END};
const struct call_option CONTAINER_WRITE_OPTIONS[] = {
    PATIENCE, {"if_modified_since", read_if_modified_since}, {"lease", read_lease}, END};
const struct call_option CONTAINER_DELETE_OPTIONS[] = {
    PATIENCE, {"if_modified_since", read_if_modified_since},
    {"if_unmodified_since", read_if_unmodified_since}, {"lease", read_lease}, END};
const struct call_option GET_OPTIONS[] = {
    PATIENCE, CONDITIONS, {"offset", read_offset}, {"length", read_length}, END};
const struct call_option PUT_OPTIONS[] = {
    PATIENCE, CONDITIONS, {"type", read_type}, {"size", read_size},
    {"content_type", read_content_type}, {"metadata", read_metadata}, END};
const struct call_option STAGE_OPTIONS[] = {PATIENCE, {"lease", read_lease}, END};
const struct call_option COMMIT_OPTIONS[] = {
    PATIENCE, CONDITIONS, {"content_type", read_content_type}, {"metadata", read_metadata}, END};
const struct call_option COPY_OPTIONS[] = {
    PATIENCE, CONDITIONS, {"metadata", read_metadata},
    {"source_if_match", read_source_if_match}, END};
const struct call_option APPEND_OPTIONS[] = {
    PATIENCE, CONDITIONS, {"position", read_position}, END};
const struct call_option CREATE_OPTIONS[] = {PATIENCE, {"metadata", read_metadata}, END};
const struct call_option LIST_OPTIONS[] = {
    PATIENCE, {"prefix", read_prefix}, {"metadata", read_with_metadata}, {"page", read_page}, END};
/* clang-format on */

static const struct call_option *find_option(const struct call_option *known, const char *name) {
    static const struct call_option OF_EVERY_CALL[] = {PATIENCE, END};
    for (; known->name; known++) {
        if (strcmp(known->name, name) == 0) {
            return known;
        }
    }
    for (known = OF_EVERY_CALL; known->name && strcmp(known->name, name) != 0; known++) {}
    return known->name ? known : NULL;
}

enum { WORD_MAX = 32 };

/* The number of single-letter changes between two words shorter than WORD_MAX. */
static int distance(const char *a, const char *b) {
    int row[WORD_MAX + 1], n = (int)strlen(b);
    for (int j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            int insert = row[j - 1] + 1, remove = row[j] + 1;
            diagonal = row[j];
            row[j] = change < insert ? change : insert;
            row[j] = row[j] < remove ? row[j] : remove;
        }
    }
    return row[n];
}

static const char *nearest_option(const struct call_option *known, const char *name) {
    const char *best = NULL;
    int best_distance = (int)strlen(name) / 3 + 2;
    for (; known->name && strlen(name) < WORD_MAX; known++) {
        int d = distance(name, known->name);
        if (d < best_distance) {
            best = known->name;
            best_distance = d;
        }
    }
    return best;
}

static void unknown_option(lua_State *L, const struct call_option *known, int key) {
    const char *name = luaL_tolstring(L, key, NULL);
    const char *near = nearest_option(known, name);
    luaL_error(L, near ? "unknown option '%s' (did you mean '%s'?)" : "unknown option '%s'", name,
               near);
}

void call_options(lua_State *L, int arg, const struct call_option *known, struct store_call *call) {
    if (lua_isnoneornil(L, arg)) {
        return;
    }
    luaL_checktype(L, arg, LUA_TTABLE);
    lua_pushnil(L);
    while (lua_next(L, arg)) {
        const struct call_option *option =
            lua_type(L, -2) == LUA_TSTRING ? find_option(known, lua_tostring(L, -2)) : NULL;
        if (!option) {
            unknown_option(L, known, lua_gettop(L) - 1);
        }
        option->read(L, call, option->name);
        lua_pop(L, 1);
    }
}

/* The name and value that lua_next has left on the stack; a number's text serves as value. */
static size_t check_pair(lua_State *L) {
    if (lua_type(L, -2) != LUA_TSTRING || !lua_isstring(L, -1)) {
        luaL_error(L, "metadata is a table of strings by name; this one holds a %s under a %s",
                   luaL_typename(L, -1), luaL_typename(L, -2));
    }
    size_t name_len, value_len;
    const char *name = lua_tolstring(L, -2, &name_len);
    const char *value = lua_tolstring(L, -1, &value_len);
    const char *fault = name_fault_metadata(name, name_len);
    if (fault) {
        luaL_error(L, "the metadata name '%s' %s", name, fault);
    }
    fault = name_fault_value(value, value_len);
    if (fault) {
        luaL_error(L, "the metadata value of '%s' %s", name, fault);
    }
    return name_len + value_len + 2;
}

/* Names that differ by case alone are one name to the service, which would join the values. */
static void check_names_differ(lua_State *L, const char *metadata, size_t len) {
    for (const char *name = metadata, *next; name < metadata + len; name = next) {
        const char *value = name + strlen(name) + 1;
        next = value + strlen(value) + 1;
        for (const char *other = next; other < metadata + len;) {
            const char *others = other + strlen(other) + 1;
            if (strcasecmp(name, other) == 0) {
                luaL_error(L,
                           "the metadata names '%s' and '%s' differ by case alone, which makes no "
                           "difference to the service",
                           name, other);
            }
            other = others + strlen(others) + 1;
        }
    }
}

void call_metadata(lua_State *L, int arg, struct store_call *call) {
    size_t total = 0;
    for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
        total += check_pair(L);
    }
    if (total == 0) {
        return;
    }
    char *out = arena_alloc(&call->arena, total);
    if (!out) {
        luaL_error(L, "not enough memory");
    }
    call->req.metadata = out;
    call->req.metadata_len = total;
    for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
        for (int index = -2; index <= -1; index++) {
            size_t len;
            const char *text = lua_tolstring(L, index, &len);
            memcpy(out, text, len + 1);
            out += len + 1;
        }
    }
    check_names_differ(L, call->req.metadata, total);
}
