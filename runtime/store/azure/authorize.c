/* authorize.c -- the last step of a request: what proves that we may ask. */
#include <stdio.h>
#include <string.h>

#include "store/azure/impl.h"

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
    static const char *const WORDS[] = {"blobs", "queues", "tables"};
    if (!*at->base) {
        error_set(err, ERR_UNSUPPORTED,
                  "the account has no address for %s: name it in the connection string, or give "
                  "AccountName",
                  WORDS[service]);
        return false;
    }
    if (c->kind == CREDENTIAL_SAS && !c->sas[service]) {
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

/* --- why it was not enough --- */

/* A time of a SAS: "se" its end, "st" its beginning. Neither is a secret. UNSET when it has none. */
static int64_t sas_time(const char *sas, const char *name) {
    char text[64];
    size_t n = 0;
    int64_t date;
    const char *at = sas;
    while (at && !(strncmp(at, name, 2) == 0 && at[2] == '=')) {
        at = strchr(at, '&');
        at = at ? at + 1 : NULL;
    }
    for (at = at ? at + 3 : ""; *at && *at != '&' && n + 1 < sizeof text; n++) {
        bool colon = strncasecmp(at, "%3A", 3) == 0;
        text[n] = colon ? ':' : *at;
        at += colon ? 3 : 1;
    }
    text[n] = '\0';
    return instant_parse_iso(text, &date) ? date : UNSET;
}

static void explain_sas(struct azure *az, const char *word, struct error *err) {
    const struct credential *c = &az->account.credential;
    int64_t now = world_wall(az->base.world);
    for (int i = 0; i < SERVICE_COUNT; i++) {
        int64_t end = c->sas[i] ? sas_time(c->sas[i], "se") : UNSET;
        int64_t start = c->sas[i] ? sas_time(c->sas[i], "st") : UNSET;
        bool over = end != UNSET && now >= end;
        if (over || (start != UNSET && now < start)) {
            char text[INSTANT_TEXT_MAX];
            instant_iso(over ? end : start, 0, text);
            snprintf(err->message, sizeof err->message,
                     over ? "the SAS expired at %s: make a new one"
                          : "the SAS is not good before %s",
                     text);
            return;
        }
    }
    if (word && strstr(word, "Mismatch")) {
        snprintf(err->message, sizeof err->message,
                 "the SAS does not permit it (%.48s): make one with the permissions, services and "
                 "resource types that are needed",
                 word);
        return;
    }
    snprintf(
        err->message, sizeof err->message,
        "the SAS was refused (%.48s): it was changed, its key is no longer the account's, it was "
        "revoked, or the account's network rules keep this machine out",
        word ? word : "no reason given");
}

static void explain_token(struct azure *az, const char *word, struct error *err) {
    const char *who = credential_phrase(az->account.credential.kind);
    if (word && strncmp(word, "Authorization", 13) == 0) {
        snprintf(
            err->message, sizeof err->message,
            "%s may not do this (%.48s): give it a role on the account, such as Storage Blob Data "
            "Contributor (queues and tables have their own); network rules may be in the way too",
            who, word);
    } else {
        snprintf(err->message, sizeof err->message,
                 "the token of %s was refused (%.48s): it must be made for "
                 "https://storage.azure.com, by "
                 "the tenant of the account",
                 who, word ? word : "no reason given");
    }
}

void azure_explain_credential(struct azure *az, const char *word, struct error *err) {
    if (az->account.credential.kind == CREDENTIAL_SAS) {
        explain_sas(az, word, err);
    } else if (az->tokens) {
        explain_token(az, word, err);
    }
}
