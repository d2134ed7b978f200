/* queue.c -- queues and messages: from a request to an HTTP request, and from the answer to a reply.
 *
 *     PUT    /queue                    make it            DELETE /queue                      remove it
 *     GET    /queue?comp=metadata      count, metadata    GET    /?comp=list                 list
 *     POST   /queue/messages           put                DELETE /queue/messages             clear
 *     GET    /queue/messages           get                GET    /queue/messages?peekonly=true
 *     PUT    /queue/messages/id?popreceipt=               update
 *     DELETE /queue/messages/id?popreceipt=               delete
 */
#include <string.h>

#include "store/azure/impl.h"
#include "store/azure/props.h"
#include "store/names.h"

/* --- requests --- */

static const char *method_of(enum store_verb verb) {
    switch (verb) {
    case VERB_QUEUE_CREATE:
    case VERB_MESSAGE_UPDATE:
        return "PUT";
    case VERB_QUEUE_DELETE:
    case VERB_QUEUE_CLEAR:
    case VERB_MESSAGE_DELETE:
        return "DELETE";
    case VERB_MESSAGE_PUT:
        return "POST";
    default:
        return "GET";
    }
}

static void append_path(struct buf *url, const struct store_request *req) {
    buf_putc(url, '/');
    if (req->verb != VERB_QUEUE_LIST) {
        append_encoded(url, req->container, false);
    }
    if (req->verb >= VERB_QUEUE_CLEAR) {
        buf_puts(url, "/messages");
    }
    if (req->verb == VERB_MESSAGE_UPDATE || req->verb == VERB_MESSAGE_DELETE) {
        buf_putc(url, '/');
        append_encoded(url, req->name, false);
    }
}

/* One parameter; the first has a question mark before it. */
static void begin_parameter(struct buf *url, const char *name, bool *first) {
    buf_putc(url, *first ? '?' : '&');
    buf_printf(url, "%s=", name);
    *first = false;
}

static void append_text(struct buf *url, const char *name, const char *value, bool *first) {
    if (value && *value) {
        begin_parameter(url, name, first);
        append_encoded(url, value, false);
    }
}

static void append_number(struct buf *url, const char *name, int64_t value, bool *first) {
    if (value != UNSET) {
        begin_parameter(url, name, first);
        buf_printf(url, "%lld", (long long)value);
    }
}

static void append_query(struct buf *url, const struct store_request *req) {
    bool first = true, updates = req->verb == VERB_MESSAGE_UPDATE;
    int64_t visibility = updates && req->visibility_s == UNSET ? 0 : req->visibility_s;
    const char *comp = req->verb == VERB_QUEUE_LIST   ? "list"
                       : req->verb == VERB_QUEUE_HEAD ? "metadata"
                                                      : NULL;
    append_text(url, "comp", comp, &first);
    append_text(url, "include", req->with_metadata ? "metadata" : NULL, &first);
    append_text(url, "marker", req->marker, &first);
    append_number(url, "maxresults", req->max_results, &first);
    append_number(url, "messagettl", req->ttl_s, &first);
    append_number(url, "numofmessages", req->count, &first);
    append_text(url, "peekonly", req->verb == VERB_MESSAGE_PEEK ? "true" : NULL, &first);
    append_text(url, "popreceipt", req->receipt, &first);
    append_text(url, "prefix", req->prefix, &first);
    append_number(url, "visibilitytimeout", visibility, &first);
}

static bool build_body(struct azure_call *call, struct error *err) {
    const struct store_request *req = call->attempt->req;
    struct buf *out = &call->body;
    buf_clear(out);
    if (req->verb != VERB_MESSAGE_PUT && !(req->verb == VERB_MESSAGE_UPDATE && req->body)) {
        return true;
    }
    const char *fault = text_fault_xml(req->body, req->body_len);
    if (fault) {
        error_set(err, ERR_INVALID_INPUT,
                  "the message %s, which XML cannot carry; send it as base64", fault);
        return false;
    }
    buf_puts(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessage><MessageText>");
    xml_write_text(out, req->body, req->body_len);
    buf_puts(out, "</MessageText></QueueMessage>");
    return http_call_field(&call->http, "Content-Type", "application/xml");
}

bool azure_queue_build(struct azure *az, struct azure_call *call, struct error *err) {
    const struct store_request *req = call->attempt->req;
    struct http_call *http = &call->http;
    buf_clear(&call->url);
    buf_puts(&call->url, az->account.queue.base);
    append_path(&call->url, req);
    append_query(&call->url, req);
    if (call->url.failed) {
        error_set(err, ERR_INVALID_INPUT, "the names in the request are too long");
        call->url.failed = false;
        return false;
    }
    if (!build_body(call, err)) {
        return false;
    }
    http->method = method_of(req->verb);
    http->url = call->url.data;
    if (strcmp(http->method, "PUT") == 0 || call->body.len) {
        http->body = buf_str(&call->body);
        http->body_len = call->body.len;
    }
    return true;
}

/* --- replies --- */

/* What an update tells stands in headers. */
static void fill_update(struct azure_call *call) {
    struct store_reply *reply = call->attempt->reply;
    const struct pairs *headers = &call->http.headers;
    const char *receipt = pairs_get(headers, "x-ms-popreceipt");
    const char *next = pairs_get(headers, "x-ms-time-next-visible");
    struct store_message *m = reply_add_message(reply);
    if (!receipt || (next && m && !instant_parse_http(next, &m->next_visible))) {
        error_set(&reply->err, ERR_BAD_ANSWER, "the answer has no receipt or a malformed date");
        return;
    }
    if (m) {
        m->id = call->attempt->req->name;
        m->receipt = arena_strdup(&reply->arena, receipt);
    }
    if (!m || !m->receipt) {
        error_set(&reply->err, ERR_NO_MEMORY, NULL);
    }
}

static void fill_head(struct azure_call *call) {
    struct store_reply *reply = call->attempt->reply;
    const char *count = pairs_get(&call->http.headers, "x-ms-approximate-messages-count");
    if (!count || !parse_number(count, &reply->count)) {
        error_set(&reply->err, ERR_BAD_ANSWER, "the answer does not tell the number of messages");
    }
}

static struct xml *xml_of(struct azure *az, struct error *err) {
    if (!az->xml) {
        az->xml = xml_new(err);
    }
    return az->xml;
}

/* Of a put the answer has the message that it made. */
static void fill_messages(struct xml *xml, struct azure_call *call) {
    struct store_reply *reply = call->attempt->reply;
    const struct buf *answer = &call->http.answer;
    if (xml_read_messages(xml, buf_str(answer), answer->len, reply, &reply->err) &&
        call->attempt->req->verb == VERB_MESSAGE_PUT && !reply->messages) {
        error_set(&reply->err, ERR_BAD_ANSWER, "the answer to a put has no message");
    }
}

void azure_queue_fill(struct azure *az, struct azure_call *call) {
    struct store_reply *reply = call->attempt->reply;
    const struct buf *answer = &call->http.answer;
    struct error *err = &reply->err;
    switch (call->attempt->req->verb) {
    case VERB_MESSAGE_PUT:
    case VERB_MESSAGE_GET:
    case VERB_MESSAGE_PEEK:
        if (xml_of(az, err)) {
            fill_messages(az->xml, call);
        }
        return;
    case VERB_QUEUE_LIST:
        if (xml_of(az, err)) {
            xml_read_list(az->xml, buf_str(answer), answer->len, reply, err);
        }
        return;
    case VERB_MESSAGE_UPDATE:
        fill_update(call);
        return;
    case VERB_QUEUE_HEAD:
        fill_head(call);
        return;
    default:
        return;
    }
}
