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
