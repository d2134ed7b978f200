/* open.c -- from the address of a store to what carries requests there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "store/client.h"

static struct transport *open_embedded(struct world *w, const char *rest, struct error *err) {
    const char *options = strrchr(rest, '?');
    bool relaxed = options && strcmp(options, "?relaxed") == 0;
    if (options && !relaxed) {
        error_set(err, ERR_USAGE,
                  "the store's address has an unknown option \"%s\"; only \"?relaxed\" is known",
                  options);
        return NULL;
    }
    size_t n = options ? (size_t)(options - rest) : strlen(rest);
    if (n == 0) {
        error_set(err, ERR_USAGE, "the store's address names no file; write embedded:PATH");
        return NULL;
    }
    char *path = xmalloc(n + 1);
    memcpy(path, rest, n);
    path[n] = '\0';
    struct transport *t = transport_embedded_new(w, path, relaxed, err);
    free(path);
    return t;
}

/* A connection string that cannot be read is a wrong use of the program, not a refusal of the store. */
static struct transport *open_connection(struct world *w, const char *connection,
                                         struct error *err) {
    struct transport *t = transport_azure_new(w, connection, err);
    if (!t && err->code == ERR_INVALID_INPUT) {
        err->code = ERR_USAGE;
        err->status = err_status(ERR_USAGE);
    }
    return t;
}

static bool is_address(const char *text) {
    return strncasecmp(text, "https://", 8) == 0 || strncasecmp(text, "http://", 7) == 0;
}

/* What the environment says: a connection string goes before an account's name or address. */
static struct transport *open_azure(struct world *w, struct error *err) {
    const char *connection = getenv("AZURE_STORAGE_CONNECTION_STRING");
    const char *account = getenv("AZURE_STORAGE_ACCOUNT");
    char address[128];
    if (connection && *connection) {
        return open_connection(w, connection, err);
    }
    if (!account || !*account) {
        error_set(
            err, ERR_UNAUTHORIZED,
            "the store \"azure\" needs AZURE_STORAGE_CONNECTION_STRING in the environment, or "
            "AZURE_STORAGE_ACCOUNT (a name or an address) and an identity");
        return NULL;
    }
    if (is_address(account)) {
        return open_connection(w, account, err);
    }
    if (strlen(account) > 24 || account[strspn(account, "abcdefghijklmnopqrstuvwxyz0123456789")]) {
        error_set(
            err, ERR_USAGE,
            "AZURE_STORAGE_ACCOUNT in the environment is neither an account's name (3 to 24 small "
            "letters and digits) nor its address (https://...)");
        return NULL;
    }
    snprintf(address, sizeof address, "https://%s.blob.core.windows.net", account);
    return open_connection(w, address, err);
}

/* What is neither is not shown: it may hold a key. */
struct transport *transport_open(struct world *w, const char *url, struct error *err) {
    if (strncmp(url, "embedded:", 9) == 0) {
        return open_embedded(w, url + 9, err);
    }
    if (strcmp(url, "memory:") == 0) {
        return transport_memory_new(w, err);
    }
    if (strcmp(url, "azure") == 0) {
        return open_azure(w, err);
    }
    if (is_address(url) || strchr(url, '=')) {
        return open_connection(w, url, err);
    }
    error_set(err, ERR_USAGE,
              "the store's address is none of embedded:PATH, memory:, azure, https://... or a "
              "connection string");
    return NULL;
}
