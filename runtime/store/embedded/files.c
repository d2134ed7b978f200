#include "store/embedded/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/instant.h"

/* Long ago, and no difference to them overflows. They differ so that a look which began before anybody had seen the
 * files does not outlive the word that they are gone. */
#define NOT_SEEN (INT64_MIN / 2)
#define SEEN_GONE (NOT_SEEN + 1)

/* File systems whose locks or shared mappings do not work between machines, or not at all. All of FUSE
 * is among them: what lies below (sshfs, a shared folder of a virtual machine) cannot be told. */
static const struct {
    unsigned long magic;
    const char *name;
} REMOTE[] = {
    {0x6969, "NFS"},      {0x517B, "SMB"},       {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB2"},
    {0x01021997, "9P"},   {0x65735546, "FUSE"},  {0x5346414F, "AFS"},    {0x6B414653, "AFS"},
    {0x73757245, "Coda"}, {0x00C36400, "Ceph"},  {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},
    {0x01161970, "GFS2"}, {0x7461636F, "OCFS2"}, {0x564C, "NCP"},        {0x19830326, "BeeGFS"},
};

static const char *remote_name(unsigned long magic) {
    for (size_t i = 0; i < sizeof REMOTE / sizeof REMOTE[0]; i++) {
        if (REMOTE[i].magic == magic) {
            return REMOTE[i].name;
        }
    }
    return NULL;
}

static char *joined(const char *first, const char *second) {
    size_t n = strlen(first) + strlen(second) + 1;
    char *text = xmalloc(n);
    snprintf(text, n, "%s%s", first, second);
    return text;
}

static bool refuse_by_errno(struct error *err, const char *what, const char *path) {
    int error = errno;
    enum err code =
        error == ENOSPC || error == EDQUOT || error == EFBIG ? ERR_STORE_FULL : ERR_STORE_READ_ONLY;
    error_set(err, code, "cannot %s %s: %s", what, path, strerror(error));
    return false;
}

/* A new folder is on the disk when the one that it lies in is. */
static void sync_parent(const char *folder) {
    char *parent = xstrdup(folder);
    char *slash = strrchr(parent, '/');
    if (slash) {
        slash[slash == parent] = '\0';
    }
    int fd = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(parent);
}

static bool make_folder(const char *folder, struct error *err) {
    if (mkdir(folder, 0700) == 0) {
        sync_parent(folder);
        return true;
    }
    return errno == EEXIST || refuse_by_errno(err, "make the folder", folder);
}

/* Each folder on the way to the file. */
static bool make_folders(const char *path, struct error *err) {
    char *text = xstrdup(path);
    bool ok = true;
    for (char *slash = strchr(text + 1, '/'); ok && slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        struct stat st;
        ok = stat(text, &st) == 0 || make_folder(text, err);
        *slash = '/';
    }
    free(text);
    return ok;
}

static bool check_file_system(const char *path, struct error *err) {
    struct statfs fs;
    if (statfs(path, &fs) != 0) {
        return refuse_by_errno(err, "look at", path);
    }
    const char *name = remote_name((unsigned long)fs.f_type & 0xFFFFFFFFUL);
    if (name) {
        error_set(err, ERR_STORE_REMOTE,
                  "%s is on a network file system (%s), where locks cannot be relied upon", path,
                  name);
        return false;
    }
    return true;
}

static bool check_folder(const char *path, struct error *err) {
    char *folder = xstrdup(path);
    char *slash = strrchr(folder, '/');
    if (slash == folder) {
        slash[1] = '\0';
    } else if (slash) {
        *slash = '\0';
    }
    bool ok = check_file_system(slash ? folder : ".", err);
    free(folder);
    return ok;
}

static bool make_file(const char *path, struct error *err) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
        return true;
    }
    return errno == EEXIST || refuse_by_errno(err, "make", path);
}

static void remember(struct seen_file *file, const struct stat *st) {
    file->device = st->st_dev;
    file->inode = st->st_ino;
    file->known = true;
}

enum place { PLACE_OURS, PLACE_EMPTY, PLACE_TAKEN };

static enum place look_at(const struct seen_file *file) {
    struct stat st;
    if (!file->known) {
        return PLACE_OURS;
    }
    if (stat(file->path, &st) != 0) {
        return PLACE_EMPTY;
    }
    return st.st_dev == file->device && st.st_ino == file->inode ? PLACE_OURS : PLACE_TAKEN;
}

static bool check_file(struct store_files *files, struct error *err) {
    struct stat st;
    if (stat(files->path, &st) != 0) {
        return refuse_by_errno(err, "look at", files->path);
    }
    if (!S_ISREG(st.st_mode)) {
        error_set(err, ERR_STORE_READ_ONLY, "%s is a %s, not a file", files->path,
                  S_ISDIR(st.st_mode) ? "folder" : "device");
        return false;
    }
    if (st.st_uid != geteuid()) {
        error_set(err, ERR_STORE_FOREIGN, "%s belongs to another user (id %u)", files->path,
                  (unsigned)st.st_uid);
        return false;
    }
    if (access(files->path, R_OK | W_OK) != 0) {
        return refuse_by_errno(err, "write", files->path);
    }
    remember(&files->database, &st);
    return check_file_system(files->path, err); /* it may be mounted by itself, or a link */
}

static bool name_files(struct store_files *files, struct error *err) {
    char *real = files->real_path = realpath(files->path, NULL);
    if (!real) {
        return refuse_by_errno(err, "look at", files->path);
    }
    files->lock_path = joined(real, "-lock");
    files->wake_path = joined(real, "-wake");
    files->database.path = joined(files->path, "");
    files->log.path = joined(real, "-wal");
    files->index.path = joined(real, "-shm");
    return true;
}

bool files_open(struct store_files *files, const char *name, struct error *err) {
    *files = (struct store_files){.seen_at = NOT_SEEN};
    if (name[0] == '\0') {
        error_set(err, ERR_STORE_READ_ONLY, "the store's path is empty");
        return false;
    }
    /* SQLite gives some names a meaning of their own (":memory:", "file:..."): with a slash none has. */
    const char *path = files->path = joined(name[0] == '/' ? "" : "./", name);
    bool ok = make_folders(path, err) && check_folder(path, err) && make_file(path, err) &&
              check_file(files, err) && name_files(files, err);
    if (!ok) {
        files_close(files);
    }
    return ok;
}

void files_close(struct store_files *files) {
    free(files->path);
    free(files->real_path);
    free(files->lock_path);
    free(files->wake_path);
    free(files->database.path);
    free(files->log.path);
    free(files->index.path);
    *files = (struct store_files){.seen_at = NOT_SEEN};
}

void files_remember_log(struct store_files *files) {
    struct seen_file *const each[] = {&files->log, &files->index};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        struct stat st;
        if (stat(each[i]->path, &st) == 0) {
            remember(each[i], &st);
        }
    }
}

bool files_look(const struct store_files *files) {
    return look_at(&files->database) == PLACE_OURS && look_at(&files->log) == PLACE_OURS &&
           look_at(&files->index) == PLACE_OURS;
}

bool files_are_replaced(const struct store_files *files) {
    return look_at(&files->database) == PLACE_TAKEN || look_at(&files->log) == PLACE_TAKEN ||
           look_at(&files->index) == PLACE_TAKEN;
}

/* What another thread found meanwhile is newer than our look: then its word stands. */
bool files_are_there(struct store_files *files, int64_t now, bool afresh) {
    int64_t seen_at = atomic_load(&files->seen_at);
    if (!afresh && now - seen_at < FILES_LOOK_MS * NS_PER_MS) {
        return true;
    }
    if (!files_look(files)) {
        atomic_store(&files->seen_at, SEEN_GONE);
        return false;
    }
    atomic_compare_exchange_strong(&files->seen_at, &seen_at, now);
    return true;
}

void files_say_gone(const struct store_files *files, struct error *err) {
    error_set(err, ERR_STORE_GONE, "%s was removed or replaced while it was in use", files->path);
}
