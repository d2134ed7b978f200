/* table_json.c -- entities, pages, lists of tables and refusals in JSON. An entity that was read is written so that
 * it is read as the same. */
#include "fuzz.h"
#include "store/json.h"

static void same(const struct entity *a, const struct entity *b) {
    must(strcmp(a->partition, b->partition) == 0 && strcmp(a->row, b->row) == 0);
    must(a->count == b->count);
    for (const struct property *p = a->properties; p; p = p->next) {
        const struct edm_value *value = entity_get(b, p->name);
        must(value && edm_equal(&p->value, value));
    }
}

/* What could have been written: the bindings refuse the rest. */
static bool writable(const struct entity *e) {
    const char *word;
    if (entity_fault(e, &word) || key_fault(e->partition, strlen(e->partition)) ||
        key_fault(e->row, strlen(e->row))) {
        return false;
    }
    for (const struct property *p = e->properties; p; p = p->next) {
        if (property_name_fault(p->name, strlen(p->name)) || value_fault(&p->value, &word)) {
            return false;
        }
    }
    return true;
}

static void again(struct json *j, const struct entity *e, struct arena *arena) {
    struct buf out;
    buf_init(&out, JSON_ENTITY_MAX);
    must(json_write_entity(&out, e));
    struct error err;
    struct entity *back = json_read_entity(j, buf_str(&out), out.len, NULL, arena, &err);
    if (!back) {
        fprintf(stderr, "%s\nis refused: %s\n", buf_str(&out), err.message);
    }
    must(back != NULL);
    same(e, back);
    buf_release(&out);
}

static bool take_name(void *arg, const char *text) {
    *(size_t *)arg += strlen(text);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    struct arena arena;
    arena_init(&arena);
    struct error err;
    struct json *j = json_new(&err);
    must(j != NULL);
    struct entity *e = json_read_entity(j, text, size, NULL, &arena, &err);
    if (e && writable(e)) {
        again(j, e, &arena);
    }
    struct entity *page = NULL;
    if (json_read_page(j, text, size, &arena, &page, &err)) {
        for (const struct entity *each = page; each; each = each->next) {
            must(entity_size(each) > 0);
        }
    }
    size_t bytes = 0;
    json_read_tables(j, text, size, take_name, &bytes, &err);
    struct json_error refusal;
    if (json_read_error(j, text, size, &refusal)) {
        must(strnlen(refusal.code, sizeof refusal.code) < sizeof refusal.code);
    }
    json_free(j);
    arena_release(&arena);
    free(text);
    return 0;
}
