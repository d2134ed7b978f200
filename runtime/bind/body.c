/* body.c -- what synod.body builds large bodies and copies from; scripts use that. */
#include "bind/store.h"

#include <stdio.h>
#include <string.h>

enum { UPLOAD_TEXT = 16 };

/* core.blob_methods(blob) -> the table of methods that every blob has */
static int l_blob_methods(lua_State *L) {
    luaL_getmetatable(L, BLOB_TYPE);
    lua_getfield(L, -1, "__index");
    return 1;
}

/* core.call_check(blob, "put", "lease", ..., {...}): raises what is wrong with the options of a call that
 * a module of the library makes later, or in parts; of a container "lease" alone */
static int l_call_check(lua_State *L) {
    static const char *const CALLS[] = {"put", "read", "write", "copy", "lease", NULL};
    static const struct call_option *const OPTIONS[] = {PUT_OPTIONS, READ_OPTIONS, COMMIT_OPTIONS,
                                                        COPY_OPTIONS, ACQUIRE_OPTIONS};
    bool of_container = luaL_testudata(L, 1, CONTAINER_TYPE) != NULL;
    struct place *p = place_check(L, 1, of_container ? CONTAINER_TYPE : BLOB_TYPE);
    const struct call_option *known = OPTIONS[luaL_checkoption(L, 2, NULL, CALLS)];
    known = of_container ? CONTAINER_ACQUIRE_OPTIONS : known;
    struct store_call *call = place_call(L, p, VERB_BLOB_HEAD);
    call_options(L, 3, known, call);
    call_drop(p->store, call);
    return 0;
}

/* core.blob_upload() -> the name of a new upload */
static int l_blob_upload(lua_State *L) {
    struct vm *vm = task_enter(L, "blob:writer");
    uint64_t number;
    char text[UPLOAD_TEXT + 1];
    world_random(vm_world(vm), &number, sizeof number);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)number);
    lua_pushstring(L, text);
    return 1;
}

static const char *check_upload(lua_State *L, int arg, struct store_call *call) {
    size_t len;
    const char *upload = luaL_checklstring(L, arg, &len);
    luaL_argcheck(L, len == UPLOAD_TEXT && strspn(upload, "0123456789abcdef") == len, arg,
                  "not an upload's name");
    return call_copy(L, call, upload, len);
}

static int64_t check_count(lua_State *L, int arg, int64_t least) {
    int64_t n = luaL_checkinteger(L, arg);
    luaL_argcheck(L, n >= least, arg, "too small");
    return n;
}

/* core.blob_stage(blob, upload, block, position, data, {...}) -> true */
static int l_blob_stage(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "blob:writer");
    struct place *p = place_check(L, 1, BLOB_TYPE);
    struct store_call *call = place_call(L, p, VERB_BLOB_STAGE);
    size_t len;
    const char *data = luaL_checklstring(L, 5, &len);
    luaL_argcheck(L, len > 0 && len <= BLOCK_BYTES_MAX, 5, "a block has 1 byte to 64 MiB");
    call_options(L, 6, STAGE_OPTIONS, call);
    call->req.upload = check_upload(L, 2, call);
    call->req.block = check_count(L, 3, 0);
    call->req.position = check_count(L, 4, 0);
    call->req.body = call_copy(L, call, data, len);
    call->req.body_len = len;
    return call_run(L, vm, p->store, call);
}

/* core.blob_commit(blob, upload, count, size, {...}) -> props */
static int l_blob_commit(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "blob:writer");
    struct place *p = place_check(L, 1, BLOB_TYPE);
    struct store_call *call = place_call(L, p, VERB_BLOB_COMMIT);
    call_options(L, 5, COMMIT_OPTIONS, call);
    call->req.upload = check_upload(L, 2, call);
    call->req.count = check_count(L, 3, 1);
    call->req.size = check_count(L, 4, 1);
    return call_run(L, vm, p->store, call);
}

/* core.blob_copy(blob, source, {...}) -> props; the source is a blob of the same store */
static int l_blob_copy(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "blob:copy_from");
    struct place *p = place_check(L, 1, BLOB_TYPE), *source = place_check(L, 2, BLOB_TYPE);
    luaL_argcheck(L, source->store == p->store, 2,
                  "the blob is in another store: read it there and put it here");
    struct store_call *call = place_call(L, p, VERB_BLOB_COPY);
    call_options(L, 3, COPY_OPTIONS, call);
    call->req.source_container = call_copy(L, call, source->container, strlen(source->container));
    call->req.source_name = call_copy(L, call, source->name, strlen(source->name));
    return call_run(L, vm, p->store, call);
}

void bind_body(lua_State *L, struct vm *vm) {
    static const luaL_Reg FUNCTIONS[] = {{"blob_methods", l_blob_methods},
                                         {"call_check", l_call_check},
                                         {"blob_upload", l_blob_upload},
                                         {"blob_stage", l_blob_stage},
                                         {"blob_commit", l_blob_commit},
                                         {"blob_copy", l_blob_copy},
                                         {NULL, NULL}};
    bind_functions(L, vm, FUNCTIONS);
    static const struct {
        const char *name;
        lua_Integer value;
    } LIMITS[] = {{"put_bytes_max", PUT_BYTES_MAX},
                  {"block_bytes_max", BLOCK_BYTES_MAX},
                  {"blocks_max", BLOCKS_MAX}};
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++) {
        lua_pushinteger(L, LIMITS[i].value);
        lua_setfield(L, -2, LIMITS[i].name);
    }
}
