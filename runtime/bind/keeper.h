/* bind/keeper.h -- a keeper as a userdata, for the two files that show it to Lua: keeper.c, and keeper_guard.c. */
#ifndef SYNOD_BIND_KEEPER_H
#define SYNOD_BIND_KEEPER_H

#include "bind/store.h"
#include "lease/keeper.h"

struct bound_keeper {
    struct bound_store *store; /* kept alive by the place, the first user value */
    struct place *place;
    struct keeper *keeper;            /* NULL: collected, or left to itself */
    struct bound_keeper *prev, *next; /* of the store's */
    struct keeper_listener listener;
    struct waitlist waiting; /* for the loss */
    struct task *caller;     /* waits for a try, release or change; NULL: nobody does */
    bool done;               /* it has ended */
    const char *operation;   /* what it is, for errors */
};

/* Argument 1; raises when it is another, or was given up. */
struct bound_keeper *keeper_check(lua_State *L);

/* keeper:scope() -> a scope for synod.guard, which moves and stops with the lease */
int keeper_scope(lua_State *L);

#endif
