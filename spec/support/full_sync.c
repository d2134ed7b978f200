/* full_sync.c -- preloaded: a disk that takes every write and finds out that it is full when it is to keep them, as
 * thinly provisioned ones do. While there is a file `full` in the current folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

static int sync_by(const char *name, int fd) {
    if (access("full", F_OK) == 0) {
        errno = ENOSPC;
        return -1;
    }
    int (*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, name);
    return real(fd);
}

int fsync(int fd) {
    return sync_by("fsync", fd);
}

int fdatasync(int fd) {
    return sync_by("fdatasync", fd);
}
