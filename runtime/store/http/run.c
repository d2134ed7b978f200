#include <errno.h>
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/http/call.h"
#include "store/http/run.h"

enum {
    FIELDS_FIRST = 32,       /* header lines a run has room for at first */
    URL_MAX = 64 * 1024,     /* bytes */
    EXPECT_THRESHOLD = 1024, /* bytes of a body from which libcurl might ask before it sends */
};

/* --- what libcurl calls --- */

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
    sockets_opened(run->sockets, fd);
    return fd;
}

static int on_close_socket(void *arg, curl_socket_t fd) {
    sockets_closed(arg, fd);
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
        run->curl->curl_easy_getinfo(run->easy, CURLINFO_REDIRECT_COUNT, &redirects);
    }
    bool read = run->kind != KIND_BODY && !run->method[0];
    if (run->call->sent && !read && redirects == run->redirects_seen) {
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
    if (line[0] == '\r' || line[0] == '\n') {
        run->head_complete = true; /* a connection may end before, and libcurl calls it an answer */
    } else if (n >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        run->head_complete = false;
    }
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

void run_explain_late(const struct http_call *c, struct error *err) {
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

/* Whoever is named may not be the one who refused. */
static const char *or_proxy(const struct http_run *run) {
    static const char *const NAMES[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                        "ALL_PROXY"};
    for (size_t i = 0; !run->direct && i < sizeof NAMES / sizeof *NAMES; i++) {
        const char *proxy = getenv(NAMES[i]);
        if (proxy && *proxy) {
            return ", or the proxy of the environment,";
        }
    }
    return "";
}

static void not_connected(struct http_run *run, struct error *err) {
    const char *at;
    int n = http_call_host(run->call, &at);
    long number = 0;
    run->curl->curl_easy_getinfo(run->easy, CURLINFO_OS_ERRNO, &number);
    if (number == ECONNREFUSED) {
        error_set(err, ERR_UNREACHABLE, "%.*s%s refuses connections", n, at, or_proxy(run));
    } else {
        error_set(err, ERR_UNREACHABLE, "no connection to %.*s could be made: %s", n, at,
                  number ? strerror((int)number) : "no address of it answers");
    }
}

/* Over https a proxy is asked for a tunnel first: what it answers to that comes from nobody else. */
static bool tunnel_refused(struct http_run *run, struct error *err) {
    const char *at;
    int n = http_call_host(run->call, &at);
    long status = 0;
    run->curl->curl_easy_getinfo(run->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    if (run->call->sent || status < 300) {
        return false;
    }
    if (status == 407) {
        error_set(err, ERR_UNREACHABLE, "a proxy on the way to %.*s wants credentials", n, at);
    } else {
        error_set(err, ERR_UNREACHABLE,
                  "a proxy on the way to %.*s does not let us through: it answered with status %ld",
                  n, at, status);
    }
    err->status = (int)status;
    err->retryable = status >= 500 || status == 429;
    return true;
}

static void no_trust(struct http_run *run, CURLcode code, struct error *err) {
    const char *at;
    int n = http_call_host(run->call, &at);
    const char *why = run->reason[0] ? run->reason : run->curl->curl_easy_strerror(code);
    error_set(err, ERR_UNREACHABLE, "no trusted connection to %.*s could be made: %.160s", n, at,
              why);
    err->retryable = code == CURLE_SSL_CONNECT_ERROR;
}

void run_explain(struct http_run *run, CURLcode code, struct error *err) {
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
    if (tunnel_refused(run, err)) {
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
                  run->curl->curl_easy_strerror(code));
        return;
    }
}

/* --- runs --- */

#define SET(run, option, value) ((run)->curl->curl_easy_setopt((run)->easy, option, value))

void run_free(struct http_run *run) {
    run->curl->curl_easy_cleanup(run->easy);
    if (run->url.data) {
        explicit_bzero(run->url.data, run->url.cap); /* a SAS stands in the address */
    }
    buf_release(&run->url);
    free(run->fields);
    free(run);
}

struct http_run *run_new(const struct curl *curl, struct http_sockets *sockets) {
    CURL *easy = curl->curl_easy_init();
    if (!easy) {
        return NULL;
    }
    struct http_run *run = xcalloc(1, sizeof *run);
    run->curl = curl;
    run->sockets = sockets;
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
    const char *trusted = getenv("SSL_CERT_FILE");
    if (trusted && *trusted) {
        SET(run, CURLOPT_CAINFO, trusted);
    }
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
    SET(run, CURLOPT_CLOSESOCKETDATA, sockets);
    return run;
}

/* No proxy can reach what listens on this machine's loopback. */
static bool is_loopback(const struct http_call *c) {
    static const char NAME[] = "localhost";
    const char *host;
    size_t n = (size_t)http_call_host(c, &host), name = strcspn(host, ":/?#");
    if (n >= 5 && (strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0)) {
        return true;
    }
    const char *last = host + name - (sizeof NAME - 1);
    return name >= sizeof NAME - 1 && strncasecmp(last, NAME, sizeof NAME - 1) == 0 &&
           (last == host || last[-1] == '.');
}

static void set_url(struct http_run *run, const struct http_call *c) {
    if (strcmp(buf_str(&run->url), c->url) == 0) {
        return;
    }
    buf_clear(&run->url);
    buf_puts(&run->url, c->url);
    SET(run, CURLOPT_URL, c->url);
    if ((c->direct || is_loopback(c)) != run->direct) {
        run->direct = !run->direct;
        SET(run, CURLOPT_NOPROXY, run->direct ? "*" : NULL); /* NULL: as no_proxy says */
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

void run_prepare(struct http_run *run, struct http_call *c) {
    run->call = c;
    run->phase = RESOLVING;
    run->too_large = run->again = run->head_complete = false;
    run->redirects_seen = 0;
    run->reason[0] = '\0';
    set_url(run, c);
    set_method(run, c);
    set_fields(run, c);
    set_redirects(run, c->redirects);
}
