/* token.c -- states of a source. Each arrow names the only function that may take it.
 *
 *   EMPTY   -begin-> ASKING      somebody asks
 *   ASKING  -keep-> FRESH        a token came: all who wait have it
 *   ASKING  -fail-> RESTING      none came: all who wait are told, unless it may pass
 *   RESTING -begin-> ASKING      the rest is over, and somebody asks or waits
 *   FRESH   -begin-> ASKING      it is time to refresh and somebody asks, who gets the old one as long as it lasts
 *   FRESH   -token_refused-> EMPTY
 *
 * There is no timer for the refresh: a store that nobody uses asks for nothing.
 */
#include "store/azure/token.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/request.h"

struct token_source {
    struct world *world;
    const struct credential *credential;
    struct http *http; /* its own: requests to the store never stand before one for a token */
    struct json *json;
    struct http_call call;
    struct buf url, body;
    bool asking;
    bool ending;
    int64_t asked_at;
    struct buf token;
    uint64_t number;
    int64_t refresh_at, ends_at; /* of the token; ends_at 0: there is none */
    int64_t forced_at;           /* when one was last thrown away, or UNSET */
    struct error failure;        /* of the last request; ERR_OK: it gave a token */
    int failures;                /* in a row */
    int64_t rest_until;
    struct alarm rest;
    struct token_wait *first, *last;
    uint64_t turns;
};

static void begin(struct token_source *s);

/* --- those who wait --- */

static void leave(struct token_wait *w) {
    struct token_source *s = w->source;
    *(w->prev ? &w->prev->next : &s->first) = w->next;
    *(w->next ? &w->next->prev : &s->last) = w->prev;
    alarm_clear(s->world, &w->alarm);
    w->source = NULL;
}

void token_leave(struct token_wait *w) {
    if (w->source) {
        leave(w);
    }
}

static void tell(struct token_wait *w, const struct error *err) {
    w->err = *err;
    w->done(w);
}

/* Those who came before this moment; who is told may ask again at once, and is then not told twice. */
static void tell_all(struct token_source *s, const struct error *err) {
    struct error copy = *err;
    uint64_t turns = s->turns;
    while (s->first && s->first->turn <= turns) {
        struct token_wait *w = s->first;
        leave(w);
        tell(w, &copy);
    }
}

/* The deadline of one who waits: what is known by now is all there is to say. */
static void on_deadline(struct alarm *a) {
    struct token_wait *w = container_of(a, struct token_wait, alarm);
    struct token_source *s = w->source;
    struct error err = s->failure;
    if (err.code == ERR_OK) {
        const char *at;
        int n = http_call_host(&s->call, &at);
        error_set(&err, ERR_UNREACHABLE, "%s got no token: %.*s did not answer in time",
                  credential_phrase(s->credential->kind), n, at);
        token_advise(s->credential, &err);
    }
    leave(w);
    tell(w, &err);
}

static void wait_for_token(struct token_source *s, struct token_wait *w, int64_t deadline) {
    w->source = s;
    w->turn = ++s->turns;
    w->prev = s->last;
    w->next = NULL;
    *(s->last ? &s->last->next : &s->first) = w;
    s->last = w;
    w->alarm.ring = on_deadline;
    alarm_set(s->world, &w->alarm, deadline);
}

/* --- one request at a time --- */

static void rest_over(struct alarm *a) {
    struct token_source *s = container_of(a, struct token_source, rest);
    if (s->first && !s->asking) {
        begin(s);
    }
}

/* Whether the same request may have another outcome in a moment. */
static bool may_pass(const struct error *e) {
    return e->retryable;
}

static int64_t draw_rest(struct token_source *s, int64_t asked) {
    int doublings = s->failures < 8 ? s->failures - 1 : 7;
    int64_t ns = (TOKEN_REST_MIN_MS * NS_PER_MS) << doublings;
    uint16_t drawn;
    world_random(s->world, &drawn, sizeof drawn);
    ns = ns < TOKEN_REST_MAX_S * NS_PER_S ? ns : TOKEN_REST_MAX_S * NS_PER_S;
    ns -=
        ns / 4 * drawn / UINT16_MAX; /* a fleet that failed together does not come back together */
    return asked > ns ? asked : ns;
}

static void fail(struct token_source *s, const struct error *err, int64_t asked) {
    s->failure = *err;
    s->failures++;
    s->rest_until = instant_add(world_now(s->world), draw_rest(s, asked));
    if (!may_pass(err)) {
        tell_all(s, err);
    } else if (s->first) {
        alarm_set(s->world, &s->rest, s->rest_until);
    }
}

static void keep(struct token_source *s, struct token_answer *answer) {
    int64_t last = answer->life / 10, ahead = answer->life / 2;
    last = last < TOKEN_LAST_S * NS_PER_S ? last : TOKEN_LAST_S * NS_PER_S;
    ahead = ahead < TOKEN_AHEAD_S * NS_PER_S ? ahead : TOKEN_AHEAD_S * NS_PER_S;
    int64_t refresh = answer->life - ahead;
    if (answer->refresh != UNSET && answer->refresh < answer->life - last) {
        refresh = answer->refresh;
    }
    if (s->token.data) {
        explicit_bzero(s->token.data, s->token.cap);
    }
    buf_release(&s->token);
    buf_move(&s->token, &answer->token);
    s->number++;
    s->ends_at = s->asked_at + answer->life - last;
    s->refresh_at = s->asked_at + refresh;
    s->failures = 0;
    error_clear(&s->failure);
    tell_all(s, &s->failure);
}

static void wipe(struct buf *b) {
    if (b->data) {
        explicit_bzero(b->data, b->cap);
    }
    buf_clear(b);
}

static void on_answer(struct http_call *call) {
    struct token_source *s = container_of(call, struct token_source, call);
    struct token_answer answer = {0};
    s->asking = false;
    if (s->ending) {
        return;
    }
    buf_init(&answer.token, TOKEN_MAX + 1);
    token_answer_read(s->credential, s->json, call, world_wall(s->world), &answer);
    wipe(&call->answer);
    wipe(&s->body);
    wipe(&call->fields);
    if (answer.err.code == ERR_OK) {
        keep(s, &answer);
    } else {
        token_advise(s->credential, &answer.err);
        fail(s, &answer.err, answer.rest);
    }
    wipe(&answer.token);
    buf_release(&answer.token);
}

static void begin(struct token_source *s) {
    struct error err;
    alarm_clear(s->world, &s->rest);
    http_call_clear(&s->call);
    error_clear(&err);
    s->asked_at = world_now(s->world);
    if (!token_request_build(s->credential, &s->call, &s->url, &s->body, &err)) {
        token_advise(s->credential, &err);
        fail(s, &err, UNSET);
        return;
    }
    s->asking = true;
    s->call.body_max = TOKEN_ANSWER_MAX;
    s->call.deadline = instant_add(s->asked_at, TOKEN_TRY_S * NS_PER_S);
    s->call.done = on_answer;
    http_start(s->http, &s->call);
}

/* --- the outside --- */

bool token_ask(struct token_source *s, struct token_wait *w, int64_t deadline) {
    int64_t now = world_now(s->world);
    bool fresh = now < s->ends_at, rested = now >= s->rest_until || s->failures == 0;
    w->source = NULL;
    error_clear(&w->err);
    if (fresh) {
        if (now >= s->refresh_at && !s->asking && rested) {
            begin(s);
        }
        return true;
    }
    if (!s->asking && !rested && !may_pass(&s->failure)) {
        tell(w, &s->failure);
        return false;
    }
    wait_for_token(s, w, deadline);
    if (!s->asking && rested) {
        begin(s);
    } else if (!s->asking) {
        alarm_set(s->world, &s->rest, s->rest_until);
    }
    return false;
}

const char *token_text(const struct token_source *s) {
    return buf_str(&s->token);
}

uint64_t token_number(const struct token_source *s) {
    return s->number;
}

bool token_refused(struct token_source *s, uint64_t number) {
    int64_t now = world_now(s->world);
    if (number != s->number || now >= s->ends_at) {
        return true; /* there is another by now, or one comes */
    }
    if (s->forced_at != UNSET && now - s->forced_at < TOKEN_FORCE_S * NS_PER_S) {
        return false;
    }
    s->forced_at = now;
    s->ends_at = 0;
    return true;
}

struct token_source *token_source_new(struct world *w, const struct credential *c,
                                      struct error *err) {
    struct token_source *s = xcalloc(1, sizeof *s);
    s->world = w;
    s->credential = c;
    s->forced_at = UNSET;
    s->rest.ring = rest_over;
    http_call_init(&s->call);
    s->call.url = c->endpoint; /* for messages, until one is built */
    buf_init(&s->url, IDENTITY_TEXT_MAX + 1024);
    buf_init(&s->body, 4 * ASSERTION_MAX);
    buf_init(&s->token, TOKEN_MAX + 1);
    s->json = json_new(err);
    s->http = s->json ? http_new(w, err) : NULL;
    if (!s->http) {
        token_source_free(s);
        return NULL;
    }
    return s;
}

void token_source_free(struct token_source *s) {
    struct error gone;
    if (!s) {
        return;
    }
    s->ending = true;
    error_set(&gone, ERR_CANCELLED, NULL);
    tell_all(s, &gone);
    if (s->http) {
        http_free(s->http);
    }
    alarm_clear(s->world, &s->rest);
    json_free(s->json);
    wipe(&s->token);
    wipe(&s->body);
    http_call_release(&s->call);
    buf_release(&s->url);
    buf_release(&s->body);
    buf_release(&s->token);
    free(s);
}
