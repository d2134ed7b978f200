#include "store/azure/sign.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "store/library.h"

enum { DIGEST_BYTES = 32 };

struct crypto {
    LIBRARY_CRYPTO_FUNCTIONS(LIBRARY_POINTER)
};

static const char *const SYMBOLS[] = {LIBRARY_CRYPTO_FUNCTIONS(LIBRARY_SYMBOL)};

struct signer {
    struct crypto crypto;
    EVP_MAC_CTX *hmac; /* keyed once; it knows how to begin again */
    char *account;
};

static bool set_key(struct signer *s, const unsigned char *key, size_t n) {
    EVP_MAC *mac = s->crypto.EVP_MAC_fetch(NULL, "HMAC", NULL);
    if (!mac) {
        return false;
    }
    char digest[] = "SHA256";
    OSSL_PARAM params[2] = {
        {.key = OSSL_MAC_PARAM_DIGEST,
         .data_type = OSSL_PARAM_UTF8_STRING,
         .data = digest,
         .data_size = sizeof digest - 1},
        {.key = NULL},
    };
    s->hmac = s->crypto.EVP_MAC_CTX_new(mac);
    s->crypto.EVP_MAC_free(mac);
    return s->hmac && s->crypto.EVP_MAC_init(s->hmac, key, n, params) == 1;
}

struct signer *signer_new(const char *account, const char *key, size_t key_len, struct error *err) {
    struct signer *s = xcalloc(1, sizeof *s);
    if (!library_load(LIBRARY_CRYPTO, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, &s->crypto, err)) {
        free(s);
        return NULL;
    }
    unsigned char bytes[SIGN_KEY_MAX];
    size_t n = 0;
    bool is_key =
        key_len / 4 * 3 <= sizeof bytes && base64_decode(key, key_len, (char *)bytes, &n) && n > 0;
    bool ok = is_key && set_key(s, bytes, n);
    s->crypto.OPENSSL_cleanse(bytes, sizeof bytes);
    s->account = xstrdup(account);
    if (!ok) {
        if (is_key) {
            error_set(err, ERR_UNSUPPORTED, "libcrypto offers no HMAC with SHA-256 here");
        } else {
            error_set(err, ERR_INVALID_INPUT, "the account key is not base64 text");
        }
        signer_free(s);
        return NULL;
    }
    return s;
}

void signer_free(struct signer *s) {
    if (s) {
        s->crypto.EVP_MAC_CTX_free(s->hmac); /* wipes its copy of the key */
        free(s->account);
        free(s);
    }
}

/* --- the text --- */

struct slice {
    const char *name;
    size_t name_len;
    const char *value;
    size_t value_len;
};

/* "Name: value", or "Name;" for an empty value. */
static struct slice split_line(const char *line) {
    struct slice s = {.name = line, .name_len = strcspn(line, ":;")};
    const char *value = line + s.name_len;
    value += *value ? 1 : 0;
    value += strspn(value, " \t");
    size_t n = strlen(value);
    while (n && (value[n - 1] == ' ' || value[n - 1] == '\t')) {
        n--;
    }
    s.value = value;
    s.value_len = n;
    return s;
}

static const char *next_line(const char *line, const struct buf *fields) {
    const char *next = line + strlen(line) + 1;
    return next < fields->data + fields->len ? next : NULL;
}

static const char *first_line(const struct buf *fields) {
    return fields->len ? fields->data : NULL;
}

static int lower(char c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

/* The service sorts by the rules of a language, in which "_" comes before digits and letters. */
static int weight(char c) {
    return c == '_' ? '0' - 1 : lower(c);
}

static int compare_names(const struct slice *a, const struct slice *b) {
    size_t n = a->name_len < b->name_len ? a->name_len : b->name_len;
    for (size_t i = 0; i < n; i++) {
        int d = weight(a->name[i]) - weight(b->name[i]);
        if (d) {
            return d;
        }
    }
    return a->name_len < b->name_len ? -1 : a->name_len > b->name_len;
}

/* Few, and nearly in order as they come. */
static void sort_slices(struct slice *v, size_t n) {
    for (size_t i = 1; i < n; i++) {
        struct slice s = v[i];
        size_t at = i;
        for (; at > 0 && compare_names(&s, &v[at - 1]) < 0; at--) {
            v[at] = v[at - 1];
        }
        v[at] = s;
    }
}

static void append_lower(struct buf *out, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        buf_putc(out, (char)lower(s[i]));
    }
}

enum { STANDARD_COUNT = 11 };

/* The headers that are signed by place; the second, the length, is known from the body, and the sixth,
 * Date, stays empty because x-ms-date stands for it. */
static const char *const STANDARD[STANDARD_COUNT] = {
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
};

enum { LENGTH_PLACE = 2, DATE_PLACE = 5 };

static int standard_place(const struct slice *s) {
    for (int i = 0; i < STANDARD_COUNT; i++) {
        if (strlen(STANDARD[i]) == s->name_len &&
            strncasecmp(STANDARD[i], s->name, s->name_len) == 0) {
            return i;
        }
    }
    return -1;
}

static bool is_own(const struct slice *s) {
    return s->name_len > 5 && strncasecmp(s->name, "x-ms-", 5) == 0;
}

static bool append_headers(const struct signed_request *r, struct buf *out) {
    struct slice standard[STANDARD_COUNT] = {0}, own[SIGN_LINES_MAX];
    size_t count = 0;
    for (const char *line = first_line(r->fields); line; line = next_line(line, r->fields)) {
        struct slice s = split_line(line);
        int place = is_own(&s) ? -1 : standard_place(&s);
        if (place >= 0) {
            standard[place] = s;
        } else if (is_own(&s)) {
            if (count == SIGN_LINES_MAX) {
                return false;
            }
            own[count++] = s;
        }
    }
    for (int i = 0; i < STANDARD_COUNT; i++) {
        if (i == LENGTH_PLACE && r->body_len) {
            buf_printf(out, "%zu", r->body_len);
        } else if (i != LENGTH_PLACE && i != DATE_PLACE) {
            buf_append(out, standard[i].value, standard[i].value_len);
        }
        buf_putc(out, '\n');
    }
    sort_slices(own, count);
    for (size_t i = 0; i < count; i++) {
        append_lower(out, own[i].name, own[i].name_len);
        buf_putc(out, ':');
        buf_append(out, own[i].value, own[i].value_len);
        buf_putc(out, '\n');
    }
    return true;
}

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static void append_decoded(struct buf *out, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '%' && i + 2 < n && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0) {
            buf_putc(out, (char)(hex(s[i + 1]) << 4 | hex(s[i + 2])));
            i += 2;
        } else {
            buf_putc(out, s[i]);
        }
    }
}

static bool append_query(const char *query, struct buf *out) {
    struct slice v[SIGN_PARAMETERS_MAX];
    size_t count = 0;
    for (const char *p = query; p && *p;) {
        size_t n = strcspn(p, "&"), name = strcspn(p, "=&");
        if (count == SIGN_PARAMETERS_MAX) {
            return false;
        }
        size_t skip = name < n ? name + 1 : name;
        v[count++] = (struct slice){p, name, p + skip, n - skip};
        p += n + (p[n] ? 1 : 0);
    }
    sort_slices(v, count);
    for (size_t i = 0; i < count; i++) {
        buf_putc(out, '\n');
        append_lower(out, v[i].name, v[i].name_len);
        buf_putc(out, ':');
        append_decoded(out, v[i].value, v[i].value_len);
    }
    return true;
}

static const char *own_date(const struct buf *fields) {
    for (const char *line = first_line(fields); line; line = next_line(line, fields)) {
        struct slice s = split_line(line);
        if (s.name_len == 9 && strncasecmp(s.name, "x-ms-date", 9) == 0) {
            return s.value;
        }
    }
    return "";
}

/* Of a query only `comp` would count, which no call on entities has. */
static bool lite_text(const struct signer *s, const struct signed_request *r, struct buf *out) {
    return buf_printf(out, "%s\n/%s%s", own_date(r->fields), s->account, r->path);
}

bool signer_text(const struct signer *s, const struct signed_request *r, struct buf *out) {
    buf_clear(out);
    if (r->lite) {
        return lite_text(s, r, out);
    }
    buf_puts(out, r->method);
    buf_putc(out, '\n');
    if (!append_headers(r, out)) {
        return false;
    }
    buf_putc(out, '/');
    buf_puts(out, s->account);
    buf_puts(out, r->path);
    return append_query(r->query, out) && !out->failed;
}

bool signer_authorization(struct signer *s, bool lite, const struct buf *text, struct buf *out) {
    unsigned char digest[DIGEST_BYTES];
    size_t n = 0;
    bool ok =
        s->crypto.EVP_MAC_init(s->hmac, NULL, 0, NULL) == 1 &&
        s->crypto.EVP_MAC_update(s->hmac, (const unsigned char *)text->data, text->len) == 1 &&
        s->crypto.EVP_MAC_final(s->hmac, digest, &n, sizeof digest) == 1;
    if (!ok) {
        return false;
    }
    buf_clear(out);
    return buf_puts(out, lite ? "SharedKeyLite " : "SharedKey ") && buf_puts(out, s->account) &&
           buf_putc(out, ':') && base64_encode(out, digest, sizeof digest);
}
