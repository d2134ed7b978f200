/* store.h -- what the bindings of stores, containers and blobs share.
 *
 * A store is a userdata "synod.Store"; a container or blob is a userdata that names a place in one and
 * keeps it alive. A call is made from the arguments, run, and turned into results:
 *
 *     struct place *p = place_check(L, 1, BLOB_TYPE);
 *     struct store_call *call = place_call(L, p, VERB_BLOB_HEAD);
 *     call_options(L, 2, HEAD_OPTIONS, call);
 *     return call_run(L, vm, p->store, call);
 *
 * Anything in between may raise: a call that belongs to nobody yet hangs on the store as `loose` and is
 * freed when the next one is made; so does one whose results are being pushed, as `pushed`. Where Lua cannot
 * suspend the next one may be made by a finaliser of the script, in the middle of the first: then both hang there.
 * All stay when a finaliser closes the store in between, and go with the userdata at the latest.
 */
#ifndef SYNOD_BIND_STORE_H
#define SYNOD_BIND_STORE_H

#include "bind/bind.h"
#include "bind/meter.h"
#include "store/client.h"

#define STORE_TYPE "synod.Store"
#define CONTAINER_TYPE "synod.Container"
#define BLOB_TYPE "synod.Blob"
#define LEASE_TYPE "synod.Lease"

struct change_wait;
struct bound_keeper;

struct bound_store {
    struct vm_resource resource; /* closes the store at the end of the run */
    struct vm *vm;
    struct store *store;          /* NULL: closed */
    struct store_call *loose;     /* see above: the last one made; may be left over from an error */
    struct store_call *pushed;    /* see above; the same */
    struct change_wait *waits;    /* store:changed calls under way */
    struct bound_keeper *keepers; /* on its blobs and containers: see keeper.h */
    struct meter meter;           /* of the store's */
    struct meter *page;           /* of the ledger: where they go when it is closed */
};

struct place {
    struct bound_store *store; /* its userdata is the first user value */
    const char *container;
    const char *name; /* NULL: the container itself */
    bool base64;      /* of a queue: bodies travel as base64 */
    char text[];
};

/* Raise when the argument is something else, or the store was closed. */
struct bound_store *bound_store_check(lua_State *L, int arg);
void bound_store_check_open(lua_State *L, const struct bound_store *store);
struct place *place_check(lua_State *L, int arg, const char *type);
/* Pushes a place; the store's userdata is at index `owner`. */
void place_push(lua_State *L, int owner, struct bound_store *store, const char *type,
                const char *container, const char *name);

/* A loose call. */
struct store_call *call_new(lua_State *L, struct bound_store *store, enum store_verb verb);
struct store_call *place_call(lua_State *L, struct place *p, enum store_verb verb);
void call_drop(struct bound_store *store, struct store_call *call); /* frees a loose one */
void calls_drop(struct bound_store *store); /* frees all that errors have left over */
/* Copies into the call's arena; raises when memory is short. */
const char *call_copy(lua_State *L, struct store_call *call, const char *data, size_t len);

/* Runs the loose call and gives its results: true for creates and deletes, body and props for a read,
 * props for the rest; nil, err when it was refused. */
int call_run(lua_State *L, struct vm *vm, struct bound_store *store, struct store_call *call);

/* The same; when the task is cancelled, `cancel` is called with the call: to abandon it, or to see to it
 * from then on (call->done and owner are set anew). */
int call_run_with(lua_State *L, struct vm *vm, struct bound_store *store, struct store_call *call,
                  void (*cancel)(struct bound_store *store, struct store_call *call));

/* For calls whose results are pushed elsewhere: starts the loose call, which is its caller's from now
 * on. True: the task will be woken when it is finished; false: it is finished already. */
bool call_begin(lua_State *L, struct bound_store *store, struct store_call *call,
                struct task *task);

/* lease.c: the results of a lease call; its object, or what it is asked for, is at 1. */
int push_lease_results(lua_State *L, const struct store_call *call);
int blob_lease(lua_State *L);
int blob_break_lease(lua_State *L);
int container_lease(lua_State *L);
int container_break_lease(lua_State *L);

/* keeper.c: the store is about to be closed; what is held on it is lost. */
void bound_keepers_close(struct bound_store *store);

/* container:list and store:containers: see store_list.c. */
int container_list(lua_State *L);
int store_containers(lua_State *L);
int store_queues(lua_State *L);

int push_call_error(lua_State *L, const struct store_call *call); /* nil, err */
void push_props(lua_State *L, const struct store_props *props, const char *name);

/* ---- options ---- */

/* One option: `read` takes the value at the top of the stack, which it leaves there. */
struct call_option {
    const char *name;
    void (*read)(lua_State *L, struct store_call *call, const char *name);
};

/* Reads the table at `arg` (nil and none: nothing) by a list that ends with a NULL name; raises for an
 * unknown name, with a suggestion. */
void call_options(lua_State *L, int arg, const struct call_option *known, struct store_call *call);

/* Each with timeout, try_timeout and retries, and with the conditions that the service takes there. */
extern const struct call_option READ_OPTIONS[], GET_OPTIONS[], PUT_OPTIONS[], APPEND_OPTIONS[],
    STAGE_OPTIONS[], COMMIT_OPTIONS[], COPY_OPTIONS[], CREATE_OPTIONS[], LIST_OPTIONS[],
    CONTAINER_READ_OPTIONS[], CONTAINER_WRITE_OPTIONS[], CONTAINER_DELETE_OPTIONS[],
    LEASE_OPTIONS[], CONTAINER_LEASE_OPTIONS[], ACQUIRE_OPTIONS[], CONTAINER_ACQUIRE_OPTIONS[];

/* The lease id at `index`, in the form in which the stores compare them; raises when it is none. `whose`
 * begins the message. */
const char *check_lease_id(lua_State *L, int index, struct store_call *call, const char *whose);

/* The table at `arg` becomes the request's metadata. */
void call_metadata(lua_State *L, int arg, struct store_call *call);

#endif
