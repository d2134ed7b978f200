#include "base/instant.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { YEAR_MIN = 1700, YEAR_MAX = 2200, SECONDS_PER_DAY = 24 * 3600 }; /* of dates that are read */

int64_t instant_add(int64_t at, int64_t ns) {
    return ns > NEVER - at ? NEVER : at + ns;
}

int64_t ns_from_seconds(double seconds) {
    if (!(seconds > 0)) {
        return 0;
    }
    double ns = seconds * 1e9;
    return ns >= 9.2e18 ? NEVER : (int64_t)(ns + 0.5);
}

double seconds_from_ns(int64_t ns) {
    return (double)(ns / NS_PER_S) +
           (double)(ns % NS_PER_S) / 1e9; /* a date has more than 53 bits */
}

static const char *const DAYS[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char *const MONTHS[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* Splits a date so that the fraction is never negative. */
static struct tm broken_down(int64_t date, int64_t *fraction) {
    int64_t s = date / NS_PER_S, f = date % NS_PER_S;
    if (f < 0) {
        f += NS_PER_S;
        s--;
    }
    struct tm tm;
    time_t t = (time_t)s;
    gmtime_r(&t, &tm);
    *fraction = f;
    return tm;
}

void instant_http(int64_t date, char out[INSTANT_TEXT_MAX]) {
    int64_t fraction;
    struct tm tm = broken_down(date, &fraction);
    snprintf(out, INSTANT_TEXT_MAX, "%s, %02d %s %04d %02d:%02d:%02d GMT", DAYS[tm.tm_wday],
             tm.tm_mday, MONTHS[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* The number that n digits stand for, or -1. */
static int digits(const char *p, int n) {
    int value = 0;
    for (int i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return -1;
        }
        value = value * 10 + (p[i] - '0');
    }
    return value;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar: years begin in March, so that the day that
 * some of them lack is the last one. */
static int64_t days_from_civil(int year, int month, int day) {
    int y = month < 3 ? year - 1 : year, m = (month + 9) % 12;
    return (int64_t)y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 719469;
}

/* Nanoseconds from 1678 to 2262 fit into 64 bits; a month or an hour is -1 where it is not digits. The leap
 * second that would end the last year belongs to the next one. */
static bool date_from(int year, int month, int day, int hour, int minute, int second,
                      int64_t *date) {
    if (year < YEAR_MIN || year > YEAR_MAX || month < 1 || month > 12 || day < 1 || day > 31 ||
        hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) {
        return false;
    }
    int64_t seconds = ((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    *date = seconds * NS_PER_S;
    return seconds < days_from_civil(YEAR_MAX + 1, 1, 1) * SECONDS_PER_DAY;
}

/* Twice in every answer of a store, so not left to sscanf and timegm. */
bool instant_parse_http(const char *text, int64_t *date) {
    static const char FORM[] = "Mon, 02 Jan 2006 15:04:05 GMT";
    if (strlen(text) != sizeof FORM - 1 || text[3] != ',' || text[4] != ' ' || text[7] != ' ' ||
        text[11] != ' ' || text[16] != ' ' || text[19] != ':' || text[22] != ':' ||
        strcmp(text + 25, FORM + 25) != 0) {
        return false;
    }
    int month = 0;
    for (int i = 0; i < 12; i++) {
        if (memcmp(MONTHS[i], text + 8, 3) == 0) {
            month = i + 1;
        }
    }
    int day = digits(text + 5, 2), year = digits(text + 12, 4);
    int hour = digits(text + 17, 2), minute = digits(text + 20, 2), second = digits(text + 23, 2);
    return date_from(year, month, day, hour, minute, second, date);
}

void instant_iso(int64_t date, int digits, char out[INSTANT_TEXT_MAX]) {
    int64_t fraction;
    struct tm tm = broken_down(date, &fraction);
    char f[16] = "";
    if (digits > 0) {
        snprintf(f, sizeof f, ".%09d", (int)fraction);
        f[digits < 9 ? digits + 1 : 10] = '\0';
    }
    snprintf(out, INSTANT_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, f);
}

bool instant_parse_iso(const char *text, int64_t *date) {
    static const char FORM[] = "2006-01-02T15:04:05";
    if (strnlen(text, sizeof FORM) < sizeof FORM || text[4] != '-' || text[7] != '-' ||
        text[10] != 'T' || text[13] != ':' || text[16] != ':' ||
        !date_from(digits(text, 4), digits(text + 5, 2), digits(text + 8, 2), digits(text + 11, 2),
                   digits(text + 14, 2), digits(text + 17, 2), date)) {
        return false;
    }
    int64_t fraction = 0, unit = NS_PER_S;
    const char *p = text + sizeof FORM - 1;
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++) {
            unit /= 10;
            fraction += (*p - '0') * unit;
        }
    }
    *date += fraction;
    return *p == 'Z' && !p[1];
}
