/* answer.c -- a whole answer to any operation: "ListBlobs 200", header lines, an empty line, a body. */
#include "fuzz.h"
#include "store/azure/impl.h"
#include "store/entity.h"

static enum store_verb verb_of(const char *word, size_t len) {
    for (int verb = 0; verb < VERB_COUNT; verb++) {
        const char *name = verb_word((enum store_verb)verb);
        if (strlen(name) == len && memcmp(name, word, len) == 0) {
            return (enum store_verb)verb;
        }
    }
    return (enum store_verb)((unsigned char)word[0] % VERB_COUNT);
}

/* What a success or a refusal always is. */
static void look_at(const struct store_reply *reply) {
    size_t bytes = strlen(reply->props.etag) + strlen(reply->lease_id) +
                   strlen(reply->err.message) + strlen(reply->err.word) +
                   strlen(reply->err.request_id) +
                   (reply->next_marker ? strlen(reply->next_marker) : 0);
    for (const struct store_item *item = reply->items; item; item = item->next) {
        bytes += strlen(item->name);
    }
    for (const struct store_message *m = reply->messages; m; m = m->next) {
        bytes += m->body_len;
    }
    for (const struct entity *e = reply->entities; e; e = e->next) {
        bytes += entity_size(e);
    }
    must(bytes < SIZE_MAX / 2);
    must(reply->retry_after == UNSET || reply->retry_after >= 0);
}

static void answer(struct azure *az, enum store_verb verb, int status, char *head, size_t len) {
    struct entity keys = {.partition = "p", .row = "r", .timestamp = INT64_MIN};
    struct batch_operation second = {.verb = VERB_ENTITY_DELETE, .entity = &keys},
                           first = {&second, VERB_ENTITY_INSERT, &keys, NULL};
    struct store_request req;
    request_init(&req, verb);
    req.container = "flags", req.name = "a", req.partition = "p", req.row = "r";
    req.entity = &keys, req.batch = &first, req.batch_count = 2;
    struct store_reply reply;
    reply_init(&reply);
    struct attempt attempt = {.req = &req, .reply = &reply};
    struct azure_call call = {.azure = az, .attempt = &attempt};
    http_call_init(&call.http);
    call.http.method = "GET", call.http.url = "http://127.0.0.1:10000/devstoreaccount1/flags";
    call.http.status = status;
    char *body = fuzz_headers(&call.http.headers, head);
    buf_append(&call.http.answer, body, len - (size_t)(body - head));
    azure_reply_fill(az, &call);
    look_at(&reply);
    http_call_release(&call.http);
    reply_release(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct azure az = {.base = {.world = world_virtual_new(1)}};
    char *text = fuzz_text(data, size);
    char *end = text + strcspn(text, "\n"), *blank = text + strcspn(text, " \n");
    int status = *blank == ' ' ? (int)(strtoul(blank, NULL, 10) % 600) : 200;
    char *head = *end ? end + 1 : end;
    answer(&az, verb_of(text, (size_t)(blank - text)), status, head, size - (size_t)(head - text));
    free(text);
    if (az.xml) {
        xml_free(az.xml);
    }
    if (az.json) {
        json_free(az.json);
    }
    world_free(az.base.world);
    return 0;
}
