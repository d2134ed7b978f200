/* http.c -- one libcurl multi handle, driven by a world's watches and alarms.
 *
 * A call on its way:
 *
 *   QUEUED -begin-> RESOLVING -on_open_socket-> CONNECTING -on_request-> SENT -conclude-> done
 *                         \------ a kept connection is used again ------/
 *
 * The phase tells a lost answer from a request that never left, and says in words what took too long.
 *
 * What keeps a request cheap: an easy handle and what it was told are used again; header lines reach
 * libcurl as list nodes in one array; a kept connection's descriptor stays watched (http_socket.h).
 */
#include "store/http.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/http_call.h"
#include "store/http_socket.h"
#include "store/library.h"

enum {
    IDLE_RUNS_MAX = 16,      /* easy handles kept for the next calls */
    FIELDS_FIRST = 32,       /* header lines a run has room for at first */
    URL_MAX = 64 * 1024,     /* bytes */
    EXPECT_THRESHOLD = 1024, /* bytes of a body from which libcurl might ask before it sends */
};

struct curl {
    LIBRARY_CURL_FUNCTIONS(LIBRARY_POINTER)
};

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

enum phase { RESOLVING, CONNECTING, SENT };
enum kind { KIND_NEW, KIND_GET, KIND_HEAD, KIND_BODY };

/* What a request on its way needs: an easy handle, and what that was last told. */
struct http_run {
    struct http *http;
    struct http_call *call;
    CURL *easy;
    enum phase phase;
    bool too_large;
    bool again; /* libcurl was about to repeat a write on its own */
    long redirects_seen;
    enum kind kind;
    int redirects;
    char method[16];
    struct buf url;
    struct curl_slist *fields;
    size_t fields_room;
    char reason[CURL_ERROR_SIZE];
    struct http_run *next;
};

/* --- what libcurl calls --- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused) {
    struct http *h = arg;
    (void)easy;
    (void)unused;
    int events = what == CURL_POLL_IN      ? WATCH_READ
                 : what == CURL_POLL_OUT   ? WATCH_WRITE
                 : what == CURL_POLL_INOUT ? WATCH_READ | WATCH_WRITE
                                           : 0;
    sockets_want(&h->sockets, fd, events);
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg) {
    struct http *h = arg;
    (void)multi;
    h->timer_at = ms < 0 ? NEVER : instant_add(world_now(h->world), ms * NS_PER_MS);
    return 0;
}

static curl_socket_t on_open_socket(void *arg, curlsocktype purpose,
                                    struct curl_sockaddr *address) {
    struct http_run *run = arg;
    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    address->protocol);
    if (fd < 0) {
        return CURL_SOCKET_BAD;
    }
    run->phase = CONNECTING;
    sockets_opened(&run->http->sockets, fd);
    return fd;
}

static int on_close_socket(void *arg, curl_socket_t fd) {
    struct http *h = arg;
    sockets_closed(&h->sockets, fd);
    return close(fd);
}

/* The connection stands and the request is about to be written. A second time means that a kept
 * connection broke and libcurl would repeat the request: whether a write may be repeated is not for it to
 * say, since the first one may have been carried out. */
static int on_request(void *arg, char *ip, char *local_ip, int port, int local_port) {
    struct http_run *run = arg;
    (void)ip;
    (void)local_ip;
    (void)port;
    (void)local_port;
    long redirects = 0;
    if (run->redirects) {
        run->http->curl.curl_easy_getinfo(run->easy, CURLINFO_REDIRECT_COUNT, &redirects);
    }
    bool read = run->kind != KIND_BODY && !run->method[0];
    if (run->phase == SENT && !read && redirects == run->redirects_seen) {
        run->again = true;
        return CURL_PREREQFUNC_ABORT;
    }
    run->phase = SENT;
    run->call->sent = true;
    run->redirects_seen = redirects;
    return CURL_PREREQFUNC_OK;
}

static size_t on_header(char *line, size_t size, size_t n, void *arg) {
    struct http_run *run = arg;
    if (!http_call_take_header(run->call, line, size * n)) {
        run->too_large = true;
        return 0;
    }
    return size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg) {
    struct http_run *run = arg;
    if (!buf_append(&run->call->answer, data, size * n)) {
        run->too_large = true;
        return 0;
    }
    return size * n;
}

/* --- why no answer came --- */

static void too_late(const struct http_call *c, struct error *err) {
    const char *at;
    int n = http_call_host(c, &at);
    if (!c->run) {
        error_set(err, ERR_TIMEOUT,
                  "%d requests were on the way, and this one's turn did not come in time",
                  HTTP_ACTIVE_MAX);
    } else if (c->run->phase == RESOLVING) {
        error_set(err, ERR_UNREACHABLE,
                  "the name in %.*s could not be resolved in time: the name server does not answer",
                  n, at);
    } else if (c->run->phase == CONNECTING) {
        error_set(err, ERR_UNREACHABLE, "no connection to %.*s could be made in time", n, at);
    } else {
        error_set(err, ERR_TIMEOUT, "%.*s did not answer in time", n, at);
    }
}

static void not_connected(struct http_run *run, struct error *err) {
    const char *at;
    int n = http_call_host(run->call, &at);
    long number = 0;
    run->http->curl.curl_easy_getinfo(run->easy, CURLINFO_OS_ERRNO, &number);
    if (number == ECONNREFUSED) {
        error_set(err, ERR_UNREACHABLE, "%.*s refuses connections", n, at);
    } else {
        error_set(err, ERR_UNREACHABLE, "no connection to %.*s could be made: %s", n, at,
                  number ? strerror((int)number) : "no address of it answers");
    }
}

static void no_trust(struct http_run *run, CURLcode code, struct error *err) {
    const char *at;
    int n = http_call_host(run->call, &at);
    const char *why = run->reason[0] ? run->reason : run->http->curl.curl_easy_strerror(code);
    error_set(err, ERR_UNREACHABLE, "no trusted connection to %.*s could be made: %.160s", n, at,
              why);
    err->retryable = code == CURLE_SSL_CONNECT_ERROR;
}

static void explain(struct http_run *run, CURLcode code, struct error *err) {
    const char *at;
    int n = http_call_host(run->call, &at);
    if (run->too_large) {
        error_set(err, ERR_ANSWER_TOO_LARGE, "the answer of %.*s is larger than %zu bytes", n, at,
                  run->call->answer.failed ? run->call->answer.max : (size_t)HTTP_HEADERS_MAX);
        return;
    }
    if (run->again) {
        error_set(err, ERR_UNREACHABLE, "%.*s closed the connection without an answer", n, at);
        return;
    }
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        error_set(err, ERR_UNREACHABLE, "the name in %.*s is unknown here%s", n, at,
                  code == CURLE_COULDNT_RESOLVE_PROXY ? " (or that of the proxy)" : "");
        return;
    case CURLE_COULDNT_CONNECT:
        not_connected(run, err);
        return;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        no_trust(run, code, err);
        return;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
        error_set(err, ERR_UNREACHABLE, "%.*s closed the connection without an answer", n, at);
        return;
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
        error_set(err, ERR_UNREACHABLE, "the connection to %.*s broke before the whole answer came",
                  n, at);
        return;
    case CURLE_OUT_OF_MEMORY:
        error_set(err, ERR_NO_MEMORY, NULL);
        return;
    case CURLE_URL_MALFORMAT:
        error_set(err, ERR_INVALID_INPUT, "the address %.*s is malformed", n, at);
        return;
    case CURLE_TOO_MANY_REDIRECTS:
        error_set(err, ERR_BAD_ANSWER, "%.*s redirected more than %d times", n, at, run->redirects);
        return;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
        error_set(err, ERR_BAD_ANSWER, "%.*s did not answer in HTTP", n, at);
        return;
    default:
        error_set(err, ERR_BAD_ANSWER, "the exchange with %.*s failed: %.120s", n, at,
                  run->http->curl.curl_easy_strerror(code));
        return;
    }
}

/* --- runs --- */

#define SET(run, option, value) ((run)->http->curl.curl_easy_setopt((run)->easy, option, value))

static void run_free(struct http_run *run) {
    run->http->curl.curl_easy_cleanup(run->easy);
    buf_release(&run->url);
    free(run->fields);
    free(run);
}

static struct http_run *run_new(struct http *h) {
    CURL *easy = h->curl.curl_easy_init();
    if (!easy) {
        return NULL;
    }
    struct http_run *run = xcalloc(1, sizeof *run);
    run->http = h;
    run->easy = easy;
    buf_init(&run->url, URL_MAX);
    SET(run, CURLOPT_PRIVATE, run);
    SET(run, CURLOPT_NOSIGNAL, 1L);
    SET(run, CURLOPT_QUICK_EXIT, 1L); /* never join the thread of a name server that hangs */
    SET(run, CURLOPT_PATH_AS_IS, 1L); /* what was signed is what is sent */
    SET(run, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(run, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(run, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    SET(run, CURLOPT_USERAGENT, "synod");
    SET(run, CURLOPT_ERRORBUFFER, run->reason);
    SET(run, CURLOPT_HEADERFUNCTION, on_header);
    SET(run, CURLOPT_HEADERDATA, run);
    SET(run, CURLOPT_WRITEFUNCTION, on_body);
    SET(run, CURLOPT_WRITEDATA, run);
    SET(run, CURLOPT_PREREQFUNCTION, on_request);
    SET(run, CURLOPT_PREREQDATA, run);
    SET(run, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    SET(run, CURLOPT_OPENSOCKETDATA, run);
    SET(run, CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
    SET(run, CURLOPT_CLOSESOCKETDATA, h);
    return run;
}

static struct http_run *run_take(struct http *h) {
    struct http_run *run = h->idle;
    if (!run) {
        return run_new(h);
    }
    h->idle = run->next;
    h->idle_count--;
    return run;
}

static void run_give_back(struct http_run *run) {
    struct http *h = run->http;
    run->call = NULL;
    if (h->idle_count >= IDLE_RUNS_MAX) {
        run_free(run);
        return;
    }
    run->next = h->idle;
    h->idle = run;
    h->idle_count++;
}

static void set_url(struct http_run *run, const char *url) {
    if (strcmp(buf_str(&run->url), url) != 0) {
        buf_clear(&run->url);
        buf_puts(&run->url, url);
        SET(run, CURLOPT_URL, url);
    }
}

/* GET, HEAD and POST are libcurl's own; every other method is one of them under another name. */
static void set_method(struct http_run *run, const struct http_call *c) {
    bool post = strcmp(c->method, "POST") == 0, put = strcmp(c->method, "PUT") == 0;
    enum kind kind = strcmp(c->method, "HEAD") == 0                              ? KIND_HEAD
                     : c->body || post || put || strcmp(c->method, "PATCH") == 0 ? KIND_BODY
                                                                                 : KIND_GET;
    if (kind != run->kind) {
        SET(run, CURLOPT_NOBODY, kind == KIND_HEAD ? 1L : 0L);
        if (kind == KIND_GET) {
            SET(run, CURLOPT_HTTPGET, 1L);
        }
        run->kind = kind;
    }
    if (kind == KIND_BODY) {
        SET(run, CURLOPT_POSTFIELDS, c->body ? c->body : "");
        SET(run, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(c->body ? c->body_len : 0));
    }
    bool own = kind == KIND_HEAD || post || (kind == KIND_GET && strcmp(c->method, "GET") == 0);
    const char *name = own ? "" : c->method;
    if (strcmp(run->method, name) != 0) {
        snprintf(run->method, sizeof run->method, "%s", name);
        SET(run, CURLOPT_CUSTOMREQUEST, own ? NULL : run->method);
    }
}

static struct curl_slist *field_node(struct http_run *run, size_t i, const char *line) {
    if (i == run->fields_room) {
        run->fields_room = run->fields_room ? run->fields_room * 2 : FIELDS_FIRST;
        run->fields = xrealloc(run->fields, run->fields_room * sizeof *run->fields);
    }
    run->fields[i].data = (char *)line; /* libcurl only reads it */
    return &run->fields[i];
}

static bool is_field(const char *line, const char *name) {
    size_t n = strlen(name);
    return strncasecmp(line, name, n) == 0 && (line[n] == ':' || line[n] == ';');
}

static void set_fields(struct http_run *run, const struct http_call *c) {
    size_t count = 0;
    bool typed = false;
    const char *end = c->fields.data + c->fields.len;
    for (const char *line = c->fields.data; line < end; line += strlen(line) + 1) {
        typed = typed || is_field(line, "Content-Type");
        field_node(run, count++, line);
    }
    if (run->kind == KIND_BODY && !typed) {
        field_node(run, count++, "Content-Type:"); /* libcurl would call it a form */
    }
    if (run->kind == KIND_BODY && c->body_len >= EXPECT_THRESHOLD) {
        field_node(run, count++, "Expect:");
    }
    for (size_t i = 0; i < count; i++) {
        run->fields[i].next = i + 1 < count ? &run->fields[i + 1] : NULL;
    }
    SET(run, CURLOPT_HTTPHEADER, count ? run->fields : NULL);
}

static void set_redirects(struct http_run *run, int most) {
    if (most != run->redirects) {
        SET(run, CURLOPT_FOLLOWLOCATION, most > 0 ? 1L : 0L);
        SET(run, CURLOPT_MAXREDIRS, (long)most);
        run->redirects = most;
    }
}

static void run_prepare(struct http_run *run, struct http_call *c) {
    run->call = c;
    run->phase = RESOLVING;
    run->too_large = run->again = false;
    run->redirects_seen = 0;
    run->reason[0] = '\0';
    set_url(run, c->url);
    set_method(run, c);
    set_fields(run, c);
    set_redirects(run, c->redirects);
}

/* --- calls --- */

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
        run_give_back(c->run);
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
    if (code == CURLE_OK) {
        long status = 0;
        run->http->curl.curl_easy_getinfo(run->easy, CURLINFO_RESPONSE_CODE, &status);
        c->status = (int)status;
        error_clear(&c->err);
    } else {
        explain(run, code, &c->err);
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
    too_late(c, &c->err);
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
        too_late(c, &c->err);
        detach(c);
        c->done(c);
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
