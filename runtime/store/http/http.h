/* http.h -- HTTP(S) requests that suspend nobody: libcurl's multi interface on the world's loop.
 *
 *     struct http *h = http_new(world, &err);
 *     struct http_call c;
 *     http_call_init(&c);
 *     c.method = "PUT", c.url = url, c.body = data, c.body_len = n;
 *     c.deadline = world_now(world) + 3 * NS_PER_S;
 *     http_call_field(&c, "x-ms-version", "2021-12-02");
 *     c.done = on_done, c.owner = me;
 *     http_start(h, &c);                  on_done is called once, and may be before this returns
 *     ... in on_done, or after it: c.err.code is ERR_OK when an answer came, whatever its status
 *     ... or before it: http_abort(h, &c)      on_done is not called any more
 *     http_call_release(&c);
 *
 * Connections are kept and used again. TLS certificates are verified against the system's list (or the
 * file that SSL_CERT_FILE names), which is loaded at the first https request. Proxies are taken from the
 * environment (https_proxy, no_proxy ...), except for the loopback. At most HTTP_ACTIVE_MAX requests are
 * on the way at once; the others wait their turn, inside their deadlines. All memory named in a call stays
 * the caller's, and unchanged, until it is done or aborted.
 */
#ifndef SYNOD_STORE_HTTP_H
#define SYNOD_STORE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/pairs.h"
#include "world/world.h"

struct http;

enum {
    HTTP_ACTIVE_MAX = 64,              /* requests on the way at once, and connections kept */
    HTTP_QUEUED_MAX = 100 * 1000,      /* requests that wait their turn */
    HTTP_FIELDS_MAX = 64 * 1024,       /* bytes of all header lines of one request */
    HTTP_HEADERS_MAX = 64 * 1024,      /* bytes of all header lines of one answer */
    HTTP_BODY_MAX = 256 * 1024 * 1024, /* bytes of an answer's body, unless told less */
    HTTP_REDIRECTS_MAX = 10,
};

struct http_call {
    /* what to ask */
    const char *method; /* "GET", "HEAD", "PUT", ...: upper case */
    const char *url;    /* http:// or https://, percent-encoded */
    struct buf fields;  /* header lines, filled by http_call_field */
    const char *body;   /* NULL: none */
    size_t body_len;
    size_t body_max;  /* bytes of the answer's body that are taken */
    int64_t deadline; /* boot-time ns */
    bool direct;      /* by no proxy, whatever the environment says */
    int redirects;    /* follow at most so many; 0: a redirect is an answer like another */
    void (*done)(struct http_call *c);
    void *owner;

    /* what came of it */
    struct error err; /* ERR_OK: an answer came. Else why none did: Unreachable, Timeout, BadAnswer,
                         AnswerTooLarge, InvalidInput (the url) */
    bool sent;        /* the request may have reached the server */
    int status;
    struct pairs headers; /* of the last answer, as they came */
    struct buf answer;    /* the body; never failed when err is ERR_OK */

    /* http.c's own */
    struct http *http; /* NULL when it is not under way */
    struct http_run *run;
    struct http_call *prev, *next;
    struct alarm alarm;
};

/* NULL and err when libcurl cannot be had. */
struct http *http_new(struct world *w, struct error *err);
/* Ends every call under way: their `done` is called with ERR_CANCELLED. */
void http_free(struct http *h);

void http_call_init(struct http_call *c);
void http_call_release(struct http_call *c); /* not while it is under way */
void http_call_clear(struct http_call *c);   /* as after init, memory kept */
/* Adds a header line. False when the name is not one, when the value cannot stand in a line (a control
 * character), or when they do not fit. */
bool http_call_field(struct http_call *c, const char *name, const char *value);

/* "host:port" of the call's URL, for people: its length, and where it starts. Without what may stand
 * before an "@", which may be a password. */
int http_call_host(const struct http_call *c, const char **start);

void http_start(struct http *h, struct http_call *c);
void http_abort(struct http *h, struct http_call *c); /* no effect when it is not under way */

#endif
