/* leash_children.c -- the children of a process, found in /proc by their parent's number. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lease/leash_part.h"

enum { ENTRIES_BYTES = 4096, STAT_BYTES = 512, PATH_BYTES = 64, DECIMAL = 10 };

/* As the kernel writes it for getdents64. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

/* -1: these are no digits. */
static long number_of(const char *text) {
    long n = 0;
    if (*text < '0' || *text > '9') {
        return -1;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        n = n * DECIMAL + (*text - '0');
    }
    return n;
}

/* "/proc/PID/stat", without stdio. */
static void stat_path(char path[PATH_BYTES], pid_t pid) {
    char digits[PATH_BYTES];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + pid % DECIMAL);
        pid /= DECIMAL;
    } while (pid > 0);
    strcpy(path, "/proc/");
    strcat(path, digits + at);
    strcat(path, "/stat");
}

/* The name in parentheses may hold anything, so what follows the last of them counts. */
char leash_process_state(pid_t pid, pid_t *parent) {
    char path[PATH_BYTES];
    char text[STAT_BYTES];
    stat_path(path, pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *after = strrchr(text, ')');
    if (!after || strlen(after) < sizeof ") S 1" - 1) {
        return 0;
    }
    *parent = (pid_t)number_of(after + 4);
    return after[2];
}

static bool kill_if_child(pid_t pid) {
    pid_t parent = 0;
    char state = leash_process_state(pid, &parent);
    if (state == 0 || state == 'Z' || parent != getpid()) {
        return false;
    }
    kill(pid, SIGKILL); /* its number is its own: nobody but us can reap it */
    return true;
}

bool leash_kill_children(void) {
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool any = false;
    _Alignas(struct entry) char entries[ENTRIES_BYTES];
    long n;
    while ((n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            const struct entry *e = (const struct entry *)(entries + at);
            long pid = number_of(e->name);
            any |= pid > 0 && kill_if_child((pid_t)pid);
            at += e->size;
        }
    }
    close(fd);
    return any;
}
