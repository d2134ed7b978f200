#include "store/entity.h"

#include <stdio.h>
#include <string.h>

struct entity *entity_new(struct arena *arena, const char *partition, const char *row) {
    struct entity *e = arena_alloc(arena, sizeof *e);
    if (!e) {
        return NULL;
    }
    *e = (struct entity){.timestamp = INT64_MIN};
    e->last = &e->properties;
    e->partition = arena_strdup(arena, partition);
    e->row = arena_strdup(arena, row);
    return e->partition && e->row ? e : NULL;
}

static struct property *find(const struct entity *e, const char *name) {
    struct property *p = e->properties;
    while (p && strcmp(p->name, name) != 0) {
        p = p->next;
    }
    return p;
}

const struct edm_value *entity_get(const struct entity *e, const char *name) {
    const struct property *p = find(e, name);
    return p ? &p->value : NULL;
}

static bool copy_value(struct arena *arena, const struct edm_value *from, struct edm_value *to) {
    *to = *from;
    if (from->text) {
        to->text = arena_copy(arena, from->text, from->len);
    }
    return !from->text || to->text;
}

bool entity_set(struct entity *e, struct arena *arena, const char *name,
                const struct edm_value *value) {
    struct edm_value copy;
    struct property *p = find(e, name);
    if (!copy_value(arena, value, &copy)) {
        return false;
    }
    if (!p) {
        p = arena_alloc(arena, sizeof *p);
        const char *own = p ? arena_strdup(arena, name) : NULL;
        if (!own) {
            return false;
        }
        *p = (struct property){.name = own};
        *e->last = p;
        e->last = &p->next;
        e->count++;
    }
    p->value = copy;
    return true;
}

struct entity *entity_copy(struct arena *arena, const struct entity *from) {
    struct entity *e = entity_new(arena, from->partition, from->row);
    if (!e || !entity_merge(e, arena, from)) {
        return NULL;
    }
    e->timestamp = from->timestamp;
    memcpy(e->etag, from->etag, sizeof e->etag);
    return e;
}

/* Takes the property that `at` points to out of the list. */
static void drop(struct entity *e, struct property **at) {
    struct property *p = *at;
    *at = p->next;
    if (e->last == &p->next) {
        e->last = at;
    }
    e->count--;
}

void entity_remove(struct entity *e, const char *name) {
    for (struct property **at = &e->properties; *at; at = &(*at)->next) {
        if (strcmp((*at)->name, name) == 0) {
            drop(e, at);
            return;
        }
    }
}

bool entity_merge(struct entity *e, struct arena *arena, const struct entity *from) {
    for (const struct property *p = from->properties; p; p = p->next) {
        if (!entity_set(e, arena, p->name, &p->value)) {
            return false;
        }
    }
    return true;
}

static bool is_listed(const char *names, const char *name) {
    size_t len = strlen(name);
    while (*names) {
        size_t n = strcspn(names, ",");
        if (n == len && memcmp(names, name, n) == 0) {
            return true;
        }
        names += n + (names[n] != '\0');
    }
    return false;
}

void entity_select(struct entity *e, const char *names) {
    struct property **at = &e->properties;
    while (*at) {
        if (is_listed(names, (*at)->name)) {
            at = &(*at)->next;
        } else {
            drop(e, at);
        }
    }
}

/* As documented for capacity: 4 bytes, the keys, and for each property 8 bytes, its name and its value;
 * text counts in UTF-16. */
size_t entity_size(const struct entity *e) {
    int64_t keys =
        utf16_length(e->partition, strlen(e->partition)) + utf16_length(e->row, strlen(e->row));
    size_t size = 4 + (size_t)(keys > 0 ? keys : 0) * 2;
    for (const struct property *p = e->properties; p; p = p->next) {
        int64_t name = utf16_length(p->name, strlen(p->name));
        size += 8 + (size_t)(name > 0 ? name : 0) * 2 + edm_size(&p->value);
    }
    return size;
}

void entity_etag(int64_t timestamp, char out[ENTITY_ETAG_MAX]) {
    char text[EDM_TIME_TEXT];
    edm_time_text(timestamp, text);
    char *to = out + sprintf(out, "W/\"datetime'");
    for (const char *from = text; *from; from++) {
        to += *from == ':' ? sprintf(to, "%%3A") : sprintf(to, "%c", *from);
    }
    sprintf(to, "'\"");
}

/* --- what the service forbids --- */

const char *key_fault(const char *key, size_t len) {
    if (utf16_length(key, len) < 0) {
        return "must be UTF-8";
    }
    if (len > KEY_MAX) {
        return "may have at most 1 KiB";
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)key[i],
                      after = i + 1 < len ? (unsigned char)key[i + 1] : 0;
        bool upper_control = c == 0xC2 && after >= 0x80 && after <= 0x9F;
        if (c < 0x20 || c == 0x7F || upper_control) {
            return "may hold no control character";
        }
        if (strchr("/\\#?", c)) {
            return "may hold none of / \\ # ?";
        }
    }
    return NULL;
}

const char *property_name_fault(const char *name, size_t len) {
    int64_t units = utf16_length(name, len);
    if (units < 1) {
        return len ? "must be UTF-8" : "must not be empty";
    }
    if (units > PROPERTY_NAME_MAX) {
        return "may have at most 255 characters";
    }
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
        if (!letter && !(i > 0 && c >= '0' && c <= '9')) {
            return "must be a letter or '_', then letters, digits and '_'";
        }
    }
    return NULL;
}

const char *value_fault(const struct edm_value *value, const char **word) {
    *word = "PropertyValueTooLarge";
    if (value->type == EDM_STRING) {
        int64_t units = utf16_length(value->text, value->len);
        *word = units < 0 ? "InvalidInput" : *word;
        return units < 0                     ? "is not UTF-8"
               : units > PROPERTY_STRING_MAX ? "is longer than 64 KiB (32,768 characters of UTF-16)"
                                             : NULL;
    }
    if (value->type == EDM_BINARY) {
        return value->len > PROPERTY_BINARY_MAX ? "is longer than 64 KiB" : NULL;
    }
    return NULL;
}

const char *entity_fault(const struct entity *e, const char **word) {
    if (e->count > ENTITY_PROPERTIES_MAX) {
        *word = "TooManyProperties";
        return "has more than 252 properties of its own";
    }
    if (entity_size(e) > ENTITY_BYTES_MAX) {
        *word = "EntityTooLarge";
        return "is larger than 1 MiB";
    }
    return NULL;
}
