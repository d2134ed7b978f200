#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct entry {
    const char *word;
    int status;
    const char *sentence, *advice;
};

#define ERR_ENTRY(name, word, status, sentence, advice) {word, status, sentence, advice},
static const struct entry ENTRIES[ERR_COUNT] = {ERR_LIST(ERR_ENTRY)};
#undef ERR_ENTRY

const char *err_word(enum err code) {
    return ENTRIES[code].word;
}

const char *err_sentence(enum err code) {
    return ENTRIES[code].sentence;
}

const char *err_advice(enum err code) {
    return ENTRIES[code].advice;
}

int err_status(enum err code) {
    return ENTRIES[code].status;
}

int err_exit_code(enum err code) {
    switch (code) {
    case ERR_UNREACHABLE:
    case ERR_BAD_ANSWER: /* something else answers at its address */
    case ERR_UNAUTHORIZED:
    case ERR_AUTHENTICATION_FAILED:
    case ERR_NEWER_VERSION:
    case ERR_STORE_CORRUPT:
    case ERR_STORE_FULL:
    case ERR_STORE_READ_ONLY:
    case ERR_STORE_FOREIGN:
    case ERR_STORE_REMOTE:
    case ERR_STORE_GONE:
        return 3;
    case ERR_TIMEOUT:
        return 4;
    case ERR_LEASE_LOST:
    case ERR_FENCED:
    case ERR_FENCE_REGRESSED:
        return 5;
    default:
        return code == ERR_OK ? 0 : 1;
    }
}

enum err err_from_word(const char *word) {
    for (int i = 0; i < ERR_COUNT; i++) {
        if (strcmp(ENTRIES[i].word, word) == 0) {
            return (enum err)i;
        }
    }
    return ERR_OTHER;
}

static bool may_pass(enum err code) {
    return code == ERR_TIMEOUT || code == ERR_UNREACHABLE || code == ERR_THROTTLED ||
           err_status(code) >= 500;
}

enum err error_set(struct error *e, enum err code, const char *format, ...) {
    error_clear(e);
    e->code = code;
    e->status = err_status(code);
    e->retryable = may_pass(code);
    if (format) {
        va_list args;
        va_start(args, format);
        vsnprintf(e->message, sizeof e->message, format, args);
        va_end(args);
    }
    return code;
}

void error_clear(struct error *e) {
    memset(e, 0, sizeof *e);
}

const char *error_word(const struct error *e) {
    return e->code == ERR_OTHER && e->word[0] ? e->word : err_word(e->code);
}

const char *error_sentence(const struct error *e) {
    return e->message[0] ? e->message : err_sentence(e->code);
}
