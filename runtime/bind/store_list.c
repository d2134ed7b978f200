/* store_list.c -- lists and queries: `for item in container:list{...} do`, `for e in table:query{...} do`,
 * pages fetched as they are needed.
 *
 * The loop's state is a cursor, which holds the page being read and is closed when the loop ends, in
 * whichever way. A page that fails is raised: a loop must not end as if it were complete. A page may be
 * empty and have a next one.
 */
#include <string.h>

#include "bind/table.h"

#define LIST_TYPE "synod.List"

struct cursor {
    struct bound_store *store; /* its userdata, or the place's, is the first user value */
    struct arena arena;        /* of the question's strings */
    struct store_request
        asked; /* what each page's request has in common; only its own fields count */
    int64_t timeout;
    struct store_call *page; /* finished: being read; else under way */
    struct entity *entity;   /* of a query: the next one of the page */
    struct store_item *item; /* of a list: the same */
    bool busy;               /* a task waits for the page */
    bool ended;              /* no more pages */
};

static void drop_page(struct cursor *c) {
    if (c->page) {
        struct store_call *page = c->page;
        c->page = NULL;
        c->entity = NULL;
        c->item = NULL;
        store_call_free(page);
    }
}

static int cursor_close(lua_State *L) {
    struct cursor *c = luaL_checkudata(L, 1, LIST_TYPE);
    if (!c->busy) {
        drop_page(c);
    }
    c->ended = true;
    return 0;
}

static int cursor_gc(lua_State *L) {
    struct cursor *c = luaL_checkudata(L, 1, LIST_TYPE);
    cursor_close(L);
    arena_release(&c->arena);
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
        drop_page(c);
        c->ended = true;
        return lua_error(L);
    }
    c->entity = c->page->reply.entities;
    c->item = c->page->reply.items;
    return cursor_step(L, c->store->vm, c);
}

/* The strings of a question. */
enum { QUESTION_TEXTS = 7 };

static void question_texts(struct store_request *req, const char **texts[QUESTION_TEXTS]) {
    const char **all[QUESTION_TEXTS] = {&req->container, &req->prefix, &req->partition, &req->row,
                                        &req->row_to,    &req->filter, &req->select};
    memcpy(texts, all, sizeof all);
}

static void copy_question(struct store_request *to, const struct store_request *from) {
    to->container = from->container;
    to->prefix = from->prefix;
    to->partition = from->partition;
    to->row = from->row;
    to->row_to = from->row_to;
    to->filter = from->filter;
    to->select = from->select;
    to->with_metadata = from->with_metadata;
    to->max_results = from->max_results;
    to->try_ns = from->try_ns;
    to->retries = from->retries;
}

/* Asks for the page after the one just read, or for the first. An abandoned call outlives the cursor, so
 * that the question is copied. */
static int cursor_ask(lua_State *L, struct vm *vm, struct cursor *c) {
    struct store_call *call = call_new(L, c->store, c->asked.verb);
    struct store_request *req = &call->req;
    copy_question(req, &c->asked);
    const char **texts[QUESTION_TEXTS];
    question_texts(req, texts);
    for (int i = 0; i < QUESTION_TEXTS; i++) {
        *texts[i] = *texts[i] ? call_copy(L, call, *texts[i], strlen(*texts[i])) : NULL;
    }
    call->timeout = c->timeout;
    if (c->page) {
        const char *marker = c->page->reply.next_marker;
        req->marker = call_copy(L, call, marker, strlen(marker));
    }
    drop_page(c);
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

/* The next one, or nil after the last. */
static int cursor_step(lua_State *L, struct vm *vm, struct cursor *c) {
    if (c->entity) {
        push_entity(L, c->entity);
        c->entity = c->entity->next;
        return 1;
    }
    if (c->item) {
        /* Of one that has none a server may say so or say nothing: asked for, it is there, empty. */
        c->item->props.has_metadata |= c->asked.with_metadata;
        push_props(L, &c->item->props, c->item->name);
        c->item = c->item->next;
        return 1;
    }
    if (!c->ended && (!c->page || c->page->reply.next_marker)) {
        return cursor_ask(L, vm, c);
    }
    c->ended = true;
    drop_page(c);
    lua_pushnil(L);
    return 1;
}

static int cursor_next(lua_State *L) {
    struct cursor *c = luaL_checkudata(L, 1, LIST_TYPE);
    bool query = c->asked.verb == VERB_ENTITY_QUERY;
    struct vm *vm = task_enter_wait(L, query ? "table:query" : "container:list");
    if (c->busy) {
        return luaL_error(L, "another task is waiting for the next page of this %s",
                          query ? "query" : "list");
    }
    return cursor_step(L, vm, c);
}

/* Pushes what a for loop takes: the function, its state, no first value, what is closed at the end. The
 * options are read into a call that is never started. */
static int push_cursor(lua_State *L, struct vm *vm, struct bound_store *store,
                       const char *container, enum store_verb verb,
                       const struct call_option *options) {
    struct store_call *call = call_new(L, store, verb);
    call_options(L, 2, options, call);
    call->req.container = container;
    struct cursor *c = lua_newuserdatauv(L, sizeof *c, 1);
    *c = (struct cursor){.store = store, .timeout = call->timeout};
    request_init(&c->asked, verb);
    copy_question(&c->asked, &call->req);
    arena_init(&c->arena);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, LIST_TYPE);
    const char **texts[QUESTION_TEXTS];
    question_texts(&c->asked, texts);
    for (int i = 0; i < QUESTION_TEXTS; i++) {
        const char *text = *texts[i];
        *texts[i] = arena_strdup(&c->arena, text);
        if (text && !*texts[i]) {
            return luaL_error(L, "not enough memory");
        }
    }
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
    return push_cursor(L, vm, p->store, p->container, VERB_BLOB_LIST, LIST_OPTIONS);
}

/* store:containers{prefix =, metadata =, page =} */
int store_containers(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "store:containers");
    return push_cursor(L, vm, bound_store_check(L, 1), NULL, VERB_CONTAINER_LIST, LIST_OPTIONS);
}

/* store:queues{prefix =, metadata =, page =} */
int store_queues(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "store:queues");
    return push_cursor(L, vm, bound_store_check(L, 1), NULL, VERB_QUEUE_LIST, LIST_OPTIONS);
}

/* table:query{partition =, from =, to =, filter =, select =, page =} */
int table_query(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "table:query");
    struct place *p = place_check(L, 1, TABLE_TYPE);
    return push_cursor(L, vm, p->store, p->container, VERB_ENTITY_QUERY, ENTITY_QUERY_OPTIONS);
}

/* store:tables{} */
int store_tables(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "store:tables");
    return push_cursor(L, vm, bound_store_check(L, 1), NULL, VERB_TABLE_LIST, TABLE_OPTIONS);
}

void bind_store_list(lua_State *L, struct vm *vm) {
    static const luaL_Reg METHODS[] = {{NULL, NULL}};
    static const luaL_Reg META[] = {{"__gc", cursor_gc}, {"__close", cursor_close}, {NULL, NULL}};
    bind_type(L, vm, LIST_TYPE, METHODS, META);
}
