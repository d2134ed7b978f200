/* bind.h -- what the files that show the runtime to Lua share.
 *
 * One file per noun; luaL_Reg tables, argument checks, pushes. A decision about the domain belongs to
 * the engine below. Each file has one `bind_NOUN(L)`, which adds its functions to the table on top of the
 * stack; functions have the vm as their first upvalue.
 */
#ifndef SYNOD_BIND_BIND_H
#define SYNOD_BIND_BIND_H

#include <lauxlib.h>
#include <lua.h>

#include "base/error.h"
#include "base/instant.h"
#include "vm/task.h"
#include "vm/vm.h"

struct vm *bind_vm(lua_State *L); /* the first upvalue of the running function */

/* luaL_setfuncs with the vm, which is the running function's (or luaopen's) first upvalue. */
void bind_functions(lua_State *L, struct vm *vm, const luaL_Reg *functions);
/* Registers a metatable `name` with __name, __index = methods, and the metamethods given (may be NULL);
 * leaves the stack as it was. */
void bind_type(lua_State *L, struct vm *vm, const char *name, const luaL_Reg *methods,
               const luaL_Reg *metamethods);

/* Pushes the err table: code, status, message, operation, target, request_id, retryable. */
void bind_push_error(lua_State *L, const struct error *e, const char *operation,
                     const char *target);
/* nil, err */
int bind_fail(lua_State *L, const struct error *e, const char *operation, const char *target);

/* Argument `arg`: seconds, fractions allowed, not negative; raises otherwise. */
int64_t bind_check_seconds(lua_State *L, int arg);
/* The same, nil and none give `absent`. */
int64_t bind_opt_seconds(lua_State *L, int arg, int64_t absent);

/* Fields of an options table (nil and none: absent). Each raises for a wrong type, naming the field. */
const char *bind_opt_string_field(lua_State *L, int table, const char *field, size_t *len);
int64_t bind_opt_integer_field(lua_State *L, int table, const char *field, int64_t absent);
int64_t bind_opt_seconds_field(lua_State *L, int table, const char *field, int64_t absent);
bool bind_opt_boolean_field(lua_State *L, int table, const char *field, bool absent);

/* A field of the table at the top; "" and 0, what is not told, leave it absent. */
void bind_set_text(lua_State *L, const char *field, const char *text);
void bind_set_number(lua_State *L, const char *field, int64_t number);
/* The same of a time, 0 too. */
void bind_set_seconds(lua_State *L, const char *field, int64_t ns);

/* One per file of this room, in the order of luaopen_synod_core: X(noun). */
#define BIND_LIST(X)                                                                               \
    X(task)                                                                                        \
    X(scope)                                                                                       \
    X(event)                                                                                       \
    X(clock)                                                                                       \
    X(process)                                                                                     \
    X(signals)                                                                                     \
    X(host)                                                                                        \
    X(http)                                                                                        \
    X(resolve)                                                                                     \
    X(stream)                                                                                      \
    X(store)                                                                                       \
    X(store_list)                                                                                  \
    X(blob)                                                                                        \
    X(body)                                                                                        \
    X(lease)                                                                                       \
    X(mark)                                                                                        \
    X(timing)                                                                                      \
    X(keeper)                                                                                      \
    X(meter)                                                                                       \
    X(input)                                                                                       \
    X(edm)                                                                                         \
    X(queue)                                                                                       \
    X(table)                                                                                       \
    X(output)                                                                                      \
    X(log)                                                                                         \
    X(version)

#define BIND_DECLARE(noun) void bind_##noun(lua_State *L, struct vm *vm);
BIND_LIST(BIND_DECLARE)
#undef BIND_DECLARE

/* The module is one flat table. Beside what the list adds it has
 *     core.new_error{code=, message=, operation=, target=, ...} -> err
 * which makes what bind_push_error makes, for refusals that are found in Lua: what is not given of
 * message, status and retryable follows the code. */
int luaopen_synod_core(lua_State *L);

#endif
