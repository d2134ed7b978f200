#include "store/rows_schema.h"

/* 1: the records. Without rowid: a record is found by one descent, and lists come out in order. `content`
 * stands last, so that reading the rest does not touch its overflow pages. */
#define STEP_RECORDS                                                                               \
    "CREATE TABLE state ("                                                                         \
    "  id INTEGER PRIMARY KEY CHECK (id = 1),"                                                     \
    "  next_etag INTEGER NOT NULL,"                                                                \
    "  highest_date INTEGER NOT NULL"                                                              \
    ");"                                                                                           \
    "INSERT INTO state VALUES (1, 1, 0);"                                                          \
    "CREATE TABLE rows ("                                                                          \
    "  kind INTEGER NOT NULL,"                                                                     \
    "  parent TEXT NOT NULL,"                                                                      \
    "  name TEXT NOT NULL,"                                                                        \
    "  etag INTEGER NOT NULL,"                                                                     \
    "  created INTEGER NOT NULL,"                                                                  \
    "  modified INTEGER NOT NULL,"                                                                 \
    "  type INTEGER NOT NULL,"                                                                     \
    "  content_type TEXT,"                                                                         \
    "  length INTEGER NOT NULL,"                                                                   \
    "  blocks INTEGER NOT NULL,"                                                                   \
    "  metadata TEXT,"                                                                             \
    "  lease_id TEXT,"                                                                             \
    "  lease_seconds INTEGER,"                                                                     \
    "  lease_end INTEGER,"                                                                         \
    "  lease_break_end INTEGER,"                                                                   \
    "  lease_boot TEXT,"                                                                           \
    "  content BLOB,"                                                                              \
    "  PRIMARY KEY (kind, parent, name)"                                                           \
    ") WITHOUT ROWID;"                                                                             \
    "CREATE TABLE pieces ("                                                                        \
    "  container TEXT NOT NULL,"                                                                   \
    "  name TEXT NOT NULL,"                                                                        \
    "  position INTEGER NOT NULL,"                                                                 \
    "  data BLOB NOT NULL,"                                                                        \
    "  PRIMARY KEY (container, name, position)"                                                    \
    ") WITHOUT ROWID;"

/* 2: the same for people. */
#define VIEW_COMMON                                                                                \
    "printf('\"0x8D%013X\"', etag) AS etag,"                                                       \
    "datetime(modified, 'unixepoch') AS last_modified,"                                            \
    "datetime(created, 'unixepoch') AS created,"                                                   \
    "metadata, lease_id, lease_seconds, lease_end, lease_break_end, lease_boot"

#define STEP_VIEWS                                                                                 \
    "CREATE VIEW containers AS SELECT name," VIEW_COMMON " FROM rows WHERE kind = 1;"              \
    "CREATE VIEW blobs AS SELECT parent AS container, name,"                                       \
    "  CASE type WHEN 0 THEN 'block' WHEN 1 THEN 'page' ELSE 'append' END AS type,"                \
    "  length, blocks, content_type," VIEW_COMMON ","                                              \
    "  content FROM rows WHERE kind = 2;"

const char *const ROWS_SCHEMA_STEPS[ROWS_SCHEMA_VERSION] = {STEP_RECORDS, STEP_VIEWS};
