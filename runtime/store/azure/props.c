#include "store/azure/props.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool parse_number(const char *text, int64_t *out) {
    char *end;
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end) {
        return false;
    }
    *out = value;
    return true;
}

bool props_set_etag(struct store_props *p, const char *text) {
    size_t n = strlen(text);
    bool bare = *text != '"' && strncmp(text, "W/", 2) != 0;
    if (n == 0 || n + (bare ? 2 : 0) >= sizeof p->etag) {
        return false;
    }
    char *out = p->etag;
    if (bare) {
        *out++ = '"';
    }
    memcpy(out, text, n + 1);
    if (bare) {
        out[n] = '"';
        out[n + 1] = '\0';
    }
    return true;
}

bool props_set_length(struct store_props *p, const char *text) {
    return parse_number(text, &p->length);
}

bool props_set_type(struct store_props *p, const char *text) {
    static const struct {
        const char *word;
        enum blob_type type;
    } TYPES[] = {{"BlockBlob", BLOB_BLOCK}, {"PageBlob", BLOB_PAGE}, {"AppendBlob", BLOB_APPEND}};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (strcmp(text, TYPES[i].word) == 0) {
            p->type = TYPES[i].type;
            p->has_type = true;
            return true;
        }
    }
    return false;
}

bool props_set_lease_state(struct store_props *p, const char *text) {
    for (int i = LEASE_AVAILABLE; i <= LEASE_BROKEN; i++) {
        if (strcmp(text, lease_state_word((enum lease_state)i)) == 0) {
            p->lease_state = (enum lease_state)i;
            p->has_lease = true;
            return true;
        }
    }
    return false;
}

void props_set_lease_status(struct store_props *p, const char *text) {
    p->locked = strcmp(text, "locked") == 0;
}

void props_set_lease_duration(struct store_props *p, const char *text) {
    p->lease_duration = strcmp(text, "infinite") == 0 ? -1 : strcmp(text, "fixed") == 0 ? 1 : 0;
}

void props_set_content_type(struct store_props *p, const char *text) {
    snprintf(p->content_type, sizeof p->content_type, "%s", text);
}
