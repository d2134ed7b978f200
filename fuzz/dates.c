/* dates.c -- dates of headers and of entities. What was read is written as it would be read again. */
#include "base/instant.h"
#include "fuzz.h"
#include "store/edm.h"

static void http_date(const char *text) {
    int64_t date, again;
    char out[INSTANT_TEXT_MAX];
    if (instant_parse_http(text, &date)) {
        instant_http(date, out);
        must(instant_parse_http(out, &again) && again == date);
    }
}

static void iso_date(const char *text) {
    int64_t date, again;
    char out[INSTANT_TEXT_MAX];
    if (instant_parse_iso(text, &date)) {
        instant_iso(date, 9, out);
        must(instant_parse_iso(out, &again) && again == date);
    }
}

static void entity_time(const char *text, size_t len) {
    int64_t ticks, again;
    char out[EDM_TIME_TEXT];
    if (edm_time_parse(text, len, &ticks)) {
        must(edm_time_fits(ticks));
        edm_time_text(ticks, out);
        must(edm_time_parse(out, strlen(out), &again) && again == ticks);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    http_date(text);
    iso_date(text);
    entity_time(text, size);
    free(text);
    return 0;
}
