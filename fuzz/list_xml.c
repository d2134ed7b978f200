/* list_xml.c -- lists of containers and blobs in XML. */
#include "fuzz.h"
#include "store/azure/xml.h"

static void look_at(const struct store_reply *reply) {
    size_t bytes = reply->next_marker ? strlen(reply->next_marker) : 0;
    for (const struct store_item *item = reply->items; item; item = item->next) {
        must(item->name != NULL);
        bytes += strlen(item->name) + strlen(item->props.etag) + strlen(item->props.content_type);
        const struct pairs *metadata = &item->props.metadata;
        for (const char *name = pairs_first(metadata); name; name = pairs_next(metadata, name)) {
            bytes += strlen(pairs_value(name));
        }
    }
    must(bytes < SIZE_MAX / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct error err;
    struct xml *x = xml_new(&err);
    must(x != NULL);
    char *text = fuzz_text(data, size);
    struct store_reply reply;
    reply_init(&reply);
    error_clear(&err);
    bool read = xml_read_list(x, text, size, &reply, &err);
    must(read == (err.code == ERR_OK));
    look_at(&reply);
    reply_release(&reply);
    free(text);
    xml_free(x);
    return 0;
}
