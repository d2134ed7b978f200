/* scope_impl.h -- a scope, for the two files that make it up; nobody else includes it. */
#ifndef SYNOD_VM_SCOPE_IMPL_H
#define SYNOD_VM_SCOPE_IMPL_H

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

bool scope_is_within(const struct scope *inner, const struct scope *s); /* or the same */
bool scope_is_over(const struct scope *s); /* closed, and nothing of it runs */

/* scope.c: a stop has moved, or a scope has come or gone. */
void scope_set_clocks(struct vm *vm);
void scope_moved(struct scope *s); /* the same, and its alarm and watches */
void scope_alarm_rings(struct alarm *a);

/* scope_member.c */
void scope_close_resources(struct scope *s); /* of those inside it too */

#endif
