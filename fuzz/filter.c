/* filter.c -- filters of queries. Whatever is a filter can be asked of an entity with every type. */
#include "fuzz.h"
#include "store/embedded/filter.h"

static struct entity *sample(struct arena *arena) {
    static const struct {
        const char *name;
        struct edm_value value;
    } PROPERTIES[] = {
        {"text", {.type = EDM_STRING, .text = "O'Neil", .len = 6}},
        {"small", {.type = EDM_INT32, .integer = -7}},
        {"large", {.type = EDM_INT64, .integer = INT64_MAX}},
        {"ratio", {.type = EDM_DOUBLE, .number = 1.5}},
        {"yes", {.type = EDM_BOOLEAN, .integer = 1}},
        {"seen", {.type = EDM_TIME, .integer = 17356896000000000}},
        {"id", {.type = EDM_GUID, .text = "01234567-89ab-cdef-0123-456789abcdef", .len = 36}},
        {"bytes", {.type = EDM_BINARY, .text = "\0\1\377", .len = 3}},
    };
    struct entity *e = entity_new(arena, "worker", "3");
    for (size_t i = 0; e && i < sizeof PROPERTIES / sizeof *PROPERTIES; i++) {
        must(entity_set(e, arena, PROPERTIES[i].name, &PROPERTIES[i].value));
    }
    return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    struct arena arena;
    arena_init(&arena);
    struct error err;
    error_clear(&err);
    const struct filter *f = filter_parse(&arena, text, &err);
    if (f) {
        const struct entity *e = sample(&arena);
        must(e != NULL);
        must(filter_takes(f, e) == filter_takes(f, e));
    } else {
        must(err.code == ERR_INVALID_INPUT);
    }
    arena_release(&arena);
    free(text);
    return 0;
}
