#include "base/utf8.h"

#include <stdbool.h>

size_t utf8_length(const unsigned char *p, size_t left) {
    size_t n = p[0] < 0x80   ? 1
               : p[0] < 0xC2 ? 0
               : p[0] < 0xE0 ? 2
               : p[0] < 0xF0 ? 3
               : p[0] < 0xF5 ? 4
                             : 0;
    if (n == 0 || n > left) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xF0 && p[1] < 0x90);
    bool beyond = (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF4 && p[1] > 0x8F);
    return overlong || beyond ? 0 : n;
}
