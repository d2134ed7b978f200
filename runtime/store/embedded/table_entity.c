/* table_entity.c -- one entity read or written, and batches.
 *
 * A write is planned first: what it finds, whether its condition holds, what the record will be. Only when
 * every plan of the request stands is the first record changed. */
#include <stdio.h>
#include <string.h>

#include "store/embedded/part.h"
#include "store/entity.h"
#include "store/json.h"

const char *entity_name(struct answer *a, const char *partition, const char *row) {
    size_t p = strlen(partition), r = strlen(row);
    char *name = arena_alloc(&a->reply->arena, p + r + 2);
    if (!name) {
        refuse(a, ERR_NO_MEMORY);
        return NULL;
    }
    memcpy(name, partition, p);
    name[p] = '\1';
    memcpy(name + p + 1, row, r + 1);
    return name;
}

static struct json *json_of(struct answer *a) {
    if (!a->rows->json) {
        a->rows->json = json_new(&a->reply->err);
    }
    return a->rows->json;
}

struct entity *entity_from_row(struct answer *a, const struct row *row, const char *partition,
                               const char *row_key) {
    struct json *json = json_of(a);
    struct entity keys = {.partition = partition, .row = row_key};
    struct error err;
    if (!json) {
        return NULL;
    }
    struct entity *e =
        json_read_entity(json, row->content, row->content_len, &keys, &a->reply->arena, &err);
    if (!e) {
        bool damaged = err.code == ERR_BAD_ANSWER;
        refuse(a, damaged ? ERR_STORE_CORRUPT : ERR_NO_MEMORY);
        return NULL;
    }
    e->timestamp = row->etag;
    entity_etag(e->timestamp, e->etag);
    return e;
}

/* Its version alone. */
static struct entity *version_from_row(struct answer *a, const struct row *row) {
    struct entity *e = entity_new(&a->reply->arena, "", "");
    if (!e) {
        refuse(a, ERR_NO_MEMORY);
        return NULL;
    }
    e->timestamp = row->etag;
    entity_etag(e->timestamp, e->etag);
    return e;
}

/* The entity there is, with its properties or without, or NULL in *out. False: refused. */
static bool find_entity(struct answer *a, const struct row_key *key, const struct entity *keys,
                        bool properties, struct entity **out, int64_t *created) {
    struct row row;
    *out = NULL;
    switch (a->rows->ops->get(a->rows, key, properties, &row)) {
    case ROWS_FOUND:
        *created = row.created;
        *out = properties ? entity_from_row(a, &row, keys->partition, keys->row)
                          : version_from_row(a, &row);
        return *out != NULL;
    case ROWS_ABSENT:
        return true;
    case ROWS_FAILED:
        break;
    }
    return refuse_keeper(a);
}

void answer_entity_get(struct answer *a) {
    const struct store_request *req = a->req;
    struct row_key key = {ROW_ENTITY, table_name(a), entity_name(a, req->partition, req->row)};
    const struct entity keys = {.partition = req->partition, .row = req->row};
    struct entity *e;
    int64_t created;
    if (!key.parent || !key.name || !answer_table(a, key.parent) ||
        !find_entity(a, &key, &keys, true, &e, &created)) {
        return;
    }
    if (!e) {
        refuse(a, ERR_RESOURCE_NOT_FOUND);
        return;
    }
    if (req->select) {
        entity_select(e, req->select);
    }
    a->reply->entities = e;
    strcpy(a->reply->props.etag, e->etag);
}

/* --- plans --- */

struct plan {
    struct row_key key;
    enum store_verb verb;
    const char *text; /* the properties that the record is to hold; NULL: it is removed */
    size_t text_len;
    int64_t created; /* seconds; UNSET: now */
    char etag[ENTITY_ETAG_MAX];
};

/* W/"..." as the service sends it. */
static bool is_weak_tag(const char *tag) {
    size_t n = strlen(tag);
    return n >= 4 && (tag[0] == 'W' || tag[0] == 'w') && tag[1] == '/' && tag[2] == '"' &&
           tag[n - 1] == '"' && !memchr(tag + 3, '"', n - 4);
}

static bool is_any(const char *tag) {
    return strcmp(tag, "*") == 0;
}

static bool upserts(enum store_verb verb) {
    return verb == VERB_ENTITY_UPSERT || verb == VERB_ENTITY_UPSERT_MERGE;
}

static bool merges(enum store_verb verb) {
    return verb == VERB_ENTITY_MERGE || verb == VERB_ENTITY_UPSERT_MERGE;
}

static bool condition_holds(struct answer *a, const struct batch_operation *op,
                            const struct entity *there) {
    if (op->verb == VERB_ENTITY_INSERT) {
        return !there || refuse(a, ERR_ENTITY_ALREADY_EXISTS);
    }
    if (upserts(op->verb)) {
        return true;
    }
    if (!there) {
        return refuse(a, ERR_RESOURCE_NOT_FOUND);
    }
    bool holds = !op->if_match || is_any(op->if_match) || strcmp(op->if_match, there->etag) == 0;
    return holds || refuse(a, ERR_UPDATE_CONDITION_NOT_SATISFIED);
}

static bool plan_text(struct answer *a, const struct entity *e, struct plan *plan) {
    struct buf text;
    buf_init(&text, JSON_ENTITY_MAX);
    if (json_write_properties(&text, e)) {
        plan->text = arena_copy(&a->reply->arena, text.data, text.len);
        plan->text_len = text.len;
    }
    buf_release(&text);
    return plan->text || refuse(a, ERR_NO_MEMORY);
}

/* What the entity will be: `there` with the new properties, or the new ones alone. */
static bool plan_entity(struct answer *a, const struct batch_operation *op, struct entity *there,
                        struct plan *plan) {
    struct arena *arena = &a->reply->arena;
    struct entity *e = merges(op->verb) && there
                           ? there
                           : entity_new(arena, op->entity->partition, op->entity->row);
    if (!e || !entity_merge(e, arena, op->entity)) {
        return refuse(a, ERR_NO_MEMORY);
    }
    const char *word;
    const char *fault = entity_fault(e, &word);
    if (fault) {
        char why[96];
        snprintf(why, sizeof why, "the entity %s", fault);
        return refuse_word(a, word, 400, why);
    }
    return plan_text(a, e, plan);
}

static bool plan_write(struct answer *a, const char *table, const struct batch_operation *op,
                       struct plan *plan) {
    struct entity *there;
    const struct entity *e = op->entity;
    if (op->if_match && !is_any(op->if_match) && !is_weak_tag(op->if_match)) {
        return refuse_word(a, op->verb == VERB_ENTITY_MERGE ? "InvalidOperation" : "InvalidInput",
                           400, "the ETag is malformed");
    }
    *plan = (struct plan){.key = {ROW_ENTITY, table, entity_name(a, e->partition, e->row)},
                          .verb = op->verb,
                          .created = UNSET};
    if (!plan->key.name ||
        !find_entity(a, &plan->key, e, merges(op->verb), &there, &plan->created) ||
        !condition_holds(a, op, there)) {
        return false;
    }
    return op->verb == VERB_ENTITY_DELETE || plan_entity(a, op, there, plan);
}

static bool carry_out(struct answer *a, struct plan *plan) {
    const struct rows_ops *ops = a->rows->ops;
    if (!plan->text) {
        return ops->remove(a->rows, &plan->key) || refuse_keeper(a);
    }
    int64_t tick = ops->stamp(a->rows, a->now->wall / NS_PER_TICK);
    struct row row = {
        .name = plan->key.name,
        .etag = tick,
        .created = plan->created == UNSET ? tick / TICKS_PER_S : plan->created,
        .modified = tick / TICKS_PER_S,
        .type = BLOB_BLOCK,
        .length = (int64_t)plan->text_len,
        .lease = {.end = UNSET, .break_end = UNSET},
        .content = plan->text,
        .content_len = plan->text_len,
    };
    entity_etag(tick, plan->etag);
    return ops->put(a->rows, &plan->key, &row, true) || refuse_keeper(a);
}

void answer_entity_write(struct answer *a) {
    const struct batch_operation op = {
        .verb = a->req->verb, .entity = a->req->entity, .if_match = a->req->when.if_match};
    struct plan plan;
    const char *table = table_name(a);
    if (table && answer_table(a, table) && plan_write(a, table, &op, &plan) &&
        carry_out(a, &plan)) {
        strcpy(a->reply->props.etag, plan.etag);
    }
}

/* --- batches --- */

static bool same_entity(const struct entity *a, const struct entity *b) {
    return strcmp(a->row, b->row) == 0 && strcmp(a->partition, b->partition) == 0;
}

/* What a batch asks of an operation beside those before it. */
static bool check_place(struct answer *a, const struct batch_operation *op) {
    const struct batch_operation *first = a->req->batch;
    if (strcmp(op->entity->partition, first->entity->partition) != 0) {
        return refuse_word(a, "CommandsInBatchActOnDifferentPartitions", 400,
                           "the entities of a batch have one partition");
    }
    for (const struct batch_operation *before = first; before != op; before = before->next) {
        if (same_entity(before->entity, op->entity)) {
            return refuse_word(a, "InvalidDuplicateRow", 400,
                               "an entity stands only once in a batch");
        }
    }
    return true;
}

/* One after the other: the first that does not go refuses the batch. */
static bool plan_batch(struct answer *a, const char *table, struct plan *plans) {
    int number = 0;
    if (a->req->batch_count > BATCH_MAX) {
        return refuse_because(a, ERR_INVALID_INPUT, "a batch has at most 100 operations");
    }
    for (const struct batch_operation *op = a->req->batch; op; op = op->next) {
        a->reply->failed_operation = number + 1;
        if (!check_place(a, op) || !plan_write(a, table, op, &plans[number++])) {
            return false;
        }
    }
    a->reply->failed_operation = 0;
    return true;
}

void answer_entity_batch(struct answer *a) {
    size_t count = (size_t)a->req->batch_count;
    struct arena *arena = &a->reply->arena;
    struct plan *plans = arena_alloc(arena, count * sizeof *plans);
    a->reply->etags = arena_alloc(arena, count * sizeof *a->reply->etags);
    if (!plans || !a->reply->etags) {
        refuse(a, ERR_NO_MEMORY);
        return;
    }
    const char *table = table_name(a);
    a->reply->failed_operation = 1; /* which meets an absent table */
    if (!table || !answer_table(a, table) || !plan_batch(a, table, plans)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (!carry_out(a, &plans[i])) {
            return;
        }
        a->reply->etags[i] = plans[i].text ? plans[i].etag : NULL;
    }
}
