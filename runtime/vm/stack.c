/* stack.c -- where on a stack a stop may be raised.
 *
 * Lua tells of a function whether it runs as a to-be-closed handler only while its block is left
 * in peace. While an error unwinds, handlers are called below the function that catches it (pcall,
 * xpcall, or the body of a task), and nothing names them; but the frame of the catcher is not as
 * it was when it called: what lies on the stack above its own few values is still there. A catcher
 * that calls what it protects has a fixed number of values below it.
 */
#include <string.h>

#include "vm/vm_impl.h"

enum { PCALL_VALUES = 1, XPCALL_VALUES = 3, BODY_VALUES = 1 };

/* How many values such a function has below the one it protects; 0: it is none. */
static int catcher_values(const struct vm *vm, lua_CFunction f) {
    return f == task_body         ? BODY_VALUES
           : f && f == vm->pcall  ? PCALL_VALUES
           : f && f == vm->xpcall ? XPCALL_VALUES
                                  : 0;
}

/* Whether what this level called is a handler that runs because of an error. */
static bool unwinds(const struct vm *vm, lua_State *L, lua_Debug *ar) {
    if (!lua_checkstack(L, 2)) {
        return true; /* not known: later */
    }
    lua_getinfo(L, "f", ar);
    int values = catcher_values(vm, lua_tocfunction(L, -1));
    lua_pop(L, 1);
    if (values == 0 || !lua_getlocal(L, ar, values + 1)) {
        return false;
    }
    lua_pop(L, 1);
    return true;
}

static bool closes(const struct vm *vm, lua_State *L) {
    lua_Debug ar;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sn", &ar);
        if (ar.name && strcmp(ar.namewhat, "metamethod") == 0 && strcmp(ar.name, "close") == 0) {
            return true;
        }
        if (level > 0 && ar.what[0] == 'C' && unwinds(vm, L, &ar)) {
            return true;
        }
    }
    return false;
}

bool stack_closes(const struct vm *vm, lua_State *L) {
    bool yes = vm->closing > 0 || closes(vm, L);
    for (struct frame *f = vm->frame; f && !yes; f = f->outer) {
        yes = closes(vm, f->resumer);
    }
    return yes;
}

bool stack_closes_parked(const struct task *t) {
    lua_State *L = t->innermost;
    bool yes = closes(t->vm, L);
    while (!yes && L != t->co) {
        L = coroutine_resumer(L);
        yes = closes(t->vm, L);
    }
    return yes;
}

bool stack_in_library(const struct vm *vm, lua_State *L) {
    lua_Debug ar;
    size_t n = strlen(vm->library);
    if (n == 0 || !lua_getstack(L, 0, &ar)) {
        return false;
    }
    lua_getinfo(L, "S", &ar);
    const char *rest = ar.source + n;
    return strncmp(ar.source, vm->library, n) == 0 &&
           (strncmp(rest, "synod/", 6) == 0 || strncmp(rest, "cli/", 4) == 0);
}
