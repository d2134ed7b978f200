/* curl_cycle.c -- the same signed requests from a bare loop around libcurl.
 *
 *   curl_cycle PORT blob COUNT       writes a blob and reads it, on the service at the loopback's PORT
 *   curl_cycle PORT lease COUNT      renews a blob's lease
 *   curl_cycle PORT heads COUNT      looks at a blob, HEADS_AT_ONCE requests on the way
 *
 * As little as a careful C program can do: handles that are kept (one, or one for each request on the way, in
 * a multi handle), one key schedule, header lists built for each request, the answer's status, ETag, date
 * and body taken. Prints the CPU time of the cycles alone.
 */
#include <curl/curl.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* The public key of the storage emulator. */
#define ACCOUNT "devstoreaccount1"
#define KEY                                                                                        \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
#define VERSION "2021-12-02"
#define PATH "/" ACCOUNT "/bench/cycle"
#define BODY "a flag, a lock, a few bytes of state: what coordination writes.."

#define LEASE_ID "6d3f1c52-98a4-4b1e-8c65-0d2a7be1f930"

enum { WARM_UP = 200, BODY_MAX = 4096, HEADS_AT_ONCE = 64, HEADS_WARM_UP = 1000, POLL_MS = 3000 };

/* A request; the fields are those that stand before x-ms-date in the signed text, and behind it. */
struct ask {
    const char *method, *parameter, *before, *after[3], *body;
    long status;
};

static const struct ask WRITE = {
    .method = "PUT", .before = "x-ms-blob-type:BlockBlob", .body = BODY, .status = 201};
static const struct ask READ = {.method = "GET", .status = 200};
static const struct ask LOOK = {.method = "HEAD", .status = 200};
static const struct ask ACQUIRE = {
    .method = "PUT",
    .parameter = "comp=lease",
    .after = {"x-ms-lease-action:acquire", "x-ms-lease-duration:60",
              "x-ms-proposed-lease-id:" LEASE_ID},
    .body = "",
    .status = 201,
};
static const struct ask RENEW = {
    .method = "PUT",
    .parameter = "comp=lease",
    .after = {"x-ms-lease-action:renew", "x-ms-lease-id:" LEASE_ID},
    .body = "",
    .status = 200,
};

struct client {
    CURL *easy;
    EVP_MAC_CTX *mac; /* keyed; copied for each signature */
    struct curl_slist *fields;
    const struct ask *asked;
    char url[128];
    char body[BODY_MAX];
    size_t body_len;
    char etag[80], modified[40];
};

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "curl_cycle: %s\n", what);
    exit(1);
}

static double cpu_ms(void) {
    return (double)clock() * 1e3 / CLOCKS_PER_SEC;
}

static double wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static EVP_MAC_CTX *key_new(void) {
    unsigned char key[96];
    char sha[] = "SHA256";
    OSSL_PARAM digest[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, sha, 0),
                           OSSL_PARAM_construct_end()};
    int n = EVP_DecodeBlock(key, (const unsigned char *)KEY, (int)strlen(KEY));
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *mac = EVP_MAC_CTX_new(hmac);
    if (n < 2 || EVP_MAC_init(mac, key, (size_t)n - 2, digest) != 1) {
        fail("HMAC");
    }
    EVP_MAC_free(hmac);
    return mac;
}

static void sign(const struct client *c, const char *text, int len, char out[64]) {
    unsigned char code[32];
    size_t n;
    EVP_MAC_CTX *mac = EVP_MAC_CTX_dup(c->mac);
    EVP_MAC_update(mac, (const unsigned char *)text, (size_t)len);
    EVP_MAC_final(mac, code, &n, sizeof code);
    EVP_MAC_CTX_free(mac);
    EVP_EncodeBlock((unsigned char *)out, code, sizeof code);
}

static const char *date(void) {
    static char text[40];
    static time_t shown;
    time_t t = time(NULL);
    if (t != shown) {
        struct tm parts;
        shown = t;
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&t, &parts));
    }
    return text;
}

static void add_field(struct client *c, const char *line) {
    struct curl_slist *longer = curl_slist_append(c->fields, line);
    if (!longer) {
        fail("out of memory");
    }
    c->fields = longer;
}

static void sign_request(struct client *c, const struct ask *ask) {
    char fields[256], text[640], signature[64], line[256], length[24] = "";
    size_t body = ask->body ? strlen(ask->body) : 0;
    if (body > 0) {
        snprintf(length, sizeof length, "%zu", body);
    }
    snprintf(line, sizeof line, "x-ms-date:%s", date());
    int n = snprintf(fields, sizeof fields, "%s%s%s\n", ask->before ? ask->before : "",
                     ask->before ? "\n" : "", line);
    add_field(c, line);
    for (int i = 0; i < 3 && ask->after[i]; i++) {
        n += snprintf(fields + n, sizeof fields - (size_t)n, "%s\n", ask->after[i]);
        add_field(c, ask->after[i]);
    }
    n = snprintf(text, sizeof text,
                 "%s\n\n\n%s\n\n\n\n\n\n\n\n\n%sx-ms-version:" VERSION "\n/" ACCOUNT PATH "%s",
                 ask->method, length, fields, ask->parameter ? "\ncomp:lease" : "");
    sign(c, text, n, signature);
    snprintf(line, sizeof line, "Authorization:SharedKey " ACCOUNT ":%s", signature);
    add_field(c, line);
}

static void set_headers(struct client *c, const struct ask *ask) {
    c->fields = NULL;
    if (ask->before) {
        add_field(c, ask->before);
    }
    if (ask->body) {
        add_field(c, "Content-Type:");
    }
    add_field(c, "x-ms-version:" VERSION);
    sign_request(c, ask);
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->fields);
}

static void take(char *to, size_t size, const char *value, size_t n) {
    while (n && strchr(" \r\n", value[n - 1])) {
        n--;
    }
    n = n < size ? n : size - 1;
    memcpy(to, value, n);
    to[n] = '\0';
}

static size_t on_header(char *line, size_t size, size_t count, void *arg) {
    struct client *c = arg;
    size_t n = size * count;
    if (n > 6 && strncasecmp(line, "etag: ", 6) == 0) {
        take(c->etag, sizeof c->etag, line + 6, n - 6);
    } else if (n > 15 && strncasecmp(line, "last-modified: ", 15) == 0) {
        take(c->modified, sizeof c->modified, line + 15, n - 15);
    }
    return n;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg) {
    struct client *c = arg;
    size_t n = size * count;
    if (c->body_len + n > sizeof c->body) {
        return 0;
    }
    memcpy(c->body + c->body_len, data, n);
    c->body_len += n;
    return n;
}

static void client_init(struct client *c, const char *port, EVP_MAC_CTX *mac) {
    memset(c, 0, sizeof *c);
    c->mac = mac;
    snprintf(c->url, sizeof c->url, "http://127.0.0.1:%s" PATH, port);
    c->easy = curl_easy_init();
    if (!c->easy) {
        fail("libcurl");
    }
    curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    curl_easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c->easy, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, 3000L);
}

static void prepare(struct client *c, const struct ask *ask) {
    char url[160];
    snprintf(url, sizeof url, "%s%s%s", c->url, ask->parameter ? "?" : "",
             ask->parameter ? ask->parameter : "");
    c->asked = ask;
    c->body_len = 0;
    c->etag[0] = '\0';
    set_headers(c, ask);
    curl_easy_setopt(c->easy, CURLOPT_URL, url);
    if (ask->body) {
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, ask->body);
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(ask->body));
        curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, ask->method);
    } else {
        curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, NULL);
        curl_easy_setopt(c->easy, CURLOPT_HTTPGET, 1L);
        curl_easy_setopt(c->easy, CURLOPT_NOBODY, (long)(*ask->method == 'H'));
    }
}

static void finish(struct client *c, CURLcode code) {
    long status = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(c->fields);
    if (code != CURLE_OK || status != c->asked->status || !c->etag[0]) {
        fail(code != CURLE_OK ? curl_easy_strerror(code) : "an unexpected answer");
    }
}

static void request(struct client *c, const struct ask *ask) {
    prepare(c, ask);
    finish(c, curl_easy_perform(c->easy));
}

static int blob_cycles(struct client *c, int count) {
    for (int i = 0; i < count; i++) {
        request(c, &WRITE);
        request(c, &READ);
        if (c->body_len != sizeof BODY - 1) {
            fail("the blob came back changed");
        }
    }
    return count * 2;
}

static int renewals(struct client *c, int count) {
    for (int i = 0; i < count; i++) {
        request(c, &RENEW);
    }
    return count;
}

static void add(CURLM *multi, struct client *c) {
    prepare(c, &LOOK);
    if (curl_multi_add_handle(multi, c->easy) != CURLM_OK) {
        fail("curl_multi_add_handle");
    }
}

/* Takes what was answered; each handle goes on with the next request as long as there is one. */
static int take_answers(CURLM *multi, int *left) {
    int taken = 0, more;
    for (CURLMsg *m; (m = curl_multi_info_read(multi, &more)); taken++) {
        struct client *c;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        curl_multi_remove_handle(multi, c->easy);
        finish(c, code);
        if (*left > 0) {
            add(multi, c);
            --*left;
        }
    }
    return taken;
}

static void heads(CURLM *multi, struct client clients[HEADS_AT_ONCE], int count) {
    int left = count, done = 0, running;
    for (int i = 0; i < HEADS_AT_ONCE && left > 0; i++, left--) {
        add(multi, &clients[i]);
    }
    while (done < count) {
        curl_multi_perform(multi, &running);
        done += take_answers(multi, &left);
        if (done < count) {
            curl_multi_poll(multi, NULL, 0, POLL_MS, NULL);
        }
    }
}

static void report(int requests, double cpu, double wall) {
    printf("{\"requests\":%d,\"cpu_ms\":%.3f,\"wall_ms\":%.3f}\n", requests, cpu_ms() - cpu,
           wall_ms() - wall);
}

static void measure_heads(const char *port, EVP_MAC_CTX *mac, int count) {
    static struct client clients[HEADS_AT_ONCE];
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)HEADS_AT_ONCE);
    for (int i = 0; i < HEADS_AT_ONCE; i++) {
        client_init(&clients[i], port, mac);
    }
    heads(multi, clients, HEADS_WARM_UP);
    double wall = wall_ms(), cpu = cpu_ms();
    heads(multi, clients, count);
    report(count, cpu, wall);
    for (int i = 0; i < HEADS_AT_ONCE; i++) {
        curl_easy_cleanup(clients[i].easy);
    }
    curl_multi_cleanup(multi);
}

static void measure_cycles(const char *port, EVP_MAC_CTX *mac, bool lease, int count) {
    struct client c;
    int (*cycles)(struct client *, int) = lease ? renewals : blob_cycles;
    client_init(&c, port, mac);
    if (lease) {
        request(&c, &ACQUIRE);
    }
    cycles(&c, WARM_UP);
    double wall = wall_ms(), cpu = cpu_ms();
    int requests = cycles(&c, count);
    report(requests, cpu, wall);
    curl_easy_cleanup(c.easy);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fail("give PORT blob|lease|heads COUNT");
    }
    EVP_MAC_CTX *mac = key_new();
    if (strcmp(argv[2], "heads") == 0) {
        measure_heads(argv[1], mac, atoi(argv[3]));
    } else {
        measure_cycles(argv[1], mac, strcmp(argv[2], "lease") == 0, atoi(argv[3]));
    }
    EVP_MAC_CTX_free(mac);
    return 0;
}
