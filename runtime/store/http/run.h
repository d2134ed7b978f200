/* run.h -- one request on its way through libcurl: an easy handle, and what it was last told.
 *
 * Include <curl/curl.h> first, without its type checks (http.c and run.c do). What keeps a request
 * cheap is in here: the handle and its options are used again, and header lines reach libcurl as list
 * nodes in one array.
 */
#ifndef SYNOD_STORE_HTTP_RUN_H
#define SYNOD_STORE_HTTP_RUN_H

#include "store/http/http.h"
#include "store/http/socket.h"
#include "store/library.h"

struct curl {
    LIBRARY_CURL_FUNCTIONS(LIBRARY_POINTER)
};

/* How far it came: tells a lost answer from a request that never left, and in words what took long. */
enum phase { RESOLVING, CONNECTING, SENT };
enum kind { KIND_NEW, KIND_GET, KIND_HEAD, KIND_BODY };

struct http_run {
    const struct curl *curl;
    struct http_sockets *sockets;
    struct http_call *call;
    CURL *easy;
    enum phase phase;
    bool too_large;
    bool head_complete;
    bool again; /* libcurl was about to repeat a write on its own */
    long redirects_seen;
    enum kind kind;
    int redirects;
    bool direct; /* past the proxy */
    char method[16];
    struct buf url;
    struct curl_slist *fields;
    size_t fields_room;
    char reason[CURL_ERROR_SIZE];
    struct http_run *next;
};

struct http_run *run_new(const struct curl *curl,
                         struct http_sockets *sockets); /* NULL: no memory */
void run_free(struct http_run *run);
void run_prepare(struct http_run *run, struct http_call *c);
/* Why libcurl gave up. */
void run_explain(struct http_run *run, CURLcode code, struct error *err);
/* Why a call's deadline came before its answer. */
void run_explain_late(const struct http_call *c, struct error *err);

#endif
