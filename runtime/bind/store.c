/* store.c -- stores: opened, closed, metered, watched for changes. */
#include "bind/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bind/queue.h"
#include "sim/faults.h"
#include "store/names.h"

/* ---- opening and closing ---- */

static void waits_end(struct bound_store *b);

static void bound_store_close(struct vm_resource *r) {
    struct bound_store *b = container_of(r, struct bound_store, resource);
    if (!b->store) {
        return;
    }
    vm_forget(b->vm, &b->resource);
    waits_end(b);
    bound_keepers_close(b);
    struct store *store = b->store;
    b->store = NULL;
    store_free(store);
    if (b->page) {
        ledger_add(b->page, &b->meter);
    }
}

struct bound_store *bound_store_check(lua_State *L, int arg) {
    struct bound_store *b = luaL_checkudata(L, arg, STORE_TYPE);
    if (!b->store) {
        luaL_error(L, "the store is closed");
    }
    return b;
}

static enum store_verb check_verb(lua_State *L, const char *word) {
    for (int verb = 0; verb < VERB_COUNT; verb++) {
        if (strcmp(verb_word((enum store_verb)verb), word) == 0) {
            return (enum store_verb)verb;
        }
    }
    luaL_error(L, "fault: '%s' is not an operation of a store, such as PutBlob", word);
    return VERB_COUNT;
}

static enum fault_kind check_fault_kind(lua_State *L, const char *word) {
    for (int kind = 0; kind < FAULT_KIND_COUNT; kind++) {
        if (word && strcmp(fault_word((enum fault_kind)kind), word) == 0) {
            return (enum fault_kind)kind;
        }
    }
    luaL_error(L, "fault: '%s' is not a kind of fault", word ? word : "nil");
    return FAULT_KIND_COUNT;
}

/* The fault described by the table at the top of the stack. */
static struct fault check_fault(lua_State *L) {
    int at = lua_gettop(L);
    luaL_checktype(L, at, LUA_TTABLE);
    const char *operation = bind_opt_string_field(L, at, "operation", NULL);
    const char *code = bind_opt_string_field(L, at, "code", NULL);
    return (struct fault){
        .kind = check_fault_kind(L, bind_opt_string_field(L, at, "kind", NULL)),
        .any_verb = operation == NULL,
        .verb = operation ? check_verb(L, operation) : VERB_CONTAINER_CREATE,
        .ordinal = bind_opt_integer_field(L, at, "ordinal", 1),
        .ns = bind_opt_seconds_field(L, at, "seconds", 0),
        .code = code ? err_from_word(code) : ERR_OK,
    };
}

/* Pushes a userdata that holds the faults of field `faults`; NULL and nil when there are none. */
static struct fault *check_faults(lua_State *L, int options, size_t *count) {
    *count = 0;
    if (lua_isnoneornil(L, options) || lua_getfield(L, options, "faults") == LUA_TNIL) {
        return NULL;
    }
    luaL_checktype(L, -1, LUA_TTABLE);
    int list = lua_gettop(L);
    *count = (size_t)luaL_len(L, list);
    struct fault *faults = lua_newuserdatauv(L, *count * sizeof *faults, 0);
    for (size_t i = 0; i < *count; i++) {
        lua_geti(L, list, (lua_Integer)i + 1);
        faults[i] = check_fault(L);
        lua_pop(L, 1);
    }
    return faults;
}

/* What a store is called where usage is told, without any secret. */
static const char *name_of(const struct transport *t, const char *url) {
    return t->name ? t->name : strncmp(url, "embedded:", 9) == 0 ? url : t->ops->kind;
}

/* core.open_store(url, {faults = {...}}) -> store, or nil, err */
static int open_store(lua_State *L) {
    struct vm *vm = task_enter(L, "synod.open");
    const char *url = luaL_checkstring(L, 1);
    size_t count;
    struct fault *faults = check_faults(L, 2, &count);
    struct bound_store *b = lua_newuserdatauv(L, sizeof *b, 0);
    *b = (struct bound_store){.vm = vm, .resource = {.close = bound_store_close}};
    luaL_setmetatable(L, STORE_TYPE);
    struct error err;
    struct transport *t = transport_open(vm_world(vm), url, &err);
    if (!t) {
        return bind_fail(L, &err, "open the store", NULL);
    }
    if (faults) {
        t = transport_faulty_new(t, faults, count);
    }
    b->store = store_over(vm_world(vm), t, &b->meter);
    vm_keep(vm, &b->resource);
    b->page = ledger_page(L, name_of(t, url));
    return 1;
}

static int store_close(lua_State *L) {
    struct bound_store *b = luaL_checkudata(L, 1, STORE_TYPE);
    bound_store_close(&b->resource);
    return 0;
}

/* Nobody has it any more: what an error has left over goes too. */
static int store_collect(lua_State *L) {
    struct bound_store *b = luaL_checkudata(L, 1, STORE_TYPE);
    bound_store_close(&b->resource);
    calls_drop(b);
    return 0;
}

static int store_is_open(lua_State *L) {
    struct bound_store *b = luaL_checkudata(L, 1, STORE_TYPE);
    lua_pushboolean(L, b->store != NULL);
    return 1;
}

static int store_get_kind(lua_State *L) {
    lua_pushstring(L, store_kind(bound_store_check(L, 1)->store));
    return 1;
}

/* The same for all who have opened it, without any secret. */
static int store_get_name(lua_State *L) {
    struct store *s = bound_store_check(L, 1)->store;
    const char *name = store_transport(s)->name;
    lua_pushstring(L, name ? name : store_kind(s));
    return 1;
}

static void check_fields(lua_State *L, int arg, const char *const *known) {
    luaL_checktype(L, arg, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
        const char *const *k = known;
        while (*k && !(lua_type(L, -2) == LUA_TSTRING && strcmp(*k, lua_tostring(L, -2)) == 0)) {
            k++;
        }
        if (!*k) {
            luaL_error(L, "unknown option '%s'", luaL_tolstring(L, -2, NULL));
        }
    }
}

/* store:usage{outcomes =} -> transactions that have ended, by operation, or by that and outcome */
static int store_usage(lua_State *L) {
    static const char *const KNOWN[] = {"outcomes", NULL};
    struct bound_store *b = bound_store_check(L, 1);
    bool outcomes = false;
    if (!lua_isnoneornil(L, 2)) {
        check_fields(L, 2, KNOWN);
        lua_getfield(L, 2, "outcomes");
        outcomes = lua_toboolean(L, -1);
    }
    push_meter(L, &b->meter, outcomes);
    return 1;
}

/* ---- waiting for a change ---- */

enum change_outcome { CHANGE_NONE, CHANGE_SEEN, CHANGE_TIMEOUT, CHANGE_CLOSED };

struct change_wait {
    struct store_watch watch;
    struct alarm alarm;
    struct bound_store *store;
    struct change_wait *prev, *next;
    struct task *task; /* NULL until it waits */
    enum change_outcome outcome;
    bool watching;
    char text[]; /* container and prefix */
};

static void wait_end(struct change_wait *w, enum change_outcome outcome) {
    if (w->outcome != CHANGE_NONE) {
        return;
    }
    w->outcome = outcome;
    struct bound_store *b = w->store;
    struct transport *t = store_transport(b->store);
    alarm_clear(t->world, &w->alarm);
    if (w->watching && outcome != CHANGE_SEEN) {
        t->ops->unwatch(t, &w->watch);
    }
    *(w->prev ? &w->prev->next : &b->waits) = w->next;
    if (w->next) {
        w->next->prev = w->prev;
    }
    if (w->task) {
        task_wake(w->task);
    }
}

static void waits_end(struct bound_store *b) {
    while (b->waits) {
        wait_end(b->waits, CHANGE_CLOSED);
    }
}

static void wait_changed(struct store_watch *watch) {
    wait_end(container_of(watch, struct change_wait, watch), CHANGE_SEEN);
}

static void wait_timed_out(struct alarm *a) {
    wait_end(container_of(a, struct change_wait, alarm), CHANGE_TIMEOUT);
}

static int push_outcome(lua_State *L, bool changed, const char *why, uint64_t mark) {
    lua_pushboolean(L, changed);
    lua_pushstring(L, why); /* NULL: nil */
    lua_pushinteger(L, (lua_Integer)mark);
    return 3;
}

/* The mark handed back is taken now, before the script reads: no change after that read is missed. */
static int wait_results(lua_State *L, void *arg) {
    struct change_wait *w = arg;
    enum change_outcome outcome = w->outcome;
    struct error err;
    uint64_t mark = 0;
    if (outcome != CHANGE_CLOSED && w->store->store) {
        struct transport *t = store_transport(w->store->store);
        mark = t->ops->mark(t, w->watch.container, w->watch.prefix);
    }
    free(w);
    if (outcome == CHANGE_CLOSED) {
        error_set(&err, ERR_CANCELLED, "the store was closed");
        return bind_fail(L, &err, "wait for a change", NULL);
    }
    bool seen = outcome == CHANGE_SEEN;
    return push_outcome(L, seen, seen ? NULL : "timeout", mark);
}

static void wait_cancel(void *arg) {
    struct change_wait *w = arg;
    w->task = NULL;
    wait_end(w, CHANGE_CLOSED);
    free(w);
}

static char *put_text(char *out, const char *text, const char **copy) {
    if (!text) {
        *copy = NULL;
        return out;
    }
    *copy = out;
    return stpcpy(out, text) + 1;
}

static struct change_wait *wait_new(struct bound_store *b, const char *container,
                                    const char *prefix, uint64_t since) {
    size_t text = (container ? strlen(container) : 0) + (prefix ? strlen(prefix) : 0) + 2;
    struct change_wait *w = xcalloc(1, sizeof *w + text);
    char *out = put_text(w->text, container, &w->watch.container);
    put_text(out, prefix, &w->watch.prefix);
    w->watch.since = since;
    w->watch.changed = wait_changed;
    w->alarm.ring = wait_timed_out;
    w->store = b;
    w->next = b->waits;
    if (w->next) {
        w->next->prev = w;
    }
    b->waits = w;
    return w;
}

/* store:mark{container =, prefix =} -> mark, or nil where the store cannot tell */
static int store_mark(lua_State *L) {
    static const char *const KNOWN[] = {"container", "prefix", NULL};
    task_enter(L, "store:mark");
    struct bound_store *b = bound_store_check(L, 1);
    check_fields(L, 2, KNOWN);
    struct transport *t = store_transport(b->store);
    if (!t->ops->mark) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, (lua_Integer)t->ops->mark(t, bind_opt_string_field(L, 2, "container", NULL),
                                                 bind_opt_string_field(L, 2, "prefix", NULL)));
    return 1;
}

/* store:changed{container =, prefix =, timeout =, since =}
 *     -> true, nil, mark | false, "timeout", mark | false, "poll" */
static int store_changed(lua_State *L) {
    static const char *const KNOWN[] = {"container", "prefix", "timeout", "since", NULL};
    struct vm *vm = task_enter_wait(L, "store:changed");
    struct bound_store *b = bound_store_check(L, 1);
    check_fields(L, 2, KNOWN);
    const char *container = bind_opt_string_field(L, 2, "container", NULL);
    const char *prefix = bind_opt_string_field(L, 2, "prefix", NULL);
    int64_t timeout = bind_opt_seconds_field(L, 2, "timeout", NEVER);
    struct transport *t = store_transport(b->store);
    if (!t->ops->mark) {
        lua_pushboolean(L, false);
        lua_pushliteral(L, "poll");
        return 2;
    }
    uint64_t mark = t->ops->mark(t, container, prefix);
    uint64_t since = (uint64_t)bind_opt_integer_field(L, 2, "since", (int64_t)mark);
    if (mark != since || timeout == 0) {
        return push_outcome(L, mark != since, mark != since ? NULL : "timeout", mark);
    }
    struct change_wait *w = wait_new(b, container, prefix, since);
    if (timeout != NEVER) {
        alarm_set(t->world, &w->alarm, instant_add(world_now(t->world), timeout));
    }
    w->watching = true;
    t->ops->watch(t, &w->watch);
    if (w->outcome != CHANGE_NONE) { /* it changed just now */
        return wait_results(L, w);
    }
    w->task = task_running(vm);
    return task_park(L, vm, w, wait_results, wait_cancel);
}

/* ---- places ---- */

/* A name that the service forbids is raised. */
static const char *check_container_name(lua_State *L, int arg) {
    size_t len;
    const char *name = luaL_checklstring(L, arg, &len);
    const char *fault = name_fault_container(name, len);
    if (fault) {
        luaL_argerror(L, arg, lua_pushfstring(L, "the container name '%s' %s", name, fault));
    }
    return name;
}

/* store:container(name) -> container */
static int store_container(lua_State *L) {
    struct bound_store *b = bound_store_check(L, 1);
    place_push(L, 1, b, CONTAINER_TYPE, check_container_name(L, 2), NULL);
    return 1;
}

void bind_store(lua_State *L, struct vm *vm) {
    static const luaL_Reg METHODS[] = {
        {"container", store_container}, {"containers", store_containers}, {"queue", store_queue},
        {"queues", store_queues},       {"changed", store_changed},       {"mark", store_mark},
        {"usage", store_usage},         {"kind", store_get_kind},         {"name", store_get_name},
        {"is_open", store_is_open},     {"close", store_close},           {NULL, NULL}};
    static const luaL_Reg META[] = {
        {"__gc", store_collect}, {"__close", store_close}, {NULL, NULL}};
    static const luaL_Reg FUNCTIONS[] = {{"open_store", open_store}, {NULL, NULL}};
    bind_type(L, vm, STORE_TYPE, METHODS, META);
    bind_functions(L, vm, FUNCTIONS);
}
