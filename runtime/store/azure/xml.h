/* xml.h -- the service's answers in XML: lists, messages and error bodies.
 *
 * Read as a stream: nothing is fetched from the network, no entity is defined or replaced, and depth and
 * lengths are limited. What is not exactly such an answer (cut short, HTML of some proxy) is refused.
 */
#ifndef SYNOD_STORE_XML_H
#define SYNOD_STORE_XML_H

#include "store/request.h"

enum {
    XML_DEPTH_MAX = 8,
    XML_TEXT_MAX = 64 * 1024, /* bytes of one element's text */
    XML_MESSAGE_MAX = 1024,
};

struct xml;

/* NULL and err when libxml2 cannot be had. */
struct xml *xml_new(struct error *err);
void xml_free(struct xml *x);

/* Adds the messages of an answer to the reply. False with err. */
bool xml_read_messages(struct xml *x, const char *data, size_t n, struct store_reply *reply,
                       struct error *err);
/* Appends text as it stands in an element. It must be free of what XML cannot carry: text_fault_xml. */
void xml_write_text(struct buf *out, const char *text, size_t n);

/* Adds the items of a list of containers, blobs or queues, and the next marker, to the reply. False with err. */
bool xml_read_list(struct xml *x, const char *data, size_t n, struct store_reply *reply,
                   struct error *err);

/* What an error body says. */
struct xml_error {
    char code[ERR_WORD_MAX];
    char message[XML_MESSAGE_MAX]; /* its first line */
    char detail
        [XML_MESSAGE_MAX]; /* "HeaderName x-ms-foo, HeaderValue bar": what is said beside it */
};

bool xml_read_error(struct xml *x, const char *data, size_t n, struct xml_error *out);

#endif
