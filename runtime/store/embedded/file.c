/* file.c -- the store `embedded:PATH`: a file that many processes share.
 *
 * Where a request is answered:
 *   a read                            here, unless it is large or SQLite is locked: then on the readers' thread
 *   a relaxed write, the lock free    here, unless it writes or removes much
 *   every other write                 on the writers' thread: no read stands behind who waits for the lock
 *   in a virtual world, everything    here, waiting for the lock in real time: the virtual clock
 *                                     stands still meanwhile */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/embedded/session.h"
#include "store/embedded/thread.h"
#include "store/embedded/rows_sqlite.h"
#include "store/embedded/wake_watchers.h"

enum {
    BOOT_ID_MAX = 64,
    OPEN_WAIT_MS = 5000, /* while another process makes or migrates the file */
    OPEN_NAP_NS = 1000 * 1000,
    INLINE_BYTES_MAX =
        256 * 1024, /* content that is read, written or removed on the world's thread */
};

struct file_store {
    struct transport transport;
    struct store_files files;
    struct wake *wake;
    struct watchers *watchers;
    struct session session; /* of the world's thread */
    struct db_thread *writers, *readers;
    struct wakeup wakeup;
    char boot_id[BOOT_ID_MAX];
    bool relaxed;
    int log_mark;
};

static struct file_store *store_of(struct transport *t) {
    return container_of(t, struct file_store, transport);
}

static struct embedded_now now_of(struct file_store *f) {
    struct world *w = f->transport.world;
    return (struct embedded_now){
        .boot = world_now(w), .wall = world_wall(w), .boot_id = f->boot_id};
}

/* In real time, also in a virtual world: it waits for other processes. */
static bool lock_by_asking(struct store_lock *lock, int64_t until) {
    while (!lock_try(lock)) {
        if (clock_boottime() >= until) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = OPEN_NAP_NS}, NULL);
    }
    return true;
}

/* Answering */

static void notice_write(struct file_store *f) {
    watchers_notice(f->watchers);
    int pages = rows_sqlite_log_pages(f->session.rows);
    if (!log_is_due(&f->log_mark, pages)) {
        return;
    }
    if (world_is_virtual(f->transport.world)) {
        session_write_back(&f->session);
    } else {
        db_thread_write_back(f->writers, pages);
    }
}

static bool write_here(struct file_store *f, struct attempt *a, const struct embedded_now *now) {
    if (!lock_try(&f->session.lock)) {
        return false;
    }
    session_write(&f->session, now, &a, 1);
    lock_give(&f->session.lock);
    const struct rows *rows = f->session.rows;
    enum err code = a->reply->err.code;
    bool busy = code == ERR_TIMEOUT && rows_sqlite_was_busy(f->session.rows);
    if (busy || (code == ERR_ANSWER_TOO_LARGE && rows->large)) {
        reply_clear(a->reply);
        return false;
    }
    notice_write(f);
    return true;
}

/* What can be long, whatever it finds. A write that turns out to be, such as the removal of a large blob, is
 * rolled back and goes to the writers' thread too: see write_here. */
static bool is_long(const struct store_request *req) {
    switch (req->verb) {
    case VERB_CONTAINER_DELETE:
    case VERB_QUEUE_DELETE:
    case VERB_QUEUE_CLEAR:
    case VERB_TABLE_DELETE:
    case VERB_ENTITY_BATCH:
    case VERB_BLOB_COMMIT:
    case VERB_BLOB_COPY:
        return true;
    default:
        return req->body_len > INLINE_BYTES_MAX;
    }
}

static bool may_write_here(const struct file_store *f, const struct store_request *req) {
    return f->relaxed && !is_long(req) && db_thread_is_idle(f->writers);
}

/* True: it is answered. */
static bool answer_here(struct file_store *f, struct attempt *a, const struct embedded_now *now) {
    if (verb_writes(a->req->verb)) {
        return may_write_here(f, a->req) && write_here(f, a, now);
    }
    return session_read(&f->session, now, a);
}

static void answer_virtual(struct file_store *f, struct attempt *a,
                           const struct embedded_now *now) {
    int64_t until = clock_boottime() + OPEN_WAIT_MS * NS_PER_MS;
    rows_sqlite_wait_until(f->session.rows, until);
    if (!verb_writes(a->req->verb)) {
        if (!session_read(&f->session, now, a)) {
            error_set(&a->reply->err, ERR_TIMEOUT, NULL);
        }
        return;
    }
    if (!lock_by_asking(&f->session.lock, until)) {
        error_set(&a->reply->err, ERR_TIMEOUT, "the store's file was locked all the time");
        return;
    }
    session_write(&f->session, now, &a, 1);
    lock_give(&f->session.lock);
    notice_write(f);
}

static void file_send(struct transport *t, struct attempt *a) {
    struct file_store *f = store_of(t);
    struct embedded_now now = now_of(f);
    a->impl = NULL;
    if (now.boot >= a->deadline) {
        error_set(&a->reply->err, ERR_TIMEOUT, NULL);
    } else if (world_is_virtual(t->world)) {
        answer_virtual(f, a, &now);
    } else if (!answer_here(f, a, &now)) {
        db_thread_post(verb_writes(a->req->verb) ? f->writers : f->readers, a);
        return;
    }
    a->done(a);
}

static void file_drop(struct transport *t, struct attempt *a) {
    (void)t;
    if (a->impl) {
        job_give_up(a->impl, ERR_CANCELLED);
    }
}

static void on_woken(struct wakeup *wakeup) {
    struct file_store *f = container_of(wakeup, struct file_store, wakeup);
    db_thread_deliver(f->readers);
    if (db_thread_deliver(f->writers)) {
        watchers_notice(f->watchers);
    }
}

/* Watching */

/* See watchers_new. */
static int64_t look(void *arg) {
    struct file_store *f = arg;
    if (wake_is_announced(f->wake) && lock_try(&f->session.lock)) {
        wake_settle(f->wake); /* nobody is in between: the one who announced is dead */
        lock_give(&f->session.lock);
    }
    if (!files_look(&f->files)) {
        return WATCH_GONE; /* who waits asks, and is told so */
    }
    return rows_sqlite_data_version(f->session.rows);
}

static uint64_t file_mark(struct transport *t, const char *container, const char *prefix) {
    return watchers_mark(store_of(t)->watchers, container, prefix);
}

static void file_watch(struct transport *t, struct store_watch *w) {
    watchers_add(store_of(t)->watchers, w);
}

static void file_unwatch(struct transport *t, struct store_watch *w) {
    watchers_remove(store_of(t)->watchers, w);
}

/* Opening and closing */

static void file_free(struct transport *t) {
    struct file_store *f = store_of(t);
    if (f->writers) {
        db_thread_free(f->writers);
        db_thread_free(f->readers);
        wakeup_remove(t->world, &f->wakeup);
    }
    if (f->watchers) {
        watchers_free(f->watchers);
    }
    session_close(&f->session);
    if (f->wake) {
        wake_free(f->wake);
    }
    files_close(&f->files);
    free(f);
}

static const struct transport_ops OPS = {
    .kind = "embedded",
    .send = file_send,
    .drop = file_drop,
    .mark = file_mark,
    .watch = file_watch,
    .unwatch = file_unwatch,
    .free = file_free,
};

static void read_boot_id(struct file_store *f) {
    strcpy(f->boot_id, "unknown");
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (world_is_virtual(f->transport.world)) {
        strcpy(f->boot_id, "virtual");
    } else if (fd >= 0) {
        ssize_t n = read(fd, f->boot_id, sizeof f->boot_id - 1);
        f->boot_id[n > 0 ? n : 0] = '\0';
        f->boot_id[strcspn(f->boot_id, "\n")] = '\0';
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* A store made anew must not give ETags that its predecessor gave: they begin at the time. */
static int64_t first_etag(struct world *w) {
    return world_wall(w) / NS_PER_S << 20;
}

static bool prepare(struct file_store *f, int64_t until, struct error *err) {
    struct rows *rows = f->session.rows;
    if (rows_sqlite_is_current(rows)) {
        return true;
    }
    if (!lock_by_asking(&f->session.lock, until)) {
        error_set(err, ERR_TIMEOUT, "another process has locked %s", f->files.path);
        return false;
    }
    bool ok = rows_sqlite_prepare(rows, first_etag(f->transport.world));
    lock_give(&f->session.lock);
    if (!ok) {
        *err = rows->err;
    }
    return ok;
}

static bool open_all(struct file_store *f, const char *path, struct error *err) {
    struct world *w = f->transport.world;
    int64_t until = clock_boottime() + OPEN_WAIT_MS * NS_PER_MS;
    if (!files_open(&f->files, path, err)) {
        return false;
    }
    f->wake = wake_open(f->files.wake_path, err);
    if (!f->wake || !session_open(&f->session, &f->files, f->wake, f->relaxed, until, err) ||
        !prepare(f, until, err)) {
        return false;
    }
    files_remember_log(&f->files);
    rows_sqlite_wait_until(f->session.rows, 0);
    f->session.rows->content_max = world_is_virtual(w) ? SIZE_MAX : INLINE_BYTES_MAX;
    f->watchers = watchers_new(w, f->wake, look, f);
    f->writers = db_thread_new(w, &f->files, f->wake, f->relaxed, f->boot_id);
    f->readers = db_thread_new(w, &f->files, f->wake, f->relaxed, f->boot_id);
    f->wakeup.woken = on_woken;
    wakeup_add(w, &f->wakeup);
    return true;
}

struct transport *transport_embedded_new(struct world *w, const char *path, bool relaxed,
                                         struct error *err) {
    struct file_store *f = xcalloc(1, sizeof *f);
    f->transport = (struct transport){.ops = &OPS, .world = w};
    f->relaxed = relaxed;
    read_boot_id(f);
    if (!open_all(f, path, err)) {
        file_free(&f->transport);
        return NULL;
    }
    return &f->transport;
}
