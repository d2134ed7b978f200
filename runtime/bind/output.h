/* output.h -- what the program asks of its standard output when the run has ended. */
#ifndef SYNOD_BIND_OUTPUT_H
#define SYNOD_BIND_OUTPUT_H

#include <lua.h>
#include <stdbool.h>

/* errno of the failure of standard output, 0 when all was written; EPIPE: its reader went away, which is
 * nothing to talk about. `told`: the script has failed with it already. */
int bind_output_error(lua_State *L, bool *told);

#endif
