/* stream.c -- world/stream.h to Lua, for synod.net.
 *
 *     core.stream_connect(address, name, [seconds]) -> socket | nil, err
 *     core.stream_listen(address, name) -> socket | nil, err
 *     core.stream_pair(name) -> socket, fd | nil, err          fd is for a child; core.descriptor_close(fd) after
 *     core.stream_adopt(fd, name) -> socket | nil, err         in the child
 *     socket:accept() -> socket | nil (closed) | nil, err
 *     socket:fill([seconds]) -> true | nil (the end) | nil, err         reads more
 *     socket:line() | socket:block(n) | socket:some() -> text | false: there is not that much yet
 *     socket:held() -> bytes read and not taken
 *     socket:send(text, from) -> bytes taken | nil, err
 *     socket:name(of_peer) -> text, socket:close(), socket:is_closed()
 *
 * An address is a sockaddr as a string. A cancel leaves what was read in the socket, and what was sent on
 * its way.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "bind/bind.h"
#include "vm/scope.h"
#include "world/stream.h"

#define SOCKET_TYPE "synod.socket"

struct lua_socket {
    struct stream stream;
    struct vm *vm;
    struct vm_resource resource;
    bool open;
    char target[STREAM_NAME_MAX]; /* for messages */
    struct waitlist readers, writers;
};

static int fail(lua_State *L, enum err code, int error, const char *operation, const char *target) {
    struct error e;
    error_set(&e, code, "%s", strerror(error));
    return bind_fail(L, &e, operation, target);
}

static int64_t deadline_of(lua_State *L, struct vm *vm, int arg) {
    int64_t seconds = bind_opt_seconds(L, arg, NEVER);
    return seconds == NEVER ? NEVER : instant_add(world_now(vm_world(vm)), seconds);
}

static int fail_timeout(lua_State *L, const char *operation, const char *target) {
    struct error e;
    error_set(&e, ERR_TIMEOUT, NULL);
    return bind_fail(L, &e, operation, target);
}

/* ---- sockets ---- */

static struct lua_socket *check_socket(lua_State *L) {
    return luaL_checkudata(L, 1, SOCKET_TYPE);
}

static void socket_ready(struct stream *s, int events) {
    struct lua_socket *socket = container_of(s, struct lua_socket, stream);
    if (events & WATCH_READ) {
        waitlist_wake(&socket->readers);
    }
    if (events & WATCH_WRITE) {
        waitlist_wake(&socket->writers);
    }
}

static void socket_close(struct lua_socket *s) {
    if (s->open) {
        s->open = false;
        vm_forget(s->vm, &s->resource);
        stream_close(&s->stream);
        waitlist_wake(&s->readers); /* they find it closed */
        waitlist_wake(&s->writers);
    }
}

static void socket_resource_close(struct vm_resource *r) {
    socket_close(container_of(r, struct lua_socket, resource));
}

static int l_socket_close(lua_State *L) {
    socket_close(check_socket(L));
    return 0;
}

static struct lua_socket *push_socket(lua_State *L, struct vm *vm, const char *target) {
    struct lua_socket *s = lua_newuserdatauv(L, sizeof *s, 0);
    memset(s, 0, sizeof *s);
    luaL_setmetatable(L, SOCKET_TYPE);
    s->vm = vm;
    s->resource.close = socket_resource_close;
    stream_init(&s->stream, vm_world(vm), socket_ready);
    size_t n = strlen(target);
    n = n < sizeof s->target ? n : sizeof s->target - 1;
    memcpy(s->target, target, n);
    return s;
}

/* From here on it is closed with the run. */
static void socket_opened(struct lua_socket *s) {
    s->open = true;
    scope_keep(s->vm, &s->resource);
}

/* Waits in the list until the socket is ready; the deadline is argument `seconds`. */
static int socket_wait(lua_State *L, struct lua_socket *s, int events, int64_t deadline,
                       task_done_f done) {
    int rc = stream_await(&s->stream, events);
    if (rc != 0) {
        return fail(L, ERR_CONNECTION_LOST, -rc, "watch", s->target);
    }
    return task_wait(L, s->vm, events == WATCH_READ ? &s->readers : &s->writers, deadline, done);
}

static const struct sockaddr *check_address(lua_State *L, struct sockaddr_storage *a,
                                            socklen_t *len) {
    size_t n;
    const char *bytes = luaL_checklstring(L, 1, &n);
    luaL_argcheck(L, n <= sizeof *a, 1, "no address");
    memset(a, 0, sizeof *a);
    memcpy(a, bytes, n);
    *len = (socklen_t)n;
    return (const struct sockaddr *)a;
}

enum { CONNECT_NAME = 2, CONNECT_SECONDS, CONNECT_SOCKET };

static int push_connected(lua_State *L, struct lua_socket *s, int rc) {
    if (rc != 0) {
        socket_close(s);
        return fail(L, ERR_CONNECTION_FAILED, -rc, "connect to", s->target);
    }
    lua_settop(L, CONNECT_SOCKET);
    return 1;
}

static int connect_waited(lua_State *L, void *arg) {
    struct lua_socket *s = luaL_checkudata(L, CONNECT_SOCKET, SOCKET_TYPE);
    if (task_timed_out(arg)) {
        socket_close(s);
        return fail_timeout(L, "connect to", s->target);
    }
    return push_connected(L, s, stream_connected(&s->stream));
}

static int l_stream_connect(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "synod.connect");
    struct sockaddr_storage storage;
    socklen_t len;
    const struct sockaddr *address = check_address(L, &storage, &len);
    const char *name = luaL_checkstring(L, CONNECT_NAME);
    int64_t deadline = deadline_of(L, vm, CONNECT_SECONDS);
    lua_settop(L, CONNECT_SECONDS);
    struct lua_socket *s = push_socket(L, vm, name);
    int rc = stream_connect(&s->stream, address, len);
    if (rc == 0 || rc == -EINPROGRESS) {
        socket_opened(s);
    }
    if (rc != -EINPROGRESS) {
        return push_connected(L, s, rc);
    }
    return socket_wait(L, s, WATCH_WRITE, deadline, connect_waited);
}

static int l_stream_listen(lua_State *L) {
    struct vm *vm = task_enter(L, "synod.listen");
    struct sockaddr_storage storage;
    socklen_t len;
    const struct sockaddr *address = check_address(L, &storage, &len);
    struct lua_socket *s = push_socket(L, vm, luaL_checkstring(L, 2));
    int rc = stream_listen(&s->stream, address, len);
    if (rc != 0) {
        return fail(L, rc == -EADDRINUSE ? ERR_ADDRESS_IN_USE : ERR_CONNECTION_FAILED, -rc,
                    "listen at", s->target);
    }
    socket_opened(s);
    return 1;
}

static int l_stream_pair(lua_State *L) {
    struct vm *vm = task_enter(L, "a pair of sockets");
    struct lua_socket *s = push_socket(L, vm, luaL_checkstring(L, 1));
    int theirs;
    int rc = stream_pair(&s->stream, &theirs);
    if (rc != 0) {
        return fail(L, ERR_CONNECTION_FAILED, -rc, "connect to", s->target);
    }
    socket_opened(s);
    lua_pushinteger(L, theirs);
    return 2;
}

static int l_stream_adopt(lua_State *L) {
    struct vm *vm = task_enter(L, "an inherited socket");
    struct lua_socket *s = push_socket(L, vm, luaL_checkstring(L, 2));
    int rc = stream_adopt(&s->stream, (int)luaL_checkinteger(L, 1));
    if (rc != 0) {
        return fail(L, ERR_CONNECTION_FAILED, -rc, "take over", s->target);
    }
    socket_opened(s);
    return 1;
}

static int accept_now(lua_State *L, struct lua_socket *listener, int *rc) {
    struct lua_socket *s = push_socket(L, listener->vm, listener->target);
    *rc = stream_accept(&listener->stream, &s->stream);
    if (*rc == 0) {
        socket_opened(s);
        return 1;
    }
    lua_pop(L, 1);
    return *rc == -EAGAIN ? 0 : fail(L, ERR_CONNECTION_FAILED, -*rc, "accept at", listener->target);
}

/* Woken without a connection: the caller asks again. */
static int accept_waited(lua_State *L, void *arg) {
    struct lua_socket *listener = check_socket(L);
    (void)arg;
    int rc;
    if (!listener->open) {
        lua_pushnil(L);
        return 1;
    }
    int n = accept_now(L, listener, &rc);
    if (rc != -EAGAIN) {
        return n;
    }
    lua_pushboolean(L, 0);
    return 1;
}

static int l_socket_accept(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "the accept of a connection");
    struct lua_socket *listener = check_socket(L);
    int rc = -EAGAIN;
    if (!listener->open) {
        lua_pushnil(L);
        return 1;
    }
    if (task_may_skip_park(vm)) {
        int n = accept_now(L, listener, &rc);
        if (rc != -EAGAIN) {
            return n;
        }
    }
    return socket_wait(L, listener, WATCH_READ, NEVER, accept_waited);
}

/* ---- reading ---- */

static int closed(lua_State *L, const struct lua_socket *s, const char *operation) {
    struct error e;
    error_set(&e, ERR_CONNECTION_LOST, "the connection was closed here");
    return bind_fail(L, &e, operation, s->target);
}

static int push_filled(lua_State *L, const struct lua_socket *s, int rc) {
    if (rc > 0 || rc == -EAGAIN) {
        lua_pushboolean(L, 1);
        return 1;
    }
    if (rc == 0) {
        lua_pushnil(L);
        return 1;
    }
    if (rc == -ENOBUFS) {
        struct error e;
        error_set(&e, ERR_LINE_TOO_LONG, "more than %d bytes were read and not used",
                  STREAM_IN_MAX);
        return bind_fail(L, &e, "read from", s->target);
    }
    return fail(L, ERR_CONNECTION_LOST, -rc, "read from", s->target);
}

static int fill_waited(lua_State *L, void *arg) {
    struct lua_socket *s = check_socket(L);
    if (!s->open) {
        return closed(L, s, "read from");
    }
    if (task_timed_out(arg)) {
        return fail_timeout(L, "read from", s->target);
    }
    return push_filled(L, s, stream_fill(&s->stream));
}

static int l_socket_fill(lua_State *L) {
    struct vm *vm = task_enter_wait(L, "conn:read");
    struct lua_socket *s = check_socket(L);
    if (!s->open) {
        return closed(L, s, "read from");
    }
    int64_t deadline = deadline_of(L, vm, 2);
    if (task_may_skip_park(vm)) {
        int rc = stream_fill(&s->stream);
        if (rc != -EAGAIN) {
            return push_filled(L, s, rc);
        }
    }
    return socket_wait(L, s, WATCH_READ, deadline, fill_waited);
}

static int push_taken(lua_State *L, struct stream *s, size_t n, size_t drop) {
    lua_pushlstring(L, stream_data(s), n - drop);
    size_t left = stream_available(s); /* a finaliser of the script may have closed it meanwhile */
    stream_take(s, n < left ? n : left);
    return 1;
}

static int none_yet(lua_State *L) {
    lua_pushboolean(L, 0);
    return 1;
}

/* Without its newline, and without the carriage return before it. */
static int l_socket_line(lua_State *L) {
    struct stream *s = &check_socket(L)->stream;
    size_t n = stream_line(s);
    if (n == 0) {
        return none_yet(L);
    }
    return push_taken(L, s, n, n > 1 && stream_data(s)[n - 2] == '\r' ? 2 : 1);
}

static int l_socket_block(lua_State *L) {
    struct stream *s = &check_socket(L)->stream;
    lua_Integer n = luaL_checkinteger(L, 2);
    if (n < 0 || (size_t)n > stream_available(s)) {
        return none_yet(L);
    }
    return push_taken(L, s, (size_t)n, 0);
}

static int l_socket_some(lua_State *L) {
    struct stream *s = &check_socket(L)->stream;
    size_t n = stream_available(s);
    return n == 0 ? none_yet(L) : push_taken(L, s, n, 0);
}

static int l_socket_held(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)stream_available(&check_socket(L)->stream));
    return 1;
}

/* ---- writing ---- */

static int push_sent(lua_State *L, const struct lua_socket *s, ssize_t n) {
    if (n >= 0 || n == -EAGAIN) {
        lua_pushinteger(L, n > 0 ? n : 0);
        return 1;
    }
    return fail(L, ERR_CONNECTION_LOST, (int)-n, "write to", s->target);
}

static ssize_t send_from(lua_State *L, struct lua_socket *s) {
    size_t len;
    const char *text = luaL_checklstring(L, 2, &len);
    lua_Integer from = luaL_optinteger(L, 3, 1);
    luaL_argcheck(L, from >= 1 && (size_t)from <= len + 1, 3, "outside of the text");
    return stream_send(&s->stream, text + from - 1, len - (size_t)from + 1);
}

static int send_waited(lua_State *L, void *arg) {
    struct lua_socket *s = check_socket(L);
    (void)arg;
    return s->open ? push_sent(L, s, send_from(L, s)) : closed(L, s, "write to");
}

static int l_socket_send(lua_State *L) {
    task_enter_wait(L, "conn:write");
    struct lua_socket *s = check_socket(L);
    if (!s->open) {
        return closed(L, s, "write to");
    }
    ssize_t n = send_from(L, s);
    if (n != -EAGAIN) {
        return push_sent(L, s, n);
    }
    return socket_wait(L, s, WATCH_WRITE, NEVER, send_waited);
}

static int l_socket_name(lua_State *L) {
    char name[STREAM_NAME_MAX];
    stream_name(&check_socket(L)->stream, lua_toboolean(L, 2), name);
    lua_pushstring(L, name);
    return 1;
}

static int l_socket_is_closed(lua_State *L) {
    lua_pushboolean(L, !check_socket(L)->open);
    return 1;
}

void bind_stream(lua_State *L, struct vm *vm) {
    static const luaL_Reg methods[] = {
        {"accept", l_socket_accept}, /* waits */
        {"fill", l_socket_fill},     /* waits */
        {"send", l_socket_send},     /* waits */
        {"line", l_socket_line},           {"block", l_socket_block},
        {"some", l_socket_some},           {"held", l_socket_held},
        {"name", l_socket_name},           {"close", l_socket_close},
        {"is_closed", l_socket_is_closed}, {NULL, NULL},
    };
    static const luaL_Reg metamethods[] = {
        {"__gc", l_socket_close}, {"__close", l_socket_close}, {NULL, NULL}};
    static const luaL_Reg functions[] = {
        {"stream_connect", l_stream_connect}, /* waits */
        {"stream_listen", l_stream_listen},   {"stream_pair", l_stream_pair},
        {"stream_adopt", l_stream_adopt},     {NULL, NULL},
    };
    bind_type(L, vm, SOCKET_TYPE, methods, metamethods);
    bind_functions(L, vm, functions);
}
