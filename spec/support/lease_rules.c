// The rules of leases, asked from a script of lines, with one line of answer for each:
//   case              a new lease, at instant 0                  acquire ID SECONDS    renew ID    change ID ID
//   wait SECONDS      time passes                                release ID            break [SECONDS]
//   state             "leased locked fixed"                      read|write|delete HOW ID
// An ID is A, B, C, "-" (none given; an acquire then proposes one of its own) or a text without blanks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/lease_rules.h"

static struct lease lease;
static int64_t now;

static const char *id_of(const char *word) {
    static const char *const IDS[] = {"aaaaaaaa-0000-4000-8000-00000000000a",
                                      "{BBBBBBBB-0000-4000-8000-00000000000B}",
                                      "cccccccc00004000800000000000000c"};
    if (!word || strcmp(word, "-") == 0) {
        return NULL;
    }
    return strlen(word) == 1 ? IDS[*word - 'A'] : word;
}

static void print_answer(enum err code, int status, int64_t seconds) {
    if (code != ERR_OK) {
        printf("%s %d\n", err_word(code), status);
    } else if (seconds != UNSET) {
        printf("%d %d\n", status, (int)seconds);
    } else {
        printf("%d\n", status);
    }
}

static void act(enum lease_action action, const char *first, const char *second) {
    struct lease_request req = {.action = action, .seconds = UNSET};
    if (action == LEASE_ACQUIRE) {
        req.proposed = strcmp(first, "-") == 0 ? "dddddddd-0000-4000-8000-00000000000d"
                       : strcmp(first, "none") == 0 ? NULL : id_of(first);
    } else if (action != LEASE_BREAK) {
        req.id = id_of(first);
        req.proposed = id_of(second);
    }
    const char *seconds = action == LEASE_ACQUIRE ? second : action == LEASE_BREAK ? first : NULL;
    if (seconds) {
        req.seconds = atoll(seconds);
    }
    struct lease_answer a = lease_decide(&lease, &req, now);
    lease = a.lease;
    bool tells = action == LEASE_ACQUIRE || action == LEASE_RENEW || action == LEASE_CHANGE;
    if (a.code == ERR_OK && tells != a.tells_id) {
        printf("wrong id told\n");
    }
    print_answer(a.code, a.status, a.seconds);
}

static void use(enum lease_use what, const char *word) {
    enum err fault = lease_use_fault(&lease, what, id_of(word), now);
    if (fault == ERR_OK && what == LEASE_BLOB_WRITE) {
        lease_written(&lease, now);
    }
    if (fault == ERR_OK) {
        puts("ok");
    } else {
        print_answer(fault, err_status(fault), UNSET);
    }
}

static void print_state(void) {
    enum lease_state state = lease_state_at(&lease, now);
    printf("%s %s%s\n", lease_state_word(state), lease_state_locks(state) ? "locked" : "unlocked",
           state != LEASE_LEASED ? "" : lease.seconds < 0 ? " infinite" : " fixed");
}

static void step(const char *what, const char *first, const char *second) {
    static const char *const ACTIONS[] = {"acquire", "renew", "change", "release", "break"};
    for (int i = 0; i < 5; i++) {
        if (strcmp(what, ACTIONS[i]) == 0) {
            act((enum lease_action)i, first, second);
            return;
        }
    }
    if (strcmp(what, "case") == 0) {
        lease_forget(&lease);
        now = 0;
    } else if (strcmp(what, "wait") == 0) {
        now += (int64_t)(atof(first) * 1e9 + 0.5);
        puts("ok");
    } else if (strcmp(what, "state") == 0) {
        print_state();
    } else {
        use(strcmp(what, "read") == 0    ? LEASE_BLOB_READ
            : strcmp(what, "write") == 0 ? LEASE_BLOB_WRITE
                                         : LEASE_CONTAINER_DELETE,
            second);
    }
}

int main(void) {
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        char *what = strtok(line, " \n"), *first = strtok(NULL, " \n"), *second = strtok(NULL, " \n");
        step(what, first, second);
    }
    return 0;
}
