/* azure_authorize.c -- the last step of a request: what proves that we may ask. */
#include <string.h>

#include "store/azure_impl.h"

static bool sign(struct azure *az, struct azure_call *call, const struct endpoint *at, bool lite) {
    struct signer *signer = az->account.credential.signer;
    char *path = call->url.data + at->path_at; /* the url begins with the endpoint's base */
    char *query = strchr(path, '?');
    struct signed_request what = {
        .method = call->http.method,
        .path = path,
        .query = query ? query + 1 : NULL,
        .fields = &call->http.fields,
        .body_len = call->http.body ? call->http.body_len : 0,
        .lite = lite,
    };
    if (query) {
        *query = '\0'; /* only while it is signed */
    }
    bool ok = signer_text(signer, &what, &az->text) &&
              signer_authorization(signer, lite, &az->text, &az->authorization);
    if (query) {
        *query = '?';
    }
    return ok && http_call_field(&call->http, "Authorization", az->authorization.data);
}

static bool add_sas(struct azure_call *call, const char *sas) {
    buf_putc(&call->url, strchr(call->url.data, '?') ? '&' : '?');
    buf_puts(&call->url, sas);
    call->http.url = call->url.data;
    return !call->url.failed;
}

static bool add_token(struct azure *az, struct azure_call *call) {
    call->token_number = token_number(az->tokens);
    buf_clear(&az->authorization);
    return buf_puts(&az->authorization, "Bearer ") &&
           buf_puts(&az->authorization, token_text(az->tokens)) &&
           http_call_field(&call->http, "Authorization", az->authorization.data);
}

bool azure_authorize(struct azure *az, struct azure_call *call, const struct endpoint *at,
                     bool lite, struct error *err) {
    const struct credential *c = &az->account.credential;
    enum service service = at == &az->account.blob    ? SERVICE_BLOB
                           : at == &az->account.queue ? SERVICE_QUEUE
                                                      : SERVICE_TABLE;
    if (c->kind == CREDENTIAL_SAS && !c->sas[service]) {
        static const char *const WORDS[] = {"blobs", "queues", "tables"};
        error_set(err, ERR_UNAUTHORIZED,
                  "the connection string has a SAS for another service, and none for %s",
                  WORDS[service]);
        return false;
    }
    bool ok = credential_is_token(c)      ? add_token(az, call)
              : c->kind == CREDENTIAL_SAS ? add_sas(call, c->sas[service])
                                          : sign(az, call, at, lite);
    if (!ok) {
        error_set(err, ERR_INVALID_INPUT, "the request cannot be signed: it has too many parts");
    }
    return ok;
}
