/* store_list.c -- lists: `for item in container:list{...} do`, pages fetched as they are needed.
 *
 * The loop's state is a cursor, which holds the page being read and is closed when the loop ends, in
 * whichever way. A page that fails is raised: a loop must not end as if it were complete.
 */
#include "bind/store.h"

#include <string.h>

#define LIST_TYPE "synod.List"

struct cursor {
    struct bound_store *store; /* its userdata is the first user value */
    struct store_call *page;   /* finished: being read; else under way */
    struct store_item *next;   /* of the page */
    bool busy;                 /* a task waits for the page */
    /* What each page's request has in common. */
    enum store_verb verb;
    int64_t timeout, try_ns, max_results;
    int retries;
    bool with_metadata;
    const char *container, *prefix; /* NULL: none */
    char text[];
};

static void cursor_drop_page(struct cursor *c) {
    if (c->page) {
        struct store_call *page = c->page;
        c->page = NULL;
        c->next = NULL;
        store_call_free(page);
    }
}

static int cursor_close(lua_State *L) {
    struct cursor *c = luaL_checkudata(L, 1, LIST_TYPE);
    if (!c->busy) {
        cursor_drop_page(c);
    }
    c->container = NULL;
    c->prefix = NULL;
    c->verb = VERB_COUNT; /* no more pages */
    return 0;
}

static void cursor_cancel(void *arg) {
    struct cursor *c = arg;
    struct store_call *page = c->page;
    c->page = NULL;
    c->busy = false;
    store_call_abandon(page);
}

static int cursor_step(lua_State *L, struct vm *vm, struct cursor *c);

/* A page has come. */
static int cursor_turn(lua_State *L, void *arg) {
    struct cursor *c = arg;
    c->busy = false;
    if (c->page->reply.err.code != ERR_OK) {
        push_call_error(L, c->page);
        cursor_drop_page(c);
        c->verb = VERB_COUNT;
        return lua_error(L);
    }
    c->next = c->page->reply.items;
    return cursor_step(L, c->store->vm, c);
}

/* Asks for the page after the one just read, or for the first. */
static int cursor_ask(lua_State *L, struct vm *vm, struct cursor *c) {
    struct store_call *call = call_new(L, c->store, c->verb);
    struct store_request *req = &call->req;
    call->timeout = c->timeout;
    req->try_ns = c->try_ns;
    req->retries = c->retries;
    req->max_results = c->max_results;
    req->with_metadata = c->with_metadata;
    req->container = c->container ? call_copy(L, call, c->container, strlen(c->container)) : NULL;
    req->prefix = c->prefix ? call_copy(L, call, c->prefix, strlen(c->prefix)) : NULL;
    if (c->page) {
        const char *marker = c->page->reply.next_marker;
        req->marker = call_copy(L, call, marker, strlen(marker));
    }
    cursor_drop_page(c);
    struct task *task = task_running(vm);
    bool wait = call_begin(L, c->store, call, task);
    c->page = call;
    if (!wait && task_may_skip_park(vm)) {
        return cursor_turn(L, c);
    }
    c->busy = true;
    if (!wait) {
        task_wake(task);
    }
    return task_park(L, vm, c, cursor_turn, cursor_cancel);
}

/* The next item, or nil after the last. */
static int cursor_step(lua_State *L, struct vm *vm, struct cursor *c) {
    if (c->next) {
        push_props(L, &c->next->props, c->next->name);
        c->next = c->next->next;
        return 1;
    }
    bool more = c->verb != VERB_COUNT && (!c->page || c->page->reply.next_marker);
    if (more) {
        return cursor_ask(L, vm, c);
    }
    c->verb = VERB_COUNT;
    cursor_drop_page(c);
    lua_pushnil(L);
    return 1;
}

static int cursor_next(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "container:list");
    struct cursor *c = luaL_checkudata(L, 1, LIST_TYPE);
    if (c->busy) {
        return luaL_error(L, "another task is waiting for the next page of this list");
    }
    return cursor_step(L, vm, c);
}

static const char *put_text(char **out, const char *text) {
    if (!text) {
        return NULL;
    }
    const char *copy = *out;
    *out = stpcpy(*out, text) + 1;
    return copy;
}

/* Pushes what a for loop takes: the function, its state, no first value, what is closed at the end. The
 * options are read into a call that is never started. */
static int push_list(lua_State *L, struct vm *vm, struct bound_store *store, const char *container,
                     enum store_verb verb) {
    struct store_call *call = call_new(L, store, verb);
    const struct store_request *req = &call->req;
    call_options(L, 2, LIST_OPTIONS, call);
    size_t text = (container ? strlen(container) : 0) + (req->prefix ? strlen(req->prefix) : 0) + 2;
    struct cursor *c = lua_newuserdatauv(L, sizeof *c + text, 1);
    *c = (struct cursor){
        .store = store,
        .verb = verb,
        .timeout = call->timeout,
        .try_ns = req->try_ns,
        .retries = req->retries,
        .max_results = req->max_results,
        .with_metadata = req->with_metadata,
    };
    char *out = c->text;
    c->container = put_text(&out, container);
    c->prefix = put_text(&out, req->prefix);
    lua_pushvalue(L, 1); /* the container or store, which keeps the store alive */
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, LIST_TYPE);
    lua_pushlightuserdata(L, vm);
    lua_pushcclosure(L, cursor_next, 1);
    lua_insert(L, -2);
    lua_pushnil(L);
    lua_pushvalue(L, -2);
    return 4;
}

/* container:list{prefix =, metadata =, page =} */
int container_list(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "container:list");
    struct place *p = place_check(L, 1, CONTAINER_TYPE);
    return push_list(L, vm, p->store, p->container, VERB_BLOB_LIST);
}

/* store:containers{prefix =, metadata =, page =} */
int store_containers(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "store:containers");
    return push_list(L, vm, bound_store_check(L, 1), NULL, VERB_CONTAINER_LIST);
}

/* store:queues{prefix =, metadata =, page =} */
int store_queues(lua_State *L) {
    struct vm *vm = task_enter(L, "store:queues");
    return push_list(L, vm, bound_store_check(L, 1), NULL, VERB_QUEUE_LIST);
}

void bind_store_list(lua_State *L, struct vm *vm) {
    static const luaL_Reg METHODS[] = {{NULL, NULL}};
    static const luaL_Reg META[] = {
        {"__gc", cursor_close}, {"__close", cursor_close}, {NULL, NULL}};
    bind_type(L, vm, LIST_TYPE, METHODS, META);
}
