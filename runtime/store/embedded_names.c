#include <string.h>
#include <strings.h>

#include "store/embedded_part.h"

enum {
    CONTAINER_NAME_MIN = 3,
    CONTAINER_NAME_MAX = 63,
    BLOB_SEGMENTS_MAX = 254,
};

static bool is_lower_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool container_name_allowed(const char *name) {
    static const char *const SPECIAL[] = {"$root", "$logs", "$web"};
    for (size_t i = 0; i < sizeof SPECIAL / sizeof SPECIAL[0]; i++) {
        if (strcmp(name, SPECIAL[i]) == 0) {
            return true;
        }
    }
    size_t n = strlen(name);
    if (n < CONTAINER_NAME_MIN || n > CONTAINER_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        bool inner_hyphen =
            name[i] == '-' && i > 0 && i + 1 < n && name[i - 1] != '-' && name[i + 1] != '-';
        if (!is_lower_or_digit(name[i]) && !inner_hyphen) {
            return false;
        }
    }
    return true;
}

/* Bytes of the UTF-8 character at `s`, 0 when it is none. */
static size_t utf8_size(const unsigned char *s) {
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (n == 1) {
        return 1;
    }
    if (s[0] < 0xC2 || s[0] > 0xF4) {
        return 0;
    }
    uint32_t point = s[0] & (0xFFU >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
        point = point << 6 | (s[i] & 0x3F);
    }
    bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    return point < LEAST[n] || point > 0x10FFFF || surrogate ? 0 : n;
}

bool blob_name_allowed(const char *name) {
    int characters = 0, segments = 1;
    const unsigned char *s = (const unsigned char *)name;
    unsigned char last = '/';
    while (*s) {
        size_t n = utf8_size(s);
        if (n == 0) {
            return false;
        }
        characters += n == 4 ? 2 : 1; /* the service counts UTF-16 units */
        segments += *s == '/';
        last = *s;
        s += n;
    }
    return characters >= 1 && characters <= NAME_MAX_BLOB && segments <= BLOB_SEGMENTS_MAX &&
           last != '/' && last != '.';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A C# identifier; the service takes no letters beyond ASCII, since names travel as headers. */
static bool metadata_name_allowed(const char *name) {
    if (!is_letter(name[0])) {
        return false;
    }
    for (const char *c = name; *c; c++) {
        if (!is_letter(*c) && !(*c >= '0' && *c <= '9')) {
            return false;
        }
    }
    return true;
}

static bool metadata_value_allowed(const char *value) {
    for (const char *c = value; *c; c++) {
        if (*c != '\t' && (*c < ' ' || *c > '~')) {
            return false;
        }
    }
    return true;
}

static bool given_before(const char *metadata, const char *name) {
    for (const char *at = metadata; at < name; at = pairs_value(at) + strlen(pairs_value(at)) + 1) {
        if (strcasecmp(at, name) == 0) {
            return true;
        }
    }
    return false;
}

enum err metadata_allowed(const char *metadata, size_t len) {
    size_t counted = 0;
    const char *next;
    for (const char *name = metadata; name && name < metadata + len; name = next) {
        const char *value = pairs_value(name);
        size_t n = strlen(name), v = strlen(value);
        next = value + v + 1;
        counted += n + v;
        if (counted > METADATA_MAX) {
            return ERR_METADATA_TOO_LARGE;
        }
        if (!metadata_name_allowed(name) || !metadata_value_allowed(value) ||
            given_before(metadata, name)) {
            return ERR_INVALID_METADATA;
        }
    }
    return ERR_OK;
}
