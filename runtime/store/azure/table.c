/* table.c -- from a request about tables to an HTTP request: OData in JSON, batches as multipart.
 *
 *     POST   /Tables                                  make a table        GET    /Tables            list
 *     DELETE /Tables('name')                          remove it
 *     POST   /name                                    insert
 *     GET    /name(PartitionKey='p',RowKey='r')       read                GET    /name()?$filter=   query
 *     PUT    the same address                         replace with If-Match, else upsert
 *     PATCH  the same address                         merge with If-Match, else upsert by merging
 *     DELETE the same address                         with If-Match
 *     POST   /$batch                                  several writes as one
 */
#include <stdio.h>
#include <string.h>

#include "store/azure/impl.h"
#include "store/entity.h"

#define ACCEPT "application/json;odata=minimalmetadata"

/* --- addresses --- */

/* A literal of OData, percent-encoded: a quote in it stands twice. */
static void append_quoted(struct buf *out, const char *text) {
    buf_putc(out, '\'');
    for (const char *quote; (quote = strchr(text, '\'')); text = quote + 1) {
        char piece[KEY_MAX + 1];
        size_t n = (size_t)(quote - text);
        if (n >= sizeof piece) {
            out->failed = true;
            return;
        }
        memcpy(piece, text, n);
        piece[n] = '\0';
        append_encoded(out, piece, false);
        buf_puts(out, "%27%27");
    }
    append_encoded(out, text, false);
    buf_putc(out, '\'');
}

static void append_entity(struct buf *out, const char *table, const char *partition,
                          const char *row) {
    append_encoded(out, table, false);
    buf_puts(out, "(PartitionKey=");
    append_quoted(out, partition);
    buf_puts(out, ",RowKey=");
    append_quoted(out, row);
    buf_putc(out, ')');
}

/* The beginning of a parameter; no question mark stands in the path as it is. */
static void begin_parameter(struct buf *out, const char *name) {
    buf_putc(out, strchr(buf_str(out), '?') ? '&' : '?');
    buf_puts(out, name);
    buf_putc(out, '=');
}

/* The part of a comparison with a key, percent-encoded, joined to what stands before. */
static void append_bound(struct buf *out, const char *comparison, const char *key, bool *first) {
    if (key) {
        buf_puts(out, *first ? "" : "%20and%20");
        buf_puts(out, comparison);
        append_quoted(out, key);
        *first = false;
    }
}

static void append_filter(struct buf *out, const struct store_request *req) {
    bool first = true;
    begin_parameter(out, "$filter");
    append_bound(out, "PartitionKey%20eq%20", req->partition, &first);
    append_bound(out, "RowKey%20ge%20", req->row, &first);
    append_bound(out, "RowKey%20le%20", req->row_to, &first);
    if (req->filter) {
        buf_puts(out, first ? "(" : "%20and%20(");
        append_encoded(out, req->filter, false);
        buf_putc(out, ')');
    }
}

static void append_select(struct buf *out, const char *names) {
    begin_parameter(out, "$select");
    buf_puts(out, "PartitionKey,RowKey,Timestamp");
    if (*names) {
        buf_putc(out, ',');
        append_encoded(out, names, false);
    }
}

/* A marker is the two keys of the next page, or its first one alone, with "\1" between. */
static void append_marker(struct buf *out, const char *marker) {
    char partition[4 * KEY_MAX];
    const char *row = strchr(marker, '\1');
    size_t n = row ? (size_t)(row - marker) : strlen(marker);
    if (n >= sizeof partition) {
        out->failed = true;
        return;
    }
    memcpy(partition, marker, n);
    partition[n] = '\0';
    begin_parameter(out, "NextPartitionKey");
    append_encoded(out, partition, false);
    if (row) {
        begin_parameter(out, "NextRowKey");
        append_encoded(out, row + 1, false);
    }
}

static void append_query(struct buf *out, const struct store_request *req) {
    append_encoded(out, req->container, false);
    buf_puts(out, "()");
    if (req->partition || req->row || req->row_to || req->filter) {
        append_filter(out, req);
    }
    if (req->select) {
        append_select(out, req->select);
    }
    if (req->max_results != UNSET) {
        begin_parameter(out, "$top");
        buf_printf(out, "%lld", (long long)req->max_results);
    }
    if (req->marker) {
        append_marker(out, req->marker);
    }
}

static void append_tables(struct buf *out, const struct store_request *req) {
    buf_puts(out, "Tables");
    if (req->marker) {
        begin_parameter(out, "NextTableName");
        append_encoded(out, req->marker, false);
    }
}

static void append_get(struct buf *out, const struct store_request *req) {
    append_entity(out, req->container, req->partition, req->row);
    if (req->select) {
        append_select(out, req->select);
    }
}

static void append_address(struct buf *out, const struct store_request *req) {
    switch (req->verb) {
    case VERB_TABLE_CREATE:
        buf_puts(out, "Tables");
        return;
    case VERB_TABLE_LIST:
        append_tables(out, req);
        return;
    case VERB_TABLE_DELETE:
        buf_printf(out, "Tables('%s')", req->container);
        return;
    case VERB_ENTITY_INSERT:
        append_encoded(out, req->container, false);
        return;
    case VERB_ENTITY_GET:
        append_get(out, req);
        return;
    case VERB_ENTITY_QUERY:
        append_query(out, req);
        return;
    case VERB_ENTITY_BATCH:
        buf_puts(out, "$batch");
        return;
    default:
        append_entity(out, req->container, req->entity->partition, req->entity->row);
    }
}

/* --- requests --- */

static const char *method_of(enum store_verb verb) {
    switch (verb) {
    case VERB_TABLE_DELETE:
    case VERB_ENTITY_DELETE:
        return "DELETE";
    case VERB_TABLE_LIST:
    case VERB_ENTITY_GET:
    case VERB_ENTITY_QUERY:
        return "GET";
    case VERB_ENTITY_REPLACE:
    case VERB_ENTITY_UPSERT:
        return "PUT";
    case VERB_ENTITY_MERGE:
    case VERB_ENTITY_UPSERT_MERGE:
        return "PATCH";
    default:
        return "POST";
    }
}

static const char *match_of(enum store_verb verb, const char *if_match) {
    bool any =
        verb == VERB_ENTITY_REPLACE || verb == VERB_ENTITY_MERGE || verb == VERB_ENTITY_DELETE;
    return any && !if_match ? "*" : if_match;
}

/* One operation as an HTTP request of its own inside the batch. The address must be whole. */
static void append_operation(struct buf *out, const struct endpoint *at, const char *table,
                             const struct batch_operation *op) {
    const char *match = match_of(op->verb, op->if_match);
    buf_puts(out, "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n");
    buf_printf(out, "%s %s/", method_of(op->verb), at->base);
    if (op->verb == VERB_ENTITY_INSERT) {
        append_encoded(out, table, false);
    } else {
        append_entity(out, table, op->entity->partition, op->entity->row);
    }
    buf_puts(out, " HTTP/1.1\r\nAccept: " ACCEPT "\r\nDataServiceVersion: 3.0\r\n");
    if (op->verb == VERB_ENTITY_INSERT) {
        buf_puts(out, "Prefer: return-no-content\r\n");
    }
    if (match) {
        buf_printf(out, "If-Match: %s\r\n", match);
    }
    if (op->verb == VERB_ENTITY_DELETE) {
        buf_puts(out, "\r\n");
    } else {
        buf_puts(out, "Content-Type: application/json\r\n\r\n");
        json_write_entity(out, op->entity);
    }
    buf_puts(out, "\r\n");
}

static bool build_batch(struct azure *az, struct azure_call *call) {
    const struct store_request *req = call->attempt->req;
    struct buf *out = &call->body;
    unsigned long long mark[2];
    char type[96], boundary[40];
    world_random(az->base.world, mark, sizeof mark);
    snprintf(boundary, sizeof boundary, "%016llx%016llx", mark[0], mark[1]);
    buf_printf(out, "--batch_%s\r\nContent-Type: multipart/mixed; boundary=changeset_%s\r\n\r\n",
               boundary, boundary);
    for (const struct batch_operation *op = req->batch; op; op = op->next) {
        buf_printf(out, "--changeset_%s\r\n", boundary);
        append_operation(out, &az->account.table, req->container, op);
    }
    buf_printf(out, "--changeset_%s--\r\n--batch_%s--\r\n", boundary, boundary);
    snprintf(type, sizeof type, "multipart/mixed; boundary=batch_%s", boundary);
    return http_call_field(&call->http, "Content-Type", type);
}

static bool build_body(struct azure *az, struct azure_call *call) {
    const struct store_request *req = call->attempt->req;
    buf_clear(&call->body);
    if (req->verb == VERB_ENTITY_BATCH) {
        return build_batch(az, call);
    }
    if (req->verb == VERB_TABLE_CREATE) {
        buf_puts(&call->body, "{\"TableName\":");
        json_write_string(&call->body, req->container, strlen(req->container));
        buf_putc(&call->body, '}');
    } else if (req->entity && req->verb != VERB_ENTITY_DELETE) {
        json_write_entity(&call->body, req->entity);
    } else {
        return true;
    }
    return http_call_field(&call->http, "Content-Type", "application/json");
}

static bool add_fields(struct http_call *http, const struct store_request *req) {
    const char *match = match_of(req->verb, req->when.if_match);
    bool no_content = req->verb == VERB_ENTITY_INSERT || req->verb == VERB_TABLE_CREATE;
    return http_call_field(http, "Accept", ACCEPT) &&
           http_call_field(http, "DataServiceVersion", "3.0") &&
           http_call_field(http, "MaxDataServiceVersion", "3.0;NetFx") &&
           (!no_content || http_call_field(http, "Prefer", "return-no-content")) &&
           (!match || http_call_field(http, "If-Match", match));
}

bool azure_table_build(struct azure *az, struct azure_call *call, struct error *err) {
    const struct store_request *req = call->attempt->req;
    struct http_call *http = &call->http;
    buf_clear(&call->url);
    buf_printf(&call->url, "%s/", az->account.table.base);
    append_address(&call->url, req);
    if (call->url.failed) {
        error_set(err, ERR_INVALID_INPUT, "the keys and the filter of the request are too long");
        call->url.failed = false;
        return false;
    }
    if (!build_body(az, call) || !add_fields(http, req) || call->body.failed) {
        error_set(err, ERR_INVALID_INPUT, "the request is too large or cannot be sent");
        call->body.failed = false;
        return false;
    }
    http->method = method_of(req->verb);
    http->url = call->url.data;
    if (call->body.len) {
        http->body = call->body.data;
        http->body_len = call->body.len;
    }
    return true;
}
