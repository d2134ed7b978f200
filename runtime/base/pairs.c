#include "base/pairs.h"

#include <string.h>
#include <strings.h>

void pairs_init(struct pairs *p) {
    buf_init(&p->text, PAIRS_MAX);
}

void pairs_release(struct pairs *p) {
    buf_release(&p->text);
}

void pairs_clear(struct pairs *p) {
    buf_clear(&p->text);
}

bool pairs_add(struct pairs *p, const char *name, const char *value) {
    size_t n = strlen(name) + 1, v = strlen(value) + 1;
    return buf_reserve(&p->text, n + v) && buf_append(&p->text, name, n) &&
           buf_append(&p->text, value, v);
}

static const char *find(const struct pairs *p, const char *name) {
    for (const char *at = pairs_first(p); at; at = pairs_next(p, at)) {
        if (strcasecmp(at, name) == 0) {
            return at;
        }
    }
    return NULL;
}

void pairs_remove(struct pairs *p, const char *name) {
    const char *at = find(p, name);
    if (!at) {
        return;
    }
    const char *value = pairs_value(at);
    size_t n = (size_t)(value - at) + strlen(value) + 1;
    size_t start = (size_t)(at - p->text.data);
    memmove(p->text.data + start, p->text.data + start + n, p->text.len - start - n + 1);
    p->text.len -= n;
}

const char *pairs_get(const struct pairs *p, const char *name) {
    const char *at = find(p, name);
    return at ? pairs_value(at) : NULL;
}

bool pairs_copy(struct pairs *to, const struct pairs *from) {
    pairs_clear(to);
    return buf_append(&to->text, buf_str(&from->text), from->text.len);
}

const char *pairs_first(const struct pairs *p) {
    return p->text.len ? p->text.data : NULL;
}

const char *pairs_next(const struct pairs *p, const char *name) {
    const char *value = pairs_value(name);
    const char *next = value + strlen(value) + 1;
    return next < p->text.data + p->text.len ? next : NULL;
}

const char *pairs_value(const char *name) {
    return name + strlen(name) + 1;
}
