#include "store/names.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"

enum { CONTAINER_MIN = 3, CONTAINER_MAX = 63, BLOB_CHARACTERS_MAX = 1024 };

static bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_word_start(char c) {
    return is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_special_container(const char *name, size_t len) {
    return (len == 5 && memcmp(name, "$root", 5) == 0) ||
           (len == 4 && memcmp(name, "$web", 4) == 0) ||
           (len == 5 && memcmp(name, "$logs", 5) == 0);
}

const char *name_fault_container(const char *name, size_t len) {
    return is_special_container(name, len) ? NULL : name_fault_queue(name, len);
}

const char *name_fault_queue(const char *name, size_t len) {
    if (len < CONTAINER_MIN || len > CONTAINER_MAX) {
        return "must have 3 to 63 characters";
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_lower(name[i]) && !is_digit(name[i]) && name[i] != '-') {
            return "may hold only a-z, 0-9 and '-'";
        }
        if (name[i] == '-' && (i == 0 || i + 1 == len || name[i - 1] == '-')) {
            return "may have no '-' at an end and no two in a row";
        }
    }
    return NULL;
}

static const char *characters_fault(const char *name, size_t len) {
    size_t characters = 0;
    for (size_t at = 0; at < len;) {
        unsigned char c = (unsigned char)name[at];
        size_t n = utf8_length((const unsigned char *)name + at, len - at);
        if (n == 0) {
            return "must be UTF-8";
        }
        if (c < 0x20 || c == 0x7F || c == '\\') {
            return "may hold no control character and no backslash";
        }
        at += n;
        characters++;
    }
    return characters > BLOB_CHARACTERS_MAX ? "may have at most 1024 characters" : NULL;
}

/* "." and ".." as a part would be taken out of the address on the way. */
static bool has_dot_part(const char *name, size_t len) {
    for (size_t start = 0; start <= len;) {
        const char *slash = memchr(name + start, '/', len - start);
        size_t end = slash ? (size_t)(slash - name) : len;
        size_t n = end - start;
        if ((n == 1 && name[start] == '.') || (n == 2 && memcmp(name + start, "..", 2) == 0)) {
            return true;
        }
        start = end + 1;
    }
    return false;
}

const char *name_fault_blob(const char *name, size_t len) {
    if (len == 0) {
        return "must not be empty";
    }
    const char *fault = characters_fault(name, len);
    if (fault) {
        return fault;
    }
    if (name[len - 1] == '.' || name[len - 1] == '/') {
        return "must not end in a dot or a slash";
    }
    return has_dot_part(name, len) ? "may have no part that is '.' or '..'" : NULL;
}

const char *name_fault_table(const char *name, size_t len) {
    if (len < CONTAINER_MIN || len > CONTAINER_MAX) {
        return "must have 3 to 63 characters";
    }
    for (size_t i = 0; i < len; i++) {
        bool letter = is_word_start(name[i]) && name[i] != '_';
        if (!letter && !(i > 0 && is_digit(name[i]))) {
            return "may hold only letters and digits, a letter first";
        }
    }
    return strcasecmp(name, "tables") == 0 ? "is the service's own" : NULL;
}

const char *text_fault_xml(const char *text, size_t len) {
    for (size_t at = 0; at < len;) {
        const unsigned char *c = (const unsigned char *)text + at;
        size_t n = utf8_length(c, len - at);
        if (n == 0) {
            return "is not UTF-8";
        }
        if (*c < 0x20 && *c != '\t' && *c != '\n' && *c != '\r') {
            return "holds a control character";
        }
        if (n == 3 && c[0] == 0xEF && c[1] == 0xBF && c[2] >= 0xBE) {
            return "holds a character that is none (U+FFFE, U+FFFF)";
        }
        at += n;
    }
    return NULL;
}

const char *name_fault_metadata(const char *name, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (!is_word_start(name[i]) && !(i > 0 && is_digit(name[i]))) {
            return "must be a letter or '_', then letters, digits and '_'";
        }
    }
    return len == 0 ? "must not be empty" : NULL;
}

const char *name_fault_value(const char *value, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)value[i] < 0x20 || (unsigned char)value[i] > 0x7E) {
            return "may hold only printable ASCII; percent-encode the rest";
        }
    }
    bool blank = len > 0 && (value[0] == ' ' || value[len - 1] == ' ');
    return blank ? "may have no blank at an end" : NULL;
}
