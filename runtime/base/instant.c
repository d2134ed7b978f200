#include "base/instant.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

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

static bool date_from(struct tm *tm, int64_t fraction, int64_t *date) {
    if (tm->tm_mon < 0 || tm->tm_mon > 11 || tm->tm_mday < 1 || tm->tm_mday > 31 ||
        tm->tm_hour < 0 || tm->tm_hour > 23 || tm->tm_min < 0 || tm->tm_min > 59 ||
        tm->tm_sec < 0 || tm->tm_sec > 60 || tm->tm_year < -300 || tm->tm_year > 300) {
        return false;
    }
    *date = (int64_t)timegm(tm) * NS_PER_S + fraction;
    return true;
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
    if (!month || day < 1 || day > 31 || year < 1600 || year > 2200 || hour < 0 || hour > 23 ||
        minute < 0 || minute > 59 || second < 0 || second > 60) {
        return false;
    }
    int64_t seconds = ((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    *date = seconds * NS_PER_S;
    return true;
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
    struct tm tm = {0};
    int year, end = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &end) != 6) {
        return false;
    }
    tm.tm_year = year - 1900;
    tm.tm_mon -= 1;
    int64_t fraction = 0, unit = NS_PER_S;
    const char *p = text + end;
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++) {
            unit /= 10;
            fraction += (*p - '0') * unit;
        }
    }
    return *p == 'Z' && !p[1] && date_from(&tm, fraction, date);
}
