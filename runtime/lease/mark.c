#include "lease/mark.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/instant.h"
#include "base/utf8.h"
#include "store/request.h"

enum {
    ENCODED_MAX = 3 * MARK_TEXT_MAX,
    DIGITS_MAX = 18, /* of a number: more than any clock's milliseconds, and no overflow */
};

/* ---- texts ---- */

void mark_text(char field[MARK_TEXT_MAX], const char *text) {
    size_t n = 0, len = text ? strlen(text) : 0;
    while (n < len) {
        size_t c = utf8_length((const unsigned char *)text + n, len - n);
        c = c ? c : 1;
        if (n + c >= MARK_TEXT_MAX) {
            break;
        }
        n += c;
    }
    if (n) {
        memcpy(field, text, n);
    }
    field[n] = '\0';
}

static void encode(const char *text, char out[ENCODED_MAX]) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x80 && (isalnum(*p) || strchr("-._~:/@", *p))) {
            *out++ = (char)*p;
        } else {
            out += sprintf(out, "%%%02X", *p);
        }
    }
    *out = '\0';
}

static int hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A percent sign that does not begin a code stands for itself. */
static void decode(const char *text, char field[MARK_TEXT_MAX]) {
    char plain[MARK_TEXT_MAX * 2];
    size_t n = 0;
    while (*text && n < sizeof plain - 1) {
        int high = *text == '%' ? hex_value(text[1]) : -1, low = high < 0 ? -1 : hex_value(text[2]);
        unsigned char c = (unsigned char)(low < 0 ? *text : high * 16 + low);
        text += low < 0 ? 1 : 3;
        plain[n++] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
    }
    plain[n] = '\0';
    mark_text(field, plain);
}

/* ---- fields ---- */

/* How each name is kept; the texts and numbers of struct mark, in the order they are written. */
static const struct {
    const char *name;
    size_t text, number; /* offset of the field; 0 in `number`: it is a text */
} FIELDS[] = {
    {"synod_fence", 0, offsetof(struct mark, fence)},
    {"synod_holder", offsetof(struct mark, holder), 0},
    {"synod_host", offsetof(struct mark, host), 0},
    {"synod_pid", 0, offsetof(struct mark, pid)},
    {"synod_since", offsetof(struct mark, since), 0},
    {"synod_purpose", offsetof(struct mark, purpose), 0},
    {"synod_hints", offsetof(struct mark, hints), 0},
    {"synod_next", offsetof(struct mark, next), 0},
    {"synod_ttl_ms", 0, offsetof(struct mark, ttl_ms)},
    {"synod_beat", 0, offsetof(struct mark, beat)},
};

enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS };

static const char VERSION[] = "synod_v";

/* A whole number, not negative; -1 when it is none. */
static int64_t number_of(const char *text) {
    size_t n = strlen(text);
    bool digits = n > 0 && n <= DIGITS_MAX && strspn(text, "0123456789") == n;
    return digits ? strtoll(text, NULL, 10) : -1;
}

static void read_field(struct mark *m, int i, const char *value) {
    if (FIELDS[i].number) {
        int64_t number = number_of(value);
        memcpy((char *)m + FIELDS[i].number, &number, sizeof number);
    } else {
        decode(value, (char *)m + FIELDS[i].text);
    }
}

enum err mark_read(struct mark *m, const struct pairs *metadata, struct error *e) {
    memset(m, 0, sizeof *m);
    error_clear(e);
    for (int i = 0; i < FIELD_COUNT; i++) {
        const char *value = pairs_get(metadata, FIELDS[i].name);
        if (value) {
            read_field(m, i, value);
        }
    }
    /* When in doubt, a record is there, and for long. */
    m->ttl_ms = m->ttl_ms < 0 || m->ttl_ms > MARK_TTL_MAX_MS ? MARK_TTL_MAX_MS : m->ttl_ms;
    m->pid = m->pid < 0 ? 0 : m->pid;
    m->beat = m->beat < 0 ? 0 : m->beat;
    const char *version = pairs_get(metadata, VERSION);
    if (version && (number_of(version) < 0 || number_of(version) > MARK_VERSION)) {
        return error_set(e, ERR_NEWER_VERSION,
                         "its metadata were written by a newer version of synod (synod_v %.20s; "
                         "this one knows %d)",
                         version, MARK_VERSION);
    }
    if (m->fence < 0) {
        m->fence = 0;
        return error_set(e, ERR_FENCE_REGRESSED, "synod_fence there is no number");
    }
    return ERR_OK;
}

/* NULL: the field says nothing. */
static const char *field_text(const struct mark *m, int i, char out[ENCODED_MAX]) {
    int64_t number = 0;
    out[0] = '\0';
    if (!FIELDS[i].number) {
        encode((const char *)m + FIELDS[i].text, out);
    } else {
        memcpy(&number, (const char *)m + FIELDS[i].number, sizeof number);
        if (number) {
            snprintf(out, ENCODED_MAX, "%" PRId64, number);
        }
    }
    return out[0] ? out : NULL;
}

bool mark_write(const struct mark *m, const struct pairs *others, struct pairs *out) {
    char text[ENCODED_MAX];
    bool fits = pairs_copy(out, others);
    pairs_remove(out, VERSION);
    for (int i = 0; i < FIELD_COUNT; i++) {
        pairs_remove(out, FIELDS[i].name);
    }
    snprintf(text, sizeof text, "%d", MARK_VERSION);
    fits = fits && pairs_add(out, VERSION, text);
    for (int i = 0; i < FIELD_COUNT && fits; i++) {
        const char *value = field_text(m, i, text);
        fits = !value || pairs_add(out, FIELDS[i].name, value);
    }
    return fits;
}

void mark_clear(struct mark *m) {
    *m = (struct mark){.fence = m->fence};
}

/* ---- the fence ---- */

int64_t mark_next_fence(const struct mark *m, int64_t highest, int64_t date, struct error *e) {
    if (!m->fence && date == UNSET) {
        error_set(e, ERR_BAD_ANSWER, "the answer has no Date, from which a first fence is made");
        return 0;
    }
    int64_t next = m->fence ? m->fence + 1 : date / NS_PER_MS;
    if (m->fence >= highest || (!m->fence && next > highest)) {
        return next;
    }
    error_set(e, ERR_FENCE_REGRESSED, "the fence fell from %" PRId64 " to %" PRId64, highest,
              m->fence);
    return 0;
}
