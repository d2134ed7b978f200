#include "store/embedded/job.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "store/entity.h"

static bool copy_text(struct arena *arena, const char **text) {
    bool given = *text != NULL;
    *text = arena_strdup(arena, *text);
    return *text || !given;
}

static bool copy_bytes(struct arena *arena, const char **data, size_t len) {
    bool given = *data != NULL;
    *data = given ? arena_copy(arena, *data, len) : NULL;
    return *data || !given;
}

static bool copy_entity(struct arena *arena, const struct entity **e) {
    bool given = *e != NULL;
    *e = given ? entity_copy(arena, *e) : NULL;
    return *e || !given;
}

static bool copy_batch(struct arena *arena, struct batch_operation **batch) {
    struct batch_operation **at = batch;
    for (const struct batch_operation *from = *batch; from; from = from->next) {
        struct batch_operation *op = arena_alloc(arena, sizeof *op);
        *at = op;
        if (!op) {
            return false;
        }
        *op = *from;
        op->next = NULL;
        at = &op->next;
        if (!copy_text(arena, &op->if_match) || !copy_entity(arena, &op->entity)) {
            return false;
        }
    }
    return true;
}

/* What points into the client's memory points into the job's afterwards: who asked may have been answered at the
 * deadline, and have gone, while the job goes on. */
static bool copy_request(struct db_job *job, const struct store_request *from) {
    struct store_request *req = &job->req;
    *req = *from;
    const char **texts[] = {
        &req->container,     &req->name,
        &req->when.if_match, &req->when.if_none_match,
        &req->when.lease,    &req->content_type,
        &req->upload,        &req->source_container,
        &req->source_name,   &req->source_if_match,
        &req->prefix,        &req->marker,
        &req->proposed_id,   &req->receipt,
        &req->partition,     &req->row,
        &req->row_to,        &req->filter,
        &req->select,
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ok = copy_text(&job->arena, texts[i]) && ok;
    }
    ok = copy_bytes(&job->arena, &req->metadata, req->metadata_len) && ok;
    ok = copy_entity(&job->arena, &req->entity) && copy_batch(&job->arena, &req->batch) && ok;
    return copy_bytes(&job->arena, &req->body, req->body_len) && ok;
}

static void job_free(struct db_job *job) {
    reply_release(&job->reply);
    arena_release(&job->arena);
    free(job);
}

static void on_deadline(struct alarm *alarm) {
    job_give_up(container_of(alarm, struct db_job, alarm), ERR_TIMEOUT);
}

static void join(struct db_job *job, struct db_job **asked) {
    job->next_asked = *asked;
    job->link = asked;
    if (*asked) {
        (*asked)->link = &job->next_asked;
    }
    *asked = job;
}

static void leave(struct db_job *job) {
    *job->link = job->next_asked;
    if (job->next_asked) {
        job->next_asked->link = job->link;
    }
}

struct db_job *job_new(struct world *w, struct attempt *client, struct db_job **asked) {
    struct db_job *job = xcalloc(1, sizeof *job);
    arena_init(&job->arena);
    reply_init(&job->reply);
    if (!copy_request(job, client->req)) {
        job_free(job);
        return NULL;
    }
    job->own =
        (struct attempt){.req = &job->req, .reply = &job->reply, .deadline = client->deadline};
    job->client = client;
    job->world = w;
    job->alarm.ring = on_deadline;
    client->impl = job;
    join(job, asked);
    if (client->deadline != NEVER) {
        alarm_set(w, &job->alarm, client->deadline);
    }
    return job;
}

bool job_begin(struct db_job *job) {
    int stage = JOB_WAITING;
    return atomic_compare_exchange_strong(&job->stage, &stage, JOB_BEGUN);
}

/* Takes the client from the job: it is about to be answered. */
static struct attempt *take_client(struct db_job *job) {
    struct attempt *client = job->client;
    if (client) {
        job->client = NULL;
        client->impl = NULL;
        alarm_clear(job->world, &job->alarm);
        leave(job);
    }
    return client;
}

void job_deliver(struct db_job *job) {
    struct attempt *client = take_client(job);
    if (client) {
        reply_move(client->reply, &job->reply);
        client->sent = job->own.sent;
        client->done(client);
    }
    job_free(job);
}

void job_give_up(struct db_job *job, enum err code) {
    struct attempt *client = take_client(job);
    if (!client) {
        return;
    }
    int stage = JOB_WAITING;
    bool never = atomic_compare_exchange_strong(&job->stage, &stage, JOB_GIVEN_UP);
    const char *why = never ? "the store's file was locked all the time"
                            : "the disk has not taken it in the time allowed";
    error_set(&client->reply->err, code, "%s", code == ERR_TIMEOUT ? why : err_sentence(code));
    client->sent = !never;
    client->done(client);
}
