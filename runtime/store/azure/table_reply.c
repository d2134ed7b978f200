/* table_reply.c -- from an HTTP answer about tables to a reply of the store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/azure/impl.h"
#include "store/entity.h"

static struct json *json_of(struct azure *az, struct error *err) {
    if (!az->json) {
        az->json = json_new(err);
    }
    return az->json;
}

bool azure_table_error(struct azure *az, struct http_call *http, struct xml_error *out) {
    struct error ignored;
    struct json_error said;
    struct json *json = json_of(az, &ignored);
    if (!json || !json_read_error(json, http->answer.data, http->answer.len, &said)) {
        return false;
    }
    snprintf(out->code, sizeof out->code, "%s", said.code);
    snprintf(out->message, sizeof out->message, "%s", said.message);
    return true;
}

static bool no_memory(struct store_reply *reply) {
    error_set(&reply->err, ERR_NO_MEMORY, NULL);
    return false;
}

/* --- one entity, a page --- */

static void fill_entity(struct json *json, struct azure_call *call) {
    const struct store_request *req = call->attempt->req;
    struct store_reply *reply = call->attempt->reply;
    struct entity keys = {.partition = req->partition, .row = req->row};
    struct entity *e = json_read_entity(json, buf_str(&call->http.answer), call->http.answer.len,
                                        &keys, &reply->arena, &reply->err);
    if (e && !e->etag[0]) {
        strcpy(e->etag, reply->props.etag);
    }
    if (e && !reply->props.etag[0]) {
        strcpy(reply->props.etag, e->etag);
    }
    reply->entities = e;
}

static void fill_page(struct json *json, struct azure_call *call) {
    struct store_reply *reply = call->attempt->reply;
    const struct pairs *headers = &call->http.headers;
    if (!json_read_page(json, buf_str(&call->http.answer), call->http.answer.len, &reply->arena,
                        &reply->entities, &reply->err)) {
        return;
    }
    const char *partition = pairs_get(headers, "x-ms-continuation-NextPartitionKey");
    const char *row = pairs_get(headers, "x-ms-continuation-NextRowKey");
    if (!partition) {
        return;
    }
    size_t p = strlen(partition), r = row ? strlen(row) : 0;
    char *marker = arena_alloc(&reply->arena, p + r + 2);
    if (!marker) {
        no_memory(reply);
        return;
    }
    memcpy(marker, partition, p + 1);
    if (row) {
        marker[p] = '\1';
        memcpy(marker + p + 1, row, r + 1);
    }
    reply->next_marker = marker;
}

static bool add_table(void *arg, const char *name) {
    return reply_add_item(arg, name, strlen(name)) != NULL;
}

static void fill_tables(struct json *json, struct azure_call *call) {
    struct store_reply *reply = call->attempt->reply;
    const char *next = pairs_get(&call->http.headers, "x-ms-continuation-NextTableName");
    if (json_read_tables(json, buf_str(&call->http.answer), call->http.answer.len, add_table, reply,
                         &reply->err) &&
        next) {
        reply->next_marker = arena_strdup(&reply->arena, next);
        if (!reply->next_marker) {
            no_memory(reply);
        }
    }
}

/* --- batches --- */

/* One answer inside the answer: "HTTP/1.1 204 No Content", headers, a blank line, and perhaps a body. */
struct part {
    int status;
    char etag[ENTITY_ETAG_MAX];
    const char *body;
    size_t body_len;
};

static const char *line_end(const char *at) {
    const char *end = strchr(at, '\n');
    return end ? end : at + strlen(at);
}

static const char *next_line(const char *at) {
    const char *end = line_end(at);
    return *end ? end + 1 : end;
}

static bool is_blank(const char *line) {
    return *line == '\n' || (line[0] == '\r' && line[1] == '\n');
}

static void take_etag(struct part *part, const char *line) {
    static const char NAME[] = "etag:";
    if (strncasecmp(line, NAME, sizeof NAME - 1) != 0) {
        return;
    }
    const char *from = line + sizeof NAME - 1, *to = line_end(line);
    from += strspn(from, " \t");
    while (to > from && strchr(" \t\r", to[-1])) {
        to--;
    }
    if ((size_t)(to - from) < sizeof part->etag) {
        memcpy(part->etag, from, (size_t)(to - from));
        part->etag[to - from] = '\0';
    }
}

/* The next part from *at on, which moves behind it. */
static bool next_part(const char **at, struct part *part) {
    const char *line = *at;
    *part = (struct part){.body = ""};
    while (*line && strncmp(line, "HTTP/1.", 7) != 0) {
        line = next_line(line);
    }
    if (!*line) {
        return false;
    }
    const char *blank = strchr(line, ' ');
    part->status = blank ? atoi(blank) : 0;
    for (line = next_line(line); *line && !is_blank(line) && strncmp(line, "--", 2) != 0;
         line = next_line(line)) {
        take_etag(part, line);
    }
    part->body = is_blank(line) ? next_line(line) : line;
    for (line = part->body; *line && strncmp(line, "--", 2) != 0; line = next_line(line)) {}
    part->body_len = (size_t)(line - part->body);
    *at = line;
    return true;
}

/* The service's message begins with the number of the operation, from 0: "2:The update ...". */
static const char *take_number(const char *message, int *number) {
    char *end;
    long n = strtol(message, &end, 10);
    if (end == message || *end != ':' || n < 0 || n >= BATCH_MAX) {
        return message;
    }
    *number = (int)n + 1;
    return end + 1;
}

static void refuse(struct json *json, const struct part *part, int place,
                   struct store_reply *reply) {
    struct json_error said = {"", ""};
    struct error *err = &reply->err;
    const char *end = part->body + part->body_len;
    const char *from = memchr(part->body, '{', part->body_len);
    if (from) {
        while (end > from && end[-1] != '}') {
            end--;
        }
        json_read_error(json, from, (size_t)(end - from), &said);
    }
    enum err code = said.code[0] ? err_from_word(said.code) : ERR_OTHER;
    reply->failed_operation = place;
    const char *message = take_number(said.message, &reply->failed_operation);
    bool say = (code == ERR_OTHER || err_status(code) == 400) && *message;
    error_set(err, code, say ? "%.300s" : NULL, message);
    err->status = part->status;
    err->retryable = err->retryable || part->status >= 500 || part->status == 429;
    if (code == ERR_OTHER) {
        snprintf(err->word, sizeof err->word, "%s", said.code);
    }
}

static void fill_batch(struct json *json, struct azure_call *call) {
    struct store_reply *reply = call->attempt->reply;
    int count = call->attempt->req->batch_count, place = 0;
    const char *at = buf_str(&call->http.answer);
    struct part part;
    reply->etags = arena_alloc(&reply->arena, (size_t)count * sizeof *reply->etags);
    if (!reply->etags) {
        no_memory(reply);
        return;
    }
    while (next_part(&at, &part)) {
        if (part.status >= 300) {
            refuse(json, &part, count > 1 ? 0 : 1, reply);
            return;
        }
        if (place < count) {
            reply->etags[place] = part.etag[0] ? arena_strdup(&reply->arena, part.etag) : NULL;
        }
        place++;
    }
    if (place != count) {
        error_set(&reply->err, ERR_BAD_ANSWER,
                  "the answer to a batch of %d operations is about %d of them", count, place);
    }
}

void azure_table_fill(struct azure *az, struct azure_call *call) {
    struct error *err = &call->attempt->reply->err;
    struct json *json = json_of(az, err);
    if (!json) {
        return;
    }
    switch (call->attempt->req->verb) {
    case VERB_ENTITY_GET:
        fill_entity(json, call);
        return;
    case VERB_ENTITY_QUERY:
        fill_page(json, call);
        return;
    case VERB_TABLE_LIST:
        fill_tables(json, call);
        return;
    case VERB_ENTITY_BATCH:
        fill_batch(json, call);
        return;
    default:
        return;
    }
}
