/* watchdog.h -- ends the process when a task goes on after its hard stop.
 *
 *     struct watchdog *d = watchdog_new();              a thread of its own; NULL: it cannot be had
 *     watchdog_set(d, hard + slice);                     the earliest of all guards; NEVER: sleep
 *     watchdog_enter(d, hard + slice, "flags/leader");   a guarded task begins to run, or its end has moved
 *     ... Lua, C functions ...
 *     watchdog_leave(d);
 *     watchdog_free(d);
 *
 * The main thread acknowledges a stop by leaving the guarded code. Where it is still inside at the
 * end, one line is written and the process ends with 5; commands on a leash die by the end of
 * their pipes. A thread that finds itself late by more than PATIENCE was stopped with the process
 * (SIGSTOP, suspend): the main thread, which meets its deadline on its first instruction, then
 * gets as much again for that.
 *
 * All instants are boot-time ns. All calls are the main thread's.
 */
#ifndef SYNOD_VM_WATCHDOG_H
#define SYNOD_VM_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

struct watchdog;

struct watchdog *watchdog_new(void);
void watchdog_free(struct watchdog *d);

void watchdog_set(struct watchdog *d, int64_t earliest);
void watchdog_enter(struct watchdog *d, int64_t end,
                    const char *name); /* `name` is used until leave */
void watchdog_leave(struct watchdog *d);

#endif
