/* blob.c -- containers and blobs: names in a store, and the calls on them. */
#include "bind/store.h"

#include <string.h>

#include "store/names.h"

/* A name that the service forbids is raised. */
static const char *check_blob_name(lua_State *L, int arg) {
    size_t len;
    const char *name = luaL_checklstring(L, arg, &len);
    const char *fault = name_fault_blob(name, len);
    if (fault) {
        luaL_argerror(L, arg, lua_pushfstring(L, "the blob name '%s' %s", name, fault));
    }
    return name;
}

struct place *place_check(lua_State *L, int arg, const char *type) {
    struct place *p = luaL_checkudata(L, arg, type);
    if (!p->store->store) {
        luaL_error(L, "the store of '%s' is closed", p->name ? p->name : p->container);
    }
    return p;
}

void place_push(lua_State *L, int owner, struct bound_store *store, const char *type,
                const char *container, const char *name) {
    size_t c = strlen(container) + 1, n = name ? strlen(name) + 1 : 0;
    struct place *p = lua_newuserdatauv(L, sizeof *p + c + n, 1);
    p->store = store;
    p->base64 = false;
    p->container = memcpy(p->text, container, c);
    p->name = name ? memcpy(p->text + c, name, n) : NULL;
    lua_pushvalue(L, owner);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, type);
}

static int place_tostring(lua_State *L) {
    struct place *p = lua_touserdata(L, 1);
    if (p->name) {
        lua_pushfstring(L, "blob %s/%s", p->container, p->name);
    } else {
        lua_pushfstring(L, "container %s", p->container);
    }
    return 1;
}

/* core.place_of(container or blob) -> its store, the container's name, and the blob's or nil */
static int l_place_of(lua_State *L) {
    const char *type = luaL_testudata(L, 1, CONTAINER_TYPE) ? CONTAINER_TYPE : BLOB_TYPE;
    struct place *p = luaL_checkudata(L, 1, type);
    lua_getiuservalue(L, 1, 1);
    lua_pushstring(L, p->container);
    lua_pushstring(L, p->name);
    return 3;
}

/* core.name_fault("container", "blob", "queue" or "table", name) -> what is wrong with it, or nil */
static int l_name_fault(lua_State *L) {
    static const char *const KINDS[] = {"container", "blob", "queue", "table", NULL};
    static const char *(*const FAULTS[])(const char *, size_t) = {
        name_fault_container, name_fault_blob, name_fault_queue, name_fault_table};
    size_t len;
    int kind = luaL_checkoption(L, 1, NULL, KINDS);
    const char *name = luaL_checklstring(L, 2, &len);
    lua_pushstring(L, FAULTS[kind](name, len));
    return 1;
}

/* ---- containers ---- */

static int container_create(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "container:create");
    struct place *p = place_check(L, 1, CONTAINER_TYPE);
    struct store_call *call = place_call(L, p, VERB_CONTAINER_CREATE);
    call_options(L, 2, CREATE_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

static int container_delete(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "container:delete");
    struct place *p = place_check(L, 1, CONTAINER_TYPE);
    struct store_call *call = place_call(L, p, VERB_CONTAINER_DELETE);
    call_options(L, 2, CONTAINER_DELETE_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

static int container_head(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "container:head");
    struct place *p = place_check(L, 1, CONTAINER_TYPE);
    struct store_call *call = place_call(L, p, VERB_CONTAINER_HEAD);
    call_options(L, 2, CONTAINER_READ_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

static int container_set_metadata(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "container:set_metadata");
    struct place *p = place_check(L, 1, CONTAINER_TYPE);
    struct store_call *call = place_call(L, p, VERB_CONTAINER_SET_METADATA);
    call_metadata(L, 2, call);
    call_options(L, 3, CONTAINER_WRITE_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

/* container:blob(name) -> blob */
static int container_blob(lua_State *L) {
    struct place *p = place_check(L, 1, CONTAINER_TYPE);
    const char *name = check_blob_name(L, 2);
    lua_getiuservalue(L, 1, 1);
    place_push(L, lua_gettop(L), p->store, BLOB_TYPE, p->container, name);
    return 1;
}

/* ---- blobs ---- */

static void check_put(lua_State *L, const struct store_request *req, bool has_size) {
    if (req->type == BLOB_PAGE && !has_size) {
        luaL_error(L, "option 'size': a page blob needs it (bytes, a multiple of %d)", PAGE_SIZE);
    }
    if (req->type != BLOB_PAGE && has_size) {
        luaL_error(L,
                   "option 'size': only a page blob has it; the length of another is its body's");
    }
    if (req->type == BLOB_PAGE && req->body_len > 0) {
        luaL_argerror(L, 2, "a page blob is made empty: its body must be \"\"");
    }
    if (req->type == BLOB_APPEND && req->body_len > 0) {
        luaL_argerror(L, 2, "an append blob is made empty: its body must be \"\"; then use append");
    }
}

static void take_body(lua_State *L, int arg, struct store_call *call) {
    size_t len;
    const char *body = luaL_checklstring(L, arg, &len);
    call->req.body = len ? call_copy(L, call, body, len) : NULL;
    call->req.body_len = len;
}

static int put_streamed_done(lua_State *L, int status, lua_KContext at) {
    (void)status;
    return lua_gettop(L) - (int)at;
}

/* Whatever one request does not take is the business of synod.body, which has left its function among the
 * methods. */
static int put_streamed(lua_State *L) {
    lua_settop(L, 3);
    luaL_getmetafield(L, 1, "__index");
    if (lua_getfield(L, -1, "put_streamed") != LUA_TFUNCTION) {
        return luaL_argerror(L, 2, "this body needs require \"synod.store\"");
    }
    lua_replace(L, -2);
    for (int i = 1; i <= 3; i++) {
        lua_pushvalue(L, i);
    }
    lua_callk(L, 3, LUA_MULTRET, 3, put_streamed_done);
    return put_streamed_done(L, LUA_OK, 3);
}

/* blob:put(body, {...}) -> props */
static int blob_put(lua_State *L) {
    if (lua_isfunction(L, 2) || lua_rawlen(L, 2) > PUT_BYTES_MAX) {
        place_check(L, 1, BLOB_TYPE);
        return put_streamed(L);
    }
    struct vm *vm = task_enter_wait(L, "blob:put");
    struct place *p = place_check(L, 1, BLOB_TYPE);
    struct store_call *call = place_call(L, p, VERB_BLOB_PUT);
    call->req.size = UNSET;
    call_options(L, 3, PUT_OPTIONS, call);
    take_body(L, 2, call);
    check_put(L, &call->req, call->req.size != UNSET);
    call->req.size = call->req.size == UNSET ? 0 : call->req.size;
    return call_run(L, vm, p->store, call);
}

/* blob:get{...} -> body, props */
static int blob_get(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "blob:get");
    struct place *p = place_check(L, 1, BLOB_TYPE);
    struct store_call *call = place_call(L, p, VERB_BLOB_GET);
    struct store_request *req = &call->req;
    call_options(L, 2, GET_OPTIONS, call);
    if (req->range_end != UNSET) { /* so far it is the length */
        req->range_start = req->range_start == UNSET ? 0 : req->range_start;
        luaL_argcheck(L, req->range_end <= INT64_MAX - req->range_start, 2, "the range has no end");
        req->range_end += req->range_start - 1;
    }
    return call_run(L, vm, p->store, call);
}

/* blob:head{...} -> props */
static int blob_head(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "blob:head");
    struct place *p = place_check(L, 1, BLOB_TYPE);
    struct store_call *call = place_call(L, p, VERB_BLOB_HEAD);
    call_options(L, 2, READ_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

/* blob:delete{...} -> true */
static int blob_delete(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "blob:delete");
    struct place *p = place_check(L, 1, BLOB_TYPE);
    struct store_call *call = place_call(L, p, VERB_BLOB_DELETE);
    call_options(L, 2, READ_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

/* blob:set_metadata(t, {...}) -> props */
static int blob_set_metadata(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "blob:set_metadata");
    struct place *p = place_check(L, 1, BLOB_TYPE);
    luaL_checktype(L, 2, LUA_TTABLE);
    struct store_call *call = place_call(L, p, VERB_BLOB_SET_METADATA);
    call_metadata(L, 2, call);
    call_options(L, 3, READ_OPTIONS, call);
    return call_run(L, vm, p->store, call);
}

/* blob:append(data, {...}) -> props */
static int blob_append(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "blob:append");
    struct place *p = place_check(L, 1, BLOB_TYPE);
    struct store_call *call = place_call(L, p, VERB_BLOB_APPEND);
    call_options(L, 3, APPEND_OPTIONS, call);
    take_body(L, 2, call);
    luaL_argcheck(L, call->req.body_len > 0, 2, "there is nothing to append");
    return call_run(L, vm, p->store, call);
}

void bind_blob(lua_State *L, struct vm *vm) {
    static const luaL_Reg CONTAINER[] = {{"create", container_create},
                                         {"delete", container_delete},
                                         {"head", container_head},
                                         {"set_metadata", container_set_metadata},
                                         {"blob", container_blob},
                                         {"lease", container_lease},
                                         {"break_lease", container_break_lease},
                                         {"list", container_list},
                                         {NULL, NULL}};
    static const luaL_Reg BLOB[] = {{"put", blob_put},
                                    {"get", blob_get},
                                    {"head", blob_head},
                                    {"delete", blob_delete},
                                    {"set_metadata", blob_set_metadata},
                                    {"append", blob_append},
                                    {"lease", blob_lease},
                                    {"break_lease", blob_break_lease},
                                    {NULL, NULL}};
    static const luaL_Reg META[] = {{"__tostring", place_tostring}, {NULL, NULL}};
    static const luaL_Reg FUNCTIONS[] = {
        {"name_fault", l_name_fault}, {"place_of", l_place_of}, {NULL, NULL}};
    bind_type(L, vm, CONTAINER_TYPE, CONTAINER, META);
    bind_type(L, vm, BLOB_TYPE, BLOB, META);
    bind_functions(L, vm, FUNCTIONS);
}
