/* output.h -- the end of the program's standard output. */
#ifndef SYNOD_BIND_OUTPUT_H
#define SYNOD_BIND_OUTPUT_H

#include <lua.h>

/* The exit code of a process whose run has ended with this one: when what was printed could not be
 * written, which is known only now, it says so and failed; when its reader went away, which is nothing to
 * talk about, it ends as SIGPIPE would have ended it. */
int bind_output_end(lua_State *L, int exit_code);

#endif
