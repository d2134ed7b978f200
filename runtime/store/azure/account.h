/* account.h -- a storage account: where it is, and what proves that we may use it.
 *
 *     UseDevelopmentStorage=true[;DevelopmentStorageProxyUri=http://HOST]        the emulator
 *     AccountName=NAME;AccountKey=KEY[;DefaultEndpointsProtocol=https][;EndpointSuffix=SUFFIX]
 *         [;BlobEndpoint=URL][;QueueEndpoint=URL][;TableEndpoint=URL]
 *     ...;SharedAccessSignature=SAS in place of AccountKey, or each endpoint's own: BlobEndpoint=URL?SAS
 *     BlobEndpoint=URL[;QueueEndpoint=URL][;TableEndpoint=URL]        a token, by the environment
 *     https://NAME.blob.core.windows.net[?SAS]                        the account's address alone
 *
 * Parts in any order, their names without regard to case. What is wrong with a connection string is said by
 * the names of its parts or their places, never by their contents: any of them could be a secret that was put
 * in the wrong place.
 */
#ifndef SYNOD_STORE_AZURE_ACCOUNT_H
#define SYNOD_STORE_AZURE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "store/azure/credential.h"

enum { CONNECTION_STRING_MAX = 8 * 1024, ENDPOINT_MAX = 1024 };

/* A service of the account: "http://127.0.0.1:10000/devstoreaccount1". */
struct endpoint {
    char
        base[ENDPOINT_MAX]; /* without a slash at its end; empty: the account has no such service */
    size_t path_at;         /* where its path begins: the first slash, or its end */
};

struct account {
    struct credential credential;
    struct endpoint blob, queue, table;
};

/* From a connection string or an address. False, with err saying which part is wrong, when there is no account
 * in it. It is to be released either way. */
bool account_parse(struct account *a, const char *connection, struct error *err);
void account_release(struct account *a);

#endif
