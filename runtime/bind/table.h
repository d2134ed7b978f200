/* table.h -- what the bindings of tables share: typed values and entities between Lua and store/entity.h.
 *
 * In Lua an entity is a table with `partition`, `row`, `etag` and `timestamp` beside its properties. A property
 * that is itself called by one of these four words has an "@" before its name there.
 */
#ifndef SYNOD_BIND_TABLE_H
#define SYNOD_BIND_TABLE_H

#include "bind/store.h"
#include "store/entity.h"

#define TABLE_TYPE "synod.Table"

/* ---- typed values (edm.c) ---- */

/* Pushes a value as a script sees it. */
void push_value(lua_State *L, const struct edm_value *value);
/* The value at `index`, whose text stays Lua's; false when it is none that a property can hold. */
bool to_value(lua_State *L, int index, struct edm_value *out);

/* The time at index 1, seconds since 1970 or text, as a value; raises for what is none. */
int make_time(lua_State *L);

/* ---- entities (entity.c) ---- */

/* Pushes an entity as a table. */
void push_entity(lua_State *L, const struct entity *e);
/* The table at `index` as an entity in the call's arena; raises for what the service forbids. `keys_only`: its
 * properties do not matter. */
const struct entity *check_entity(lua_State *L, int index, struct store_call *call, bool keys_only);
/* The key at `index`, copied; `what` is "partition" or "row". */
const char *check_key(lua_State *L, int index, struct store_call *call, const char *what);

/* ---- calls (table.c) ---- */

/* Results of a finished call on a table: see call_run. */
int push_table_results(lua_State *L, struct store_call *call);
/* Pushes what the call was about: "members/group/row". */
void push_table_target(lua_State *L, const struct store_request *req);

/* table:query and store:tables: see store_list.c. */
int table_query(lua_State *L);
int store_tables(lua_State *L);

extern const struct call_option TABLE_OPTIONS[], ENTITY_GET_OPTIONS[], ENTITY_WRITE_OPTIONS[],
    ENTITY_UPSERT_OPTIONS[], ENTITY_QUERY_OPTIONS[];

#endif
