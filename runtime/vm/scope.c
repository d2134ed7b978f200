/* scope.c -- the two stops of a scope, and the clocks that bring them. scope.h has the stages and
 * who takes each arrow, scope_member.c what belongs to one. */
#include "base/alloc.h"
#include "vm/scope_impl.h"

/* ---- what the clocks and the watchdog know ---- */

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

void scope_set_clocks(struct vm *vm) {
    int64_t stop = NEVER, end = NEVER;
    for (struct scope *s = vm->scopes; s; s = s->next) {
        if (scope_is_over(s)) {
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
    int64_t at = scope_is_over(s) ? NEVER : next_stop(s);
    if (at == NEVER) {
        alarm_clear(s->vm->world, &s->alarm);
    } else {
        alarm_set(s->vm->world, &s->alarm, at);
    }
}

static void tell_watches(struct scope *s) {
    for (struct scope *x = s->vm->scopes; x; x = x->next) {
        if (!scope_is_within(x, s)) {
            continue;
        }
        for (struct scope_watch *w = x->watches, *next; w; w = next) {
            next = w->next;
            w->moved(w, x);
        }
    }
}

void scope_moved(struct scope *s) {
    if (s->vm->world) {
        set_alarm(s);
        scope_set_clocks(s->vm);
        tell_watches(s);
    }
}

/* ---- the stops ---- */

static void scope_soften(struct scope *s) {
    struct vm *vm = s->vm;
    for (struct task *t = vm->oldest; t; t = t->newer) {
        if (scope_is_within(t->scope, s) && t->scope->stage == SCOPE_OPEN) {
            task_stop(t);
        }
    }
    for (struct scope *x = vm->scopes; x; x = x->next) {
        if (scope_is_within(x, s) && x->stage == SCOPE_OPEN) {
            x->stage = SCOPE_SOFT;
            x->why = s->why;
        }
    }
}

static void scope_harden(struct scope *s) {
    struct vm *vm = s->vm;
    for (struct scope *x = vm->scopes; x; x = x->next) {
        if (scope_is_within(x, s) && x->stage != SCOPE_HARD) {
            x->why = x->stage == SCOPE_OPEN ? s->why : x->why;
            x->stage = SCOPE_HARD;
        }
    }
    for (struct task *t = vm->oldest; t; t = t->newer) {
        if (scope_is_within(t->scope, s)) {
            task_stop(t);
        }
    }
    scope_pause(s); /* nothing guarded runs meanwhile, which may take a moment */
    scope_close_resources(s);
}

/* Takes the arrows that are due by the clock. */
static void notice(struct scope *s, int64_t now) {
    if (scope_is_over(s) || now < next_stop(s)) {
        return;
    }
    if (s->stage == SCOPE_OPEN) {
        scope_soften(s);
    }
    if (now >= s->hard) {
        scope_harden(s);
    }
    scope_moved(s);
}

void scope_alarm_rings(struct alarm *a) {
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
        scope_moved(s);
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
        scope_moved(s);
    }
}

/* ---- entering Lua ---- */

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
