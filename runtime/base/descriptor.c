#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

void descriptor_occupy(int fd) {
    if (fcntl(fd, F_GETFD) >= 0) {
        return;
    }
    int null = open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (null >= 0 && null != fd) {
        dup3(null, fd, O_CLOEXEC);
        close(null);
    }
}

int descriptor_lift(int fd) {
    if (fd < 0 || fd > STDERR_FILENO) {
        return fd;
    }
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int error = errno;
    close(fd);
    errno = error;
    return lifted;
}

bool descriptor_is_ready(int fd, short events) {
    struct pollfd p = {.fd = fd, .events = events};
    int n;
    do {
        n = poll(&p, 1, 0);
    } while (n < 0 && errno == EINTR);
    return n != 0;
}
