/* bind/keeper_guard.c -- what is guarded by a lease: a scope whose deadlines are the lease's, and that ends with it. */
#include "bind/keeper.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "bind/scope.h"

/* Between a keeper and a scope that ends with its lease. */
struct guard_link {
    struct keeper_listener listener;
    struct bound_keeper *keeper;
    struct scope *scope;
};

static void stop_guard(struct scope *s, const struct keeper *k) {
    const struct error *lost = k ? keeper_lost(k) : NULL;
    struct error left;
    error_set(&left, ERR_LEASE_LOST, "the lease was given back while it guarded this");
    scope_stop(s, lost ? lost : &left);
}

static void guard_changed(struct keeper_listener *l, struct keeper *k) {
    struct guard_link *g = container_of(l, struct guard_link, listener);
    if (keeper_state(k) == KEEPER_HELD) {
        scope_set_deadlines(g->scope, keeper_soft(k), keeper_hard(k));
    } else {
        stop_guard(g->scope, k);
    }
}

static void guard_closed(struct scope *s, void *arg) {
    struct guard_link *g = arg;
    (void)s;
    if (g->keeper->keeper) {
        keeper_ignore(g->keeper->keeper, &g->listener);
    }
    free(g);
}

int keeper_scope(lua_State *L) {
    struct vm *vm = task_enter(L, "lease:guard");
    struct bound_keeper *b = keeper_check(L);
    const struct keeper *k = b->keeper;
    const struct place *p = b->place;
    struct guard_link *g = xcalloc(1, sizeof *g);
    *g = (struct guard_link){.listener = {.changed = guard_changed}, .keeper = b};
    struct scope_options o = {
        .soft = keeper_soft(k),
        .hard = keeper_hard(k),
        .slice = keeper_timing(k)->slice,
        .lease = {p->store->store, p->container, p->name, keeper_id(k)},
        .closed = guard_closed,
        .arg = g,
    };
    lua_settop(L, 1);
    o.name = p->name ? lua_pushfstring(L, "%s/%s", p->container, p->name) : p->container;
    g->scope = scope_push(L, vm, &o, 1);
    keeper_listen(b->keeper, &g->listener);
    if (!keeper_held(k)) {
        stop_guard(g->scope, k);
    }
    return 1;
}
