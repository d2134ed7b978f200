#include "store/http/call.h"

#include <string.h>

enum { HOST_SHOWN_MAX = 200 };

void http_call_init(struct http_call *c) {
    memset(c, 0, sizeof *c);
    buf_init(&c->fields, HTTP_FIELDS_MAX);
    pairs_init(&c->headers);
    c->headers.text.max = HTTP_HEADERS_MAX;
    buf_init(&c->answer, HTTP_BODY_MAX);
    c->body_max = HTTP_BODY_MAX;
}

void http_call_release(struct http_call *c) {
    buf_release(&c->fields);
    pairs_release(&c->headers);
    buf_release(&c->answer);
}

static bool is_token(const char *s) {
    const char *p = s;
    while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
           *p == '-' || (*p && strchr("!#$%&'*+.^_`|~", *p))) {
        p++;
    }
    return p > s && !*p;
}

static bool is_text(const char *s) {
    while ((unsigned char)*s >= ' ' || *s == '\t') {
        if (*s++ == 0x7f) {
            return false;
        }
    }
    return !*s;
}

/* An empty value has a semicolon for its colon: libcurl's way of writing it. */
bool http_call_field(struct http_call *c, const char *name, const char *value) {
    size_t n = strlen(name), v = strlen(value);
    if (!is_token(name) || !is_text(value) || !buf_reserve(&c->fields, n + v + 3)) {
        return false;
    }
    char *out = c->fields.data + c->fields.len;
    memcpy(out, name, n);
    memcpy(out + n, v ? ": " : ";", 2);
    memcpy(out + n + (v ? 2 : 1), value, v + 1);
    c->fields.len += n + v + (v ? 3 : 2);
    c->fields.data[c->fields.len] = '\0';
    return true;
}

void http_call_clear(struct http_call *c) {
    struct http_call kept = *c;
    memset(c, 0, sizeof *c);
    c->fields = kept.fields;
    c->headers = kept.headers;
    c->answer = kept.answer;
    c->body_max = HTTP_BODY_MAX;
    buf_clear(&c->fields);
    pairs_clear(&c->headers);
    buf_clear(&c->answer);
}

int http_call_host(const struct http_call *c, const char **start) {
    const char *at = strstr(c->url, "://");
    at = at ? at + 3 : c->url;
    size_t n = strcspn(at, "/?#");
    for (size_t i = n; i > 0; i--) {
        if (at[i - 1] == '@') {
            at += i;
            n -= i;
            break;
        }
    }
    *start = at;
    return n > HOST_SHOWN_MAX ? HOST_SHOWN_MAX : (int)n;
}

static bool keep_header(struct buf *text, const char *name, size_t n, const char *value, size_t v) {
    if (!buf_reserve(text, n + v + 2)) {
        return false;
    }
    char *out = text->data + text->len;
    memcpy(out, name, n);
    out[n] = '\0';
    memcpy(out + n + 1, value, v);
    text->len += n + v + 2;
    text->data[text->len - 1] = text->data[text->len] = '\0';
    return true;
}

bool http_call_take_header(struct http_call *c, const char *line, size_t n) {
    if (n >= 5 && memcmp(line, "HTTP/", 5) == 0) { /* the first line, or, after 1xx, another one */
        pairs_clear(&c->headers);
        buf_clear(&c->answer);
        return true;
    }
    const char *nul = memchr(line, '\0', n), *end = nul ? nul : line + n;
    const char *colon = memchr(line, ':', (size_t)(end - line));
    if (!colon || colon == line) {
        return true;
    }
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ')) {
        end--;
    }
    return keep_header(&c->headers.text, line, (size_t)(colon - line), value,
                       (size_t)(end - value));
}
