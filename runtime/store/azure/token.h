/* token.h -- the token that a credential stands for: fetched when first needed, kept, refreshed ahead of its end.
 *
 *     struct token_source *s = token_source_new(world, &credential, &err);
 *     w.done = on_token;
 *     if (token_ask(s, &w, deadline)) use(token_text(s), token_number(s));
 *     else                      on_token is called once, and may be before token_ask returns: w.err.code is
 *                               ERR_OK when there is a token now, else it says why there is none and what to do
 *     ... or before it: token_leave(&w)      on_token is not called any more
 *     if (the store answered 401 && token_refused(s, number)) ask once more
 *
 * However many wait, one request for a token is under way at a time. It has a time limit of its own, and each
 * who waits has a deadline. One that may pass (no answer, 429, 5xx) is repeated with back-off while anybody
 * waits; one that is refused is told to all who wait, and not repeated before a rest. While the last token is
 * good it is given, also when a refresh fails.
 *
 * Requests never follow a redirect. Those to a managed identity's endpoint go by no proxy: it is on this machine
 * or beside it. The assertion of a workload identity is read anew from its file each time.
 */
#ifndef SYNOD_STORE_TOKEN_H
#define SYNOD_STORE_TOKEN_H

#include "store/azure/credential.h"
#include "store/http/http.h"
#include "store/json.h"

enum {
    TOKEN_MAX = 32 * 1024,        /* characters of a token */
    TOKEN_ANSWER_MAX = 64 * 1024, /* bytes of the answer it is in */
    TOKEN_TRY_S = 10,             /* one request for a token */
    TOKEN_REST_MIN_MS = 500,      /* the first back-off; then twice as long each time, */
    TOKEN_REST_MAX_S = 30,        /* up to this, unless the answer asks for more */
    TOKEN_REST_ASKED_MAX_S = 300, /* which is believed up to here */
    TOKEN_AHEAD_S = 600, /* a token is refreshed so long before its end, or at half its life */
    TOKEN_LAST_S = 30,   /* and not used in the end of its life, at most a tenth of it */
    TOKEN_LIFE_MAX_S = 7 * 24 * 3600,
    TOKEN_FORCE_S = 30, /* tokens that the store refuses are replaced no more often than this */
};

struct token_source;

/* One that waits. Zero-initialise, set `done`. */
struct token_wait {
    void (*done)(struct token_wait *w);
    struct error err;

    /* token.c's own */
    struct token_source *source; /* NULL when it does not wait */
    struct token_wait *prev, *next;
    uint64_t turn;
    struct alarm alarm;
};

/* The credential must outlive it. NULL and err when libcurl or jansson cannot be had. */
struct token_source *token_source_new(struct world *w, const struct credential *c,
                                      struct error *err);
/* Ends every wait with ERR_CANCELLED. NULL is allowed. */
void token_source_free(struct token_source *s);

bool token_ask(struct token_source *s, struct token_wait *w, int64_t deadline);
void token_leave(struct token_wait *w); /* no effect when it does not wait */
const char *token_text(const struct token_source *s);
uint64_t token_number(const struct token_source *s); /* grows with each new token */
/* The store refused the token of that number. True when asking again may give a better one. */
bool token_refused(struct token_source *s, uint64_t number);

/* --- token_request.c: what is asked, and what the answer says --- */

struct token_answer {
    struct error err; /* ERR_OK: a token came */
    struct buf token;
    int64_t life;    /* ns it is good for, from when it was asked for */
    int64_t refresh; /* ns after which a new one should be asked for; UNSET when not told */
    int64_t rest;    /* ns to wait before asking again; UNSET when not told */
};

/* Fills in method, url, header lines and body; url and body keep what the call points to. */
bool token_request_build(const struct credential *c, struct http_call *call, struct buf *url,
                         struct buf *body, struct error *err);
void token_answer_read(const struct credential *c, struct json *json, const struct http_call *call,
                       int64_t wall, struct token_answer *out);
/* Adds what a person can do about it to the error of one that got no token. */
void token_advise(const struct credential *c, struct error *err);

#endif
