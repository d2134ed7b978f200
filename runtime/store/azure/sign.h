/* sign.h -- what proves to the storage service that a request is ours (Shared Key).
 *
 * A signer holds an account's key, as a prepared HMAC; nothing gives the key out again, and signer_free
 * wipes it. The text that is signed names the method, some headers, every x-ms-* header and the resource,
 * so it must be made of exactly what is sent. Tables take the lighter form, which names date and resource.
 */
#ifndef SYNOD_STORE_SIGN_H
#define SYNOD_STORE_SIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

enum {
    SIGN_KEY_MAX = 258,         /* bytes of a decoded key: whole threes */
    SIGN_TEXT_MAX = 128 * 1024, /* bytes of what is signed */
    SIGN_LINES_MAX = 512,       /* x-ms-* headers of a request */
    SIGN_PARAMETERS_MAX = 16,   /* of a query */
};

struct signer;

/* `key` is base64 text of `key_len` characters. NULL and err when it is not, or libcrypto is missing. */
struct signer *signer_new(const char *account, const char *key, size_t key_len, struct error *err);
void signer_free(struct signer *s);

/* What is sent. */
struct signed_request {
    const char *method;
    const char *path;         /* of the URL, percent-encoded, from its first slash */
    const char *query;        /* of the URL, percent-encoded, without "?"; NULL: none */
    const struct buf *fields; /* header lines as http_call_field keeps them; x-ms-date among them */
    size_t body_len;
    bool lite; /* Shared Key Lite, in the form for tables */
};

/* The text to sign. False when it has too many parts or is too long. */
bool signer_text(const struct signer *s, const struct signed_request *r, struct buf *out);
/* "SharedKey account:signature" of a text; `lite` as above: "SharedKeyLite ...". */
bool signer_authorization(struct signer *s, bool lite, const struct buf *text, struct buf *out);

#endif
