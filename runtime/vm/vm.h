/* vm.h -- one instance: a Lua state, its tasks, the world they live in.
 *
 * A vm belongs to a Lua state and exists as long as the module `synod.core` is loaded there. It is
 * *running* between vm_run's entry and return; only then may tasks wait, and only then is `world` set.
 *
 *     for (;;) { world_wait(); while (ready) task_resume(); }       is all that vm_run does.
 */
#ifndef SYNOD_VM_VM_H
#define SYNOD_VM_VM_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "world/world.h"

struct task;
struct vm;

/* Something that must be closed when a run ends, whether Lua has collected it or not: an open store, a
 * socket, a child process. `close` is called once, after the last task has ended. */
struct vm_resource {
    struct vm_resource *prev, *next;
    void (*close)(struct vm_resource *r);
};

struct vm *vm_new(lua_State *L); /* pushes the userdata that owns it */
struct world *vm_world(struct vm *vm); /* NULL outside of a run */
lua_State *vm_main_state(struct vm *vm);

void vm_keep(struct vm *vm, struct vm_resource *r);
void vm_forget(struct vm *vm, struct vm_resource *r); /* no effect when it is not kept */

#endif
