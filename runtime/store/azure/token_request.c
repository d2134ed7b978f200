/* token_request.c -- how each kind of endpoint is asked for a token, and how it answers.
 *
 *     workload identity, client secret   POST AUTHORITY/TENANT/oauth2/v2.0/token, a form
 *     App Service, Container Apps        GET  IDENTITY_ENDPOINT?resource=..., X-IDENTITY-HEADER: secret
 *     IMDS                               GET  /metadata/identity/oauth2/token?resource=..., Metadata: true
 *
 * All answer {"access_token": ..., "expires_in": seconds or "expires_on": since 1970}, or
 * {"error": ..., "error_description": ...}. Nothing of an answer is shown that could repeat what was sent.
 */
#include <ctype.h>
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/azure/impl.h"
#include "store/azure/token.h"

#define RESOURCE "https%3A%2F%2Fstorage.azure.com%2F"
#define ASSERTION_TYPE "urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"

enum {
    SAID_MAX = 1024, /* of an error's description that is read, */
    SHOWN_MAX = 110, /* and shown */
    NUMBER_TEXT = 32,
};

/* --- asking --- */

static bool read_assertion(const char *path, struct buf *out, struct error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t n = -1;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        errno = EINVAL;
    } else if (fd >= 0 && buf_reserve(out, ASSERTION_MAX + 1)) {
        do {
            n = read(fd, out->data, ASSERTION_MAX + 1);
        } while (n < 0 && errno == EINTR);
    }
    int why = errno;
    if (fd >= 0) {
        close(fd);
    }
    while (n > 0 && isspace((unsigned char)out->data[n - 1])) {
        n--;
    }
    if (n <= 0 || n > ASSERTION_MAX) {
        error_set(err, ERR_UNAUTHORIZED,
                  "the file that AZURE_FEDERATED_TOKEN_FILE names cannot be used: %s",
                  n < 0 ? strerror(why)
                  : n   ? "it is too long"
                        : "it is empty");
        return false;
    }
    out->len = (size_t)n;
    out->data[n] = '\0';
    return true;
}

static bool add_assertion(const struct credential *c, struct buf *body, struct error *err) {
    struct buf assertion;
    buf_init(&assertion, ASSERTION_MAX + 1);
    bool ok = read_assertion(c->assertion_file, &assertion, err);
    if (ok) {
        buf_puts(body, "&client_assertion_type=" ASSERTION_TYPE "&client_assertion=");
        append_encoded(body, assertion.data, false);
        explicit_bzero(assertion.data, assertion.cap);
    }
    buf_release(&assertion);
    return ok;
}

static bool build_form(const struct credential *c, struct http_call *call, struct buf *url,
                       struct buf *body, struct error *err) {
    buf_puts(url, c->endpoint);
    buf_puts(body, "grant_type=client_credentials&scope=" RESOURCE ".default&client_id=");
    append_encoded(body, c->client, false);
    if (c->kind == CREDENTIAL_WORKLOAD) {
        if (!add_assertion(c, body, err)) {
            return false;
        }
    } else {
        buf_puts(body, "&client_secret=");
        append_encoded(body, c->secret, false);
    }
    call->method = "POST";
    call->body = body->data;
    call->body_len = body->len;
    return http_call_field(call, "Content-Type", "application/x-www-form-urlencoded");
}

static bool build_query(const struct credential *c, struct http_call *call, struct buf *url) {
    bool app = c->kind == CREDENTIAL_APP_SERVICE;
    buf_puts(url, c->endpoint);
    buf_putc(url, strchr(c->endpoint, '?') ? '&' : '?');
    buf_puts(url, app ? "api-version=2019-08-01" : "api-version=2018-02-01");
    buf_puts(url, "&resource=" RESOURCE);
    if (c->client) {
        buf_puts(url, "&client_id=");
        append_encoded(url, c->client, false);
    }
    call->method = "GET";
    call->direct = true;
    return app ? http_call_field(call, "X-IDENTITY-HEADER", c->secret)
               : http_call_field(call, "Metadata", "true");
}

bool token_request_build(const struct credential *c, struct http_call *call, struct buf *url,
                         struct buf *body, struct error *err) {
    buf_clear(url);
    buf_clear(body);
    call->url = c->endpoint;
    bool form = c->kind == CREDENTIAL_WORKLOAD || c->kind == CREDENTIAL_SECRET;
    bool ok = form ? build_form(c, call, url, body, err) : build_query(c, call, url);
    if (!ok || url->failed || body->failed) {
        if (err->code == ERR_OK) {
            error_set(err, ERR_UNAUTHORIZED, "%s cannot be sent as it is",
                      credential_phrase(c->kind));
        }
        return false;
    }
    call->url = url->data;
    return http_call_field(call, "Accept", "application/json");
}

/* --- what came back --- */

struct said {
    char token[TOKEN_MAX + 1];
    char type[NUMBER_TEXT], in[NUMBER_TEXT], on[NUMBER_TEXT], again[NUMBER_TEXT];
    char word[64], why[SAID_MAX];
};

static bool read_said(struct json *json, const struct http_call *call, struct said *said) {
    struct json_field fields[] = {
        {"access_token", said->token, sizeof said->token, 0},
        {"token_type", said->type, sizeof said->type, 0},
        {"expires_in", said->in, sizeof said->in, 0},
        {"expires_on", said->on, sizeof said->on, 0},
        {"refresh_in", said->again, sizeof said->again, 0},
        {"error", said->word, sizeof said->word, 0},
        {"error_description", said->why, sizeof said->why, 0},
    };
    struct error ignored;
    if (!call->answer.len || !json_read_fields(json, call->answer.data, call->answer.len, fields,
                                               sizeof fields / sizeof *fields, &ignored)) {
        return false;
    }
    if (fields[0].len >= fields[0].room) {
        said->token[0] = '\0';
    }
    for (size_t i = 5; i < 7; i++) {
        if (fields[i].len >= fields[i].room) {
            fields[i].text[0] = '\0';
        }
    }
    return true;
}

static bool whole_seconds(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && errno == 0 && *out < INT64_MAX / NS_PER_S;
}

static bool is_token_text(const char *s) {
    const char *p = s;
    while (*p > ' ' && *p < 0x7f) {
        p++;
    }
    return p > s && !*p;
}

static bool take_token(const struct said *said, int64_t wall, struct token_answer *out) {
    int64_t seconds;
    if (!is_token_text(said->token) || (*said->type && strcasecmp(said->type, "Bearer") != 0)) {
        return false;
    }
    if (whole_seconds(said->in, &seconds)) {
        out->life = seconds * NS_PER_S;
    } else if (whole_seconds(said->on, &seconds)) {
        out->life = seconds * NS_PER_S - wall;
    }
    if (out->life <= 0) {
        return false;
    }
    if (out->life > TOKEN_LIFE_MAX_S * NS_PER_S) {
        out->life = TOKEN_LIFE_MAX_S * NS_PER_S;
    }
    if (whole_seconds(said->again, &seconds) && seconds > 0) {
        out->refresh = seconds * NS_PER_S;
    }
    return buf_puts(&out->token, said->token);
}

static bool repeats_secret(const struct credential *c, const char *text) {
    struct buf encoded;
    buf_init(&encoded, 4 * IDENTITY_TEXT_MAX);
    append_encoded(&encoded, c->secret ? c->secret : "", false);
    bool found = credential_is_shown_by(c, text) || strstr(text, "eyJ") ||
                 (encoded.len && strstr(text, encoded.data));
    if (encoded.data) {
        explicit_bzero(encoded.data, encoded.cap);
    }
    buf_release(&encoded);
    return found;
}

/* Text of the answer, fit to be shown: its first sentence, when nothing of ours is in it. */
static void clean(const struct credential *c, char *text) {
    if (repeats_secret(c, text)) {
        text[0] = '\0';
    }
    char *end = strstr(text, ". ");
    if (end) {
        *end = '\0';
    }
    text[strcspn(text, "\r\n")] = '\0';
    for (char *p = text; *p; p++) {
        if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f) {
            *p = '?';
        }
    }
    if (strlen(text) > SHOWN_MAX) {
        text[SHOWN_MAX] = '\0';
    }
}

static bool status_may_pass(const struct credential *c, int status) {
    bool updating = c->kind == CREDENTIAL_IMDS && (status == 404 || status == 410);
    return status >= 500 || status == 429 || status == 408 || updating;
}

static void explain(const struct credential *c, const struct http_call *call, struct said *said,
                    struct token_answer *out) {
    const char *at;
    int n = http_call_host(call, &at);
    clean(c, said->word);
    clean(c, said->why);
    bool pass = status_may_pass(c, call->status);
    if (call->status == 200) {
        error_set(&out->err, ERR_UNAUTHORIZED,
                  "%s got no token: the answer of %.*s holds none that is good",
                  credential_phrase(c->kind), n, at);
    } else {
        error_set(&out->err, pass ? ERR_UNREACHABLE : ERR_UNAUTHORIZED,
                  "%s got no token: %.*s answered with status %d%s%s%s%s",
                  credential_phrase(c->kind), n, at, call->status, *said->word ? ", " : "",
                  said->word, *said->why ? ": " : "", said->why);
    }
    out->err.status = call->status;
}

/* "Retry-After" in seconds. */
static int64_t rest_asked(const struct http_call *call) {
    const char *text = pairs_get(&call->headers, "retry-after");
    int64_t seconds;
    if (!text || !whole_seconds(text, &seconds)) {
        return UNSET;
    }
    return (seconds < TOKEN_REST_ASKED_MAX_S ? seconds : TOKEN_REST_ASKED_MAX_S) * NS_PER_S;
}

void token_answer_read(const struct credential *c, struct json *json, const struct http_call *call,
                       int64_t wall, struct token_answer *out) {
    error_clear(&out->err);
    out->life = 0;
    out->refresh = UNSET;
    out->rest = rest_asked(call);
    if (call->err.code != ERR_OK) {
        bool late = call->err.code == ERR_TIMEOUT;
        error_set(&out->err, ERR_UNREACHABLE, "%s got no token: %.180s", credential_phrase(c->kind),
                  error_sentence(&call->err));
        out->err.retryable = late || call->err.retryable;
        return;
    }
    struct said *said = xcalloc(1, sizeof *said);
    bool ok = read_said(json, call, said) && call->status == 200 && take_token(said, wall, out);
    if (!ok) {
        explain(c, call, said, out);
    }
    explicit_bzero(said, sizeof *said);
    free(said);
}

void token_advise(const struct credential *c, struct error *err) {
    static const char *const ADVICE[] = {
        [CREDENTIAL_WORKLOAD] =
            "check AZURE_TENANT_ID, AZURE_CLIENT_ID, and the identity's federated "
            "credential for this service account",
        [CREDENTIAL_SECRET] =
            "check AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, and that the "
            "secret has not expired",
        [CREDENTIAL_APP_SERVICE] =
            "give the app an identity, or name one of its own by AZURE_CLIENT_ID",
        [CREDENTIAL_IMDS] =
            "give the machine an identity, or name one of its own by AZURE_CLIENT_ID; elsewhere "
            "set AZURE_STORAGE_CONNECTION_STRING",
    };
    size_t n = strlen(err->message);
    snprintf(err->message + n, sizeof err->message - n, "; %s", ADVICE[c->kind]);
}
