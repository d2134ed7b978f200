/* part.h -- what the files of the embedded store's semantics share. */
#ifndef SYNOD_STORE_EMBEDDED_PART_H
#define SYNOD_STORE_EMBEDDED_PART_H

#include "store/embedded/embedded.h"

/* One request being answered. */
struct answer {
    struct rows *rows;
    const struct embedded_now *now;
    const struct store_request *req;
    struct store_reply *reply;
};

/* The handlers: each fills in the reply. */
void answer_container_create(struct answer *a);
void answer_container_delete(struct answer *a);
void answer_container_head(struct answer *a);
void answer_container_set_metadata(struct answer *a);
void answer_container_list(struct answer *a);
void answer_container_lease(struct answer *a);
void answer_blob_put(struct answer *a);
void answer_blob_get(struct answer *a);
void answer_blob_head(struct answer *a);
void answer_blob_delete(struct answer *a);
void answer_blob_set_metadata(struct answer *a);
void answer_blob_append(struct answer *a);
void answer_blob_list(struct answer *a);
void answer_blob_stage(struct answer *a);
void answer_blob_commit(struct answer *a);
void answer_blob_copy(struct answer *a);
void answer_blob_lease(struct answer *a);

void answer_queue_create(struct answer *a);
void answer_queue_delete(struct answer *a);
void answer_queue_head(struct answer *a); /* its metadata, and how many messages are in it */
void answer_queue_list(struct answer *a);
void answer_queue_clear(struct answer *a);
void answer_message_put(struct answer *a);
void answer_message_get(struct answer *a);
void answer_message_peek(struct answer *a);
void answer_message_update(struct answer *a);
void answer_message_delete(struct answer *a);

void answer_table_create(struct answer *a);
void answer_table_delete(struct answer *a);
void answer_table_list(struct answer *a);
void answer_entity_get(struct answer *a);
void answer_entity_query(struct answer *a);
void answer_entity_write(struct answer *a); /* insert, replace, merge, both upserts, delete */
void answer_entity_batch(struct answer *a);

/* Refuse with the list's sentence, or with a text. Returns false, so that a check can end with it. */
bool refuse(struct answer *a, enum err code);
bool refuse_because(struct answer *a, enum err code, const char *why);
/* The same with a word of the service that the list of errors does not have. */
bool refuse_word(struct answer *a, const char *word, int status, const char *why);
bool refuse_keeper(struct answer *a); /* the keeper failed: rows->err */

/* The record of the request's container or blob; false: the reply says why not. A blob that is absent
 * gives true and *found false, once it is known that its container is there. */
bool answer_container(struct answer *a, struct row *row);
bool answer_blob(struct answer *a, bool content, struct row *row, bool *found);
struct row_key container_key(const struct answer *a);
struct row_key blob_key(const struct answer *a);

/* Give the record a new ETag and date, take the request's metadata into it. */
void row_touch(struct answer *a, struct row *row);
void row_take_metadata(struct answer *a, struct row *row);
/* Keeps a new record with the request's metadata; `row` is what it is then. */
bool row_make(struct answer *a, const struct row_key *key, struct row *row);

/* What the reply tells of a record; a list item too. */
void props_tell_version(struct store_props *props, const struct row *row);
bool props_tell_all(const struct embedded_now *now, struct store_props *props, enum row_kind kind,
                    const struct row *row, bool metadata);

/* list.c: a page of records */
void answer_page(struct answer *a, enum row_kind kind, const char *parent);

/* queue.c: the date in ns, never below one that was given here before. */
int64_t queue_now(struct answer *a);
bool answer_queue(struct answer *a, struct row *row); /* is it there? */

/* blob.c: what puts, commits and copies have in common. `before` is what is there, or NULL. */
bool blob_may_be_replaced(struct answer *a, const struct row *before);
/* Writes `row`, whose content is new; its lease, dates, ETag and metadata are filled in here. */
bool blob_replace(struct answer *a, struct row *row, const struct row *before);

/* blocks.c: bytes first..last of a blob that is made of blocks, into the reply's body. */
bool blocks_read(struct answer *a, const struct row *row, int64_t first, int64_t last);
/* Removes the blob's blocks, whether it has them or not: all, or all but one upload's. */
bool blocks_clear(struct answer *a, const char *but);
/* A name for an upload that no other has. */
void blocks_name(struct answer *a, char upload[UPLOAD_TEXT_MAX + 1]);
/* Keeps the request's body as a block of the upload. */
bool blocks_put(struct answer *a, const char *upload, int64_t position);
/* Copies those of another blob, `length` bytes, to the request's, as this upload's. */
bool blocks_copy(struct answer *a, const struct row_key *from, const char *from_upload,
                 const char *upload, int64_t length);

/* table.c: the name in small letters, in which tables are kept; NULL: no memory, refused. */
bool table_name_allowed(struct answer *a);
const char *table_name(struct answer *a);
bool answer_table(struct answer *a, const char *table); /* is it there? */

/* table_entity.c */
struct entity;
/* The name of an entity's record: see rows_schema.c. NULL: no memory, refused. */
const char *entity_name(struct answer *a, const char *partition, const char *row);
/* The entity of a record read with its content. */
struct entity *entity_from_row(struct answer *a, const struct row *row, const char *partition,
                               const char *row_key);

/* conditions.c: `row` is NULL for what does not exist. */
enum condition_use { CONDITION_READ, CONDITION_WRITE };
bool conditions_hold(struct answer *a, enum condition_use use, const struct row *row);
enum { ETAG_TEXT = sizeof "\"0x8D0123456789ABC\"" }; /* the time and 20 bits fit until 2106 */
void etag_text(int64_t etag, char out[ETAG_TEXT]);
bool etag_matches(const char *tag, const struct row *row); /* "*" matches any */

/* lease.c */
enum lease_state lease_state_of(const struct row_lease *lease, const struct embedded_now *now);
bool lease_allows(struct answer *a, enum condition_use use, const struct row *row);
/* A write ends the memory of a lease that is over. */
void lease_after_write(struct answer *a, struct row *row);

/* names.c: what the service allows. */
bool names_allowed(struct answer *a);
bool metadata_allowed(struct answer *a);

#endif
