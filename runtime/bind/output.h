/* output.h -- what others than scripts ask of standard output and standard error. */
#ifndef SYNOD_BIND_OUTPUT_H
#define SYNOD_BIND_OUTPUT_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

/* Takes it for standard error, or false: there is no room at the moment. Never waits. */
bool bind_output_try(lua_State *L, const void *data, size_t n);
bool bind_output_has_room(lua_State *L);
bool bind_output_colored(lua_State *L); /* standard error is a terminal */

/* The exit code of a process whose run has ended with this one: when what was printed could not be
 * written, which is known only now, it says so and failed; when its reader went away, which is nothing to
 * talk about, it ends as SIGPIPE would have ended it. */
int bind_output_end(lua_State *L, int exit_code);

#endif
