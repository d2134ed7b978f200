/* http.c -- one libcurl multi handle, driven by a world's watches and alarms.
 *
 * A call on its way:
 *
 *   QUEUED -begin-> RESOLVING -on_open_socket-> CONNECTING -on_request-> SENT -conclude-> done
 *                         \------ a kept connection is used again ------/
 *
 * (run.h). Those who are called back may start other calls at once: libcurl is then not entered a
 * second time, but called again (drive).
 */
#include "store/http/http.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "store/http/run.h"

enum { IDLE_RUNS_MAX = 16 }; /* easy handles kept for the next calls */

static const char *const SYMBOLS[] = {LIBRARY_CURL_FUNCTIONS(LIBRARY_SYMBOL)};

struct http {
    struct world *world;
    struct curl curl;
    CURLM *multi;
    struct http_sockets sockets;
    struct alarm timer;   /* libcurl's own */
    int64_t timer_at;     /* when it wants to be called */
    bool driving, kicked; /* libcurl is being called; it is to be called once more */
    bool ending;
    int active, queued;
    struct http_call *first_active, *first_queued, *last_queued;
    struct http_run *idle;
    int idle_count;
};

/* --- what libcurl calls --- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused) {
    struct http *h = arg;
    (void)unused;
    if (what == CURL_POLL_REMOVE) {
        struct http_run *run = NULL;
        h->curl.curl_easy_getinfo(easy, CURLINFO_PRIVATE, &run);
        sockets_forget(&h->sockets, fd, run && run->phase == SENT);
    } else {
        sockets_want(&h->sockets, fd,
                     ((what & CURL_POLL_IN) ? WATCH_READ : 0) |
                         ((what & CURL_POLL_OUT) ? WATCH_WRITE : 0));
    }
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg) {
    struct http *h = arg;
    (void)multi;
    h->timer_at = ms < 0 ? NEVER : instant_add(world_now(h->world), ms * NS_PER_MS);
    return 0;
}

/* --- calls --- */

static struct http_run *run_take(struct http *h) {
    struct http_run *run = h->idle;
    if (!run) {
        return run_new(&h->curl, &h->sockets);
    }
    h->idle = run->next;
    h->idle_count--;
    return run;
}

static void run_give_back(struct http *h, struct http_run *run) {
    run->call = NULL;
    if (h->idle_count >= IDLE_RUNS_MAX) {
        run_free(run);
        return;
    }
    run->next = h->idle;
    h->idle = run;
    h->idle_count++;
}

static void queue_push(struct http *h, struct http_call *c) {
    c->prev = h->last_queued;
    c->next = NULL;
    *(h->last_queued ? &h->last_queued->next : &h->first_queued) = c;
    h->last_queued = c;
    h->queued++;
}

static void queue_remove(struct http *h, struct http_call *c) {
    *(c->prev ? &c->prev->next : &h->first_queued) = c->next;
    *(c->next ? &c->next->prev : &h->last_queued) = c->prev;
    h->queued--;
}

static void active_push(struct http *h, struct http_call *c) {
    c->prev = NULL;
    c->next = h->first_active;
    if (c->next) {
        c->next->prev = c;
    }
    h->first_active = c;
    h->active++;
}

static void active_remove(struct http *h, struct http_call *c) {
    *(c->prev ? &c->prev->next : &h->first_active) = c->next;
    if (c->next) {
        c->next->prev = c->prev;
    }
    h->active--;
}

/* Takes a call out of wherever it stands. Its `run` is gone after this. */
static void detach(struct http_call *c) {
    struct http *h = c->http;
    alarm_clear(h->world, &c->alarm);
    if (c->run) {
        h->curl.curl_multi_remove_handle(h->multi, c->run->easy);
        active_remove(h, c);
        run_give_back(h, c->run);
        c->run = NULL;
    } else {
        queue_remove(h, c);
    }
    c->http = NULL;
    world_release(h->world);
}

static bool begin(struct http *h, struct http_call *c) {
    struct http_run *run = run_take(h);
    if (!run) {
        return false;
    }
    run_prepare(run, c);
    c->run = run;
    active_push(h, c);
    return h->curl.curl_multi_add_handle(h->multi, run->easy) == CURLM_OK;
}

static void fail(struct http_call *c, enum err code, const char *why) {
    error_set(&c->err, code, why ? "%s" : NULL, why);
    detach(c);
    c->done(c);
}

/* Starts waiting calls while there is room; true when libcurl has new work. */
static bool begin_queued(struct http *h) {
    bool begun = false;
    while (h->active < HTTP_ACTIVE_MAX && h->first_queued && !h->ending) {
        struct http_call *c = h->first_queued;
        queue_remove(h, c);
        if (begin(h, c)) {
            begun = true;
        } else {
            if (!c->run) {
                queue_push(h, c); /* where detach looks for it */
            }
            fail(c, ERR_NO_MEMORY, NULL);
        }
    }
    return begun;
}

static void conclude(struct http_run *run, CURLcode code) {
    struct http_call *c = run->call;
    if (code == CURLE_OK && !run->head_complete) {
        code = CURLE_RECV_ERROR;
    }
    if (code == CURLE_OK) {
        long status = 0;
        c->http->curl.curl_easy_getinfo(run->easy, CURLINFO_RESPONSE_CODE, &status);
        c->status = (int)status;
        error_clear(&c->err);
    } else {
        run_explain(run, code, &c->err);
    }
    detach(c);
    c->done(c);
}

static void collect(struct http *h) {
    CURLMsg *message;
    int left;
    while ((message = h->curl.curl_multi_info_read(h->multi, &left))) {
        if (message->msg == CURLMSG_DONE) {
            struct http_run *run = NULL;
            CURLcode code = message->data.result;
            h->curl.curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &run);
            conclude(run, code);
        }
    }
}

/* Calls libcurl: something happened on a descriptor, or (CURL_SOCKET_TIMEOUT) time passed or a request
 * was added. Those who are called back may start other calls, which are taken up before this returns. */
static void drive(struct http *h, curl_socket_t fd, int events) {
    if (h->driving) {
        h->kicked = true;
        return;
    }
    h->driving = true;
    do {
        int running;
        h->kicked = false;
        h->curl.curl_multi_socket_action(h->multi, fd, events, &running);
        collect(h);
        fd = CURL_SOCKET_TIMEOUT;
        events = 0;
    } while (begin_queued(h) || h->kicked);
    h->driving = false;
    if (h->timer_at == NEVER) {
        alarm_clear(h->world, &h->timer);
    } else {
        alarm_set(h->world, &h->timer, h->timer_at);
    }
}

static void on_ready(struct http_sockets *all, int fd, int events) {
    drive(container_of(all, struct http, sockets), fd,
          ((events & WATCH_READ) ? CURL_CSELECT_IN : 0) |
              ((events & WATCH_WRITE) ? CURL_CSELECT_OUT : 0));
}

static void on_alarm(struct alarm *a) {
    struct http *h = container_of(a, struct http, timer);
    h->timer_at = NEVER;
    drive(h, CURL_SOCKET_TIMEOUT, 0);
}

static void on_deadline(struct alarm *a) {
    struct http_call *c = container_of(a, struct http_call, alarm);
    struct http *h = c->http;
    run_explain_late(c, &c->err);
    detach(c);
    c->done(c);
    if (h->first_queued) {
        drive(h, CURL_SOCKET_TIMEOUT, 0);
    }
}

/* --- the outside --- */

struct http *http_new(struct world *w, struct error *err) {
    struct http *h = xcalloc(1, sizeof *h);
    if (!library_load(LIBRARY_CURL, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, &h->curl, err)) {
        free(h);
        return NULL;
    }
    h->curl.curl_global_init(CURL_GLOBAL_DEFAULT);
    h->multi = h->curl.curl_multi_init();
    if (!h->multi) {
        error_set(err, ERR_NO_MEMORY, NULL);
        free(h);
        return NULL;
    }
    h->world = w;
    h->timer.ring = on_alarm;
    h->timer_at = NEVER;
    sockets_init(&h->sockets, w, on_ready);
    h->curl.curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    h->curl.curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
    h->curl.curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    h->curl.curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
    h->curl.curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)HTTP_ACTIVE_MAX);
    return h;
}

void http_free(struct http *h) {
    h->ending = true;
    while (h->first_active || h->first_queued) {
        fail(h->first_active ? h->first_active : h->first_queued, ERR_CANCELLED, NULL);
    }
    while (h->idle) {
        struct http_run *run = h->idle;
        h->idle = run->next;
        run_free(run);
    }
    h->curl.curl_multi_cleanup(h->multi);
    sockets_release(&h->sockets);
    alarm_clear(h->world, &h->timer);
    free(h);
}

void http_start(struct http *h, struct http_call *c) {
    error_clear(&c->err);
    pairs_clear(&c->headers);
    buf_clear(&c->answer);
    c->answer.max = c->body_max;
    c->sent = false;
    c->status = 0;
    c->http = h;
    c->run = NULL;
    c->alarm.ring = on_deadline;
    world_hold(h->world);
    queue_push(h, c);
    if (h->ending) {
        fail(c, ERR_CANCELLED, NULL);
    } else if (h->queued > HTTP_QUEUED_MAX) {
        fail(c, ERR_THROTTLED, "too many requests wait for their turn here");
    } else if (world_now(h->world) >= c->deadline) {
        fail(c, ERR_TIMEOUT, "no time is left for the request");
    } else {
        alarm_set(h->world, &c->alarm, c->deadline);
        if (begin_queued(h)) {
            drive(h, CURL_SOCKET_TIMEOUT, 0);
        }
    }
}

void http_abort(struct http *h, struct http_call *c) {
    if (c->http == h) {
        detach(c);
        if (begin_queued(h)) {
            drive(h, CURL_SOCKET_TIMEOUT, 0);
        }
    }
}