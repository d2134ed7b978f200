// witness PIPE LOG: what several processes say they do, in one order and with one clock that none of them owns.
//
// Each line that is written to the named pipe PIPE (in one write, so that lines do not mix) is appended to LOG, in the
// order of the writes, behind the boot-time instant of its arrival in nanoseconds. Ends with its standard input.
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_MAX = 64 * 1024 };

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Logs the whole lines among `size` bytes; gives how many bytes of a line that has not ended are left in front. */
static size_t log_lines(FILE *log, char *text, size_t size) {
    char *line = text, *end;
    while ((end = memchr(line, '\n', size - (size_t)(line - text)))) {
        fprintf(log, "%lld %.*s\n", (long long)now_ns(), (int)(end - line), line);
        line = end + 1;
    }
    fflush(log);
    size_t rest = size - (size_t)(line - text);
    memmove(text, line, rest);
    return rest;
}

int main(int argc, char **argv) {
    static char buffer[BUFFER_MAX];
    FILE *log = argc == 3 ? fopen(argv[2], "a") : NULL;
    if (!log || mkfifo(argv[1], 0600) != 0) {
        perror("witness PIPE LOG");
        return 2;
    }
    // Open for writing too: the pipe does not end between two writers.
    struct pollfd waits[] = {{.fd = open(argv[1], O_RDWR), .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    size_t held = 0;
    for (;;) {
        poll(waits, 2, -1);
        if (waits[0].revents & POLLIN) {
            ssize_t got = read(waits[0].fd, buffer + held, sizeof(buffer) - held);
            held = log_lines(log, buffer, held + (size_t)(got > 0 ? got : 0));
        } else if (waits[1].revents) {
            return 0;
        }
    }
}
