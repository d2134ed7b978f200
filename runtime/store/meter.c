#include "store/meter.h"

#define METER_OUTCOME_WORD(name, word) word,
static const char *const WORDS[METER_OUTCOMES] = {METER_OUTCOME_LIST(METER_OUTCOME_WORD)};
#undef METER_OUTCOME_WORD

const char *meter_outcome_word(enum meter_outcome outcome) {
    return WORDS[outcome];
}

static enum meter_outcome outcome_of(const struct attempt *a) {
    const struct error *e = &a->reply->err;
    switch (e->code) {
    case ERR_OK:
        return METER_DONE;
    case ERR_TIMEOUT:
    case ERR_CANCELLED:
    case ERR_UNREACHABLE:
        return a->sent ? METER_LOST : METER_UNSENT;
    case ERR_BAD_ANSWER:
    case ERR_ANSWER_TOO_LARGE:
        return METER_FAILED;
    case ERR_THROTTLED:
    case ERR_SERVER_BUSY:
        return METER_THROTTLED;
    case ERR_UNAUTHORIZED:
    case ERR_AUTHENTICATION_FAILED:
        return METER_DENIED;
    default:
        break;
    }
    if (e->status == 429 || e->status == 503) {
        return METER_THROTTLED;
    }
    if (e->status == 401 || e->status == 403) {
        return METER_DENIED;
    }
    return e->status >= 300 && e->status < 500 ? METER_REFUSED : METER_FAILED;
}

void meter_count(struct meter *m, const struct attempt *a) {
    if (!a->kept_back) {
        m->counts[a->req->verb][outcome_of(a)]++;
    }
}

uint64_t meter_total(const struct meter *m, enum store_verb verb) {
    uint64_t total = 0;
    for (int outcome = 0; outcome < METER_OUTCOMES; outcome++) {
        total += m->counts[verb][outcome];
    }
    return total;
}
