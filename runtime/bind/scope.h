/* bind/scope.h -- for those who make scopes: a binding of something that can be lost, a lease. */
#ifndef SYNOD_BIND_SCOPE_H
#define SYNOD_BIND_SCOPE_H

#include "bind/bind.h"
#include "vm/scope.h"

#define SCOPE_TYPE "synod.Scope"

/* Pushes a new scope, within the running task's, as `synod.guard` takes it. The value at `keeps`
 * (0: none) lives as long as it does: what `options->arg` points into. Raises when memory is
 * short, and then `closed` is not called. */
struct scope *scope_push(lua_State *L, struct vm *vm, const struct scope_options *options,
                         int keeps);

#endif
