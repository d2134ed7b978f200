#include "store/edm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static const struct {
    const char *word, *script;
} TYPES[EDM_COUNT] = {
#define ENTRY(name, word, script) [EDM_##name] = {word, script},
    EDM_LIST(ENTRY)
#undef ENTRY
};

const char *edm_word(enum edm_type type) {
    return TYPES[type].word;
}

const char *edm_script(enum edm_type type) {
    return TYPES[type].script;
}

enum edm_type edm_from_word(const char *word) {
    for (int i = 0; i < EDM_COUNT; i++) {
        if (strcmp(TYPES[i].word, word) == 0) {
            return (enum edm_type)i;
        }
    }
    return EDM_COUNT;
}

static bool has_text(enum edm_type type) {
    return type == EDM_STRING || type == EDM_GUID || type == EDM_BINARY;
}

bool edm_equal(const struct edm_value *a, const struct edm_value *b) {
    if (a->type != b->type) {
        return false;
    }
    if (has_text(a->type)) {
        return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
    }
    if (a->type == EDM_DOUBLE) {
        bool none = a->number != a->number && b->number != b->number;
        return none || memcmp(&a->number, &b->number, sizeof a->number) == 0;
    }
    return a->integer == b->integer;
}

size_t edm_size(const struct edm_value *v) {
    switch (v->type) {
    case EDM_STRING: {
        int64_t units = utf16_length(v->text, v->len);
        return (units < 0 ? v->len : (size_t)units * 2) + 4;
    }
    case EDM_BINARY:
        return v->len + 4;
    case EDM_GUID:
        return 16;
    case EDM_INT32:
        return 4;
    case EDM_BOOLEAN:
        return 1;
    case EDM_INT64:
    case EDM_DOUBLE:
    case EDM_TIME:
    case EDM_COUNT:
        break;
    }
    return 8;
}

/* --- times --- */

enum { DAYS_PER_ERA = 146097, DAYS_TO_1970 = 719468 };

/* Days from 1970-01-01, in the calendar of today for all years. */
static int64_t days_from_date(int year, int month, int day) {
    int y = month <= 2 ? year - 1 : year;
    int era = y / 400, of_era = y - era * 400;
    int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return (int64_t)era * DAYS_PER_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year -
           DAYS_TO_1970;
}

static void date_from_days(int64_t days, int *year, int *month, int *day) {
    days += DAYS_TO_1970;
    int era = (int)(days / DAYS_PER_ERA), of_era = (int)(days - (int64_t)era * DAYS_PER_ERA);
    int y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_year = of_era - (365 * y + y / 4 - y / 100);
    int m = (5 * of_year + 2) / 153;
    *day = of_year - (153 * m + 2) / 5 + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = y + era * 400 + (*month <= 2);
}

#define TICKS_FIRST (days_from_date(1601, 1, 1) * 86400 * TICKS_PER_S)
#define TICKS_END (days_from_date(10000, 1, 1) * 86400 * TICKS_PER_S)

bool edm_time_fits(int64_t ticks) {
    return ticks >= TICKS_FIRST && ticks < TICKS_END;
}

struct reader {
    const char *at, *end;
};

static bool take_char(struct reader *r, char c) {
    bool there = r->at < r->end && *r->at == c;
    r->at += there;
    return there;
}

static bool take_number(struct reader *r, int digits, int *out) {
    *out = 0;
    for (int i = 0; i < digits; i++) {
        if (r->at == r->end || *r->at < '0' || *r->at > '9') {
            return false;
        }
        *out = *out * 10 + (*r->at++ - '0');
    }
    return true;
}

static bool take_fraction(struct reader *r, int *ticks) {
    *ticks = 0;
    int digits = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && digits < 7) {
        *ticks = *ticks * 10 + (*r->at++ - '0');
        digits++;
    }
    for (int i = digits; i < 7; i++) {
        *ticks *= 10;
    }
    return digits > 0;
}

/* "Z", nothing, or "+02:00": the minutes to take away. */
static bool take_zone(struct reader *r, int *minutes) {
    int h, m;
    *minutes = 0;
    if (r->at == r->end || take_char(r, 'Z')) {
        return true;
    }
    int sign = take_char(r, '+') ? 1 : take_char(r, '-') ? -1 : 0;
    if (!sign || !take_number(r, 2, &h) || !take_char(r, ':') || !take_number(r, 2, &m) || h > 14 ||
        m > 59) {
        return false;
    }
    *minutes = sign * (h * 60 + m);
    return true;
}

static bool date_exists(int year, int month, int day) {
    int y, m, d;
    if (year < 1601 || month < 1 || month > 12 || day < 1) {
        return false;
    }
    date_from_days(days_from_date(year, month, day), &y, &m, &d);
    return y == year && m == month && d == day;
}

bool edm_time_parse(const char *text, size_t len, int64_t *ticks) {
    struct reader r = {text, text + len};
    int year, month, day, hour, minute, second, fraction = 0, zone;
    if (!take_number(&r, 4, &year) || !take_char(&r, '-') || !take_number(&r, 2, &month) ||
        !take_char(&r, '-') || !take_number(&r, 2, &day) || !take_char(&r, 'T') ||
        !take_number(&r, 2, &hour) || !take_char(&r, ':') || !take_number(&r, 2, &minute) ||
        !take_char(&r, ':') || !take_number(&r, 2, &second) ||
        (take_char(&r, '.') && !take_fraction(&r, &fraction)) || !take_zone(&r, &zone) ||
        r.at != r.end || !date_exists(year, month, day) || hour > 23 || minute > 59 ||
        second > 59) {
        return false;
    }
    int64_t s = days_from_date(year, month, day) * 86400 + hour * 3600 + minute * 60 + second -
                (int64_t)zone * 60;
    *ticks = s * TICKS_PER_S + fraction;
    return edm_time_fits(*ticks);
}

void edm_time_text(int64_t ticks, char out[EDM_TIME_TEXT]) {
    int64_t s = ticks / TICKS_PER_S, fraction = ticks % TICKS_PER_S;
    if (fraction < 0) {
        fraction += TICKS_PER_S;
        s--;
    }
    int64_t days = s / 86400, of_day = s % 86400;
    if (of_day < 0) {
        of_day += 86400;
        days--;
    }
    int year, month, day;
    date_from_days(days, &year, &month, &day);
    snprintf(out, EDM_TIME_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%07uZ", (unsigned)year % 10000,
             (unsigned)month % 100, (unsigned)day % 100, (unsigned)(of_day / 3600) % 100,
             (unsigned)(of_day / 60 % 60), (unsigned)(of_day % 60), (unsigned)fraction % 10000000);
}

/* --- other values --- */

bool edm_guid_parse(const char *text, size_t len, char out[EDM_GUID_TEXT]) {
    if (len >= 2 && text[0] == '{' && text[len - 1] == '}') {
        text++;
        len -= 2;
    }
    bool hyphens = len == 36;
    if (!hyphens && len != 32) {
        return false;
    }
    for (size_t o = 0; o < EDM_GUID_TEXT - 1; o++) {
        bool is_hyphen = o == 8 || o == 13 || o == 18 || o == 23;
        if (is_hyphen && !hyphens) {
            out[o] = '-';
            continue;
        }
        char c = *text++;
        if (is_hyphen ? c != '-' : !strchr("0123456789abcdefABCDEF", c) || c == '\0') {
            return false;
        }
        out[o] = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
    }
    out[EDM_GUID_TEXT - 1] = '\0';
    return true;
}

void edm_double_text(double number, char out[EDM_DOUBLE_TEXT]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, EDM_DOUBLE_TEXT, "%.*g", digits, number);
        if (strtod(out, NULL) == number) {
            break;
        }
    }
    if (!strpbrk(out, ".e")) {
        strcat(out, ".0");
    }
}

int64_t utf16_length(const char *text, size_t len) {
    int64_t units = 0;
    for (size_t at = 0; at < len;) {
        size_t n = utf8_length((const unsigned char *)text + at, len - at);
        if (n == 0) {
            return -1;
        }
        units += n == 4 ? 2 : 1;
        at += n;
    }
    return units;
}
