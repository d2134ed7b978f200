#include "store/azure/account.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The emulator's account and key are the same everywhere, and public. */
#define EMULATOR_ACCOUNT "devstoreaccount1"
#define EMULATOR_KEY                                                                               \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

enum { EMULATOR_PORT = 10000 }; /* blobs; queues and tables have the next two */

#define PART_LIST(X)                                                                               \
    X(USE_DEVELOPMENT, "UseDevelopmentStorage")                                                    \
    X(DEVELOPMENT_PROXY, "DevelopmentStorageProxyUri")                                             \
    X(PROTOCOL, "DefaultEndpointsProtocol")                                                        \
    X(NAME, "AccountName")                                                                         \
    X(KEY, "AccountKey")                                                                           \
    X(SUFFIX, "EndpointSuffix")                                                                    \
    X(BLOB, "BlobEndpoint")                                                                        \
    X(QUEUE, "QueueEndpoint")                                                                      \
    X(TABLE, "TableEndpoint")                                                                      \
    X(FILE, "FileEndpoint")                                                                        \
    X(BLOB_SECONDARY, "BlobSecondaryEndpoint")                                                     \
    X(QUEUE_SECONDARY, "QueueSecondaryEndpoint")                                                   \
    X(TABLE_SECONDARY, "TableSecondaryEndpoint")                                                   \
    X(FILE_SECONDARY, "FileSecondaryEndpoint")                                                     \
    X(SAS, "SharedAccessSignature")

#define PART_ENUM(name, word) PART_##name,
#define PART_WORD(name, word) word,
enum part { PART_LIST(PART_ENUM) PART_COUNT };
static const char *const PART_WORDS[] = {PART_LIST(PART_WORD)};

/* A stretch of the connection string, which is not copied: nothing is left to wipe. */
struct piece {
    const char *text; /* NULL: not given */
    size_t len;
};

struct pieces {
    struct piece of[PART_COUNT];
};

static bool refuse(struct error *err, const char *what) {
    error_set(err, ERR_INVALID_INPUT, "the connection string is malformed: %s", what);
    return false;
}

static bool refuse_part(struct error *err, enum part part, const char *why) {
    error_set(err, ERR_INVALID_INPUT, "the connection string is malformed: %s %s", PART_WORDS[part],
              why);
    return false;
}

static struct piece trim(const char *text, size_t n) {
    while (n && strchr(" \t\r\n", text[0])) {
        text++;
        n--;
    }
    while (n && strchr(" \t\r\n", text[n - 1])) {
        n--;
    }
    return (struct piece){text, n};
}

static bool piece_is(struct piece p, const char *word) {
    return p.text && strlen(word) == p.len && strncasecmp(p.text, word, p.len) == 0;
}

static bool take_piece(struct pieces *all, struct piece whole, int place, struct error *err) {
    const char *equals = memchr(whole.text, '=', whole.len);
    char what[96];
    if (!equals) {
        snprintf(what, sizeof what, "its part number %d has no \"=\"", place);
        return refuse(err, what);
    }
    struct piece name = trim(whole.text, (size_t)(equals - whole.text));
    size_t rest = (size_t)(whole.text + whole.len - equals - 1);
    for (int i = 0; i < PART_COUNT; i++) {
        if (piece_is(name, PART_WORDS[i])) {
            if (all->of[i].text) {
                return refuse_part(err, (enum part)i, "is given twice");
            }
            all->of[i] = trim(equals + 1, rest);
            return all->of[i].len ? true : refuse_part(err, (enum part)i, "is empty");
        }
    }
    snprintf(what, sizeof what, "the name of its part number %d is unknown", place);
    return refuse(err, what);
}

static bool split(struct pieces *all, const char *text, struct error *err) {
    int place = 0;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ";");
        struct piece whole = trim(p, n);
        place++;
        if (whole.len && !take_piece(all, whole, place, err)) {
            return false;
        }
        p += n + (p[n] ? 1 : 0);
    }
    return true;
}

static bool plain(struct piece p, const char *allowed) {
    for (size_t i = 0; i < p.len; i++) {
        if (!strchr(allowed, p.text[i])) {
            return false;
        }
    }
    return true;
}

#define LOWER_DIGITS "abcdefghijklmnopqrstuvwxyz0123456789"
#define URL_CHARACTERS LOWER_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._~:/[]%"

/* Cuts the SAS off an endpoint: false when it has none. */
static bool cut_sas(struct piece *url, struct piece *sas) {
    const char *mark = url->text ? memchr(url->text, '?', url->len) : NULL;
    if (!mark) {
        return false;
    }
    *sas = (struct piece){mark + 1, (size_t)(url->text + url->len - mark) - 1};
    url->len = (size_t)(mark - url->text);
    return true;
}

static bool set_endpoint(struct endpoint *e, enum part part, struct piece url, struct error *err) {
    size_t scheme = url.len > 7 && strncasecmp(url.text, "http://", 7) == 0    ? 7
                    : url.len > 8 && strncasecmp(url.text, "https://", 8) == 0 ? 8
                                                                               : 0;
    if (!scheme || !plain(url, URL_CHARACTERS) || url.text[scheme] == '/') {
        return refuse_part(err, part, "is not an address that begins with http:// or https://");
    }
    while (url.text[url.len - 1] == '/') {
        url.len--;
    }
    if (url.len >= sizeof e->base) {
        return refuse_part(err, part, "is too long");
    }
    memcpy(e->base, url.text, url.len);
    e->base[url.len] = '\0';
    const char *slash = strchr(e->base + scheme, '/');
    e->path_at = slash ? (size_t)(slash - e->base) : url.len;
    return true;
}

static bool use_emulator(struct account *a, const struct pieces *all, struct error *err) {
    for (int i = 0; i < PART_COUNT; i++) {
        if (all->of[i].text && i != PART_USE_DEVELOPMENT && i != PART_DEVELOPMENT_PROXY) {
            return refuse_part(err, (enum part)i, "cannot stand beside UseDevelopmentStorage");
        }
    }
    if (!piece_is(all->of[PART_USE_DEVELOPMENT], "true")) {
        return refuse_part(err, PART_USE_DEVELOPMENT, "can only be true");
    }
    struct endpoint host;
    struct piece proxy = all->of[PART_DEVELOPMENT_PROXY];
    if (!proxy.text) {
        proxy = (struct piece){"http://127.0.0.1", strlen("http://127.0.0.1")};
    }
    if (!set_endpoint(&host, PART_DEVELOPMENT_PROXY, proxy, err)) {
        return false;
    }
    const char *name = strstr(host.base, "://") + 3;
    int host_len = (int)((size_t)(name - host.base) + strcspn(name, ":/"));
    struct endpoint *services[] = {&a->blob, &a->queue, &a->table};
    for (int i = 0; i < 3; i++) {
        char url[ENDPOINT_MAX + 64];
        int n = snprintf(url, sizeof url, "%.*s:%d/%s", host_len, host.base, EMULATOR_PORT + i,
                         EMULATOR_ACCOUNT);
        if (!set_endpoint(services[i], PART_DEVELOPMENT_PROXY, (struct piece){url, (size_t)n},
                          err)) {
            return false;
        }
    }
    return credential_use_key(&a->credential, EMULATOR_ACCOUNT, EMULATOR_KEY, strlen(EMULATOR_KEY),
                              err);
}

static const struct {
    enum part part;
    const char *word;
} SERVICES[SERVICE_COUNT] = {{PART_BLOB, "blob"}, {PART_QUEUE, "queue"}, {PART_TABLE, "table"}};

static struct endpoint *service_endpoint(struct account *a, int service) {
    return service == SERVICE_BLOB ? &a->blob : service == SERVICE_QUEUE ? &a->queue : &a->table;
}

/* The endpoints that are not given follow from the account's name. */
static bool name_endpoints(struct account *a, const struct pieces *all, const char *name,
                           struct error *err) {
    struct piece protocol = all->of[PART_PROTOCOL], suffix = all->of[PART_SUFFIX];
    if (protocol.text && !piece_is(protocol, "http") && !piece_is(protocol, "https")) {
        return refuse_part(err, PART_PROTOCOL, "can only be http or https");
    }
    if (!suffix.text) {
        suffix = (struct piece){"core.windows.net", strlen("core.windows.net")};
    }
    for (int i = 0; i < SERVICE_COUNT; i++) {
        char url[ENDPOINT_MAX];
        struct piece given = all->of[SERVICES[i].part];
        enum part part = given.text ? SERVICES[i].part : PART_SUFFIX;
        if (!given.text && !name) {
            continue;
        }
        if (!given.text) {
            int n = snprintf(url, sizeof url, "%s://%s.%s.%.*s",
                             piece_is(protocol, "http") ? "http" : "https", name, SERVICES[i].word,
                             suffix.len > 200 ? 200 : (int)suffix.len, suffix.text);
            given = (struct piece){url, (size_t)n};
        }
        if (!set_endpoint(service_endpoint(a, i), part, given, err)) {
            return false;
        }
    }
    return true;
}

/* An endpoint's own SAS goes before the one for all. */
static bool use_sas(struct account *a, const struct piece *own, struct piece common,
                    struct error *err) {
    for (int i = 0; i < SERVICE_COUNT; i++) {
        struct piece sas = own[i].text ? own[i] : common;
        if (sas.text &&
            !credential_use_sas(&a->credential, (enum service)i, sas.text, sas.len, err)) {
            return false;
        }
    }
    return true;
}

/* A token is a secret that opens more than one account: it never crosses a network in the clear. */
static bool use_token(struct account *a, struct error *err) {
    for (int i = 0; i < SERVICE_COUNT; i++) {
        const char *base = service_endpoint(a, i)->base;
        if (strncasecmp(base, "http://", 7) == 0 && !address_is_loopback(base)) {
            return refuse_part(
                err, SERVICES[i].part,
                "begins with http://, and without a key requests carry a token, which "
                "is only sent over https");
        }
    }
    return credential_use_environment(&a->credential, err);
}

static bool use_key(struct account *a, const char *name, struct piece key, struct error *err) {
    if (credential_use_key(&a->credential, name, key.text, key.len, err)) {
        return true;
    }
    return err->code == ERR_INVALID_INPUT ? refuse_part(err, PART_KEY, "is not base64 text")
                                          : false;
}

static bool use_account(struct account *a, struct pieces *all, struct error *err) {
    struct piece name = all->of[PART_NAME], key = all->of[PART_KEY], common = all->of[PART_SAS];
    struct piece own[SERVICE_COUNT] = {0};
    char account[64];
    bool endpoint = false, sas = common.text != NULL;
    for (int i = 0; i < SERVICE_COUNT; i++) {
        sas = cut_sas(&all->of[SERVICES[i].part], &own[i]) || sas;
        endpoint = endpoint || all->of[SERVICES[i].part].text;
    }
    if (!name.text && (key.text || !endpoint)) {
        return refuse(err, "it has neither AccountName nor UseDevelopmentStorage");
    }
    if (name.len > 63 || !plain(name, LOWER_DIGITS "-")) {
        return refuse_part(err, PART_NAME, "may hold only small letters and digits");
    }
    if (!key.text && !sas && !endpoint) {
        return refuse(err,
                      "it has no AccountKey and no SharedAccessSignature (for an identity of the "
                      "environment, name the BlobEndpoint too)");
    }
    if (key.text && sas) {
        return refuse_part(err, PART_KEY, "cannot stand beside a SharedAccessSignature");
    }
    snprintf(account, sizeof account, "%.*s", (int)name.len, name.text ? name.text : "");
    return name_endpoints(a, all, name.text ? account : NULL, err) &&
           (key.text ? use_key(a, account, key, err)
            : sas    ? use_sas(a, own, common, err)
                     : use_token(a, err));
}

/* "https://name.blob.core.windows.net?SAS": the other services have the same name with their own word. */
static bool use_address(struct account *a, const char *text, struct error *err) {
    char urls[SERVICE_COUNT][ENDPOINT_MAX];
    struct pieces all = {0};
    struct piece url = trim(text, strlen(text)), sas = {0};
    cut_sas(&url, &sas);
    all.of[PART_BLOB] = url;
    all.of[PART_SAS] = sas;
    const char *mark = memmem(url.text, url.len, ".blob.", 6);
    for (int i = SERVICE_QUEUE; mark && url.len < ENDPOINT_MAX - 8 && i < SERVICE_COUNT; i++) {
        int head = (int)(mark - url.text), tail = (int)url.len - head - 6;
        int n = snprintf(urls[i], sizeof urls[i], "%.*s.%s.%.*s", head, url.text, SERVICES[i].word,
                         tail, mark + 6);
        all.of[SERVICES[i].part] = (struct piece){urls[i], (size_t)n};
    }
    if (mark && memchr(mark, '/', url.len - (size_t)(mark - url.text)) &&
        url.text[url.len - 1] != '/') {
        error_set(
            err, ERR_INVALID_INPUT,
            "the store's address names a container or blob; give the account's alone, such as "
            "https://NAME.blob.core.windows.net, with the SAS behind it");
        return false;
    }
    return use_account(a, &all, err);
}

static bool is_address(const char *text) {
    text += strspn(text, " \t\r\n");
    return strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
}

bool account_parse(struct account *a, const char *text, struct error *err) {
    struct pieces all = {0};
    memset(a, 0, sizeof *a);
    if (strlen(text) > CONNECTION_STRING_MAX) {
        return refuse(err, "it is too long");
    }
    if (is_address(text)) {
        return use_address(a, text, err);
    }
    if (!split(&all, text, err)) {
        return false;
    }
    return all.of[PART_USE_DEVELOPMENT].text || all.of[PART_DEVELOPMENT_PROXY].text
               ? use_emulator(a, &all, err)
               : use_account(a, &all, err);
}

void account_release(struct account *a) {
    credential_release(&a->credential);
    memset(a, 0, sizeof *a);
}
