/* instant.h -- time as int64 nanoseconds, and the date formats of the outside world.
 *
 * Deadlines are absolute nanoseconds of the world's boot-time clock; dates are nanoseconds since
 * 1970-01-01 UTC. A double of seconds exists only at the Lua boundary.
 */
#ifndef SYNOD_BASE_INSTANT_H
#define SYNOD_BASE_INSTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
#define NEVER INT64_MAX

enum { INSTANT_TEXT_MAX = 96 };

/* a + b without passing NEVER; neither may be negative */
int64_t instant_add(int64_t at, int64_t ns);
/* seconds to nanoseconds, clamped to 0..NEVER; NaN gives 0 */
int64_t ns_from_seconds(double seconds);
double seconds_from_ns(int64_t ns);

/* "Mon, 02 Jan 2006 15:04:05 GMT" (RFC 1123), the form of HTTP headers */
void instant_http(int64_t date, char out[INSTANT_TEXT_MAX]);
bool instant_parse_http(const char *text, int64_t *date);
/* "2006-01-02T15:04:05.1234567Z" (RFC 3339) with 0..9 fraction digits */
void instant_iso(int64_t date, int digits, char out[INSTANT_TEXT_MAX]);
bool instant_parse_iso(const char *text, int64_t *date);

#endif
