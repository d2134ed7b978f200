/* request.c -- from a request of the store to a signed HTTP request.
 *
 * The order of the x-ms-* headers is that in which they are signed, so that nothing needs sorting.
 */
#include <stdio.h>
#include <string.h>

#include "store/azure/impl.h"

/* X(verb, method, resource, query) */
#define SHAPE_LIST(X)                                                                              \
    X(CONTAINER_CREATE, "PUT", CONTAINER, "restype=container")                                     \
    X(CONTAINER_DELETE, "DELETE", CONTAINER, "restype=container")                                  \
    X(CONTAINER_HEAD, "HEAD", CONTAINER, "restype=container")                                      \
    X(CONTAINER_SET_METADATA, "PUT", CONTAINER, "comp=metadata&restype=container")                 \
    X(CONTAINER_LEASE, "PUT", CONTAINER, "comp=lease&restype=container")                           \
    X(CONTAINER_LIST, "GET", ACCOUNT, "comp=list")                                                 \
    X(BLOB_PUT, "PUT", BLOB, NULL)                                                                 \
    X(BLOB_GET, "GET", BLOB, NULL)                                                                 \
    X(BLOB_HEAD, "HEAD", BLOB, NULL)                                                               \
    X(BLOB_DELETE, "DELETE", BLOB, NULL)                                                           \
    X(BLOB_SET_METADATA, "PUT", BLOB, "comp=metadata")                                             \
    X(BLOB_APPEND, "PUT", BLOB, "comp=appendblock")                                                \
    X(BLOB_LEASE, "PUT", BLOB, "comp=lease")                                                       \
    X(BLOB_STAGE, "PUT", BLOB, NULL)                                                               \
    X(BLOB_COMMIT, "PUT", BLOB, "comp=blocklist")                                                  \
    X(BLOB_COPY, "PUT", BLOB, NULL)                                                                \
    X(BLOB_LIST, "GET", CONTAINER, "comp=list&restype=container")

enum resource { ACCOUNT, CONTAINER, BLOB };

struct shape {
    const char *method; /* NULL: not a verb of this file */
    enum resource resource;
    const char *query;
};

#define SHAPE(verb, method, resource, query) [VERB_##verb] = {method, resource, query},
static const struct shape SHAPES[VERB_COUNT] = {SHAPE_LIST(SHAPE)};
#undef SHAPE

void append_encoded(struct buf *out, const char *s, bool in_path) {
    static const char HEX[] = "0123456789ABCDEF";
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_' || c == '.' || c == '~' || (c == '/' && in_path);
        if (plain) {
            buf_putc(out, (char)c);
        } else {
            char code[3] = {'%', HEX[c >> 4], HEX[c & 15]};
            buf_append(out, code, sizeof code);
        }
    }
}

static void add_parameter(struct buf *url, const char *name, const char *value) {
    if (value && *value) {
        buf_putc(url, '&');
        buf_puts(url, name);
        buf_putc(url, '=');
        append_encoded(url, value, false);
    }
}

static void add_page(struct buf *url, const struct store_request *req) {
    add_parameter(url, "include", req->with_metadata ? "metadata" : NULL);
    add_parameter(url, "marker", req->marker);
    if (req->max_results != UNSET) {
        buf_printf(url, "&maxresults=%lld", (long long)req->max_results);
    }
    add_parameter(url, "prefix", req->prefix);
}

static bool build_url(const struct endpoint *at, const struct shape *shape,
                      const struct store_request *req, struct buf *url) {
    buf_clear(url);
    buf_puts(url, at->base);
    buf_putc(url, '/');
    if (shape->resource != ACCOUNT) {
        append_encoded(url, req->container, false);
    }
    if (shape->resource == BLOB) {
        buf_putc(url, '/');
        append_encoded(url, req->name, true);
    }
    if (shape->query) {
        buf_putc(url, '?');
        buf_puts(url, shape->query);
    }
    if (req->verb == VERB_BLOB_STAGE) {
        azure_block_query(req, url);
    }
    if (req->verb == VERB_BLOB_LIST || req->verb == VERB_CONTAINER_LIST) {
        add_page(url, req);
    }
    return !url->failed;
}

static bool add_metadata(struct http_call *http, const struct store_request *req,
                         struct error *err) {
    char name[256] = "x-ms-meta-";
    size_t prefix = strlen(name);
    const char *end = req->metadata + req->metadata_len;
    for (const char *p = req->metadata; p < end;) {
        const char *value = p + strlen(p) + 1;
        size_t n = strlen(p);
        bool ok = n > 0 && prefix + n < sizeof name;
        if (ok) {
            memcpy(name + prefix, p, n + 1);
            ok = http_call_field(http, name, value);
        }
        if (!ok) {
            error_set(err, ERR_INVALID_METADATA,
                      "the metadata \"%.64s\" cannot be sent as a header", p);
            return false;
        }
        p = value + strlen(value) + 1;
    }
    return true;
}

static bool field(struct http_call *http, const char *name, const char *value, struct error *err) {
    if (value && !http_call_field(http, name, value)) {
        error_set(err, ERR_INVALID_HEADER_VALUE, "the value for %s cannot be sent as a header",
                  name);
        return false;
    }
    return true;
}

static bool number_field(struct http_call *http, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return http_call_field(http, name, text);
}

static bool date_field(struct http_call *http, const char *name, int64_t date, struct error *err) {
    char text[INSTANT_TEXT_MAX];
    if (date == UNSET) {
        return true;
    }
    instant_http(date, text);
    return field(http, name, text, err);
}

static const char *type_word(enum blob_type type) {
    return type == BLOB_PAGE ? "PageBlob" : type == BLOB_APPEND ? "AppendBlob" : "BlockBlob";
}

static bool add_put(struct http_call *http, const struct store_request *req, struct error *err) {
    if (req->type != BLOB_BLOCK && req->body_len) {
        error_set(err, ERR_INVALID_INPUT, "a %s blob is created empty", blob_type_word(req->type));
        return false;
    }
    return (req->type != BLOB_PAGE || number_field(http, "x-ms-blob-content-length", req->size)) &&
           field(http, "x-ms-blob-content-type", req->content_type, err) &&
           field(http, "x-ms-blob-type", type_word(req->type), err);
}

static bool add_range(struct http_call *http, const struct store_request *req) {
    char text[64];
    if (req->range_start == UNSET && req->range_end == UNSET) {
        return true;
    }
    long long start = req->range_start == UNSET ? 0 : (long long)req->range_start;
    if (req->range_end == UNSET) {
        snprintf(text, sizeof text, "bytes=%lld-", start);
    } else {
        snprintf(text, sizeof text, "bytes=%lld-%lld", start, (long long)req->range_end);
    }
    return http_call_field(http, "x-ms-range", text);
}

static const char *date_now(struct azure *az) {
    int64_t now = world_wall(az->base.world);
    if (now / NS_PER_S != az->date_second) {
        az->date_second = now / NS_PER_S;
        instant_http(now, az->date);
    }
    return az->date;
}

static const char *action_word(enum lease_action action) {
    static const char *const WORDS[] = {"acquire", "renew", "change", "release", "break"};
    return WORDS[action];
}

static bool add_lease_action(struct http_call *http, const struct store_request *req) {
    bool breaks = req->action == LEASE_BREAK;
    return http_call_field(http, "x-ms-lease-action", action_word(req->action)) &&
           (req->lease_seconds == UNSET ||
            number_field(http, breaks ? "x-ms-lease-break-period" : "x-ms-lease-duration",
                         req->lease_seconds));
}

static bool add_headers(struct azure *az, struct http_call *http, const struct store_request *req,
                        struct error *err) {
    const struct store_conditions *when = &req->when;
    bool ok = true;
    if (req->verb == VERB_BLOB_APPEND && req->position != UNSET) {
        ok = number_field(http, "x-ms-blob-condition-appendpos", req->position);
    } else if (req->verb == VERB_BLOB_PUT) {
        ok = add_put(http, req, err);
    } else if (req->verb == VERB_BLOB_COMMIT) {
        ok = field(http, "x-ms-blob-content-type", req->content_type, err);
    } else if (req->verb == VERB_BLOB_COPY) {
        ok = azure_copy_source(az, http, req);
    }
    bool leases = req->verb == VERB_BLOB_LEASE || req->verb == VERB_CONTAINER_LEASE;
    return ok && field(http, "x-ms-date", date_now(az), err) &&
           (!leases || add_lease_action(http, req)) &&
           field(http, "x-ms-lease-id", when->lease, err) && add_metadata(http, req, err) &&
           field(http, "x-ms-proposed-lease-id", req->proposed_id, err) &&
           (req->verb != VERB_BLOB_GET || add_range(http, req)) &&
           field(http, "x-ms-source-if-match", req->source_if_match, err) &&
           field(http, "x-ms-version", AZURE_VERSION, err) &&
           field(http, "If-Match", when->if_match, err) &&
           field(http, "If-None-Match", when->if_none_match, err) &&
           date_field(http, "If-Modified-Since", when->if_modified_since, err) &&
           date_field(http, "If-Unmodified-Since", when->if_unmodified_since, err);
}

/* The request as far as it is the same for blobs and containers. */
static bool build(struct azure *az, struct azure_call *call, const struct endpoint *at,
                  struct error *err) {
    const struct store_request *req = call->attempt->req;
    const struct shape *shape = &SHAPES[req->verb];
    if (!shape->method) {
        error_set(err, ERR_UNSUPPORTED, "synod cannot %s on Azure", verb_phrase(req->verb));
        return false;
    }
    if (!build_url(at, shape, req, &call->url)) {
        error_set(err, ERR_INVALID_INPUT, "the names in the request are too long");
        return false;
    }
    call->http.method = shape->method;
    call->http.url = call->url.data;
    if (strcmp(shape->method, "PUT") == 0) {
        call->http.body = req->body ? req->body : "";
        call->http.body_len = req->body ? req->body_len : 0;
    }
    if (req->verb == VERB_BLOB_COMMIT && !azure_block_list(req, call)) {
        error_set(err, ERR_NO_MEMORY, NULL);
        return false;
    }
    if (!add_headers(az, &call->http, req, err)) {
        if (err->code == ERR_OK) {
            error_set(err, ERR_INVALID_INPUT, "the headers of the request are too long");
        }
        return false;
    }
    return true;
}

static bool build_table(struct azure *az, struct azure_call *call, struct error *err) {
    return azure_table_build(az, call, err) && field(&call->http, "x-ms-date", date_now(az), err) &&
           field(&call->http, "x-ms-version", AZURE_VERSION, err);
}

static bool build_queue(struct azure *az, struct azure_call *call, struct error *err) {
    return azure_queue_build(az, call, err) && field(&call->http, "x-ms-date", date_now(az), err) &&
           add_metadata(&call->http, call->attempt->req, err) &&
           field(&call->http, "x-ms-version", AZURE_VERSION, err);
}

bool azure_request_build(struct azure *az, struct azure_call *call, struct error *err) {
    enum store_verb verb = call->attempt->req->verb;
    bool table = verb >= VERB_TABLE_CREATE, queue = !table && verb >= VERB_QUEUE_CREATE;
    const struct endpoint *at = table   ? &az->account.table
                                : queue ? &az->account.queue
                                        : &az->account.blob;
    if (!(table   ? build_table(az, call, err)
          : queue ? build_queue(az, call, err)
                  : build(az, call, at, err))) {
        return false;
    }
    return azure_authorize(az, call, at, table, err);
}
