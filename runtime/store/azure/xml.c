#include "store/azure/xml.h"

#include <libxml/xmlreader.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/azure/props.h"
#include "store/library.h"

struct libxml {
    LIBRARY_XML_FUNCTIONS(LIBRARY_POINTER)
};

static const char *const SYMBOLS[] = {LIBRARY_XML_FUNCTIONS(LIBRARY_SYMBOL)};

struct xml {
    struct libxml lib;
};

struct xml *xml_new(struct error *err) {
    struct xml *x = xcalloc(1, sizeof *x);
    if (!library_load(LIBRARY_XML, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, &x->lib, err)) {
        free(x);
        return NULL;
    }
    return x;
}

void xml_free(struct xml *x) {
    free(x);
}

/* --- walking ---
 * Elements are named by their path from the root; `close` is called at the end of each with its text. */

struct walk {
    struct xml *x;
    xmlTextReaderPtr reader;
    const char *path[XML_DEPTH_MAX]; /* names of the open elements; libxml2's, good until the end */
    int depth;                       /* of the element that is open */
    bool encoded;                    /* its text is percent-encoded */
    bool complete;                   /* the root element was closed */
    struct buf text;
    bool (*open)(struct walk *w);
    bool (*close)(struct walk *w);
    void *arg;
};

static bool at(const struct walk *w, int depth, const char *name) {
    return w->depth >= depth && strcmp(w->path[depth], name) == 0;
}

static bool close_element(struct walk *w) {
    bool ok = w->close(w) && !w->text.failed;
    buf_clear(&w->text);
    w->encoded = false;
    w->complete = w->depth == 0;
    w->depth--;
    return ok;
}

static bool open_element(struct walk *w) {
    struct libxml *lib = &w->x->lib;
    int depth = lib->xmlTextReaderDepth(w->reader);
    if (depth < 0 || depth >= XML_DEPTH_MAX || w->complete) {
        return false;
    }
    w->depth = depth;
    w->path[depth] = (const char *)lib->xmlTextReaderConstLocalName(w->reader);
    buf_clear(&w->text);
    w->encoded = false;
    bool empty = lib->xmlTextReaderIsEmptyElement(w->reader) == 1;
    if (lib->xmlTextReaderMoveToAttribute(w->reader, (const xmlChar *)"Encoded") == 1) {
        const char *value = (const char *)lib->xmlTextReaderConstValue(w->reader);
        w->encoded = value && strcmp(value, "true") == 0;
        lib->xmlTextReaderMoveToElement(w->reader);
    }
    return w->open(w) && (!empty || close_element(w));
}

static bool take_node(struct walk *w) {
    struct libxml *lib = &w->x->lib;
    switch (lib->xmlTextReaderNodeType(w->reader)) {
    case XML_READER_TYPE_ELEMENT:
        return open_element(w);
    case XML_READER_TYPE_END_ELEMENT:
        return close_element(w);
    case XML_READER_TYPE_TEXT:
    case XML_READER_TYPE_CDATA:
    case XML_READER_TYPE_WHITESPACE:
    case XML_READER_TYPE_SIGNIFICANT_WHITESPACE: {
        const char *text = (const char *)lib->xmlTextReaderConstValue(w->reader);
        return !text || buf_puts(&w->text, text);
    }
    case XML_READER_TYPE_XML_DECLARATION:
    case XML_READER_TYPE_COMMENT:
        return true;
    default: /* a document type, an entity, a processing instruction: not from the service */
        return false;
    }
}

static void keep_quiet(void *arg, const char *message, xmlParserSeverities severity,
                       xmlTextReaderLocatorPtr locator) {
    (void)arg;
    (void)message;
    (void)severity;
    (void)locator;
}

static bool walk(struct walk *w, const char *data, size_t n) {
    struct libxml *lib = &w->x->lib;
    if (n == 0 || n > INT_MAX) {
        return false;
    }
    w->reader = lib->xmlReaderForMemory(data, (int)n, NULL, NULL,
                                        XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    if (!w->reader) {
        return false;
    }
    lib->xmlTextReaderSetErrorHandler(w->reader, keep_quiet, NULL);
    buf_init(&w->text, XML_TEXT_MAX);
    int rc;
    do {
        rc = lib->xmlTextReaderRead(w->reader);
    } while (rc == 1 && take_node(w));
    buf_release(&w->text);
    lib->xmlFreeTextReader(w->reader);
    return rc == 0 && w->complete;
}

/* --- lists --- */

struct listing {
    struct store_reply *reply;
    struct store_item *item; /* the one being read, once its name is known */
};

struct messages {
    struct store_reply *reply;
    struct store_message *message; /* the one being read */
    int count;
};

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static void decode_percent(struct buf *b) {
    size_t out = 0;
    for (size_t i = 0; i < b->len; i++, out++) {
        b->data[out] = b->data[i];
        if (b->data[i] == '%' && i + 2 < b->len && hex(b->data[i + 1]) >= 0 &&
            hex(b->data[i + 2]) >= 0) {
            b->data[out] = (char)(hex(b->data[i + 1]) << 4 | hex(b->data[i + 2]));
            i += 2;
        }
    }
    b->len = out;
    if (b->data) {
        b->data[out] = '\0';
    }
}

static bool take_property(struct store_props *p, const char *name, const char *value) {
    if (strcmp(name, "Etag") == 0) {
        return props_set_etag(p, value);
    } else if (strcmp(name, "Last-Modified") == 0) {
        return instant_parse_http(value, &p->last_modified);
    } else if (strcmp(name, "Content-Length") == 0) {
        return props_set_length(p, value);
    } else if (strcmp(name, "Content-Type") == 0) {
        props_set_content_type(p, value);
    } else if (strcmp(name, "BlobType") == 0) {
        return props_set_type(p, value);
    } else if (strcmp(name, "LeaseStatus") == 0) {
        props_set_lease_status(p, value);
    } else if (strcmp(name, "LeaseState") == 0) {
        return props_set_lease_state(p, value);
    } else if (strcmp(name, "LeaseDuration") == 0) {
        props_set_lease_duration(p, value);
    }
    return true;
}

static bool list_open(struct walk *w) {
    struct listing *l = w->arg;
    if (w->depth == 2) {
        l->item = NULL;
    }
    return w->depth > 0 || strcmp(w->path[0], "EnumerationResults") == 0;
}

static bool in_item(const struct walk *w) {
    return (at(w, 1, "Blobs") && (at(w, 2, "Blob") || at(w, 2, "BlobPrefix"))) ||
           (at(w, 1, "Containers") && at(w, 2, "Container")) ||
           (at(w, 1, "Queues") && at(w, 2, "Queue"));
}

static bool list_close(struct walk *w) {
    struct listing *l = w->arg;
    const char *text = buf_str(&w->text);
    if (w->depth == 1 && at(w, 1, "NextMarker") && *text) {
        l->reply->next_marker = arena_strdup(&l->reply->arena, text);
        return l->reply->next_marker != NULL;
    }
    if (w->depth < 3 || !in_item(w)) {
        return w->depth != 2 || !in_item(w) || l->item != NULL; /* an item has a name */
    }
    if (w->depth == 3 && at(w, 3, "Name")) {
        if (w->encoded) {
            decode_percent(&w->text);
        }
        l->item = reply_add_item(l->reply, buf_str(&w->text), w->text.len);
        return l->item != NULL;
    }
    if (w->depth == 4 && at(w, 3, "Properties")) {
        return l->item && take_property(&l->item->props, w->path[4], text);
    }
    if (at(w, 3, "Metadata")) {
        if (!l->item) {
            return false;
        }
        l->item->props.has_metadata = true;
        return w->depth != 4 || pairs_add(&l->item->props.metadata, w->path[4], text);
    }
    return true;
}

bool xml_read_list(struct xml *x, const char *data, size_t n, struct store_reply *reply,
                   struct error *err) {
    struct listing listing = {.reply = reply};
    struct walk w = {.x = x, .open = list_open, .close = list_close, .arg = &listing, .depth = -1};
    if (walk(&w, data, n)) {
        return true;
    }
    error_set(err, ERR_BAD_ANSWER, "the list is %s",
              w.depth >= 0 && !w.complete ? "cut short or malformed"
                                          : "not in the form of the service");
    return false;
}

/* --- messages --- */

static bool messages_open(struct walk *w) {
    struct messages *m = w->arg;
    if (w->depth == 1) {
        m->message = strcmp(w->path[1], "QueueMessage") == 0 && m->count++ < MESSAGES_MAX
                         ? reply_add_message(m->reply)
                         : NULL;
        return m->message != NULL;
    }
    return w->depth > 0 || strcmp(w->path[0], "QueueMessagesList") == 0;
}

/* A date; what is later than the year 2200 is never. */
static bool take_date(const char *text, int64_t *date) {
    static const char FORM[] = "Mon, 02 Jan 2006 15:04:05 GMT";
    if (strlen(text) == sizeof FORM - 1 && strcmp(text + 12, "2200 23:59:59 GMT") > 0 &&
        text[11] == ' ' && text[16] == ' ') {
        *date = NEVER;
        return true;
    }
    return instant_parse_http(text, date);
}

static bool take_text(struct messages *m, const char **out, const struct buf *text) {
    *out = arena_copy(&m->reply->arena, buf_str(text), text->len);
    return *out != NULL;
}

static bool messages_close(struct walk *w) {
    struct messages *m = w->arg;
    struct store_message *message = m->message;
    const char *text = buf_str(&w->text);
    if (w->depth == 1) {
        return message->id != NULL;
    }
    if (w->depth != 2) {
        return w->depth < 2;
    }
    if (at(w, 2, "MessageId")) {
        return take_text(m, &message->id, &w->text);
    } else if (at(w, 2, "PopReceipt")) {
        return take_text(m, &message->receipt, &w->text);
    } else if (at(w, 2, "MessageText")) {
        message->body_len = w->text.len;
        return take_text(m, &message->body, &w->text);
    } else if (at(w, 2, "InsertionTime")) {
        return take_date(text, &message->inserted);
    } else if (at(w, 2, "ExpirationTime")) {
        return take_date(text, &message->expires);
    } else if (at(w, 2, "TimeNextVisible")) {
        return take_date(text, &message->next_visible);
    } else if (at(w, 2, "DequeueCount")) {
        return parse_number(text, &message->dequeue_count);
    }
    return true;
}

bool xml_read_messages(struct xml *x, const char *data, size_t n, struct store_reply *reply,
                       struct error *err) {
    struct messages messages = {.reply = reply};
    struct walk w = {
        .x = x, .open = messages_open, .close = messages_close, .arg = &messages, .depth = -1};
    if (walk(&w, data, n)) {
        return true;
    }
    error_set(err, ERR_BAD_ANSWER, "the list of messages is %s",
              w.depth >= 0 && !w.complete ? "cut short or malformed"
                                          : "not in the form of the service");
    return false;
}

/* A carriage return would be read as a line feed. */
void xml_write_text(struct buf *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        switch (text[i]) {
        case '&':
            buf_puts(out, "&amp;");
            break;
        case '<':
            buf_puts(out, "&lt;");
            break;
        case '>':
            buf_puts(out, "&gt;");
            break;
        case '\r':
            buf_puts(out, "&#13;");
            break;
        default:
            buf_putc(out, text[i]);
        }
    }
}

/* --- error bodies --- */

static bool error_open(struct walk *w) {
    return w->depth > 0 || strcmp(w->path[0], "Error") == 0;
}

static bool error_close(struct walk *w) {
    struct xml_error *e = w->arg;
    const char *text = buf_str(&w->text);
    int line = (int)strcspn(text, "\r\n");
    if (w->depth != 1) {
        return true;
    }
    if (at(w, 1, "Code")) {
        snprintf(e->code, sizeof e->code, "%s", text);
    } else if (at(w, 1, "Message")) {
        snprintf(e->message, sizeof e->message, "%.*s", line, text);
    } else if (strcmp(w->path[1], "AuthenticationErrorDetail") !=
               0) { /* that one quotes the request */
        size_t used = strlen(e->detail);
        snprintf(e->detail + used, sizeof e->detail - used, "%s%s %.*s", used ? ", " : "",
                 w->path[1], line, text);
    }
    return true;
}

bool xml_read_error(struct xml *x, const char *data, size_t n, struct xml_error *out) {
    memset(out, 0, sizeof *out);
    struct walk w = {.x = x, .open = error_open, .close = error_close, .arg = out, .depth = -1};
    return walk(&w, data, n) && out->code[0];
}
