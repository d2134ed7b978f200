#include "store/azure/credential.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"

#define AUTHORITY "https://login.microsoftonline.com"
#define IMDS "http://169.254.169.254"
#define IMDS_PATH "/metadata/identity/oauth2/token"

#define PHRASE(name, phrase) phrase,
static const char *const PHRASES[] = {CREDENTIAL_LIST(PHRASE)};

const char *credential_phrase(enum credential_kind kind) {
    return PHRASES[kind];
}

bool credential_is_token(const struct credential *c) {
    return c->kind >= CREDENTIAL_WORKLOAD;
}

/* --- what a connection string holds --- */

bool credential_use_key(struct credential *c, const char *account, const char *key, size_t len,
                        struct error *err) {
    c->signer = signer_new(account, key, len, err);
    c->kind = CREDENTIAL_KEY;
    return c->signer != NULL;
}

static bool is_sas_character(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           (ch && strchr("-_.~%:/+,=&*!'()$@", ch));
}

/* Each part a name and a value, and a signature among them. */
static bool sas_is_whole(const char *sas, size_t len) {
    bool is_signed = false;
    for (size_t at = 0; at <= len;) {
        const char *end = memchr(sas + at, '&', len - at);
        size_t n = end ? (size_t)(end - sas) - at : len - at;
        const char *equals = memchr(sas + at, '=', n);
        if (!equals || equals == sas + at || equals == sas + at + n - 1) {
            return false;
        }
        is_signed = is_signed || strncmp(sas + at, "sig=", 4) == 0;
        at += n + 1;
    }
    return is_signed;
}

/* A "+" of base64 that was never encoded would be read as a blank. */
static char *copy_sas(const char *sas, size_t len) {
    struct buf out;
    buf_init(&out, 3 * SAS_MAX);
    for (size_t i = 0; i < len; i++) {
        if (sas[i] == '+') {
            buf_puts(&out, "%2B");
        } else {
            buf_putc(&out, sas[i]);
        }
    }
    return out.data;
}

bool credential_use_sas(struct credential *c, enum service service, const char *sas, size_t len,
                        struct error *err) {
    if (len && *sas == '?') {
        sas++;
        len--;
    }
    bool plain = len <= SAS_MAX;
    for (size_t i = 0; plain && i < len; i++) {
        plain = is_sas_character(sas[i]);
    }
    if (!plain || !sas_is_whole(sas, len)) {
        error_set(
            err, ERR_INVALID_INPUT,
            "the SAS is malformed: it must be the whole \"sv=...&sig=...\" as it was made, with "
            "every part a name and a value, and the signature (sig) among them");
        return false;
    }
    c->kind = CREDENTIAL_SAS;
    c->sas[service] = copy_sas(sas, len);
    return true;
}

/* --- what the environment says --- */

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool lacks(struct error *err, const char *has, const char *lacked, const char *why) {
    error_set(err, ERR_UNAUTHORIZED, "%s is set in the environment and %s is not: %s", has, lacked,
              why);
    return false;
}

static bool is_http(const char *url) {
    return strncasecmp(url, "http://", 7) == 0;
}

bool address_is_loopback(const char *url) {
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    const char *end = host + strcspn(host, "/?#");
    if (memchr(host, '@', (size_t)(end - host))) {
        return false;
    }
    size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    bool numeric = strspn(host, "0123456789.") >= n;
    return (n == 9 && strncasecmp(host, "localhost", 9) == 0) ||
           (n == 5 && strncmp(host, "[::1]", 5) == 0) ||
           (n > 4 && numeric && strncmp(host, "127.", 4) == 0);
}

/* An address of the environment: printable, not too long, with its scheme, without slashes at its end. */
static char *take_address(const char *name, const char *value, bool plain, struct error *err) {
    size_t n = strlen(value);
    while (n && value[n - 1] == '/') {
        n--;
    }
    bool ok = n > 0 && n <= IDENTITY_TEXT_MAX;
    for (size_t i = 0; ok && i < n; i++) {
        ok = value[i] > ' ' && value[i] < 0x7f;
    }
    if (!ok) {
        error_set(err, ERR_UNAUTHORIZED, "%s in the environment is no address", name);
        return NULL;
    }
    if (!plain && is_http(value) && !address_is_loopback(value)) {
        error_set(err, ERR_UNAUTHORIZED,
                  "%s in the environment begins with http://: a secret is only sent over https",
                  name);
        return NULL;
    }
    const char *scheme = strstr(value, "://") ? "" : "https://";
    char *out = xmalloc(strlen(scheme) + n + 1);
    sprintf(out, "%s%.*s", scheme, (int)n, value);
    return out;
}

/* Ids are GUIDs and names of domains: nothing that could become another part of an address. */
static bool is_id(const char *id) {
    size_t n = strlen(id);
    return n <= 255 && strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._") == n;
}

static bool use_authority(struct credential *c, const char *tenant, struct error *err) {
    const char *given = variable("AZURE_AUTHORITY_HOST");
    if (!is_id(tenant)) {
        error_set(err, ERR_UNAUTHORIZED, "AZURE_TENANT_ID in the environment is no tenant's id");
        return false;
    }
    char *host = take_address("AZURE_AUTHORITY_HOST", given ? given : AUTHORITY, false, err);
    if (!host) {
        return false;
    }
    size_t room = strlen(host) + strlen(tenant) + 32;
    c->endpoint = xmalloc(room);
    snprintf(c->endpoint, room, "%s/%s/oauth2/v2.0/token", host, tenant);
    free(host);
    return true;
}

/* Workload identity and client secret differ in what proves the client. */
static bool use_client(struct credential *c, enum credential_kind kind, const char *proof,
                       const char *value, struct error *err) {
    const char *tenant = variable("AZURE_TENANT_ID"), *client = variable("AZURE_CLIENT_ID");
    if (!tenant || !client) {
        return lacks(err, proof, tenant ? "AZURE_CLIENT_ID" : "AZURE_TENANT_ID",
                     kind == CREDENTIAL_WORKLOAD ? "the platform sets all three, look at the pod's "
                                                   "service account and its labels"
                                                 : "set all three, or none");
    }
    if (strlen(value) > IDENTITY_TEXT_MAX || !is_id(client)) {
        error_set(err, ERR_UNAUTHORIZED, "%s in the environment is malformed",
                  is_id(client) ? proof : "AZURE_CLIENT_ID");
        return false;
    }
    c->kind = kind;
    c->client = xstrdup(client);
    *(kind == CREDENTIAL_WORKLOAD ? &c->assertion_file : &c->secret) = xstrdup(value);
    return use_authority(c, tenant, err);
}

static bool use_managed(struct credential *c, struct error *err) {
    const char *endpoint = variable("IDENTITY_ENDPOINT"), *header = variable("IDENTITY_HEADER");
    const char *imds = variable("AZURE_POD_IDENTITY_AUTHORITY_HOST");
    const char *client = variable("AZURE_CLIENT_ID");
    if (client && !is_id(client)) {
        error_set(err, ERR_UNAUTHORIZED, "AZURE_CLIENT_ID in the environment is malformed");
        return false;
    }
    c->client = client ? xstrdup(client) : NULL;
    if (endpoint) {
        if (!header) {
            return lacks(err, "IDENTITY_ENDPOINT", "IDENTITY_HEADER",
                         "App Service and Container Apps set both; no other platform's endpoint of "
                         "this kind is supported");
        }
        c->kind = CREDENTIAL_APP_SERVICE;
        c->secret = xstrdup(header);
        c->endpoint = take_address("IDENTITY_ENDPOINT", endpoint, true, err);
        return c->endpoint != NULL;
    }
    c->kind = CREDENTIAL_IMDS;
    char *host = take_address("AZURE_POD_IDENTITY_AUTHORITY_HOST", imds ? imds : IMDS, true, err);
    if (!host) {
        return false;
    }
    c->endpoint = xmalloc(strlen(host) + sizeof IMDS_PATH);
    sprintf(c->endpoint, "%s" IMDS_PATH, host);
    free(host);
    return true;
}

bool credential_use_environment(struct credential *c, struct error *err) {
    const char *file = variable("AZURE_FEDERATED_TOKEN_FILE");
    const char *secret = variable("AZURE_CLIENT_SECRET");
    if (file) {
        return use_client(c, CREDENTIAL_WORKLOAD, "AZURE_FEDERATED_TOKEN_FILE", file, err);
    }
    if (secret) {
        return use_client(c, CREDENTIAL_SECRET, "AZURE_CLIENT_SECRET", secret, err);
    }
    return use_managed(c, err);
}

/* --- keeping it to ourselves --- */

static bool text_has(const char *text, const char *secret) {
    return secret && *secret && strstr(text, secret);
}

static int hex(char ch) {
    return ch >= '0' && ch <= '9'   ? ch - '0'
           : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
           : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
                                    : -1;
}

static void decode(char *text) {
    char *out = text;
    for (const char *p = text; *p; out++) {
        bool code = *p == '%' && hex(p[1]) >= 0 && hex(p[2]) >= 0;
        *out = code ? (char)(hex(p[1]) * 16 + hex(p[2])) : *p;
        p += code ? 3 : 1;
    }
    *out = '\0';
}

/* The signature as it is sent, and as it was before it was encoded. */
static bool text_has_signature(const char *text, const char *sas) {
    char value[SAS_MAX];
    const char *at = sas;
    while (at && strncmp(at, "sig=", 4) != 0) {
        at = strchr(at, '&');
        at = at ? at + 1 : NULL;
    }
    if (!at) {
        return false;
    }
    snprintf(value, sizeof value, "%.*s", (int)strcspn(at + 4, "&"), at + 4);
    bool found = text_has(text, value);
    decode(value);
    found = found || text_has(text, value);
    explicit_bzero(value, sizeof value);
    return found;
}

bool credential_is_shown_by(const struct credential *c, const char *text) {
    for (int i = 0; i < SERVICE_COUNT; i++) {
        if (text_has_signature(text, c->sas[i])) {
            return true;
        }
    }
    return text_has(text, c->secret);
}

static void wipe(char **text) {
    if (*text) {
        explicit_bzero(*text, strlen(*text));
        free(*text);
        *text = NULL;
    }
}

void credential_release(struct credential *c) {
    signer_free(c->signer);
    for (int i = 0; i < SERVICE_COUNT; i++) {
        wipe(&c->sas[i]);
    }
    wipe(&c->endpoint);
    wipe(&c->client);
    wipe(&c->secret);
    wipe(&c->assertion_file);
    memset(c, 0, sizeof *c);
}
