#include "store/embedded/rows_schema.h"

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

/* 3: tables. The name of an entity is its partition key, a character that no key may hold, and its row
 * key, so that records lie in the order of the keys. */
#define STEP_TABLES                                                                                \
    "ALTER TABLE state ADD COLUMN highest_tick INTEGER NOT NULL DEFAULT 0;"                        \
    "CREATE VIEW tables AS SELECT rtrim(substr(metadata, 6), char(10)) AS name,"                   \
    "  datetime(created, 'unixepoch') AS created FROM rows WHERE kind = 5;"                        \
    "CREATE VIEW entities AS SELECT parent AS table_name,"                                         \
    "  substr(name, 1, instr(name, char(1)) - 1) AS partition,"                                    \
    "  substr(name, instr(name, char(1)) + 1) AS row,"                                             \
    "  strftime('%Y-%m-%dT%H:%M:%S', etag / 10000000, 'unixepoch')"                                \
    "    || printf('.%07dZ', etag % 10000000) AS timestamp,"                                       \
    "  CAST(content AS TEXT) AS properties FROM rows WHERE kind = 6;"

/* 4: queues. A message's name is its id, which begins with the instant of its insertion. */
#define VIEW_DATE(column)                                                                          \
    "strftime('%Y-%m-%dT%H:%M:%S', " column " / 1000000000, 'unixepoch')"                          \
    "  || printf('.%09dZ', " column " % 1000000000)"

#define STEP_QUEUES                                                                                \
    "ALTER TABLE rows ADD COLUMN next_visible INTEGER;"                                            \
    "ALTER TABLE rows ADD COLUMN expires INTEGER;"                                                 \
    "CREATE INDEX messages_by_visibility ON rows (parent, next_visible, name) WHERE kind = 4;"     \
    "CREATE INDEX messages_by_expiry ON rows (parent, expires, name) WHERE kind = 4;"              \
    "CREATE VIEW queues AS SELECT name, datetime(created, 'unixepoch') AS created, metadata"       \
    "  FROM rows WHERE kind = 3;"                                                                  \
    "CREATE VIEW messages AS SELECT parent AS queue, name AS id,"                                  \
    "  datetime(created, 'unixepoch') AS inserted," VIEW_DATE(                                     \
        "next_visible") " AS next_visible,"                                                        \
                        "  CASE expires WHEN 9223372036854775807 THEN NULL ELSE " VIEW_DATE(       \
                            "expires") " END"                                                      \
                                       "    AS expires,"                                           \
                                       "  blocks AS dequeue_count, printf('%016x', etag) AS "      \
                                       "receipt,"                                                  \
                                       "  CAST(content AS TEXT) AS body FROM rows WHERE kind = 4;"

/* 5: blobs made of blocks. The name of a block is its blob's, the upload's and the number of its first byte,
 * with a character between them that no name may hold; a blob's content is then the name of its upload. What a
 * block holds lies in a table with rowids: without them, finding a record reads the whole of others. */
#define STEP_BLOCKS                                                                                \
    "CREATE TABLE contents ("                                                                      \
    "  id INTEGER PRIMARY KEY,"                                                                    \
    "  container TEXT NOT NULL,"                                                                   \
    "  name TEXT NOT NULL,"                                                                        \
    "  data BLOB NOT NULL,"                                                                        \
    "  UNIQUE (container, name)"                                                                   \
    ");"                                                                                           \
    "CREATE VIEW blocks AS SELECT parent AS container,"                                            \
    "  substr(rows.name, 1, instr(rows.name, char(1)) - 1) AS blob,"                               \
    "  substr(rows.name, instr(rows.name, char(1)) + 1,"                                           \
    "    length(rows.name) - instr(rows.name, char(1)) - 17) AS upload,"                           \
    "  CAST(substr(rows.name, -16) AS INTEGER) AS position, length,"                               \
    "  datetime(modified, 'unixepoch') AS last_modified, data FROM rows"                           \
    "  JOIN contents ON contents.container = parent AND contents.name = rows.name"                 \
    "  WHERE kind = 7;"

const char *const ROWS_SCHEMA_STEPS[ROWS_SCHEMA_VERSION] = {STEP_RECORDS, STEP_VIEWS, STEP_TABLES,
                                                            STEP_QUEUES, STEP_BLOCKS};
