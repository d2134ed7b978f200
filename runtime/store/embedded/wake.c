#include "store/embedded/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"

struct wake_page {
    _Atomic uint32_t bell;
    _Atomic uint32_t sleepers; /* at least so many; those who were killed asleep stay counted */
    _Atomic uint64_t announced;
    char pad_to_64[48];
    _Atomic uint64_t counters[WAKE_SLOTS];
};

struct wake {
    struct wake_page *page;
    bool mapped;
    char *path; /* NULL: in memory, like the next */
    struct stat file;
};

static int open_file(const char *path, struct stat *st) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, st) != 0 || st->st_uid != geteuid()) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    /* Room on the disk now, since a mapped page without any kills whoever writes to it. */
    int code;
    do {
        code = posix_fallocate(fd, 0, sizeof(struct wake_page));
    } while (code == EINTR);
    if (code != 0) {
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

static struct wake_page *map_file(const char *path, struct stat *st) {
    int fd = open_file(path, st);
    if (fd < 0) {
        return NULL;
    }
    void *page = mmap(NULL, sizeof(struct wake_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int error = errno;
    close(fd);
    errno = error;
    return page == MAP_FAILED ? NULL : page;
}

static enum err code_of(int error) {
    switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ERR_STORE_FULL;
    case EPERM: /* it is another user's */
    case ELOOP: /* a symbolic link that somebody has laid there */
        return ERR_STORE_FOREIGN;
    default:
        return ERR_STORE_READ_ONLY;
    }
}

struct wake *wake_open(const char *path, struct error *err) {
    struct stat st = {0};
    struct wake_page *page = path ? map_file(path, &st) : xcalloc(1, sizeof *page);
    if (!page) {
        error_set(err, code_of(errno), "cannot open %s: %s", path, strerror(errno));
        return NULL;
    }
    struct wake *wake = xcalloc(1, sizeof *wake);
    wake->page = page;
    wake->mapped = path != NULL;
    wake->path = path ? xstrdup(path) : NULL;
    wake->file = st;
    return wake;
}

void wake_free(struct wake *wake) {
    if (wake->mapped) {
        munmap(wake->page, sizeof *wake->page);
    } else {
        free(wake->page);
    }
    free(wake->path);
    free(wake);
}

/* The mapping keeps the file's number from being given again. */
bool wake_is_known(const struct wake *wake) {
    struct stat st;
    return !wake->path || (stat(wake->path, &st) == 0 && st.st_dev == wake->file.st_dev &&
                           st.st_ino == wake->file.st_ino);
}

uint64_t wake_place(const char *container, const char *name) {
    uint64_t hash = hash_bytes(0, container, strlen(container) + 1);
    hash = hash_bytes(hash, name, strnlen(name, WAKE_PREFIX));
    return UINT64_C(1) << (hash % WAKE_SLOTS);
}

uint64_t wake_places(const char *container, const char *prefix) {
    bool one = container && prefix && strnlen(prefix, WAKE_PREFIX) == WAKE_PREFIX;
    return one ? wake_place(container, prefix) : WAKE_ALL;
}

uint64_t wake_count(const struct wake *wake, uint64_t slots) {
    uint64_t sum = 0;
    for (uint64_t left = slots; left; left &= left - 1) {
        sum += atomic_load(&wake->page->counters[__builtin_ctzll(left)]);
    }
    return sum;
}

/* The kernel wakes by 32 bits: slots n and n + 32 share one. Never 0. */
static uint32_t bits_of(uint64_t slots) {
    return (uint32_t)slots | (uint32_t)(slots >> 32);
}

/* A process answers to one more bit than its slots', so that wake_ring disturbs few others. */
static uint32_t own_bit(void) {
    return UINT32_C(1) << ((unsigned)getpid() % 32);
}

/* Who counts himself among the sleepers after the look at them finds that the bell has rung. */
static void ring(struct wake *wake, uint32_t bits) {
    atomic_fetch_add(&wake->page->bell, 1);
    if (atomic_load(&wake->page->sleepers) != 0) {
        syscall(SYS_futex, &wake->page->bell, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, bits);
    }
}

void wake_raise(struct wake *wake, uint64_t slots) {
    for (uint64_t left = slots; left; left &= left - 1) {
        atomic_fetch_add(&wake->page->counters[__builtin_ctzll(left)], 1);
    }
}

void wake_tell(struct wake *wake, uint64_t slots) {
    atomic_store(&wake->page->announced, 0);
    if (wake->mapped && slots) {
        ring(wake, bits_of(slots));
    }
}

void wake_announce(struct wake *wake, uint64_t slots) {
    atomic_store(&wake->page->announced, slots);
}

bool wake_is_announced(const struct wake *wake) {
    return atomic_load(&wake->page->announced) != 0;
}

void wake_settle(struct wake *wake) {
    uint64_t slots = atomic_load(&wake->page->announced);
    if (slots) {
        wake_raise(wake, slots);
        wake_tell(wake, slots);
    }
}

uint32_t wake_bell(const struct wake *wake) {
    return atomic_load(&wake->page->bell);
}

void wake_sleep(struct wake *wake, uint32_t bell, uint64_t slots) {
    atomic_fetch_add(&wake->page->sleepers, 1);
    syscall(SYS_futex, &wake->page->bell, FUTEX_WAIT_BITSET, bell, NULL, NULL,
            bits_of(slots) | own_bit());
    atomic_fetch_sub(&wake->page->sleepers, 1);
}

void wake_ring(struct wake *wake) {
    ring(wake, own_bit());
}
