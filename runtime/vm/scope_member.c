/* scope_member.c -- what belongs to a scope: tasks, resources, watches, the lease; its beginning
 * and end. */
#include <stdlib.h>
#include <string.h>

#include "vm/scope_impl.h"

bool scope_is_within(const struct scope *inner, const struct scope *s) {
    while (inner && inner != s) {
        inner = inner->outer;
    }
    return inner != NULL;
}

bool scope_is_over(const struct scope *s) {
    return s->closed && s->tasks == 0;
}

/* ---- tasks and resources ---- */

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
                scope_moved(x);
            }
        }
    }
    scope_unref(s);
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

void scope_close_resources(struct scope *s) {
    struct vm_resource *r = s->vm->resources;
    while (r) {
        if (scope_is_within(r->scope, s)) {
            vm_forget(s->vm, r);
            r->close(r);
            r = s->vm->resources; /* a close may take others along */
        } else {
            r = r->next;
        }
    }
}

/* ---- watches and the lease ---- */

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
    s->alarm.ring = scope_alarm_rings;
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
    scope_moved(s);
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
    scope_close_resources(s);
    s->closed = true;
    if (s->on_closed) {
        s->on_closed(s, s->arg);
    }
    scope_moved(s);
}

void scope_unref(struct scope *s) {
    if (!s || --s->refs > 0) {
        return;
    }
    struct vm *vm = s->vm;
    scope_close(s);
    scope_close_resources(s);
    *(s->prev ? &s->prev->next : &vm->scopes) = s->next;
    if (s->next) {
        s->next->prev = s->prev;
    }
    if (vm->world) {
        scope_set_clocks(vm);
    }
    scope_unref(s->outer);
    arena_release(&s->strings);
    free(s);
}

void scope_end_run(struct vm *vm) {
    for (struct scope *s = vm->scopes; s;) {
        if (s->closed) {
            s = s->next;
        } else { /* which may free others */
            scope_close(s);
            s = vm->scopes;
        }
    }
    watchdog_free(vm->watchdog);
    vm->watchdog = NULL;
}
