/* queue.c -- queues and their messages.
 *
 * A message is a table: id, body, dequeue_count, inserted, expires, and of one that was got or put receipt
 * and next_visible; `queue` is where it lies. update and delete go by its id and receipt, and update puts
 * the new receipt in.
 *
 * Messages that are being got when their task is cancelled become visible again: the attempt under way is
 * waited for, and what it took is shown at once. Nobody waits for that; it has ended after one attempt's
 * time and GIVE_BACK_TIMEOUT_S, and the run does not end before. */
#include "bind/queue.h"

#include <string.h>

#include "base/base64.h"
#include "store/names.h"

enum { GIVE_BACK_TIMEOUT_S = 5 };

/* ---- without a task ---- */

static void errand_end(struct store_call *call) {
    struct bound_store *store = call->owner;
    store_call_free(call);
    vm_errand_end(store->vm);
}

/* Makes a message visible at once. */
static void give_back(struct bound_store *store, const char *queue,
                      const struct store_message *message) {
    struct store_call *call = store_call_new(store->store, VERB_MESSAGE_UPDATE);
    struct store_request *req = &call->req;
    req->container = arena_strdup(&call->arena, queue);
    req->name = arena_strdup(&call->arena, message->id);
    req->receipt = arena_strdup(&call->arena, message->receipt);
    req->visibility_s = 0;
    call->timeout = GIVE_BACK_TIMEOUT_S * NS_PER_S;
    if (!req->container || !req->name || !req->receipt) {
        store_call_free(call);
        return;
    }
    vm_errand_begin(store->vm);
    store_call_start(call, errand_end, store);
}

static void get_done(struct store_call *call) {
    struct bound_store *store = call->owner;
    bool took = call->reply.err.code == ERR_OK && store->store; /* a closed one is asked no more */
    const struct store_message *m = took ? call->reply.messages : NULL;
    for (; m; m = m->next) {
        if (m->receipt) {
            give_back(store, call->req.container, m);
        }
    }
    errand_end(call);
}

static void get_cancel(struct bound_store *store, struct store_call *call) {
    vm_errand_begin(store->vm);
    call->owner = store;
    call->done = get_done;
    if (call->finished) {
        get_done(call);
    } else {
        store_call_hurry(call);
    }
}

/* ---- bodies ---- */

/* The body at `arg`, in the form in which it travels. */
static void take_body(lua_State *L, int arg, struct store_call *call, bool base64) {
    size_t len;
    const char *body = lua_tolstring(L, arg, &len);
    if (!base64) {
        const char *fault = text_fault_xml(body, len);
        if (fault) {
            luaL_error(L,
                       "the message's body %s, which the service cannot carry as it is; make the "
                       "queue with {base64 = true}, for all who use it",
                       fault);
        }
        call->req.body = call_copy(L, call, body, len);
        call->req.body_len = len;
        return;
    }
    struct buf text;
    buf_init(&text, base64_length(len) + 1);
    bool ok = base64_encode(&text, body, len);
    const char *copy = ok ? arena_copy(&call->arena, buf_str(&text), text.len) : NULL;
    call->req.body = copy;
    call->req.body_len = text.len;
    buf_release(&text);
    if (!copy) {
        luaL_error(L, "not enough memory for %I bytes", (LUAI_UACINT)len);
    }
}

/* Sets body, and raw when it was to be base64 and is not. */
static void set_body(lua_State *L, const struct store_message *m, bool base64) {
    luaL_Buffer buffer;
    size_t len;
    const char *text = m->body ? m->body : "";
    if (base64) {
        char *out = luaL_buffinitsize(L, &buffer, m->body_len / 4 * 3 + 1);
        bool ok = base64_decode(text, m->body_len, out, &len);
        luaL_pushresultsize(&buffer, ok ? len : 0);
        if (ok) {
            lua_setfield(L, -2, "body");
            return;
        }
        lua_pop(L, 1);
        lua_pushboolean(L, true);
        lua_setfield(L, -2, "raw");
    }
    lua_pushlstring(L, text, m->body_len);
    lua_setfield(L, -2, "body");
}

/* ---- results ---- */

static void set_date(lua_State *L, const char *field, int64_t date) {
    if (date != UNSET && date != NEVER) {
        lua_pushinteger(L, date / NS_PER_S);
        lua_setfield(L, -2, field);
    }
}

/* All but the body; the queue is at the index given. */
static void push_message(lua_State *L, int queue, const struct store_message *m) {
    lua_createtable(L, 0, 8);
    lua_pushvalue(L, queue);
    lua_setfield(L, -2, "queue");
    lua_pushstring(L, m->id);
    lua_setfield(L, -2, "id");
    lua_pushstring(L, m->receipt); /* NULL: nil */
    lua_setfield(L, -2, "receipt");
    lua_pushinteger(L, m->dequeue_count);
    lua_setfield(L, -2, "dequeue_count");
    set_date(L, "inserted", m->inserted);
    set_date(L, "expires", m->expires);
    set_date(L, "next_visible", m->next_visible);
    luaL_setmetatable(L, MESSAGE_TYPE);
}

static int push_messages(lua_State *L, const struct store_reply *reply) {
    const struct place *queue = lua_touserdata(L, 1);
    lua_Integer i = 0;
    lua_newtable(L);
    for (const struct store_message *m = reply->messages; m; m = m->next) {
        push_message(L, 1, m);
        set_body(L, m, queue->base64);
        lua_seti(L, -2, ++i);
    }
    return 1;
}

/* A put gives the message, with the body as it was given. */
static int push_put(lua_State *L, const struct store_call *call) {
    push_message(L, 1, call->reply.messages);
    lua_pushvalue(L, 2);
    lua_tostring(L, -1);
    lua_setfield(L, -2, "body");
    return 1;
}

/* The message at 1 has another receipt, and the body at 3, if one was given. */
static int push_updated(lua_State *L, const struct store_call *call) {
    const struct store_message *m = call->reply.messages;
    lua_settop(L, 3);
    if (call->req.body) {
        lua_setfield(L, 1, "body");
        lua_pushnil(L);
        lua_setfield(L, 1, "raw");
    }
    lua_settop(L, 1);
    lua_pushstring(L, m->receipt);
    lua_setfield(L, 1, "receipt");
    set_date(L, "next_visible", m->next_visible);
    return 1;
}

static int push_deleted(lua_State *L) {
    lua_pushnil(L);
    lua_setfield(L, 1, "receipt");
    lua_pushboolean(L, true);
    return 1;
}

int push_queue_results(lua_State *L, struct store_call *call) {
    const struct store_reply *reply = &call->reply;
    if (reply->err.code != ERR_OK) {
        return push_call_error(L, call);
    }
    switch (call->req.verb) {
    case VERB_MESSAGE_PUT:
        return push_put(L, call);
    case VERB_MESSAGE_GET:
    case VERB_MESSAGE_PEEK:
        return push_messages(L, reply);
    case VERB_MESSAGE_UPDATE:
        return push_updated(L, call);
    case VERB_MESSAGE_DELETE:
        return push_deleted(L);
    case VERB_QUEUE_HEAD:
        lua_pushinteger(L, reply->count);
        return 1;
    default:
        lua_pushboolean(L, true);
        return 1;
    }
}

/* ---- options ---- */

static int64_t whole_number(lua_State *L, const char *name) {
    int whole = 0;
    lua_Integer n = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &whole) : 0;
    if (!whole) {
        luaL_error(L, "option '%s': whole number expected, got %s", name,
                   luaL_tolstring(L, -1, NULL));
    }
    return n;
}

static int64_t whole_seconds(lua_State *L, const char *name) {
    int64_t n = whole_number(L, name);
    if (n < 0) {
        luaL_error(L, "option '%s': seconds must not be negative, got %I", name, (LUAI_UACINT)n);
    }
    return n;
}

static void read_visibility(lua_State *L, struct store_call *call, const char *name) {
    call->req.visibility_s = whole_seconds(L, name);
}

static void read_ttl(lua_State *L, struct store_call *call, const char *name) {
    call->req.ttl_s = whole_number(L, name);
}

static void read_n(lua_State *L, struct store_call *call, const char *name) {
    call->req.count = whole_number(L, name);
}

static void read_once(lua_State *L, struct store_call *call, const char *name) {
    if (!lua_isboolean(L, -1)) {
        luaL_error(L, "option '%s': true or false expected, got %s", name, luaL_typename(L, -1));
    }
    call->req.once = lua_toboolean(L, -1);
}

/* Taken when all others have been read: message_update. */
static void read_body(lua_State *L, struct store_call *call, const char *name) {
    (void)call;
    if (!lua_isstring(L, -1)) {
        luaL_error(L, "option '%s': string expected, got %s", name, luaL_typename(L, -1));
    }
}

#define END                                                                                        \
    { NULL, NULL }

static const struct call_option PLAIN[] = {END};
static const struct call_option PUT[] = {
    {"delay", read_visibility}, {"ttl", read_ttl}, {"once", read_once}, END};
static const struct call_option GET[] = {{"n", read_n}, {"visibility", read_visibility}, END};
static const struct call_option UPDATE[] = {
    {"visibility", read_visibility}, {"body", read_body}, END};

/* ---- queues ---- */

static bool read_base64(lua_State *L, int arg) {
    if (lua_isnoneornil(L, arg)) {
        return false;
    }
    luaL_checktype(L, arg, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "base64") != 0) {
            luaL_error(L, "unknown option '%s'; a queue has base64", luaL_tolstring(L, -2, NULL));
        }
    }
    return bind_opt_boolean_field(L, arg, "base64", false);
}

/* store:queue(name, {base64 =}) -> queue */
int store_queue(lua_State *L) {
    struct bound_store *b = bound_store_check(L, 1);
    size_t len;
    const char *name = luaL_checklstring(L, 2, &len);
    const char *fault = name_fault_queue(name, len);
    if (fault) {
        luaL_argerror(L, 2, lua_pushfstring(L, "the queue name '%s' %s", name, fault));
    }
    bool base64 = read_base64(L, 3);
    place_push(L, 1, b, QUEUE_TYPE, name, NULL);
    ((struct place *)lua_touserdata(L, -1))->base64 = base64;
    return 1;
}

static int queue_tostring(lua_State *L) {
    lua_pushfstring(L, "queue %s", ((struct place *)lua_touserdata(L, 1))->container);
    return 1;
}

static int plain_call(lua_State *L, const char *name, enum store_verb verb,
                      const struct call_option *options) {
    struct vm *vm = task_enter_wait(L, name);
    struct place *p = place_check(L, 1, QUEUE_TYPE);
    struct store_call *call = place_call(L, p, verb);
    call_options(L, 2, options, call);
    return call_run(L, vm, p->store, call);
}

static int queue_create(lua_State *L) {
    return plain_call(L, "queue:create", VERB_QUEUE_CREATE, CREATE_OPTIONS);
}

static int queue_delete(lua_State *L) {
    return plain_call(L, "queue:delete", VERB_QUEUE_DELETE, PLAIN);
}

static int queue_clear(lua_State *L) {
    return plain_call(L, "queue:clear", VERB_QUEUE_CLEAR, PLAIN);
}

static int queue_count(lua_State *L) {
    return plain_call(L, "queue:count", VERB_QUEUE_HEAD, PLAIN);
}

/* queue:put(body, {delay =, ttl =, once =}) -> message */
static int queue_put(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "queue:put");
    struct place *p = place_check(L, 1, QUEUE_TYPE);
    luaL_checkstring(L, 2);
    struct store_call *call = place_call(L, p, VERB_MESSAGE_PUT);
    call_options(L, 3, PUT, call);
    take_body(L, 2, call, p->base64);
    return call_run(L, vm, p->store, call);
}

/* queue:get{n =, visibility =} -> messages */
static int queue_get(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "queue:get");
    struct place *p = place_check(L, 1, QUEUE_TYPE);
    struct store_call *call = place_call(L, p, VERB_MESSAGE_GET);
    call_options(L, 2, GET, call);
    return call_run_with(L, vm, p->store, call, get_cancel);
}

/* queue:peek(n, {...}) -> messages */
static int queue_peek(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "queue:peek");
    struct place *p = place_check(L, 1, QUEUE_TYPE);
    struct store_call *call = place_call(L, p, VERB_MESSAGE_PEEK);
    call->req.count = luaL_optinteger(L, 2, UNSET);
    call_options(L, 3, PLAIN, call);
    return call_run(L, vm, p->store, call);
}

/* ---- messages ---- */

static const char *text_field(lua_State *L, const char *field) {
    if (lua_getfield(L, 1, field) != LUA_TSTRING) {
        luaL_argerror(L, 1,
                      lua_pushfstring(L,
                                      "the message has no %s: it was deleted, or only peeked at; "
                                      "get it",
                                      field));
    }
    return lua_tostring(L, -1); /* the field stays where it is */
}

/* The call on the message at 1; its queue's place in *queue. */
static struct store_call *message_call(lua_State *L, enum store_verb verb, struct place **queue) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_getfield(L, 1, "queue");
    *queue = luaL_testudata(L, -1, QUEUE_TYPE);
    luaL_argcheck(L, *queue, 1, "a message that a queue has given expected");
    place_check(L, lua_gettop(L), QUEUE_TYPE);
    struct store_call *call = place_call(L, *queue, verb);
    const char *id = text_field(L, "id"), *receipt = text_field(L, "receipt");
    call->req.name = call_copy(L, call, id, strlen(id));
    call->req.receipt = call_copy(L, call, receipt, strlen(receipt));
    return call;
}

/* message:update{visibility =, body =} -> the message */
static int message_update(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "message:update");
    struct place *queue;
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_getfield(L, 2, "body"); /* stays at 3, for push_updated */
    struct store_call *call = message_call(L, VERB_MESSAGE_UPDATE, &queue);
    call_options(L, 2, UPDATE, call);
    luaL_argcheck(L, call->req.visibility_s != UNSET, 2,
                  "option 'visibility' is needed: seconds hidden from now on, 0: visible at once");
    if (!lua_isnil(L, 3)) {
        take_body(L, 3, call, queue->base64);
    }
    return call_run(L, vm, queue->store, call);
}

/* message:delete{} -> true */
static int message_delete(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "message:delete");
    struct place *queue;
    lua_settop(L, 2);
    struct store_call *call = message_call(L, VERB_MESSAGE_DELETE, &queue);
    call_options(L, 2, PLAIN, call);
    return call_run(L, vm, queue->store, call);
}

void bind_queue(lua_State *L, struct vm *vm) {
    static const luaL_Reg QUEUE[] = {{"create", queue_create}, {"delete", queue_delete},
                                     {"put", queue_put},       {"get", queue_get},
                                     {"peek", queue_peek},     {"count", queue_count},
                                     {"clear", queue_clear},   {NULL, NULL}};
    static const luaL_Reg MESSAGE[] = {
        {"update", message_update}, {"delete", message_delete}, {NULL, NULL}};
    static const luaL_Reg META[] = {{"__tostring", queue_tostring}, {NULL, NULL}};
    bind_type(L, vm, QUEUE_TYPE, QUEUE, META);
    bind_type(L, vm, MESSAGE_TYPE, MESSAGE, NULL);
}
