/* credential.h -- what proves to a storage account that we may use it.
 *
 *     account key          a signature of each request (Shared Key)
 *     SAS                  a signature that somebody else has made, as parameters of each URL
 *     workload identity    a token, for the assertion that the platform (Kubernetes) keeps in a file
 *     client secret        a token, for the secret of a registered application
 *     App Service          a token from the endpoint that App Service and Container Apps give their programs
 *     IMDS                 a token from the metadata service of an Azure machine
 *
 * Every secret of a store lies in this struct (tokens: token.h), which no log call can print, and is wiped when
 * it is released. A connection string's own key or SAS is taken; without one the environment decides, in the
 * order above, at the moment the store is opened.
 */
#ifndef SYNOD_STORE_CREDENTIAL_H
#define SYNOD_STORE_CREDENTIAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "store/azure/sign.h"

enum {
    SAS_MAX = 4 * 1024,           /* characters of a SAS */
    IDENTITY_TEXT_MAX = 4 * 1024, /* characters of a variable that names an identity */
    ASSERTION_MAX = 64 * 1024,    /* bytes of a federated token's file */
};

/* X(enum, what a person calls it) */
#define CREDENTIAL_LIST(X)                                                                         \
    X(NONE, "nothing")                                                                             \
    X(KEY, "the account key")                                                                      \
    X(SAS, "the SAS")                                                                              \
    X(WORKLOAD, "the workload identity")                                                           \
    X(SECRET, "the client secret")                                                                 \
    X(APP_SERVICE, "the managed identity of this app")                                             \
    X(IMDS, "the managed identity of this machine")

#define CREDENTIAL_ENUM(name, phrase) CREDENTIAL_##name,
enum credential_kind { CREDENTIAL_LIST(CREDENTIAL_ENUM) };
#undef CREDENTIAL_ENUM

const char *credential_phrase(enum credential_kind kind);

enum service { SERVICE_BLOB, SERVICE_QUEUE, SERVICE_TABLE, SERVICE_COUNT };

struct credential {
    enum credential_kind kind;
    struct signer *signer;    /* KEY */
    char *sas[SERVICE_COUNT]; /* SAS: parameters without "?"; NULL where a service has none */
    char *endpoint;           /* the address that gives tokens: all after these lines */
    char *client;             /* whose token; NULL: the only identity there */
    char *secret;             /* the client secret, or the endpoint's header */
    char *assertion_file;
};

/* Each fills in an empty credential (or adds a service's SAS to one that has others). False: err says what is
 * wrong, never showing any of it. */
bool credential_use_key(struct credential *c, const char *account, const char *key, size_t len,
                        struct error *err);
bool credential_use_sas(struct credential *c, enum service service, const char *sas, size_t len,
                        struct error *err);
bool credential_use_environment(struct credential *c, struct error *err);
void credential_release(struct credential *c); /* an empty one is left */

/* Requests carry a token: never over a plain connection that leaves this machine. */
bool credential_is_token(const struct credential *c);
/* Would showing the text show a secret? */
bool credential_is_shown_by(const struct credential *c, const char *text);
/* Is the host of this http(s) address this machine itself? */
bool address_is_loopback(const char *url);

#endif
