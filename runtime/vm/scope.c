/* scope.c -- see scope.h for the stages and who takes each arrow. */
#include "vm/scope.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "vm/vm_impl.h"

enum scope_stage { SCOPE_OPEN, SCOPE_SOFT, SCOPE_HARD };

struct scope {
    struct vm *vm;
    struct scope *outer;       /* a reference */
    struct scope *prev, *next; /* all of the vm */
    unsigned refs;
    unsigned tasks; /* in it and inside it */
    enum scope_stage stage;
    bool closed;
    int64_t soft, hard, slice;
    struct alarm alarm; /* its own next stop */
    struct error why;
    struct waitlist idlers;
    struct scope_watch *watches;
    struct arena strings;
    const char *name;
    struct scope_lease lease;
    void (*on_closed)(struct scope *s, void *arg);
    void *arg;
};

static bool is_within(const struct scope *inner, const struct scope *s) {
    while (inner && inner != s) {
        inner = inner->outer;
    }
    return inner != NULL;
}

/* ---- what the clocks and the watchdog know ---- */

static bool is_over(const struct scope *s) {
    return s->closed && s->tasks == 0;
}

static int64_t next_stop(const struct scope *s) {
    return s->stage == SCOPE_OPEN   ? (s->soft < s->hard ? s->soft : s->hard)
           : s->stage == SCOPE_SOFT ? s->hard
                                    : NEVER;
}

/* When what runs in it must have ended. */
static int64_t own_end(const struct scope *s) {
    return instant_add(s->hard, s->slice);
}

static void tell_watchdog(const struct scope *s) {
    const struct scope *first = s;
    for (const struct scope *x = s; x; x = x->outer) {
        first = own_end(x) < own_end(first) ? x : first;
    }
    if (s->vm->watchdog) {
        watchdog_enter(s->vm->watchdog, own_end(first), first->name);
    }
}

/* A stop has moved, or a scope has come or gone. */
static void set_clocks(struct vm *vm) {
    int64_t stop = NEVER, end = NEVER;
    for (struct scope *s = vm->scopes; s; s = s->next) {
        if (is_over(s)) {
            continue;
        }
        stop = next_stop(s) < stop ? next_stop(s) : stop;
        end = own_end(s) < end ? own_end(s) : end;
    }
    hook_at(vm, stop);
    if (vm->watchdog) {
        watchdog_set(vm->watchdog, end);
    }
    if (vm->running && vm->running->scope) {
        tell_watchdog(vm->running->scope);
    }
}

static void set_alarm(struct scope *s) {
    int64_t at = is_over(s) ? NEVER : next_stop(s);
    if (at == NEVER) {
        alarm_clear(s->vm->world, &s->alarm);
    } else {
        alarm_set(s->vm->world, &s->alarm, at);
    }
}

static void tell_watches(struct scope *s) {
    for (struct scope *x = s->vm->scopes; x; x = x->next) {
        if (!is_within(x, s)) {
            continue;
        }
        for (struct scope_watch *w = x->watches, *next; w; w = next) {
            next = w->next;
            w->moved(w, x);
        }
    }
}

static void moved(struct scope *s) {
    if (s->vm->world) {
        set_alarm(s);
        set_clocks(s->vm);
        tell_watches(s);
    }
}

/* ---- the stops ---- */

static void scope_soften(struct scope *s) {
    struct vm *vm = s->vm;
    for (struct task *t = vm->oldest; t; t = t->newer) {
        if (is_within(t->scope, s) && t->scope->stage == SCOPE_OPEN) {
            task_stop(t);
        }
    }
    for (struct scope *x = vm->scopes; x; x = x->next) {
        if (is_within(x, s) && x->stage == SCOPE_OPEN) {
            x->stage = SCOPE_SOFT;
            x->why = s->why;
        }
    }
}

static void close_resources(struct scope *s) {
    struct vm_resource *r = s->vm->resources;
    while (r) {
        if (is_within(r->scope, s)) {
            vm_forget(s->vm, r);
            r->close(r);
            r = s->vm->resources; /* a close may take others along */
        } else {
            r = r->next;
        }
    }
}

static void scope_harden(struct scope *s) {
    struct vm *vm = s->vm;
    for (struct scope *x = vm->scopes; x; x = x->next) {
        if (is_within(x, s) && x->stage != SCOPE_HARD) {
            x->why = x->stage == SCOPE_OPEN ? s->why : x->why;
            x->stage = SCOPE_HARD;
        }
    }
    for (struct task *t = vm->oldest; t; t = t->newer) {
        if (is_within(t->scope, s)) {
            task_stop(t);
        }
    }
    scope_pause(s); /* nothing guarded runs meanwhile, which may take a moment */
    close_resources(s);
}

/* Takes the arrows that are due by the clock. */
static void notice(struct scope *s, int64_t now) {
    if (is_over(s) || now < next_stop(s)) {
        return;
    }
    if (s->stage == SCOPE_OPEN) {
        scope_soften(s);
    }
    if (now >= s->hard) {
        scope_harden(s);
    }
    moved(s);
}

static void alarm_rings(struct alarm *a) {
    struct scope *s = container_of(a, struct scope, alarm);
    notice(s, world_now(s->vm->world));
}

void scope_set_deadlines(struct scope *s, int64_t soft, int64_t hard) {
    if (!s->vm->world || s->closed) {
        return;
    }
    notice(s, world_now(s->vm->world));
    if (s->stage == SCOPE_OPEN) {
        s->soft = soft;
        s->hard = hard;
        moved(s);
    }
}

void scope_stop(struct scope *s, const struct error *why) {
    if (!s->vm->world || s->closed || s->stage != SCOPE_OPEN) {
        return;
    }
    int64_t now = world_now(s->vm->world);
    int64_t grace = s->soft == NEVER || s->hard == NEVER ? SCOPE_GRACE : s->hard - s->soft;
    grace = grace < 0 ? 0 : grace < SCOPE_GRACE ? grace : SCOPE_GRACE;
    s->why = *why;
    s->soft = now < s->soft ? now : s->soft;
    s->hard = now + grace < s->hard ? now + grace : s->hard;
    notice(s, now);
}

void scope_end(struct scope *s) {
    if (s->vm->world && s->stage != SCOPE_HARD) {
        int64_t now = world_now(s->vm->world);
        if (s->stage == SCOPE_OPEN) {
            error_set(&s->why, ERR_CANCELLED, "its guard has ended, and it did not");
        }
        s->soft = now < s->soft ? now : s->soft;
        s->hard = now < s->hard ? now : s->hard;
        scope_harden(s);
        moved(s);
    }
}

/* ---- tasks ---- */

struct scope *scope_running(struct vm *vm) {
    return vm->running ? vm->running->scope : NULL;
}

struct scope *scope_enter(struct scope *s) {
    for (struct scope *x = s; x; x = x->outer) {
        x->tasks++;
    }
    return scope_ref(s);
}

void scope_leave(struct scope *s) {
    for (struct scope *x = s; x; x = x->outer) {
        if (--x->tasks == 0) {
            waitlist_wake(&x->idlers);
            if (x->closed) {
                moved(x);
            }
        }
    }
    scope_unref(s);
}

/* After the soft stop it may come to its next wait, so that what it was given is not lost in
 * between; after the hard stop it does nothing. */
void scope_begin(struct task *t) {
    int64_t now = world_now(t->vm->world);
    for (struct scope *x = t->scope; x; x = x->outer) {
        notice(x, now);
    }
    if (scope_is_hard(t->scope)) {
        t->stop_due = t->was_stopped = true;
        hook_arm(t->vm, t->innermost, 1);
    } else if (t->stop_due) {
        hook_arm(t->vm, t->innermost, HOOK_AGAIN_AFTER);
    }
    tell_watchdog(t->scope);
}

void scope_pause(struct scope *s) {
    if (s->vm->watchdog) {
        watchdog_leave(s->vm->watchdog);
    }
}

void scope_cancel(lua_State *L, struct scope *s, bool again) {
    struct task *newer;
    for (struct task *t = s->vm->oldest; t; t = newer) {
        newer = t->newer;
        if (t->scope == s && (again || !t->was_cancelled)) {
            lua_pushvalue(L, -1);
            task_cancel(L, t);
        }
    }
    lua_pop(L, 1);
}

bool scope_is_idle(const struct scope *s) {
    return s->tasks == 0;
}

struct waitlist *scope_idlers(struct scope *s) {
    return &s->idlers;
}

void scope_keep(struct vm *vm, struct vm_resource *r) {
    vm_keep(vm, r);
    r->scope = scope_running(vm);
}

/* ---- what others may know of it ---- */

bool scope_is_hard(const struct scope *s) {
    return s && s->stage == SCOPE_HARD;
}

const char *scope_name(const struct scope *s) {
    return s->name;
}

const struct error *scope_error(const struct scope *s) {
    return &s->why;
}

bool scope_is_stopped(const struct scope *s) {
    struct world *w = s->vm->world;
    return s->stage != SCOPE_OPEN || !w || world_now(w) >= scope_soft(s);
}

int64_t scope_soft(const struct scope *s) {
    int64_t soft = NEVER;
    for (; s; s = s->outer) {
        soft = s->soft < soft ? s->soft : soft;
    }
    return soft;
}

int64_t scope_hard(const struct scope *s) {
    int64_t hard = NEVER;
    for (; s; s = s->outer) {
        hard = s->hard < hard ? s->hard : hard;
    }
    return hard;
}

int64_t vm_deadline(struct vm *vm) {
    int64_t deadline = NEVER;
    for (struct scope *s = scope_running(vm); s; s = s->outer) {
        int64_t at = next_stop(s);
        at = s->stage == SCOPE_HARD || world_now(vm->world) >= at ? s->hard : at;
        deadline = at < deadline ? at : deadline;
    }
    return deadline;
}

const char *scope_lease_id(struct vm *vm, const void *store, const char *container,
                           const char *name) {
    for (struct scope *s = scope_running(vm); s; s = s->outer) {
        const struct scope_lease *l = &s->lease;
        if (l->name && l->store == store && strcmp(l->name, name) == 0 &&
            strcmp(l->container, container) == 0) {
            return l->id;
        }
    }
    return NULL;
}

void scope_watch(struct scope *s, struct scope_watch *w) {
    w->prev = NULL;
    w->next = s->watches;
    if (w->next) {
        w->next->prev = w;
    }
    s->watches = w;
}

void scope_unwatch(struct scope *s, struct scope_watch *w) {
    *(w->prev ? &w->prev->next : &s->watches) = w->next;
    if (w->next) {
        w->next->prev = w->prev;
    }
    w->prev = w->next = NULL;
}

/* ---- one's beginning and end ---- */

static bool copy(struct scope *s, const char **to, const char *from) {
    *to = from ? arena_strdup(&s->strings, from) : NULL;
    return *to || !from;
}

static bool copy_strings(struct scope *s, const struct scope_options *o) {
    s->lease.store = o->lease.store;
    return copy(s, &s->name, o->name) && copy(s, &s->lease.container, o->lease.container) &&
           copy(s, &s->lease.name, o->lease.name) &&
           copy(s, &s->lease.id, o->lease.id && *o->lease.id ? o->lease.id : NULL);
}

struct scope *scope_new(struct vm *vm, const struct scope_options *o) {
    struct scope *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    arena_init(&s->strings);
    if (!copy_strings(s, o)) {
        arena_release(&s->strings);
        free(s);
        return NULL;
    }
    s->vm = vm;
    s->refs = 1;
    s->soft = o->soft;
    s->hard = o->hard;
    s->slice = o->slice ? o->slice : SCOPE_SLICE;
    s->alarm.ring = alarm_rings;
    s->on_closed = o->closed;
    s->arg = o->arg;
    error_set(&s->why, ERR_LEASE_LOST, "no renewal was confirmed in time");
    s->outer = scope_ref(scope_running(vm));
    if (s->outer) {
        s->stage = s->outer->stage;
        s->why = s->outer->stage == SCOPE_OPEN ? s->why : s->outer->why;
    }
    s->next = vm->scopes;
    if (s->next) {
        s->next->prev = s;
    }
    vm->scopes = s;
    if (!vm->watchdog && !world_is_virtual(vm->world)) {
        vm->watchdog = watchdog_new();
    }
    moved(s);
    return s;
}

struct scope *scope_ref(struct scope *s) {
    if (s) {
        s->refs++;
    }
    return s;
}

void scope_close(struct scope *s) {
    if (s->closed) {
        return;
    }
    close_resources(s);
    s->closed = true;
    if (s->on_closed) {
        s->on_closed(s, s->arg);
    }
    moved(s);
}

void scope_unref(struct scope *s) {
    if (!s || --s->refs > 0) {
        return;
    }
    struct vm *vm = s->vm;
    scope_close(s);
    close_resources(s);
    *(s->prev ? &s->prev->next : &vm->scopes) = s->next;
    if (s->next) {
        s->next->prev = s->prev;
    }
    if (vm->world) {
        set_clocks(vm);
    }
    scope_unref(s->outer);
    arena_release(&s->strings);
    free(s);
}

void scope_end_run(struct vm *vm) {
    for (struct scope *s = vm->scopes, *next; s; s = next) {
        next = s->next;
        scope_close(s);
    }
    watchdog_free(vm->watchdog);
    vm->watchdog = NULL;
}
