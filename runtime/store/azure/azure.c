/* azure.c -- the transport over Azure Storage: attempts in, HTTP requests out, and back.
 *
 * It knows no retries: libcurl is kept from repeating writes on its own (http.c), so that one attempt is
 * at most one request on the wire.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/azure/impl.h"

static struct azure *azure_of(struct transport *t) {
    return container_of(t, struct azure, base);
}

/* Tokens stand in header lines, a SAS in the address. */
static void wipe(struct buf *b) {
    if (b->data) {
        explicit_bzero(b->data, b->cap);
    }
}

static void call_free(struct azure_call *call) {
    wipe(&call->http.fields);
    wipe(&call->url);
    http_call_release(&call->http);
    buf_release(&call->url);
    buf_release(&call->body);
    free(call);
}

static struct azure_call *call_take(struct azure *az) {
    struct azure_call *call = az->spare;
    if (call) {
        az->spare = call->next;
        az->spare_count--;
        http_call_clear(&call->http);
        call->repeated = false;
        return call;
    }
    call = xcalloc(1, sizeof *call);
    call->azure = az;
    http_call_init(&call->http);
    buf_init(&call->url, AZURE_URL_MAX);
    buf_init(&call->body, AZURE_BODY_MAX);
    return call;
}

/* Large answers are not kept for the next call. */
static void call_give_back(struct azure_call *call) {
    struct azure *az = call->azure;
    if (az->spare_count >= AZURE_SPARE_CALLS_MAX) {
        call_free(call);
        return;
    }
    if (call->http.answer.cap > AZURE_SPARE_ANSWER_MAX) {
        buf_release(&call->http.answer);
    }
    if (call->body.cap > AZURE_SPARE_ANSWER_MAX) {
        buf_release(&call->body);
    }
    call->next = az->spare;
    az->spare = call;
    az->spare_count++;
}

static void finish(struct azure_call *call) {
    struct attempt *a = call->attempt;
    a->sent = call->http.sent;
    a->impl = NULL;
    call_give_back(call);
    a->done(a);
}

static void send_with_token(struct azure_call *call);

/* A 401 was not carried out, whatever it was: with another token it may be sent once more. */
static bool repeat(struct azure_call *call) {
    struct azure *az = call->azure;
    if (!az->tokens || call->repeated || call->http.err.code != ERR_OK ||
        call->http.status != 401 || !token_refused(az->tokens, call->token_number)) {
        return false;
    }
    call->repeated = true;
    http_call_clear(&call->http);
    send_with_token(call);
    return true;
}

static void on_answer(struct http_call *http) {
    struct azure_call *call = container_of(http, struct azure_call, http);
    if (repeat(call)) {
        return;
    }
    if (http->err.code == ERR_OK) {
        azure_reply_fill(call->azure, call);
    } else {
        call->attempt->reply->err = http->err;
    }
    finish(call);
}

/* Connections of their own, made when they are first needed: nothing that is on its way elsewhere, or waits
 * there for its turn, holds up what is urgent. */
static struct http *urgent_line(struct azure *az, struct error *err) {
    if (!az->urgent) {
        az->urgent = http_new(az->base.world, err);
    }
    return az->urgent;
}

static void send_now(struct azure_call *call) {
    struct azure *az = call->azure;
    struct attempt *a = call->attempt;
    error_clear(&a->reply->err);
    if (!azure_request_build(az, call, &a->reply->err)) {
        finish(call);
        return;
    }
    struct http *line = a->req->urgent ? urgent_line(az, &a->reply->err) : az->http;
    if (!line) {
        finish(call);
        return;
    }
    call->http.deadline = a->deadline;
    call->http.done = on_answer;
    a->kept_back = false;
    http_start(line, &call->http);
}

static void on_token(struct token_wait *w) {
    struct azure_call *call = container_of(w, struct azure_call, token);
    if (w->err.code == ERR_OK) {
        send_now(call);
    } else {
        call->attempt->reply->err = w->err;
        finish(call);
    }
}

static void send_with_token(struct azure_call *call) {
    call->token.done = on_token;
    if (token_ask(call->azure->tokens, &call->token, call->attempt->deadline)) {
        send_now(call);
    }
}

static void azure_send(struct transport *t, struct attempt *a) {
    struct azure *az = azure_of(t);
    struct azure_call *call = call_take(az);
    call->attempt = a;
    a->impl = call;
    a->kept_back = true; /* until it goes out */
    if (az->tokens) {
        send_with_token(call);
    } else {
        send_now(call);
    }
}

static void azure_drop(struct transport *t, struct attempt *a) {
    struct azure_call *call = a->impl;
    (void)t;
    if (call) {
        token_leave(&call->token);
        if (call->http.http) {
            http_abort(call->http.http, &call->http);
        }
        error_set(&a->reply->err, ERR_CANCELLED, NULL);
        finish(call);
    }
}

static void azure_free(struct transport *t) {
    struct azure *az = azure_of(t);
    token_source_free(az->tokens);
    az->tokens = NULL;
    http_free(az->http);
    if (az->urgent) {
        http_free(az->urgent);
    }
    while (az->spare) {
        struct azure_call *call = az->spare;
        az->spare = call->next;
        call_free(call);
    }
    xml_free(az->xml);
    json_free(az->json);
    account_release(&az->account);
    wipe(&az->authorization);
    buf_release(&az->text);
    buf_release(&az->authorization);
    free(az);
}

static const struct transport_ops AZURE = {
    .kind = "azure",
    .send = azure_send,
    .drop = azure_drop,
    .free = azure_free,
};

/* What people know it by; nothing that could hold a password. */
static const char *name_of(const struct account *a) {
    const char *base = a->blob.base[0]    ? a->blob.base
                       : a->queue.base[0] ? a->queue.base
                                          : a->table.base;
    return base[0] && !strchr(base, '@') ? base : NULL;
}

struct transport *transport_azure_new(struct world *w, const char *connection_string,
                                      struct error *err) {
    struct azure *az = xcalloc(1, sizeof *az);
    az->base.ops = &AZURE;
    az->base.world = w;
    az->date_second = UNSET;
    buf_init(&az->text, SIGN_TEXT_MAX);
    buf_init(&az->authorization, SIGN_TEXT_MAX);
    if (account_parse(&az->account, connection_string, err)) {
        az->http = http_new(w, err);
        bool token = credential_is_token(&az->account.credential);
        if (az->http && token) {
            az->tokens = token_source_new(w, &az->account.credential, err);
        }
        if (az->http && (az->tokens || !token)) {
            az->base.name = name_of(&az->account);
            return &az->base;
        }
        if (az->http) {
            http_free(az->http);
        }
    }
    account_release(&az->account);
    free(az);
    return NULL;
}
