#include "store/embedded/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "store/embedded/rows_sqlite.h"

enum {
    THREAD_STACK = 256 * 1024,
    TOGETHER_MAX = 32,                 /* writes of one transaction */
    TOGETHER_BYTES_MAX = 1024 * 1024,  /* and their content */
    STOP_DISTURB_NS = 5 * 1000 * 1000, /* how often a wait is ended until the thread has gone */
    CHECKPOINT_PATIENCE_MS = 50,       /* how long writing back waits for the lock */
};

struct job_list {
    struct db_job *first, **last;
};

struct db_thread {
    struct world *world;
    struct store_files *files;
    struct wake *wake;
    const char *boot_id;
    bool relaxed;
    struct session session; /* the thread's, like the next */
    int log_mark;

    bool started;
    pthread_t thread;
    int under_way;        /* posted and not delivered; of the world's thread, like the next */
    struct db_job *asked; /* their clients wait */

    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t work;
    struct job_list urgent, waiting, answered; /* the urgent are taken first */
    int log_asked;                             /* pages of a log to be written back */
    bool stopping;
};

static void list_init(struct job_list *l) {
    l->first = NULL;
    l->last = &l->first;
}

static void list_push(struct job_list *l, struct db_job *job) {
    job->next = NULL;
    *l->last = job;
    l->last = &job->next;
}

static struct db_job *list_pop(struct job_list *l) {
    struct db_job *job = l->first;
    if (job) {
        l->first = job->next;
        if (!l->first) {
            l->last = &l->first;
        }
        job->next = NULL;
    }
    return job;
}

static struct embedded_now now_here(const struct db_thread *t) {
    return (struct embedded_now){
        .boot = clock_boottime(), .wall = clock_realtime(), .boot_id = t->boot_id};
}

/* The turn: the jobs taken together. All below runs on the thread. */

struct turn {
    struct db_job *jobs[TOGETHER_MAX];
    int count;
    bool writes;
};

static bool job_writes(const struct db_job *job) {
    return verb_writes(job->own.req->verb);
}

static struct job_list *line_to_serve(struct db_thread *t) {
    return t->urgent.first ? &t->urgent : &t->waiting;
}

/* As many writes as stand together at the head of the line, or one read. */
static void take_turn(struct db_thread *t, struct turn *turn) {
    *turn = (struct turn){.count = 0};
    size_t bytes = 0;
    while (turn->count < TOGETHER_MAX && line_to_serve(t)->first) {
        struct job_list *line = line_to_serve(t);
        struct db_job *job = line->first;
        bytes += job->own.req->body_len;
        bool fits = job_writes(job) && bytes <= TOGETHER_BYTES_MAX;
        if (turn->count > 0 && !fits) {
            break;
        }
        turn->jobs[turn->count++] = list_pop(line);
        turn->writes = job_writes(job);
        if (!turn->writes) {
            break;
        }
    }
}

static struct error *job_error(struct db_job *job) {
    return &job->own.reply->err;
}

static void give_answer(struct db_thread *t, struct db_job *job) {
    pthread_mutex_lock(&t->mutex);
    list_push(&t->answered, job);
    pthread_mutex_unlock(&t->mutex);
}

static bool is_stopping(struct db_thread *t) {
    pthread_mutex_lock(&t->mutex);
    bool stopping = t->stopping;
    pthread_mutex_unlock(&t->mutex);
    return stopping;
}

/* Answers those that must not begin any more; the earliest deadline of the others. */
static int64_t drop_overdue(struct db_thread *t, struct turn *turn) {
    int64_t now = clock_boottime(), earliest = NEVER;
    bool stopping = is_stopping(t);
    int kept = 0;
    for (int i = 0; i < turn->count; i++) {
        struct db_job *job = turn->jobs[i];
        int64_t deadline = job->own.deadline;
        if (stopping || now >= deadline || atomic_load(&job->stage) == JOB_GIVEN_UP) {
            error_set(job_error(job), ERR_TIMEOUT, "the store's file was locked all the time");
            give_answer(t, job);
            continue;
        }
        earliest = deadline < earliest ? deadline : earliest;
        turn->jobs[kept++] = job;
    }
    turn->count = kept;
    return earliest;
}

/* From here on they may happen. Leaves out those that were given up in the meantime. */
static void begin_all(struct db_thread *t, struct turn *turn) {
    int kept = 0;
    for (int i = 0; i < turn->count; i++) {
        struct db_job *job = turn->jobs[i];
        if (job_begin(job)) {
            turn->jobs[kept++] = job;
        } else {
            give_answer(t, job);
        }
    }
    turn->count = kept;
}

static void answer_turn(struct db_thread *t, struct turn *turn) {
    for (int i = 0; i < turn->count; i++) {
        give_answer(t, turn->jobs[i]);
    }
    turn->count = 0;
}

static void run_writes(struct db_thread *t, struct turn *turn) {
    struct attempt *list[TOGETHER_MAX];
    begin_all(t, turn);
    for (int i = 0; i < turn->count; i++) {
        list[i] = &turn->jobs[i]->own;
    }
    if (turn->count == 0) {
        return;
    }
    struct embedded_now now = now_here(t);
    session_write(&t->session, &now, list, turn->count);
}

static void run_read(struct db_thread *t, struct db_job *job) {
    struct embedded_now now = now_here(t);
    if (job_begin(job) && !session_read(&t->session, &now, &job->own)) {
        error_set(job_error(job), ERR_TIMEOUT, "another program holds the lock of %s",
                  t->files->path);
    }
}

/* Connects when that is not done yet; else answers the whole turn with the reason. */
static bool connect(struct db_thread *t, struct turn *turn, int64_t until) {
    struct error err;
    if (t->session.rows || session_open(&t->session, t->files, t->wake, t->relaxed, until, &err)) {
        return true;
    }
    for (int i = 0; i < turn->count; i++) {
        *job_error(turn->jobs[i]) = err;
    }
    return false;
}

static void run_turn(struct db_thread *t, struct turn *turn) {
    int64_t until = drop_overdue(t, turn);
    while (turn->count > 0) {
        if (!connect(t, turn, until)) {
            break;
        }
        rows_sqlite_wait_until(t->session.rows, until);
        if (!turn->writes) {
            run_read(t, turn->jobs[0]);
            break;
        }
        if (lock_wait(&t->session.lock, until)) {
            run_writes(t, turn);
            lock_give(&t->session.lock);
            break;
        }
        until = drop_overdue(t, turn);
    }
    answer_turn(t, turn);
}

bool log_is_due(int *mark, int pages) {
    if (pages < *mark) {
        *mark = 0; /* it has started afresh */
    }
    if (pages - *mark < LOG_PAGES_WRITE_BACK) {
        return false;
    }
    *mark = pages;
    return true;
}

/* Keeps the log short. While writers go on, the log is never written back to its end and only grows:
 * past a second mark they are kept out for the moment that takes. */
static void write_back(struct db_thread *t, int pages) {
    struct rows *rows = t->session.rows;
    rows_sqlite_wait_until(rows, 0);
    session_write_back(&t->session);
    int64_t until = clock_boottime() + CHECKPOINT_PATIENCE_MS * NS_PER_MS;
    if (pages >= LOG_PAGES_HOLD && lock_wait(&t->session.lock, until)) {
        session_write_back(&t->session);
        lock_give(&t->session.lock);
    }
}

/* Sleeps until there is something to do; false: the end. */
static bool next_turn(struct db_thread *t, struct turn *turn, int *log_pages) {
    pthread_mutex_lock(&t->mutex);
    while (!line_to_serve(t)->first && !t->log_asked && !t->stopping) {
        pthread_cond_wait(&t->work, &t->mutex);
    }
    take_turn(t, turn);
    *log_pages = t->log_asked;
    t->log_asked = 0;
    bool goes_on = turn->count > 0 || !t->stopping;
    pthread_mutex_unlock(&t->mutex);
    return goes_on;
}

static void *thread_main(void *arg) {
    struct db_thread *t = arg;
    struct turn turn;
    int log_pages;
    lock_prepare_thread();
    while (next_turn(t, &turn, &log_pages)) {
        if (turn.count > 0) {
            run_turn(t, &turn);
            world_wake(t->world);
        }
        if (!connect(t, &turn, 0)) {
            continue;
        }
        int own_pages = rows_sqlite_log_pages(t->session.rows);
        if (log_pages || log_is_due(&t->log_mark, own_pages)) {
            write_back(t, log_pages > own_pages ? log_pages : own_pages);
        }
    }
    session_close(&t->session);
    return NULL;
}

/* All below runs on the world's thread. */

struct db_thread *db_thread_new(struct world *w, struct store_files *files, struct wake *wake,
                                bool relaxed, const char *boot_id) {
    struct db_thread *t = xcalloc(1, sizeof *t);
    t->world = w;
    t->files = files;
    t->wake = wake;
    t->relaxed = relaxed;
    t->boot_id = boot_id;
    list_init(&t->urgent);
    list_init(&t->waiting);
    list_init(&t->answered);
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->work, NULL);
    return t;
}

static bool start(struct db_thread *t) {
    pthread_attr_t attr;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    t->started = pthread_create(&t->thread, &attr, thread_main, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return t->started;
}

void db_thread_post(struct db_thread *t, struct attempt *a) {
    struct db_job *job = t->started || start(t) ? job_new(t->world, a, &t->asked) : NULL;
    if (!job) {
        error_set(&a->reply->err, ERR_NO_MEMORY, NULL);
        a->done(a);
        return;
    }
    t->under_way++;
    pthread_mutex_lock(&t->mutex);
    list_push(a->req->urgent ? &t->urgent : &t->waiting, job);
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->mutex);
}

static struct db_job *collect(struct db_thread *t) {
    pthread_mutex_lock(&t->mutex);
    struct db_job *job = list_pop(&t->answered);
    pthread_mutex_unlock(&t->mutex);
    if (job) {
        t->under_way--;
    }
    return job;
}

bool db_thread_deliver(struct db_thread *t) {
    struct db_job *job;
    bool wrote = false;
    while ((job = collect(t))) {
        wrote = wrote || job_writes(job);
        job_deliver(job);
    }
    return wrote;
}

bool db_thread_is_idle(const struct db_thread *t) {
    return t->under_way == 0;
}

void db_thread_write_back(struct db_thread *t, int pages) {
    if (!t->started && !start(t)) {
        return; /* the next write asks again */
    }
    pthread_mutex_lock(&t->mutex);
    t->log_asked = pages;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->mutex);
}

static void stop(struct db_thread *t) {
    pthread_mutex_lock(&t->mutex);
    t->stopping = true;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->mutex);
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += STOP_DISTURB_NS;
        if (until.tv_nsec >= NS_PER_S) {
            until.tv_sec++;
            until.tv_nsec -= NS_PER_S;
        }
        if (pthread_timedjoin_np(t->thread, NULL, &until) == 0) {
            break;
        }
        lock_disturb(t->thread);
    }
}

void db_thread_free(struct db_thread *t) {
    while (t->asked) {
        job_give_up(t->asked, ERR_CANCELLED);
    }
    if (t->started) {
        stop(t);
    }
    for (struct db_job *job; (job = list_pop(line_to_serve(t)));) {
        job_deliver(job);
    }
    db_thread_deliver(t);
    pthread_mutex_destroy(&t->mutex);
    pthread_cond_destroy(&t->work);
    free(t);
}
