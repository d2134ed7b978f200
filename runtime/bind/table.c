/* table.c -- tables: names in a store, and the calls on their entities. */
#include "bind/table.h"

#include <string.h>

#include "store/names.h"

/* ---- results ---- */

static const struct entity *entity_of(const struct store_request *req) {
    return req->batch ? req->batch->entity : req->entity;
}

void push_table_target(lua_State *L, const struct store_request *req) {
    const struct entity *e = entity_of(req);
    const char *partition = e ? e->partition : req->partition;
    const char *row = e ? e->row : req->verb == VERB_ENTITY_GET ? req->row : NULL;
    if (req->batch || (partition && !row)) {
        lua_pushfstring(L, "%s/%s", req->container, partition);
    } else if (partition) {
        lua_pushfstring(L, "%s/%s/%s", req->container, partition, row);
    } else {
        lua_pushstring(L, req->container);
    }
}

static void push_etag(lua_State *L, const char *etag) {
    lua_createtable(L, 0, 1);
    lua_pushstring(L, etag); /* NULL: nil */
    lua_setfield(L, -2, "etag");
}

static int push_batch_results(lua_State *L, const struct store_call *call) {
    int i = 0;
    lua_createtable(L, call->req.batch_count, 0);
    for (const struct batch_operation *op = call->req.batch; op; op = op->next, i++) {
        if (op->verb == VERB_ENTITY_DELETE) {
            lua_pushboolean(L, true);
        } else {
            push_etag(L, call->reply.etags[i]);
        }
        lua_seti(L, -2, i + 1);
    }
    return 1;
}

static int push_refusal(lua_State *L, struct store_call *call) {
    push_call_error(L, call);
    if (call->reply.failed_operation) {
        lua_pushinteger(L, call->reply.failed_operation);
        lua_setfield(L, -2, "index");
    }
    return 2;
}

int push_table_results(lua_State *L, struct store_call *call) {
    enum err code = call->reply.err.code;
    enum store_verb verb = call->req.verb;
    if (code != ERR_OK && !(verb == VERB_TABLE_CREATE && code == ERR_TABLE_ALREADY_EXISTS)) {
        return push_refusal(L, call);
    }
    switch (verb) {
    case VERB_TABLE_CREATE:
    case VERB_TABLE_DELETE:
    case VERB_ENTITY_DELETE:
        lua_pushboolean(L, true);
        return 1;
    case VERB_ENTITY_GET:
        push_entity(L, call->reply.entities);
        return 1;
    case VERB_ENTITY_BATCH:
        return push_batch_results(L, call);
    default:
        push_etag(L, call->reply.props.etag);
        return 1;
    }
}

/* ---- calls ---- */

static int table_tostring(lua_State *L) {
    lua_pushfstring(L, "table %s", ((struct place *)lua_touserdata(L, 1))->container);
    return 1;
}

/* store:table(name) -> table */
static int store_table(lua_State *L) {
    struct bound_store *b = bound_store_check(L, 1);
    size_t len;
    const char *name = luaL_checklstring(L, 2, &len);
    const char *fault = name_fault_table(name, len);
    if (fault) {
        luaL_argerror(L, 2, lua_pushfstring(L, "the table name '%s' %s", name, fault));
    }
    place_push(L, 1, b, TABLE_TYPE, name, NULL);
    return 1;
}

static int plain_call(lua_State *L, const char *name, enum store_verb verb) {
    struct vm *vm = task_enter_wait(L, name);
    struct place *p = place_check(L, 1, TABLE_TYPE);
    struct store_call *call = place_call(L, p, verb);
    call_options(L, 2, TABLE_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

static int table_create(lua_State *L) {
    return plain_call(L, "table:create", VERB_TABLE_CREATE);
}

static int table_drop(lua_State *L) {
    return plain_call(L, "table:drop", VERB_TABLE_DELETE);
}

/* table:get(partition, row, {select =}) -> entity */
static int table_get(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "table:get");
    struct place *p = place_check(L, 1, TABLE_TYPE);
    struct store_call *call = place_call(L, p, VERB_ENTITY_GET);
    call->req.partition = check_key(L, 2, call, "partition");
    call->req.row = check_key(L, 3, call, "row");
    call_options(L, 4, ENTITY_GET_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

static int write_call(lua_State *L, const char *name, enum store_verb verb,
                      const struct call_option *options) {
    struct vm *vm = task_enter_wait(L, name);
    struct place *p = place_check(L, 1, TABLE_TYPE);
    struct store_call *call = place_call(L, p, verb);
    if (verb == VERB_ENTITY_REPLACE || verb == VERB_ENTITY_MERGE) {
        call->req.when.if_match = "*";
    }
    call->req.entity = check_entity(L, 2, call, false);
    call_options(L, 3, options, call);
    return call_run(L, vm, p->store, call);
}

static int table_insert(lua_State *L) {
    return write_call(L, "table:insert", VERB_ENTITY_INSERT, TABLE_OPTIONS);
}

static int table_replace(lua_State *L) {
    return write_call(L, "table:replace", VERB_ENTITY_REPLACE, ENTITY_WRITE_OPTIONS);
}

static int table_merge(lua_State *L) {
    return write_call(L, "table:merge", VERB_ENTITY_MERGE, ENTITY_WRITE_OPTIONS);
}

static int table_upsert(lua_State *L) {
    return write_call(L, "table:upsert", VERB_ENTITY_UPSERT, ENTITY_UPSERT_OPTIONS);
}

/* table:delete(partition, row, {if_match =}) -> true */
static int table_delete(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "table:delete");
    struct place *p = place_check(L, 1, TABLE_TYPE);
    struct store_call *call = place_call(L, p, VERB_ENTITY_DELETE);
    const char *partition = check_key(L, 2, call, "partition");
    const char *row = check_key(L, 3, call, "row");
    call->req.when.if_match = "*";
    call->req.entity = entity_new(&call->arena, partition, row);
    if (!call->req.entity) {
        return luaL_error(L, "not enough memory");
    }
    call_options(L, 4, ENTITY_WRITE_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

/* ---- options ---- */

static void wrong_type(lua_State *L, const char *name, const char *expected) {
    luaL_error(L, "option '%s': %s expected, got %s", name, expected, luaL_typename(L, -1));
}

static void read_if_match(lua_State *L, struct store_call *call, const char *name) {
    size_t len;
    if (lua_type(L, -1) != LUA_TSTRING) {
        wrong_type(L, name, "string");
    }
    const char *text = lua_tolstring(L, -1, &len);
    const char *fault = len ? name_fault_value(text, len) : "must not be empty";
    if (fault) {
        luaL_error(L, "option '%s': it %s", name, fault);
    }
    call->req.when.if_match = call_copy(L, call, text, len);
}

static void read_mode(lua_State *L, struct store_call *call, const char *name) {
    const char *mode = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    bool merges = strcmp(mode, "merge") == 0;
    if (!merges && strcmp(mode, "replace") != 0) {
        luaL_error(L, "option '%s': 'replace' or 'merge' expected, got %s", name,
                   luaL_tolstring(L, -1, NULL));
    }
    call->req.verb = merges ? VERB_ENTITY_UPSERT_MERGE : VERB_ENTITY_UPSERT;
}

/* A list of names, joined by commas: an "@" before one of the entity's own words falls away. */
static void read_select(lua_State *L, struct store_call *call, const char *name) {
    int list = lua_gettop(L);
    if (!lua_istable(L, list)) {
        wrong_type(L, name, "list of property names");
    }
    luaL_Buffer out;
    lua_Integer count = (lua_Integer)lua_rawlen(L, list);
    luaL_buffinit(L, &out);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, list, i);
        const char *property = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
        const char *own = property && *property == '@' ? property + 1 : property;
        if (!own || property_name_fault(own, strlen(own))) {
            luaL_error(L, "option '%s': its number %I is no property's name", name, (LUAI_UACINT)i);
        }
        lua_pushfstring(L, "%s%s", i > 1 ? "," : "", own);
        lua_remove(L, -2);
        luaL_addvalue(&out);
    }
    luaL_pushresult(&out);
    call->req.select = call_copy(L, call, lua_tostring(L, -1), strlen(lua_tostring(L, -1)));
    lua_settop(L, list);
}

static void read_partition(lua_State *L, struct store_call *call, const char *name) {
    call->req.partition = check_key(L, -1, call, name);
}

static void read_from(lua_State *L, struct store_call *call, const char *name) {
    (void)name;
    call->req.row = check_key(L, -1, call, "row");
}

static void read_to(lua_State *L, struct store_call *call, const char *name) {
    (void)name;
    call->req.row_to = check_key(L, -1, call, "row");
}

static void read_filter(lua_State *L, struct store_call *call, const char *name) {
    size_t len;
    if (lua_type(L, -1) != LUA_TSTRING) {
        wrong_type(L, name, "string");
    }
    const char *text = lua_tolstring(L, -1, &len);
    if (utf16_length(text, len) < 0 || strlen(text) != len) {
        luaL_error(L, "option '%s': UTF-8 without zero bytes expected", name);
    }
    call->req.filter = call_copy(L, call, text, len);
}

static void read_page(lua_State *L, struct store_call *call, const char *name) {
    int whole;
    lua_Integer n = lua_tointegerx(L, -1, &whole);
    if (!whole || n < 1 || n > ENTITY_PAGE_MAX) {
        luaL_error(L, "option '%s': between 1 and %d expected", name, ENTITY_PAGE_MAX);
    }
    call->req.max_results = n;
}

/* clang-format off */
#define END {NULL, NULL}

const struct call_option TABLE_OPTIONS[] = {END};
const struct call_option ENTITY_GET_OPTIONS[] = {{"select", read_select}, END};
const struct call_option ENTITY_WRITE_OPTIONS[] = {{"if_match", read_if_match}, END};
const struct call_option ENTITY_UPSERT_OPTIONS[] = {{"mode", read_mode}, END};
const struct call_option ENTITY_QUERY_OPTIONS[] = {
    {"partition", read_partition}, {"from", read_from}, {"to", read_to}, {"filter", read_filter},
    {"select", read_select}, {"page", read_page}, END};
/* clang-format on */

/* ---- batches ---- */

static const struct {
    const char *word;
    enum store_verb verb;
} BATCH_WORDS[] = {
    {"insert", VERB_ENTITY_INSERT}, {"replace", VERB_ENTITY_REPLACE}, {"merge", VERB_ENTITY_MERGE},
    {"upsert", VERB_ENTITY_UPSERT}, {"delete", VERB_ENTITY_DELETE},
};

/* Leaves the entity of the operation at `index` on the stack. */
static enum store_verb check_batch_verb(lua_State *L, int index, int number) {
    enum store_verb verb = VERB_COUNT;
    for (size_t i = 0; i < sizeof BATCH_WORDS / sizeof *BATCH_WORDS; i++) {
        lua_pushstring(L, BATCH_WORDS[i].word);
        if (lua_rawget(L, index) == LUA_TNIL) {
            lua_pop(L, 1);
        } else if (verb != VERB_COUNT) {
            luaL_error(L, "operation %d of the batch is more than one", number);
        } else {
            verb = BATCH_WORDS[i].verb;
        }
    }
    if (verb == VERB_COUNT) {
        luaL_error(L,
                   "operation %d of the batch: insert, replace, merge, upsert or delete expected",
                   number);
    }
    return verb;
}

static bool is_batch_word(const char *word) {
    for (size_t i = 0; i < sizeof BATCH_WORDS / sizeof *BATCH_WORDS; i++) {
        if (strcmp(BATCH_WORDS[i].word, word) == 0) {
            return true;
        }
    }
    return false;
}

/* The option at the top, under its name: read as that of a call, into the call's request for the moment. */
static void read_batch_option(lua_State *L, int number, struct store_call *call,
                              const struct batch_operation *op) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    bool upsert = op->verb == VERB_ENTITY_UPSERT;
    if (strcmp(name, "mode") == 0 && upsert) {
        read_mode(L, call, name);
    } else if (strcmp(name, "if_match") == 0 && !upsert && op->verb != VERB_ENTITY_INSERT) {
        read_if_match(L, call, name);
    } else if (!is_batch_word(name)) {
        luaL_error(L, "operation %d of the batch: unknown option '%s'", number,
                   luaL_tolstring(L, -2, NULL));
    }
}

static void batch_options(lua_State *L, int index, int number, struct store_call *call,
                          struct batch_operation *op) {
    struct store_request *req = &call->req;
    bool any = op->verb != VERB_ENTITY_INSERT && op->verb != VERB_ENTITY_UPSERT;
    req->verb = op->verb;
    req->when.if_match = any ? "*" : NULL;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        read_batch_option(L, number, call, op);
    }
    op->if_match = req->when.if_match;
    op->verb = req->verb;
    req->verb = VERB_ENTITY_BATCH;
    req->when.if_match = NULL;
}

static struct batch_operation *check_operation(lua_State *L, int number, struct store_call *call) {
    int index = lua_gettop(L);
    struct batch_operation *op = arena_alloc(&call->arena, sizeof *op);
    if (!op) {
        luaL_error(L, "not enough memory");
    }
    if (!lua_istable(L, index)) {
        luaL_error(L, "operation %d of the batch: table expected, got %s", number,
                   luaL_typename(L, index));
    }
    *op = (struct batch_operation){.verb = check_batch_verb(L, index, number)};
    op->entity = check_entity(L, -1, call, op->verb == VERB_ENTITY_DELETE);
    batch_options(L, index, number, call, op);
    lua_settop(L, index - 1);
    return op;
}

static void check_batch(lua_State *L, int list, struct store_call *call) {
    struct store_request *req = &call->req;
    struct batch_operation **last = &req->batch;
    lua_Integer count = (lua_Integer)lua_rawlen(L, list);
    size_t bytes = 0;
    luaL_argcheck(L, count > 0, list, "an empty batch does nothing");
    luaL_argcheck(L, count <= BATCH_MAX, list, "a batch has at most 100 operations");
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, list, i);
        struct batch_operation *op = check_operation(L, i, call);
        *last = op;
        last = &op->next;
        bytes += entity_size(op->entity);
        if (strcmp(op->entity->partition, req->batch->entity->partition) != 0) {
            luaL_error(L,
                       "operation %d of the batch is in the partition '%s', the first in '%s': a "
                       "batch has one",
                       i, op->entity->partition, req->batch->entity->partition);
        }
    }
    luaL_argcheck(L, bytes <= BATCH_BYTES_MAX, list, "the batch is larger than 4 MiB");
    req->batch_count = (int)count;
}

/* table:batch({{insert = e}, {merge = e, if_match = tag}, {delete = e}}, {...}) -> results */
static int table_batch(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "table:batch");
    struct place *p = place_check(L, 1, TABLE_TYPE);
    luaL_checktype(L, 2, LUA_TTABLE);
    struct store_call *call = place_call(L, p, VERB_ENTITY_BATCH);
    call_options(L, 3, TABLE_OPTIONS, call);
    check_batch(L, 2, call);
    return call_run(L, vm, p->store, call);
}

void bind_table(lua_State *L, struct vm *vm) {
    static const luaL_Reg METHODS[] = {{"create", table_create},
                                       {"drop", table_drop},
                                       {"insert", table_insert},
                                       {"get", table_get},
                                       {"merge", table_merge},
                                       {"replace", table_replace},
                                       {"upsert", table_upsert},
                                       {"delete", table_delete},
                                       {"query", table_query},
                                       {"batch", table_batch},
                                       {NULL, NULL}};
    static const luaL_Reg META[] = {{"__tostring", table_tostring}, {NULL, NULL}};
    static const luaL_Reg STORE[] = {
        {"table", store_table}, {"tables", store_tables}, {NULL, NULL}};
    bind_type(L, vm, TABLE_TYPE, METHODS, META);
    luaL_getmetatable(L, STORE_TYPE);
    lua_getfield(L, -1, "__index");
    bind_functions(L, vm, STORE);
    lua_pop(L, 2);
}
