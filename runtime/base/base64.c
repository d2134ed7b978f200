#include "base/base64.h"

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_length(size_t n) {
    return (n + 2) / 3 * 4;
}

bool base64_encode(struct buf *out, const void *data, size_t n) {
    const unsigned char *in = data;
    if (!buf_reserve(out, base64_length(n))) {
        return false;
    }
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        unsigned bits = (unsigned)in[i] << 16 | (left > 1 ? (unsigned)in[i + 1] << 8 : 0) |
                        (left > 2 ? in[i + 2] : 0u);
        char four[4] = {
            ALPHABET[bits >> 18],
            ALPHABET[bits >> 12 & 63],
            left > 1 ? ALPHABET[bits >> 6 & 63] : '=',
            left > 2 ? ALPHABET[bits & 63] : '=',
        };
        buf_append(out, four, sizeof four);
    }
    return !out->failed;
}

static int value_of(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

bool base64_decode(const char *text, size_t n, char *out, size_t *len) {
    *len = 0;
    if (n % 4 != 0) {
        return false;
    }
    size_t padding = n > 0 && text[n - 1] == '=' ? (text[n - 2] == '=' ? 2 : 1) : 0;
    unsigned bits = 0;
    int held = 0;
    for (size_t i = 0; i < n - padding; i++) {
        int v = value_of(text[i]);
        if (v < 0) {
            return false;
        }
        bits = (bits << 6 | (unsigned)v) & 0xFFFFFFu;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[(*len)++] = (char)(bits >> held);
        }
    }
    return (bits & ((1u << held) - 1)) == 0; /* what is left over must be zeros */
}
