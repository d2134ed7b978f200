/* token.c -- what a giver of tokens answers: the first line is the status, then header lines, an empty line, JSON. */
#include "base/instant.h"
#include "fuzz.h"
#include "store/json.h"
#include "store/request.h"
#include "store/azure/token.h"

enum { WALL_S = 1767316245 }; /* 2026-01-02 */

static void look_at(const struct token_answer *answer) {
    if (answer->err.code == ERR_OK) {
        must(answer->token.len > 0 && !answer->token.failed);
        must(answer->life > 0 && answer->life <= TOKEN_LIFE_MAX_S * NS_PER_S);
        for (size_t i = 0; i < answer->token.len; i++) {
            must(answer->token.data[i] > ' ' && answer->token.data[i] < 127);
        }
    }
    must(answer->rest == UNSET || answer->rest >= 0);
    must(answer->refresh == UNSET || answer->refresh >= 0);
}

static void read_answer(enum credential_kind kind, int status, char *head, size_t size) {
    struct error err;
    struct credential credential = {.kind = kind};
    struct json *json = json_new(&err);
    must(json != NULL);
    struct http_call call;
    http_call_init(&call);
    call.method = "GET", call.url = "http://169.254.169.254/metadata", call.status = status;
    char *body = fuzz_headers(&call.headers, head);
    buf_append(&call.answer, body, size - (size_t)(body - head));
    struct token_answer answer = {.life = 0};
    buf_init(&answer.token, 64 * 1024);
    token_answer_read(&credential, json, &call, WALL_S * NS_PER_S, &answer);
    look_at(&answer);
    buf_release(&answer.token);
    http_call_release(&call);
    json_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    size_t line = strcspn(text, "\n");
    char *head = text[line] ? text + line + 1 : text + line;
    int status = (int)(strtoul(text, NULL, 10) % 600);
    for (int kind = CREDENTIAL_WORKLOAD; kind <= CREDENTIAL_IMDS; kind++) {
        char *copy = fuzz_text((const uint8_t *)head, size - (size_t)(head - text));
        read_answer((enum credential_kind)kind, status, copy, size - (size_t)(head - text));
        free(copy);
    }
    free(text);
    return 0;
}
