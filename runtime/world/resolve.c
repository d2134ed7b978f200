/* resolve.c -- see resolve.h.
 *
 * What is asked belongs to two: the one who asks and the thread. The last to leave frees it. Only while
 * the asker is there does the thread wake the world.
 */
#include "world/resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { THREAD_STACK = 256 * 1024 };

struct question {
    pthread_mutex_t lock;
    struct world *world; /* NULL: nobody waits any more */
    char *host, *port;
    struct addrinfo hints;
    struct addrinfo *answer;
    int error;
    bool done;
    int owners;
};

struct resolve {
    struct world *world;
    struct wakeup wakeup;
    void (*resolved)(struct resolve *r);
    void *owner;
    struct question *question;
    const struct addrinfo *next;
    bool seen; /* the answer was taken notice of */
};

static struct question *question_new(struct world *w, const char *host, const char *port,
                                     bool to_listen) {
    struct question *q = xcalloc(1, sizeof *q);
    pthread_mutex_init(&q->lock, NULL);
    q->world = w;
    q->host = host ? xstrdup(host) : NULL;
    q->port = xstrdup(port);
    q->hints.ai_socktype = SOCK_STREAM;
    q->hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
    q->owners = 1;
    return q;
}

static void question_leave(struct question *q) {
    pthread_mutex_lock(&q->lock);
    int left = --q->owners;
    pthread_mutex_unlock(&q->lock);
    if (left > 0) {
        return;
    }
    if (q->answer) {
        freeaddrinfo(q->answer);
    }
    pthread_mutex_destroy(&q->lock);
    free(q->host);
    free(q->port);
    free(q);
}

static void *question_ask(void *arg) {
    struct question *q = arg;
    struct addrinfo *answer = NULL;
    int error = getaddrinfo(q->host, q->port, &q->hints, &answer);
    pthread_mutex_lock(&q->lock);
    q->answer = answer;
    q->error = error;
    q->done = true;
    if (q->world) {
        world_wake(q->world);
    }
    pthread_mutex_unlock(&q->lock);
    question_leave(q);
    return NULL;
}

/* Signals are for the main thread. */
static bool question_thread(struct question *q) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    q->owners = 2;
    bool started = pthread_create(&thread, &attributes, question_ask, q) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!started) {
        q->owners = 1;
    }
    return started;
}

/* An address in figures needs no name server, and so no thread. */
static bool question_answer_at_once(struct question *q) {
    struct addrinfo hints = q->hints;
    hints.ai_flags |= AI_NUMERICHOST;
    if (getaddrinfo(q->host, q->port, &hints, &q->answer) != 0) {
        return false;
    }
    q->done = true;
    return true;
}

static void resolve_woken(struct wakeup *wakeup) {
    struct resolve *r = container_of(wakeup, struct resolve, wakeup);
    pthread_mutex_lock(&r->question->lock);
    bool done = r->question->done;
    pthread_mutex_unlock(&r->question->lock);
    if (!done || r->seen) {
        return;
    }
    r->seen = true;
    r->next = r->question->answer;
    wakeup_remove(r->world, wakeup);
    world_release(r->world);
    r->resolved(r);
}

struct resolve *resolve_start(struct world *w, const char *host, const char *port, bool to_listen,
                              void (*resolved)(struct resolve *r), void *owner) {
    struct resolve *r = xcalloc(1, sizeof *r);
    r->world = w;
    r->resolved = resolved;
    r->owner = owner;
    r->wakeup.woken = resolve_woken;
    r->question = question_new(w, host, port, to_listen);
    if (question_answer_at_once(r->question)) {
        r->seen = true;
        r->next = r->question->answer;
        return r;
    }
    if (!question_thread(r->question)) {
        question_leave(r->question);
        free(r);
        return NULL;
    }
    wakeup_add(w, &r->wakeup);
    world_hold(w);
    return r;
}

void resolve_free(struct resolve *r) {
    if (!r->seen) {
        wakeup_remove(r->world, &r->wakeup);
        world_release(r->world);
        pthread_mutex_lock(&r->question->lock);
        r->question->world = NULL;
        pthread_mutex_unlock(&r->question->lock);
    }
    question_leave(r->question);
    free(r);
}

void *resolve_owner(const struct resolve *r) {
    return r->owner;
}

bool resolve_done(const struct resolve *r) {
    return r->seen;
}

const char *resolve_error(const struct resolve *r) {
    return r->question->error ? gai_strerror(r->question->error) : NULL;
}

bool resolve_next(struct resolve *r, const struct sockaddr **address, socklen_t *len) {
    if (!r->next) {
        return false;
    }
    *address = r->next->ai_addr;
    *len = r->next->ai_addrlen;
    r->next = r->next->ai_next;
    return true;
}
