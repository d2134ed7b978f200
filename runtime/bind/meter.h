/* meter.h -- what all stores of a Lua state have been asked for, also those that were closed. */
#ifndef SYNOD_BIND_METER_H
#define SYNOD_BIND_METER_H

#include <lua.h>

#include "store/meter.h"

/* Where a store of this name is to be added up when it is closed; lives as long as the state. Raises when memory is
 * short. */
struct meter *ledger_page(lua_State *L, const char *name);
void ledger_add(struct meter *page, const struct meter *m);

/* Pushes {PutBlob = 3, ...}, or with `outcomes` {PutBlob = {done = 2, refused = 1}, ...}. */
void push_meter(lua_State *L, const struct meter *m, bool outcomes);

#endif
