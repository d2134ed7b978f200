/* redis.c -- locks and a list of redis, over its own protocol on one connection.
 *
 *   redis PORT cycle COUNT                              locks and unlocks, again and again
 *   redis PORT turns WHO COUNT HOLD_S PAUSE_S POLL_S    holds the lock so often, for so long, with a pause after it
 *   redis PORT hold PX_MS POLL_S                        says that it holds the lock, and keeps it until it is killed
 *   redis PORT queue SECONDS                            puts, gets and removes, as often as it can
 *
 * The lock is the usual one: SET NX PX with a value of its own, a script that compares and deletes (or extends) to
 * give it back (or keep it); who does not get it asks again each POLL_S.
 */
#include "peer.h"

enum { ANSWER_MAX = 4096, WORDS_MAX = 16, WARM_UP = 50 };

#define BODY "a task, its file, a few bytes of state: what a queue carries...."
#define DELETE_OWN                                                                                 \
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 "   \
    "end"
#define EXTEND_OWN                                                                                 \
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) "     \
    "else return 0 end"

struct client {
    int socket;
    long requests;
    char answer[ANSWER_MAX];
    char id[40], delete[64], extend[64]; /* our value; the scripts' names */
};

static void command_send(struct client *c, const char **words) {
    char text[ANSWER_MAX];
    int count = 0;
    while (words[count]) {
        count++;
    }
    size_t len = (size_t)snprintf(text, sizeof text, "*%d\r\n", count);
    for (int i = 0; i < count && len < sizeof text; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "$%zu\r\n%s\r\n", strlen(words[i]),
                                words[i]);
    }
    if (len >= sizeof text || write(c->socket, text, len) != (ssize_t)len) {
        peer_fail("redis: write");
    }
    c->requests++;
}

/* Whether all of an answer is there: a line, or a line and a string. */
static int is_whole(const struct client *c, size_t len) {
    const char *end = strstr(c->answer, "\r\n");
    if (!end) {
        return 0;
    }
    if (c->answer[0] != '$' || c->answer[1] == '-') {
        return 1;
    }
    return len >= (size_t)(end + 2 - c->answer) + strtoul(c->answer + 1, NULL, 10) + 2;
}

/* The answer: from its type's mark on. */
static const char *command(struct client *c, const char **words) {
    size_t len = 0;
    command_send(c, words);
    do {
        ssize_t n = read(c->socket, c->answer + len, sizeof c->answer - 1 - len);
        if (n <= 0) {
            peer_fail("redis: read");
        }
        len += (size_t)n;
        c->answer[len] = '\0';
    } while (!is_whole(c, len));
    if (c->answer[0] == '-') {
        fprintf(stderr, "redis: %s: %s", words[0], c->answer);
        exit(1);
    }
    return c->answer;
}

#define COMMAND(c, ...) command((c), (const char *[]){__VA_ARGS__, NULL})

static void script_load(struct client *c, const char *script, char name[64]) {
    const char *text = strchr(COMMAND(c, "SCRIPT", "LOAD", script), '\n');
    snprintf(name, 64, "%.40s", text + 1);
}

static void client_open(struct client *c, int port) {
    c->socket = peer_connect(port);
    snprintf(c->id, sizeof c->id, "%d-%.6f", (int)getpid(), boot_time());
    script_load(c, DELETE_OWN, c->delete);
    script_load(c, EXTEND_OWN, c->extend);
}

static int try_lock(struct client *c, const char *px) {
    return COMMAND(c, "SET", "bench", c->id, "NX", "PX", px)[0] == '+';
}

static void lock(struct client *c, const char *px, double poll_s) {
    while (!try_lock(c, px)) {
        pause_s(poll_s);
    }
}

static void unlock(struct client *c) {
    if (COMMAND(c, "EVALSHA", c->delete, "1", "bench", c->id)[1] != '1') {
        fprintf(stderr, "redis: the lock was lost\n");
        exit(1);
    }
}

static void run_cycles(struct client *c, int count) {
    for (int i = 0; i < WARM_UP; i++) {
        lock(c, "15000", 1);
        unlock(c);
    }
    c->requests = 0;
    struct cycles cycles = cycles_begin((size_t)count);
    for (int i = 0; i < count; i++) {
        double began = boot_time();
        lock(c, "15000", 1);
        unlock(c);
        cycle_add(&cycles, boot_time() - began);
    }
    cycles.requests = c->requests;
    cycles_print(&cycles);
}

static void take_turns(struct client *c, char **args) {
    for (int left = atoi(args[1]); left > 0; left--) {
        double asked = boot_time();
        lock(c, "15000", atof(args[4]));
        double locked = boot_time();
        pause_s(atof(args[2]));
        double unlocking = boot_time();
        unlock(c);
        turn_print(atoi(args[0]), asked, locked, unlocking);
        pause_s(atof(args[3]));
    }
}

static void hold(struct client *c, const char *px, double poll_s) {
    lock(c, px, poll_s);
    printf("{\"holds\":true}\n");
    fflush(stdout);
    for (;;) {
        pause_s(atof(px) / 3e3);
        if (COMMAND(c, "EVALSHA", c->extend, "1", "bench", c->id, px)[1] != '1') {
            fprintf(stderr, "redis: the lock was lost\n");
            exit(1);
        }
    }
}

static void run_queue(struct client *c, double seconds) {
    long count = 0;
    double worst = 0, at = boot_time(), finish = at + seconds;
    COMMAND(c, "DEL", "tasks", "taken");
    while (at < finish) {
        double before = at;
        COMMAND(c, "LPUSH", "tasks", BODY);
        if (!strstr(COMMAND(c, "BRPOPLPUSH", "tasks", "taken", "1"), BODY) ||
            COMMAND(c, "LREM", "taken", "1", BODY)[1] != '1') {
            fprintf(stderr, "redis: the message came back changed\n");
            exit(1);
        }
        at = boot_time();
        worst = at - before > worst ? at - before : worst;
        count++;
    }
    printf("{\"count\":%ld,\"worst_ms\":%.3f}\n", count, worst * 1e3);
}

int main(int argc, char **argv) {
    static struct client c;
    if (argc < 4) {
        fprintf(stderr, "redis PORT cycle|turns|hold|queue ...\n");
        return 2;
    }
    client_open(&c, atoi(argv[1]));
    if (strcmp(argv[2], "cycle") == 0) {
        run_cycles(&c, atoi(argv[3]));
    } else if (strcmp(argv[2], "turns") == 0 && argc == 8) {
        take_turns(&c, argv + 3);
    } else if (strcmp(argv[2], "hold") == 0 && argc == 5) {
        hold(&c, argv[3], atof(argv[4]));
    } else if (strcmp(argv[2], "queue") == 0) {
        run_queue(&c, atof(argv[3]));
    } else {
        return 2;
    }
    return 0;
}
