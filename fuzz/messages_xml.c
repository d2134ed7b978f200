/* messages_xml.c -- messages of a queue in XML, and texts on their way there and back. */
#include "fuzz.h"
#include "store/azure/xml.h"

static void read_messages(struct xml *x, const char *text, size_t size) {
    struct store_reply reply;
    struct error err;
    reply_init(&reply);
    error_clear(&err);
    bool read = xml_read_messages(x, text, size, &reply, &err);
    must(read == (err.code == ERR_OK));
    for (const struct store_message *m = reply.messages; m; m = m->next) {
        must(!read || m->id);
        must(!m->body || m->body[m->body_len] == '\0');
    }
    reply_release(&reply);
}

static bool printable(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (text[i] < ' ' || text[i] == 127) {
            return false;
        }
    }
    return true;
}

/* What was written as a message's text is read as that text. */
static void there_and_back(struct xml *x, const char *text, size_t size) {
    struct buf out;
    buf_init(&out, 16 * size + 1024);
    buf_puts(&out, "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage>"
                   "<MessageId>1</MessageId><DequeueCount>0</DequeueCount><MessageText>");
    xml_write_text(&out, text, size);
    buf_puts(&out, "</MessageText></QueueMessage></QueueMessagesList>");
    must(!out.failed);
    struct store_reply reply;
    struct error err;
    reply_init(&reply);
    if (xml_read_messages(x, buf_str(&out), out.len, &reply, &err)) {
        must(reply.messages && reply.messages->body_len == size);
        must(memcmp(reply.messages->body, text, size) == 0);
    }
    reply_release(&reply);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct error err;
    struct xml *x = xml_new(&err);
    must(x != NULL);
    char *text = fuzz_text(data, size);
    read_messages(x, text, size);
    if (printable(text, size)) {
        there_and_back(x, text, size);
    }
    free(text);
    xml_free(x);
    return 0;
}
