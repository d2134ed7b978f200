/* error_xml.c -- bodies of refusals in XML. */
#include "fuzz.h"
#include "store/azure/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct error err;
    struct xml *x = xml_new(&err);
    must(x != NULL);
    char *text = fuzz_text(data, size);
    struct xml_error out = {0};
    xml_read_error(x, text, size, &out);
    must(strnlen(out.code, sizeof out.code) < sizeof out.code);
    must(strnlen(out.message, sizeof out.message) < sizeof out.message);
    must(strnlen(out.detail, sizeof out.detail) < sizeof out.detail);
    must(!strchr(out.message, '\n'));
    free(text);
    xml_free(x);
    return 0;
}
