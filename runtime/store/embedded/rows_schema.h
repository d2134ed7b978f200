/* rows_schema.h -- what lies in a store's file, as the steps that lead there.
 *
 * Step n takes a file of version n - 1 to version n; a new file takes them all. A step that has been
 * released is never changed: another one is added. docs/store-schema.md explains the tables. */
#ifndef SYNOD_STORE_ROWS_SCHEMA_H
#define SYNOD_STORE_ROWS_SCHEMA_H

enum {
    ROWS_SCHEMA_VERSION = 5,          /* PRAGMA user_version */
    ROWS_APPLICATION_ID = 0x73796E64, /* PRAGMA application_id: "synd" */
};

extern const char *const ROWS_SCHEMA_STEPS[ROWS_SCHEMA_VERSION];

#endif
