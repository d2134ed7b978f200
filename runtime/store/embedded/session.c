#include "store/embedded/session.h"

#include "store/entity.h"
#include "store/embedded/rows_sqlite.h"

/* The log that was removed is still written back; one that lies in its place is not ours to touch. */
static void close_rows(struct session *s) {
    if (s->rows) {
        if (files_are_replaced(s->files)) {
            rows_sqlite_leave_log(s->rows);
        }
        s->rows->ops->free(s->rows);
        s->rows = NULL;
    }
}

bool session_open(struct session *s, struct store_files *files, struct wake *wake, bool relaxed,
                  int64_t wait_until, struct error *err) {
    *s = (struct session){.files = files, .wake = wake};
    if (!lock_open(&s->lock, files->lock_path, err)) {
        return false;
    }
    if (files_look(files)) {
        s->rows = rows_sqlite_open(files->real_path, relaxed, wait_until, err);
    }
    if (!files_look(files) || (s->rows && rows_sqlite_has_moved(s->rows))) {
        files_say_gone(files, err); /* what was opened may be another's, and be mistaken for ours */
        close_rows(s);
    }
    if (!s->rows) {
        lock_close(&s->lock);
    }
    return s->rows != NULL;
}

void session_close(struct session *s) {
    if (s->rows) {
        close_rows(s);
        lock_close(&s->lock);
    }
}

void session_write_back(struct session *s) {
    if (!files_are_replaced(s->files)) {
        rows_sqlite_checkpoint(s->rows);
    }
}

bool session_read(struct session *s, const struct embedded_now *now, struct attempt *a) {
    struct rows *rows = s->rows;
    if (!files_are_there(s->files, now->boot, false)) {
        files_say_gone(s->files, &a->reply->err);
        return true;
    }
    if (rows->ops->begin(rows, false)) {
        embedded_answer(rows, now, a->req, a->reply);
    }
    rows->ops->rollback(rows);
    if (!rows->large && !rows_sqlite_was_busy(rows)) {
        return true;
    }
    reply_clear(a->reply);
    return false;
}

uint64_t session_slots(const struct store_request *req) {
    if (req->verb == VERB_CONTAINER_DELETE || req->verb == VERB_TABLE_DELETE) {
        return WAKE_ALL;
    }
    if (req->verb == VERB_MESSAGE_GET) {
        return 0;
    }
    if (req->verb >= VERB_QUEUE_CREATE && req->verb <= VERB_MESSAGE_DELETE) {
        return wake_place(req->container, "");
    }
    const struct entity *e = req->batch ? req->batch->entity : req->entity;
    if (e) {
        return wake_place(req->container, e->partition);
    }
    return wake_place(req->container, req->name ? req->name : "");
}

static void fail_all(struct attempt **list, int count, const struct error *err) {
    for (int i = 0; i < count; i++) {
        list[i]->reply->err = *err;
    }
}

/* Runs the requests, but none whose time is over; false when the keeper failed: nothing has been changed then. */
static bool answer_all(struct rows *rows, const struct embedded_now *now, struct attempt **list,
                       int count, uint64_t *slots, int *done) {
    int64_t late = rows_sqlite_late(rows);
    for (int i = 0; i < count; i++) {
        struct attempt *a = list[i];
        if (late && late >= a->deadline) {
            error_set(&a->reply->err, ERR_TIMEOUT, "the store's file was locked all the time");
            continue;
        }
        embedded_answer(rows, now, a->req, a->reply);
        if (rows->err.code != ERR_OK) {
            return false;
        }
        if (a->reply->err.code == ERR_OK) {
            *slots |= session_slots(a->req);
            ++*done;
        }
    }
    return true;
}

static bool commit(struct session *s, struct attempt **list, int count, uint64_t slots) {
    struct rows *rows = s->rows;
    wake_announce(s->wake, slots);
    bool ok = rows->ops->commit(rows);
    for (int i = 0; i < count; i++) {
        if (list[i]->reply->err.code == ERR_OK) {
            wake_raise(s->wake, session_slots(list[i]->req));
        }
    }
    wake_tell(s->wake, slots);
    return ok;
}

/* False: the keeper failed, for the reason in rows->err; nothing has happened, unless it is in doubt. */
static bool write_together(struct session *s, const struct embedded_now *now, struct attempt **list,
                           int count) {
    struct rows *rows = s->rows;
    uint64_t slots = 0;
    int done = 0;
    if (!rows->ops->begin(rows, true)) {
        return false;
    }
    if (!answer_all(rows, now, list, count, &slots, &done)) {
        struct error why = rows->err;
        rows->ops->rollback(rows);
        rows->err = why;
        return false;
    }
    if (done == 0) { /* all were refused */
        rows->ops->rollback(rows);
        return true;
    }
    return commit(s, list, count, slots);
}

static void write_alone(struct session *s, const struct embedded_now *now, struct attempt *a) {
    reply_clear(a->reply);
    if (!write_together(s, now, &a, 1)) {
        reply_clear(a->reply);
        a->reply->err = s->rows->err;
        a->sent = rows_sqlite_in_doubt(s->rows);
    }
}

static void disown(struct session *s, struct attempt **list, int count) {
    for (int i = 0; i < count; i++) {
        if (list[i]->reply->err.code == ERR_OK) {
            reply_clear(list[i]->reply);
            error_set(&list[i]->reply->err, ERR_STORE_GONE,
                      "%s was removed or replaced meanwhile; it may or may not have happened",
                      s->files->path);
            list[i]->sent = true;
        }
    }
}

void session_write(struct session *s, const struct embedded_now *now, struct attempt **list,
                   int count) {
    if (!files_are_there(s->files, now->boot, false)) {
        struct error gone;
        files_say_gone(s->files, &gone);
        fail_all(list, count, &gone);
        return;
    }
    wake_settle(s->wake);
    if (count == 1 || !write_together(s, now, list, count)) {
        for (int i = 0; i < count; i++) {
            write_alone(s, now, list[i]);
        }
    }
    if (!files_are_there(s->files, now->boot, true)) {
        disown(s, list, count);
    }
}
