/* vm.c -- what belongs to an instance and is neither a task nor the run of them. */
#include "vm/vm.h"

#include <string.h>

#include "vm/vm_impl.h"

const struct vm_keys VM_KEYS;

static void registry_table(lua_State *L, const void *key) {
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

static lua_State *main_thread(lua_State *L) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    lua_State *main = lua_tothread(L, -1);
    lua_pop(L, 1);
    return main;
}

struct vm *vm_new(lua_State *L) {
    struct vm *vm = lua_newuserdatauv(L, sizeof *vm, 0);
    memset(vm, 0, sizeof *vm);
    vm->L = main_thread(L);
    vm->ready_end = &vm->ready;
    registry_table(L, &VM_KEYS.anchors);
    registry_table(L, &VM_KEYS.reasons);
    registry_table(L, &VM_KEYS.tracebacks);
    lua_pushliteral(L, "code");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &VM_KEYS.code);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &VM_KEYS.vm);
    return vm;
}

struct vm *vm_of(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &VM_KEYS.vm);
    struct vm *vm = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return vm;
}

void vm_set_library(struct vm *vm, const char *prefix) {
    size_t n = strlen(prefix);
    if (n < sizeof vm->library) {
        memcpy(vm->library, prefix, n + 1);
    }
}

struct world *vm_world(struct vm *vm) {
    return vm->world;
}

void vm_set_error_form(struct vm *vm, vm_push_error_f push) {
    vm->push_error = push;
}

void vm_set_stopper(lua_State *L, struct vm *vm) {
    (void)vm;
    lua_rawsetp(L, LUA_REGISTRYINDEX, &VM_KEYS.stopper);
}

unsigned vm_run_number(const struct vm *vm) {
    return vm->runs;
}

void vm_keep(struct vm *vm, struct vm_resource *r) {
    r->prev = NULL;
    r->scope = NULL;
    r->next = vm->resources;
    if (r->next) {
        r->next->prev = r;
    }
    vm->resources = r;
}

void vm_forget(struct vm *vm, struct vm_resource *r) {
    if (!r->prev && !r->next && vm->resources != r) {
        return;
    }
    if (r->prev) {
        r->prev->next = r->next;
    } else {
        vm->resources = r->next;
    }
    if (r->next) {
        r->next->prev = r->prev;
    }
    r->prev = r->next = NULL;
    r->scope = NULL;
}
