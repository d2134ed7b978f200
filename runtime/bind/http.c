/* bind/http.c -- HTTP(S) requests, and what a request to Azure is signed with.
 *
 *     core.http{url=, method=, headers=, body=, timeout=, max_body=} -> status, headers, body | nil, err
 *     core.azure_signature{account=, key=, method=, path=, query=, headers=, length=} -> header, text
 *
 * A cancelled request is abandoned: whether the server carried it out is not known. A run makes its
 * client with its first request and closes it with its end.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bind/bind.h"
#include "vm/scope.h"
#include "store/http/http.h"
#include "store/azure/sign.h"

enum { TIMEOUT_S = 30, METHOD_MAX = 16, TARGET_MAX = 160 };

struct client {
    struct vm_resource resource;
    struct http *http; /* NULL between two runs */
};

struct request {
    struct http_call call;
    struct client *client;
    struct task *task; /* NULL until it waits */
    bool finished;
    char method[METHOD_MAX];
    char target[TARGET_MAX];
};

static void client_close(struct vm_resource *r) {
    struct client *client = container_of(r, struct client, resource);
    http_free(client->http);
    client->http = NULL;
}

static struct client *client_of(lua_State *L, struct vm *vm, struct error *err) {
    struct client *client = lua_touserdata(L, lua_upvalueindex(2));
    if (!client->http) {
        client->http = http_new(vm_world(vm), err);
        if (!client->http) {
            return NULL;
        }
        client->resource.close = client_close;
        vm_keep(vm, &client->resource);
    }
    return client;
}

/* --- the options --- */

/* Raises at the caller's line; the request's memory is Lua's until it is started. */
static void check_method(lua_State *L, const char *method) {
    size_t n = strlen(method);
    bool upper = n > 0 && strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == n;
    luaL_argcheck(L, upper && n < METHOD_MAX, 1, "method must be a word in capital letters");
}

static void check_url(lua_State *L, const char *url) {
    bool known = url && (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0);
    luaL_argcheck(L, known, 1, "url must begin with http:// or https://");
    for (const char *p = url; *p; p++) {
        luaL_argcheck(L, *p > ' ' && *p < 0x7f, 1, "url must be percent-encoded");
    }
}

static void add_field(lua_State *L, struct http_call *c, const char *name, const char *value,
                      size_t len) {
    if (strlen(value) != len || !http_call_field(c, name, value)) {
        luaL_error(L, "bad argument: the header %s cannot be sent (or there are too many)", name);
    }
}

static void add_headers(lua_State *L, struct http_call *c) {
    int type = lua_getfield(L, 1, "headers");
    luaL_argcheck(L, type == LUA_TNIL || type == LUA_TTABLE, 1, "headers must be a table");
    if (type == LUA_TTABLE) {
        lua_pushnil(L);
        while (lua_next(L, -2)) {
            luaL_argcheck(L, lua_type(L, -2) == LUA_TSTRING, 1, "a header's name must be a string");
            luaL_argcheck(L, lua_isstring(L, -1), 1, "a header's value must be a string or number");
            size_t len;
            const char *value = lua_tolstring(L, -1, &len);
            add_field(L, c, lua_tostring(L, -2), value, len);
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
}

static void check_names(lua_State *L) {
    static const char *const known[] = {"url", "method", "headers", "body", "timeout", "max_body"};
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pop(L, 1);
        const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "[?]";
        size_t i = 0;
        while (i < sizeof known / sizeof known[0] && strcmp(known[i], name) != 0) {
            i++;
        }
        if (i == sizeof known / sizeof known[0]) {
            luaL_error(L, "unknown option '%s'", name);
        }
    }
}

/* "GET http://host/path": neither a password before an "@" nor a query, which may be a signature. */
static void set_target(struct request *r) {
    const char *host;
    int n = http_call_host(&r->call, &host);
    int scheme = (int)(strstr(r->call.url, "://") - r->call.url);
    int path = (int)strcspn(host + strcspn(host, "/?#"), "?#");
    snprintf(r->target, sizeof r->target, "%s %.*s://%.*s%.*s", r->method, scheme, r->call.url, n,
             host, path > 80 ? 80 : path, host + strcspn(host, "/?#"));
}

static int request_gc(lua_State *L) {
    struct request *r = lua_touserdata(L, 1);
    http_call_release(&r->call);
    return 0;
}

#define REQUEST_TYPE "synod.http.request"

/* Pushes the request as userdata, so that an error on the way frees it. The strings stay on the stack. */
static struct request *read_request(lua_State *L, struct vm *vm) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    check_names(L);
    struct request *r = lua_newuserdatauv(L, sizeof *r, 0);
    memset(r, 0, sizeof *r);
    http_call_init(&r->call);
    luaL_setmetatable(L, REQUEST_TYPE);
    const char *url = bind_opt_string_field(L, 1, "url", NULL);
    const char *method = bind_opt_string_field(L, 1, "method", NULL);
    check_url(L, url);
    check_method(L, method ? method : "GET");
    snprintf(r->method, sizeof r->method, "%s", method ? method : "GET");
    r->call.method = r->method;
    r->call.body = bind_opt_string_field(L, 1, "body", &r->call.body_len);
    int64_t timeout = bind_opt_seconds_field(L, 1, "timeout", TIMEOUT_S * NS_PER_S);
    int64_t deadline = instant_add(world_now(vm_world(vm)), timeout);
    r->call.deadline = deadline < vm_deadline(vm) ? deadline : vm_deadline(vm);
    int64_t most = bind_opt_integer_field(L, 1, "max_body", HTTP_BODY_MAX);
    luaL_argcheck(L, most >= 0 && most <= HTTP_BODY_MAX, 1, "max_body must be from 0 to 256 MiB");
    r->call.body_max = (size_t)most;
    bool read = strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
    r->call.redirects = read && !r->call.body ? HTTP_REDIRECTS_MAX : 0;
    add_headers(L, &r->call);
    lua_getfield(L, 1,
                 "url"); /* kept where nobody can take them away while the request is under way */
    lua_getfield(L, 1, "body");
    r->call.url = lua_tostring(L, -2);
    set_target(r);
    return r;
}

/* --- the answer --- */

static void push_lower(lua_State *L, const char *name) {
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (; *name; name++) {
        luaL_addchar(&b, *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name);
    }
    luaL_pushresult(&b);
}

static void push_headers(lua_State *L, const struct pairs *headers) {
    lua_newtable(L);
    int all = lua_gettop(L);
    for (const char *name = pairs_first(headers); name; name = pairs_next(headers, name)) {
        push_lower(L, name);
        lua_pushvalue(L, -1);
        if (lua_rawget(L, all) == LUA_TSTRING) {
            lua_pushfstring(L, "%s, %s", lua_tostring(L, -1), pairs_value(name));
            lua_remove(L, -2);
        } else {
            lua_pop(L, 1);
            lua_pushstring(L, pairs_value(name));
        }
        lua_rawset(L, all);
    }
}

static int push_answer(lua_State *L, void *arg) {
    struct request *r = arg;
    if (r->call.err.code != ERR_OK) {
        return bind_fail(L, &r->call.err, "request", r->target);
    }
    lua_pushinteger(L, r->call.status);
    push_headers(L, &r->call.headers);
    lua_pushlstring(L, buf_str(&r->call.answer), r->call.answer.len);
    return 3;
}

static void on_answer(struct http_call *c) {
    struct request *r = container_of(c, struct request, call);
    r->finished = true;
    if (r->task) {
        task_wake(r->task);
    }
}

static void request_cancel(void *arg) {
    struct request *r = arg;
    http_abort(r->client->http, &r->call);
}

static int l_http(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "synod.http");
    struct request *r = read_request(L, vm);
    struct error err;
    r->client = client_of(L, vm, &err);
    if (!r->client) {
        return bind_fail(L, &err, "request", r->target);
    }
    r->call.done = on_answer;
    http_start(r->client->http, &r->call);
    if (r->finished && task_may_skip_park(vm)) {
        return push_answer(L, r);
    }
    r->task = task_running(vm);
    if (r->finished) {
        task_wake(r->task);
    }
    return task_park(L, vm, r, push_answer, request_cancel);
}

/* --- signatures --- */

static int l_azure_signature(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct request *r = lua_newuserdatauv(L, sizeof *r, 0); /* frees the header lines */
    memset(r, 0, sizeof *r);
    http_call_init(&r->call);
    luaL_setmetatable(L, REQUEST_TYPE);
    add_headers(L, &r->call);
    size_t key_len = 0;
    const char *account = bind_opt_string_field(L, 1, "account", NULL);
    const char *key = bind_opt_string_field(L, 1, "key", &key_len);
    const char *method = bind_opt_string_field(L, 1, "method", NULL);
    const char *path = bind_opt_string_field(L, 1, "path", NULL);
    luaL_argcheck(L, account && key && path, 1, "account, key and path are needed");
    struct signed_request what = {
        .method = method ? method : "GET",
        .path = path,
        .query = bind_opt_string_field(L, 1, "query", NULL),
        .fields = &r->call.fields,
        .body_len = (size_t)bind_opt_integer_field(L, 1, "length", 0),
    };
    struct error err;
    struct signer *signer = signer_new(account, key, key_len, &err);
    if (!signer) {
        return bind_fail(L, &err, "sign", NULL);
    }
    struct buf header;
    buf_init(&header, SIGN_TEXT_MAX);
    r->call.answer.max = SIGN_TEXT_MAX;
    bool ok = signer_text(signer, &what, &r->call.answer) &&
              signer_authorization(signer, false, &r->call.answer, &header);
    signer_free(signer);
    char copy[SIGN_KEY_MAX];
    snprintf(copy, sizeof copy, "%s", buf_str(&header));
    buf_release(&header);
    luaL_argcheck(L, ok, 1, "there is too much to sign");
    lua_pushstring(L, copy);
    lua_pushlstring(L, r->call.answer.data, r->call.answer.len);
    return 2;
}

void bind_http(lua_State *L, struct vm *vm) {
    static const luaL_Reg functions[] = {{"azure_signature", l_azure_signature}, {NULL, NULL}};
    static const luaL_Reg no_methods[] = {{NULL, NULL}};
    static const luaL_Reg metamethods[] = {{"__gc", request_gc}, {NULL, NULL}};
    bind_functions(L, vm, functions);
    bind_type(L, vm, REQUEST_TYPE, no_methods, metamethods);
    lua_pushlightuserdata(L, vm);
    struct client *client = lua_newuserdatauv(L, sizeof *client, 0);
    memset(client, 0, sizeof *client);
    lua_pushcclosure(L, l_http, 2);
    lua_setfield(L, -2, "http");
}
