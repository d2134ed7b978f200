/* reply.c -- from an HTTP answer to a reply of the store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/azure/impl.h"
#include "store/azure/props.h"

enum { RETRY_AFTER_MAX_S = 24 * 60 * 60 }; /* longer than any call waits */

/* What of the head is needed beside the properties. */
struct head {
    const char *error_code;   /* NULL: none told */
    const char *request_id;   /* NULL: not an answer of the service */
    const char *content_type; /* NULL: none told */
    const char *location;
    const char *server;
    const char *retry_after;
    bool malformed; /* a property could not be understood */
};

enum header_id {
    H_ETAG,
    H_LAST_MODIFIED,
    H_CONTENT_LENGTH,
    H_CONTENT_TYPE,
    H_CONTENT_RANGE,
    H_DATE,
    H_RETRY_AFTER,
    H_LOCATION,
    H_SERVER,
    H_ERROR_CODE,
    H_REQUEST_ID,
    H_BLOB_TYPE,
    H_LEASE_STATE,
    H_LEASE_STATUS,
    H_LEASE_DURATION,
    H_LEASE_ID,
    H_LEASE_TIME,
    H_BLOCK_COUNT,
    H_APPEND_OFFSET,
    H_COPY_STATUS,
    H_COUNT,
};

#define HEADER(id, text) [id] = {text, sizeof text - 1}

static const struct {
    const char *name;
    size_t len;
} HEADERS[H_COUNT] = {
    HEADER(H_ETAG, "etag"),
    HEADER(H_LAST_MODIFIED, "last-modified"),
    HEADER(H_CONTENT_LENGTH, "content-length"),
    HEADER(H_CONTENT_TYPE, "content-type"),
    HEADER(H_CONTENT_RANGE, "content-range"),
    HEADER(H_DATE, "date"),
    HEADER(H_RETRY_AFTER, "retry-after"),
    HEADER(H_LOCATION, "location"),
    HEADER(H_SERVER, "server"),
    HEADER(H_ERROR_CODE, "x-ms-error-code"),
    HEADER(H_REQUEST_ID, "x-ms-request-id"),
    HEADER(H_BLOB_TYPE, "x-ms-blob-type"),
    HEADER(H_LEASE_STATE, "x-ms-lease-state"),
    HEADER(H_LEASE_STATUS, "x-ms-lease-status"),
    HEADER(H_LEASE_DURATION, "x-ms-lease-duration"),
    HEADER(H_LEASE_ID, "x-ms-lease-id"),
    HEADER(H_LEASE_TIME, "x-ms-lease-time"),
    HEADER(H_BLOCK_COUNT, "x-ms-blob-committed-block-count"),
    HEADER(H_APPEND_OFFSET, "x-ms-blob-append-offset"),
    HEADER(H_COPY_STATUS, "x-ms-copy-status"),
};

static enum header_id header_id(const char *name, size_t len) {
    for (int i = 0; i < H_COUNT; i++) {
        if (HEADERS[i].len == len && strncasecmp(name, HEADERS[i].name, len) == 0) {
            return (enum header_id)i;
        }
    }
    return H_COUNT;
}

/* "bytes 0-511/2048": the length of the whole. */
static bool set_whole_length(struct store_props *p, const char *range) {
    const char *slash = strchr(range, '/');
    return slash && parse_number(slash + 1, &p->length);
}

static bool take_header(struct store_reply *reply, struct head *head, enum header_id id,
                        const char *value) {
    struct store_props *p = &reply->props;
    switch (id) {
    case H_ETAG:
        return props_set_etag(p, value);
    case H_LAST_MODIFIED:
        return instant_parse_http(value, &p->last_modified);
    case H_CONTENT_LENGTH:
        return p->length != UNSET || props_set_length(p, value);
    case H_CONTENT_RANGE:
        return set_whole_length(p, value);
    case H_CONTENT_TYPE:
        head->content_type = value;
        props_set_content_type(p, value);
        return true;
    case H_DATE:
        instant_parse_http(value, &reply->server_date);
        return true;
    case H_RETRY_AFTER:
        head->retry_after = value;
        return true;
    case H_LOCATION:
        head->location = value;
        return true;
    case H_SERVER:
        head->server = value;
        return true;
    case H_ERROR_CODE:
        head->error_code = value;
        return true;
    case H_REQUEST_ID:
        head->request_id = value;
        return true;
    case H_BLOB_TYPE:
        return props_set_type(p, value);
    case H_LEASE_STATE:
        return props_set_lease_state(p, value);
    case H_LEASE_STATUS:
        props_set_lease_status(p, value);
        return true;
    case H_LEASE_DURATION:
        props_set_lease_duration(p, value);
        return true;
    case H_LEASE_ID:
        snprintf(reply->lease_id, sizeof reply->lease_id, "%s", value);
        return true;
    case H_LEASE_TIME:
        return parse_number(value, &reply->lease_time);
    case H_BLOCK_COUNT:
        return parse_number(value, &p->block_count);
    case H_APPEND_OFFSET:
        return parse_number(value, &p->append_offset);
    case H_COPY_STATUS:
        if (strcmp(value, "success") != 0) {
            snprintf(p->copy_status, sizeof p->copy_status, "%s", value);
        }
        return true;
    case H_COUNT:
        return true;
    }
    return true;
}

static void take_head(struct http_call *http, struct store_reply *reply, struct head *head) {
    static const char META[] = "x-ms-meta-";
    for (const char *name = pairs_first(&http->headers); name;
         name = pairs_next(&http->headers, name)) {
        const char *value = pairs_value(name);
        size_t len = (size_t)(value - name) - 1;
        if (strncasecmp(name, META, sizeof META - 1) == 0) {
            head->malformed |= !pairs_add(&reply->props.metadata, name + sizeof META - 1, value);
        } else if (!take_header(reply, head, header_id(name, len), value)) {
            head->malformed = true;
        }
    }
}

/* Seconds, or a date on the server's clock. */
static int64_t wait_asked(const char *text, int64_t server_date) {
    int64_t number, date;
    if (!text) {
        return UNSET;
    }
    if (parse_number(text, &number)) {
        return number < RETRY_AFTER_MAX_S ? number * NS_PER_S : RETRY_AFTER_MAX_S * NS_PER_S;
    }
    return server_date != UNSET && instant_parse_http(text, &date) && date > server_date
               ? date - server_date
               : UNSET;
}

/* --- refusals --- */

static bool names_blob(enum store_verb verb) {
    return verb == VERB_BLOB_GET || verb == VERB_BLOB_HEAD || verb == VERB_BLOB_DELETE ||
           verb == VERB_BLOB_SET_METADATA || verb == VERB_BLOB_APPEND || verb == VERB_BLOB_LEASE ||
           verb == VERB_BLOB_COPY;
}

/* What a status means when no code came with it. */
static enum err code_from_status(int status, enum store_verb verb) {
    switch (status) {
    case 304:
        return ERR_NOT_MODIFIED;
    case 401:
    case 403:
        return ERR_UNAUTHORIZED;
    case 404:
        return verb >= VERB_ENTITY_INSERT    ? ERR_RESOURCE_NOT_FOUND
               : verb >= VERB_TABLE_CREATE   ? ERR_TABLE_NOT_FOUND
               : verb >= VERB_MESSAGE_UPDATE ? ERR_MESSAGE_NOT_FOUND
               : verb >= VERB_QUEUE_CREATE   ? ERR_QUEUE_NOT_FOUND
               : names_blob(verb)            ? ERR_BLOB_NOT_FOUND
                                             : ERR_CONTAINER_NOT_FOUND;
    case 412:
        return verb >= VERB_TABLE_CREATE ? ERR_UPDATE_CONDITION_NOT_SATISFIED
                                         : ERR_CONDITION_NOT_MET;
    case 413:
        return ERR_REQUEST_BODY_TOO_LARGE;
    case 416:
        return ERR_INVALID_RANGE;
    case 429:
    case 503:
        return ERR_SERVER_BUSY;
    case 500:
        return ERR_INTERNAL_ERROR;
    default:
        return status >= 500 ? ERR_INTERNAL_ERROR : ERR_OTHER;
    }
}

/* A signature made with a wrong clock is refused like one made with a wrong key. */
static void explain_refused(struct azure *az, const struct store_reply *reply, struct error *err) {
    if (reply->server_date == UNSET) {
        return;
    }
    int64_t minutes = (world_wall(az->base.world) - reply->server_date) / (60 * NS_PER_S);
    if (llabs(minutes) >= AZURE_SKEW_SHOWN_MIN) {
        struct error said = *err;
        snprintf(err->message, sizeof err->message,
                 "%.200s; this machine's clock is %lld minutes %s the store's: set it",
                 error_sentence(&said), llabs(minutes), minutes > 0 ? "ahead of" : "behind");
    }
}

static bool read_error_body(struct azure *az, struct http_call *http, enum store_verb verb,
                            struct xml_error *out) {
    struct error ignored;
    if (!http->answer.len) {
        return false;
    }
    if (verb >= VERB_TABLE_CREATE) {
        return azure_table_error(az, http, out);
    }
    if (!az->xml) {
        az->xml = xml_new(&ignored);
    }
    return az->xml && xml_read_error(az->xml, http->answer.data, http->answer.len, out);
}

/* The sentences of the list are better than the service's, and the same over both stores; only what
 * the list cannot know (which header, which parameter) is taken from it. */
static bool wants_body(enum err code) {
    return code == ERR_OTHER || err_status(code) == 400;
}

static void refuse(struct azure *az, struct azure_call *call, const struct head *head) {
    struct http_call *http = &call->http;
    struct store_reply *reply = call->attempt->reply;
    struct xml_error body = {0};
    const char *word = head->error_code;
    enum err code = word ? err_from_word(word) : ERR_OTHER;
    enum store_verb verb = call->attempt->req->verb;
    if (wants_body(code) && read_error_body(az, http, verb, &body) && !word) {
        word = body.code;
        code = err_from_word(word);
    }
    if (verb == VERB_TABLE_DELETE && code == ERR_RESOURCE_NOT_FOUND) {
        code = ERR_TABLE_NOT_FOUND; /* as every other call on a table says it */
    }
    if (!word || http->status == 304 ||
        (code == ERR_OTHER && (http->status == 403 || http->status == 401))) {
        code = code_from_status(http->status, verb);
    }
    struct error *err = &reply->err;
    bool say = wants_body(code) && body.message[0] &&
               !credential_is_shown_by(&az->account.credential, body.message) &&
               !credential_is_shown_by(&az->account.credential, body.detail);
    error_set(err, code, say ? "%.200s%s%.100s%s" : NULL, body.message, *body.detail ? " (" : "",
              body.detail, *body.detail ? ")" : "");
    err->status = http->status;
    err->retryable = err->retryable || http->status >= 500 || http->status == 429;
    if (code == ERR_OTHER) {
        snprintf(err->word, sizeof err->word, "%s", word ? word : "");
        if (!say) {
            snprintf(err->message, sizeof err->message, "the store answered with status %d%s%.64s",
                     http->status, word ? ", " : "", word ? word : "");
        }
    }
    if (code == ERR_AUTHENTICATION_FAILED || code == ERR_UNAUTHORIZED) {
        azure_explain_credential(az, word, err);
        explain_refused(az, reply, err);
    }
}

/* --- answers that are not the service's --- */

static void not_the_service(struct azure_call *call, const struct head *head) {
    struct http_call *http = &call->http;
    struct error *err = &call->attempt->reply->err;
    const char *at;
    int n = http_call_host(http, &at);
    if (http->status >= 300 && http->status < 400) {
        error_set(err, ERR_BAD_ANSWER,
                  "%.*s redirects to another address: it is no storage service", n, at);
    } else if (http->status == 407) {
        error_set(err, ERR_UNREACHABLE, "a proxy on the way to %.*s wants credentials", n, at);
        err->retryable = false;
    } else {
        error_set(err, ERR_BAD_ANSWER,
                  "%.*s answered with status %d, %s, but is no storage service%s%.40s%s", n, at,
                  http->status, head->content_type ? head->content_type : "no content",
                  head->server ? " (it is " : "", head->server ? head->server : "",
                  head->server ? ")" : "");
        err->retryable = http->status >= 500 || http->status == 429;
    }
    err->status = http->status;
}

static bool read_list(struct azure *az, struct http_call *http, struct store_reply *reply) {
    if (!az->xml) {
        az->xml = xml_new(&reply->err);
    }
    return az->xml &&
           xml_read_list(az->xml, buf_str(&http->answer), http->answer.len, reply, &reply->err);
}

/* Properties that say something of the answer, not of the blob. */
static void forget_transfer(struct store_props *p, enum store_verb verb) {
    if (verb != VERB_BLOB_GET && verb != VERB_BLOB_HEAD) {
        p->length = UNSET;
        p->content_type[0] = '\0';
    }
}

void azure_reply_fill(struct azure *az, struct azure_call *call) {
    struct http_call *http = &call->http;
    struct store_reply *reply = call->attempt->reply;
    enum store_verb verb = call->attempt->req->verb;
    struct head head = {0};
    take_head(http, reply, &head);
    reply->retry_after = wait_asked(head.retry_after, reply->server_date);
    if (!head.request_id) {
        not_the_service(call, &head);
    } else if (http->status >= 300) {
        refuse(az, call, &head);
    } else if (head.malformed) {
        error_set(&reply->err, ERR_BAD_ANSWER, "a header of the answer is malformed");
    } else if (verb >= VERB_TABLE_CREATE) {
        azure_table_fill(az, call);
    } else if (verb >= VERB_QUEUE_CREATE) {
        azure_queue_fill(az, call);
    } else if (verb == VERB_BLOB_LIST || verb == VERB_CONTAINER_LIST) {
        read_list(az, http, reply);
    } else if (verb == VERB_BLOB_GET) {
        size_t most = reply->body.max;
        buf_move(&reply->body, &http->answer);
        reply->body.max = most;
    }
    forget_transfer(&reply->props, verb);
    reply->props.has_metadata =
        reply->err.code == ERR_OK && (verb == VERB_BLOB_GET || verb == VERB_BLOB_HEAD ||
                                      verb == VERB_CONTAINER_HEAD || verb == VERB_QUEUE_HEAD);
    if (reply->err.code != ERR_OK && head.request_id) {
        snprintf(reply->err.request_id, sizeof reply->err.request_id, "%s", head.request_id);
    }
}
