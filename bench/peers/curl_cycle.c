/* curl_cycle.c -- the same signed requests from a bare loop around one libcurl easy handle.
 *
 *   curl_cycle PORT CYCLES      writes a blob and reads it, on the service at the loopback's PORT
 *
 * As little as a careful C program can do: one handle, one key schedule, header lists built for each
 * request, the answer's status, ETag, date and body taken. Prints the CPU time of the cycles alone.
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

enum { WARM_UP = 200, BODY_MAX = 4096 };

struct client {
    CURL *easy;
    EVP_MAC_CTX *mac; /* keyed; copied for each signature */
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

static void key_init(struct client *c) {
    unsigned char key[96];
    char sha[] = "SHA256";
    OSSL_PARAM digest[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, sha, 0),
                           OSSL_PARAM_construct_end()};
    int n = EVP_DecodeBlock(key, (const unsigned char *)KEY, (int)strlen(KEY));
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    c->mac = EVP_MAC_CTX_new(hmac);
    if (n < 2 || EVP_MAC_init(c->mac, key, (size_t)n - 2, digest) != 1) {
        fail("HMAC");
    }
    EVP_MAC_free(hmac);
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

static struct curl_slist *headers(const struct client *c, bool write) {
    static const char TYPE[] = "x-ms-blob-type:BlockBlob";
    char fields[128], text[512], signature[64], line[256], length[16] = "";
    if (write) {
        snprintf(length, sizeof length, "%zu", sizeof BODY - 1);
    }
    snprintf(fields, sizeof fields, "%s%sx-ms-date:%s\nx-ms-version:" VERSION, write ? TYPE : "",
             write ? "\n" : "", date());
    int n = snprintf(text, sizeof text, "%s\n\n\n%s\n\n\n\n\n\n\n\n\n%s\n/" ACCOUNT PATH,
                     write ? "PUT" : "GET", length, fields);
    sign(c, text, n, signature);
    struct curl_slist *list = NULL;
    if (write) {
        list = curl_slist_append(list, TYPE);
        list = curl_slist_append(list, "Content-Type:");
    }
    snprintf(line, sizeof line, "x-ms-date:%s", date());
    list = curl_slist_append(list, line);
    list = curl_slist_append(list, "x-ms-version:" VERSION);
    snprintf(line, sizeof line, "Authorization:SharedKey " ACCOUNT ":%s", signature);
    return curl_slist_append(list, line);
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

static void client_init(struct client *c, const char *port) {
    memset(c, 0, sizeof *c);
    key_init(c);
    snprintf(c->url, sizeof c->url, "http://127.0.0.1:%s" PATH, port);
    c->easy = curl_easy_init();
    if (!c->easy) {
        fail("libcurl");
    }
    curl_easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c->easy, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, 3000L);
}

static void request(struct client *c, bool write, long expected) {
    long status = 0;
    struct curl_slist *list = headers(c, write);
    curl_easy_setopt(c->easy, CURLOPT_URL, c->url);
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, list);
    if (write) {
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, BODY);
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE, (long)sizeof BODY - 1);
        curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, "PUT");
    } else {
        curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, NULL);
        curl_easy_setopt(c->easy, CURLOPT_HTTPGET, 1L);
    }
    c->body_len = 0;
    CURLcode code = curl_easy_perform(c->easy);
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(list);
    if (code != CURLE_OK || status != expected || !c->etag[0]) {
        fail(code != CURLE_OK ? curl_easy_strerror(code) : "an unexpected answer");
    }
}

static void cycles(struct client *c, int count) {
    for (int i = 0; i < count; i++) {
        request(c, true, 201);
        request(c, false, 200);
        if (c->body_len != sizeof BODY - 1) {
            fail("the blob came back changed");
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fail("give PORT CYCLES");
    }
    struct client c;
    int count = atoi(argv[2]);
    client_init(&c, argv[1]);
    cycles(&c, WARM_UP);
    double wall = wall_ms(), cpu = cpu_ms();
    cycles(&c, count);
    printf("{\"requests\":%d,\"cpu_ms\":%.3f,\"wall_ms\":%.3f}\n", count * 2, cpu_ms() - cpu,
           wall_ms() - wall);
    curl_easy_cleanup(c.easy);
    EVP_MAC_CTX_free(c.mac);
    return 0;
}
