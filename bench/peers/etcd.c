/* etcd.c -- locks and a barrier of etcd, over its JSON gateway: HTTP on one kept connection.
 *
 *   etcd PORT cycle COUNT                       locks and unlocks, again and again, under one lease
 *   etcd PORT turns WHO COUNT HOLD_S PAUSE_S    holds the lock so often, for so long, with a pause after it
 *   etcd PORT barrier WHO COUNT NAME            waits for COUNT processes; the last one holds back until they wait
 *
 * `turns` prints when it asked for the lock, had it, and began to give it back, in boot-time seconds.
 */
#include "peer.h"

#include <strings.h>

enum { ANSWER_MAX = 64 * 1024, TEXT_MAX = 512, WARM_UP = 50 };

static const double LOOK_S = 0.5, CALM_S = 1; /* of the last one at the barrier */

struct client {
    int socket;
    long requests;
    char answer[ANSWER_MAX], *body;
    char lease[TEXT_MAX], key[TEXT_MAX];
};

static void base64(const char *text, char *out) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i += 3) {
        unsigned bits = (unsigned)text[i] << 16;
        bits |= i + 1 < len ? (unsigned)text[i + 1] << 8 : 0;
        bits |= i + 2 < len ? (unsigned)text[i + 2] : 0;
        *out++ = DIGITS[bits >> 18];
        *out++ = DIGITS[bits >> 12 & 63];
        *out++ = i + 1 < len ? DIGITS[bits >> 6 & 63] : '=';
        *out++ = i + 2 < len ? DIGITS[bits & 63] : '=';
    }
    *out = '\0';
}

static void ask_send(struct client *c, const char *path, const char *json) {
    char text[TEXT_MAX * 4];
    int n = snprintf(text, sizeof text,
                     "POST %s HTTP/1.1\r\nHost: etcd\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     path, strlen(json), json);
    if (n >= (int)sizeof text || write(c->socket, text, (size_t)n) != n) {
        peer_fail("etcd: write");
    }
    c->requests++;
}

/* Whether all of an answer is there. */
static int is_whole(struct client *c, size_t len) {
    char *end = strstr(c->answer, "\r\n\r\n");
    if (!end) {
        return 0;
    }
    c->body = end + 4;
    const char *length = strcasestr(c->answer, "content-length:");
    if (length && length < end) {
        return len >= (size_t)(c->body - c->answer) + strtoul(length + 15, NULL, 10);
    }
    return strstr(end, "\r\n0\r\n\r\n") != NULL;
}

/* Reads until the answer is whole, or has this in it. */
static void ask_read(struct client *c, const char *mark) {
    size_t len = 0;
    do {
        ssize_t n = read(c->socket, c->answer + len, sizeof c->answer - 1 - len);
        if (n <= 0) {
            peer_fail("etcd: read");
        }
        len += (size_t)n;
        c->answer[len] = '\0';
    } while (!is_whole(c, len) && !(mark && strstr(c->answer, mark)));
    if (strncmp(c->answer + 9, "200", 3) != 0) {
        fprintf(stderr, "etcd: refused: %s\n", c->answer);
        exit(1);
    }
}

static void ask(struct client *c, const char *path, const char *json) {
    ask_send(c, path, json);
    ask_read(c, NULL);
}

/* The value of the first field of this name, a string. */
static void field(const struct client *c, const char *name, char out[TEXT_MAX]) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":\"", name);
    const char *at = strstr(c->body, quoted);
    size_t len = at ? strcspn(at + strlen(quoted), "\"") : TEXT_MAX;
    if (len >= TEXT_MAX) {
        fprintf(stderr, "etcd: no %s in: %s\n", name, c->body);
        exit(1);
    }
    memcpy(out, at + strlen(quoted), len);
    out[len] = '\0';
}

static void lease_grant(struct client *c) {
    ask(c, "/v3/lease/grant", "{\"TTL\":\"60\"}");
    field(c, "ID", c->lease);
}

static void lock(struct client *c) {
    char json[TEXT_MAX * 2], name[64];
    base64("bench", name);
    snprintf(json, sizeof json, "{\"name\":\"%s\",\"lease\":\"%s\"}", name, c->lease);
    ask(c, "/v3/lock/lock", json);
    field(c, "key", c->key);
}

static void unlock(struct client *c) {
    char json[TEXT_MAX * 2];
    snprintf(json, sizeof json, "{\"key\":\"%s\"}", c->key);
    ask(c, "/v3/lock/unlock", json);
}

static void run_cycles(struct client *c, int count) {
    lease_grant(c);
    for (int i = 0; i < WARM_UP; i++) {
        lock(c);
        unlock(c);
    }
    c->requests = 0;
    struct cycles cycles = cycles_begin((size_t)count);
    for (int i = 0; i < count; i++) {
        double began = boot_time();
        lock(c);
        unlock(c);
        cycle_add(&cycles, boot_time() - began);
    }
    cycles.requests = c->requests;
    cycles_print(&cycles);
}

static void take_turns(struct client *c, char **args) {
    lease_grant(c);
    for (int left = atoi(args[1]); left > 0; left--) {
        double asked = boot_time();
        lock(c);
        double locked = boot_time();
        pause_s(atof(args[2]));
        double unlocking = boot_time();
        unlock(c);
        turn_print(atoi(args[0]), asked, locked, unlocking);
        pause_s(atof(args[3]));
    }
}

/* ---- a barrier: a key for each who came, and one more, the gate, put by whoever sees all of them ---- */

struct barrier {
    char mine[TEXT_MAX], all[TEXT_MAX], all_end[TEXT_MAX], gate[TEXT_MAX];
    int count;
};

static struct barrier barrier_named(const char *name, int who, int count) {
    struct barrier b = {.count = count};
    char text[TEXT_MAX / 2];
    snprintf(text, sizeof text, "%s/%d", name, who);
    base64(text, b.mine);
    snprintf(text, sizeof text, "%s/", name);
    base64(text, b.all);
    snprintf(text, sizeof text, "%s0", name); /* the character after the slash */
    base64(text, b.all_end);
    snprintf(text, sizeof text, "gate:%s", name);
    base64(text, b.gate);
    return b;
}

static void put(struct client *c, const char *key) {
    char json[TEXT_MAX * 2];
    snprintf(json, sizeof json, "{\"key\":\"%s\",\"value\":\"\"}", key);
    ask(c, "/v3/kv/put", json);
}

static int arrived(struct client *c, const struct barrier *b) {
    char json[TEXT_MAX * 3], count[TEXT_MAX];
    snprintf(json, sizeof json, "{\"key\":\"%s\",\"range_end\":\"%s\",\"count_only\":true}", b->all,
             b->all_end);
    ask(c, "/v3/kv/range", json);
    if (!strstr(c->body, "\"count\"")) {
        return 0;
    }
    field(c, "count", count);
    return atoi(count);
}

static void wait_for_gate(struct client *c, const struct barrier *b, const char *revision) {
    char json[TEXT_MAX * 3];
    snprintf(json, sizeof json, "{\"create_request\":{\"key\":\"%s\",\"start_revision\":\"%s\"}}",
             b->gate, revision);
    ask_send(c, "/v3/watch", json);
    ask_read(c, "\"events\"");
}

static void cross(struct client *c, char **args) {
    int who = atoi(args[0]);
    struct barrier b = barrier_named(args[2], who, atoi(args[1]));
    char revision[TEXT_MAX];
    if (who == b.count - 1) {
        while (arrived(c, &b) < b.count - 1) {
            pause_s(LOOK_S);
        }
        pause_s(CALM_S);
    }
    c->requests = 0;
    double called = boot_time();
    put(c, b.mine);
    field(c, "revision", revision);
    if (arrived(c, &b) == b.count) {
        put(c, b.gate);
    } else {
        wait_for_gate(c, &b, revision);
    }
    double passed = boot_time();
    pause_s(CALM_S); /* the others need not share the processor with printing and ending */
    printf("{\"called\":%.6f,\"passed\":%.6f,\"requests\":%ld}\n", called, passed, c->requests);
}

int main(int argc, char **argv) {
    static struct client c;
    if (argc < 4) {
        fprintf(stderr, "etcd PORT cycle|turns|barrier ...\n");
        return 2;
    }
    c.socket = peer_connect(atoi(argv[1]));
    if (strcmp(argv[2], "cycle") == 0) {
        run_cycles(&c, atoi(argv[3]));
    } else if (strcmp(argv[2], "turns") == 0 && argc == 7) {
        take_turns(&c, argv + 3);
    } else if (strcmp(argv[2], "barrier") == 0 && argc == 6) {
        cross(&c, argv + 3);
    } else {
        return 2;
    }
    return 0;
}
