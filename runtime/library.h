/* library.h -- the Lua library and commands, compiled into the program by tools/embed.lua. */
#ifndef SYNOD_LIBRARY_H
#define SYNOD_LIBRARY_H

#include <stddef.h>

struct library_module {
    const char *name;  /* what is required: "synod.barrier" */
    const char *chunk; /* what tracebacks say: "@lua/synod/barrier.lua" */
    size_t len;
    const char *code; /* Lua text or bytecode */
};

extern const struct library_module library_modules[]; /* sorted by name */
extern const size_t library_count;

#endif
