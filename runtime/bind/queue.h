/* queue.h -- what the binding of queues shares with those of stores and calls. */
#ifndef SYNOD_BIND_QUEUE_H
#define SYNOD_BIND_QUEUE_H

#include "bind/store.h"

#define QUEUE_TYPE "synod.Queue"
#define MESSAGE_TYPE "synod.Message"

/* store:queue(name, {base64 =}) */
int store_queue(lua_State *L);
/* Results of a finished call on a queue or a message, which is at 1: see call_run. */
int push_queue_results(lua_State *L, struct store_call *call);

#endif
