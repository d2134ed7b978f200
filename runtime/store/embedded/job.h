/* job.h -- an attempt that another thread answers.
 *
 * The client is answered at its deadline, and at once when it drops the attempt, whatever the disk does:
 * the thread may be held up in the middle of a write for longer. So a job has a request and a reply of
 * its own, and who comes first answers the client:
 *
 *   WAITING -job_begin [thread]-> BEGUN -the thread is through, job_deliver-> gone
 *   WAITING -job_give_up-> GIVEN_UP         was never begun: nothing can have happened
 *   BEGUN -job_give_up-> BEGUN              the client is answered; what comes of it is thrown away
 */
#ifndef SYNOD_STORE_EMBEDDED_JOB_H
#define SYNOD_STORE_EMBEDDED_JOB_H

#include <stdatomic.h>

#include "store/transport.h"
#include "world/world.h"

enum job_stage { JOB_WAITING, JOB_BEGUN, JOB_GIVEN_UP };

struct db_job {
    struct db_job *next; /* in the line that it stands in */
    struct attempt own;  /* what the thread answers */
    _Atomic int stage;   /* enum job_stage */
    /* of the world's thread: */
    struct attempt *client;            /* NULL: answered already */
    struct db_job **link, *next_asked; /* among those whose client is not answered yet */
    struct world *world;
    struct alarm alarm;
    struct store_request req;
    struct store_reply reply;
    struct arena arena; /* of the request's strings */
};

/* Copies the request, joins the list `asked`, sets the alarm. NULL: no memory. */
struct db_job *job_new(struct world *w, struct attempt *client, struct db_job **asked);
/* The thread's: may it begin? */
bool job_begin(struct db_job *job);
/* Answers the client if nobody has; frees the job. */
void job_deliver(struct db_job *job);
/* Answers the client with this code; the thread is not through with the job. */
void job_give_up(struct db_job *job, enum err code);

#endif
