/* ids.c -- lease ids and GUIDs in their several forms, and base64. The form that comes out is read as itself. */
#include "base/base64.h"
#include "fuzz.h"
#include "store/edm.h"
#include "store/lease_rules.h"

static void lease_id(const char *text) {
    char id[LEASE_ID_TEXT], again[LEASE_ID_TEXT];
    if (lease_id_read(text, id)) {
        must(strlen(id) == LEASE_ID_TEXT - 1);
        must(lease_id_read(id, again) && strcmp(id, again) == 0);
    }
}

static void guid(const char *text, size_t len) {
    char id[EDM_GUID_TEXT], again[EDM_GUID_TEXT];
    if (edm_guid_parse(text, len, id)) {
        must(strlen(id) == EDM_GUID_TEXT - 1);
        must(edm_guid_parse(id, strlen(id), again) && strcmp(id, again) == 0);
    }
}

static void base64(const char *text, size_t len) {
    char *bytes = malloc(len / 4 * 3 + 1);
    size_t n = 0;
    must(bytes != NULL);
    if (base64_decode(text, len, bytes, &n)) {
        must(n <= len / 4 * 3 && base64_length(n) == len);
    }
    free(bytes);
    struct buf out;
    buf_init(&out, 2 * len + 8);
    must(base64_encode(&out, text, len) && out.len == base64_length(len));
    char *back = malloc(out.len / 4 * 3 + 1);
    must(back != NULL);
    must(base64_decode(buf_str(&out), out.len, back, &n) && n == len && memcmp(back, text, n) == 0);
    free(back);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    lease_id(text);
    guid(text, size);
    base64(text, size);
    free(text);
    return 0;
}
