#include "store/library.h"

#include <dlfcn.h>
#include <string.h>

struct soname {
    const char *file, *package;
};

#define SONAME(name, soname, package) {soname, package},
static const struct soname SONAMES[LIBRARY_COUNT] = {LIBRARY_LIST(SONAME)};
#undef SONAME

/* The loader counts opens and gives the same handle again; it is never closed. */
static void *open_library(enum library which) {
    return dlopen(SONAMES[which].file, RTLD_NOW | RTLD_LOCAL);
}

bool library_load(enum library which, const char *const *symbols, size_t count, void *pointers,
                  struct error *err) {
    const struct soname *lib = &SONAMES[which];
    void *handle = open_library(which);
    if (!handle) {
        error_set(err, ERR_UNSUPPORTED,
                  "the library %s cannot be loaded; install it (on Debian and Ubuntu: "
                  "apt-get install %s)",
                  lib->file, lib->package);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, symbols[i]);
        if (!symbol) {
            error_set(err, ERR_UNSUPPORTED,
                      "the library %s here is too old (it has no %s); install a newer one",
                      lib->file, symbols[i]);
            return false;
        }
        memcpy((char *)pointers + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return true;
}

/* What follows `prefix` in `text`, up to a blank. */
static const char *word_after(const char *text, const char *prefix, char *out, size_t size) {
    size_t skip = strlen(prefix);
    if (!text || strncmp(text, prefix, skip) != 0) {
        return text;
    }
    size_t n = strcspn(text + skip, " ");
    if (n >= size) {
        n = size - 1;
    }
    memcpy(out, text + skip, n);
    out[n] = '\0';
    return out;
}

static void *find(enum library which, const char *symbol) {
    void *handle = open_library(which);
    return handle ? dlsym(handle, symbol) : NULL;
}

void library_versions(void (*each)(void *arg, const char *name, const char *version), void *arg) {
    char word[64];
    char *(*curl)(void);
    const char *(*crypto)(int);
    void *symbol = find(LIBRARY_CURL, "curl_version");
    memcpy(&curl, &symbol, sizeof curl);
    each(arg, "libcurl", curl ? word_after(curl(), "libcurl/", word, sizeof word) : NULL);
    symbol = find(LIBRARY_CRYPTO, "OpenSSL_version");
    memcpy(&crypto, &symbol, sizeof crypto);
    each(arg, "openssl", crypto ? word_after(crypto(0), "OpenSSL ", word, sizeof word) : NULL);
    const char *const *xml = find(LIBRARY_XML, "xmlParserVersion");
    each(arg, "libxml2", xml ? *xml : NULL);
}
