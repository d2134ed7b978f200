/* impl.h -- what the files of the Azure transport share.
 *
 *     store_request --request.c--> http_call --http.c--> answer --reply.c--> store_reply
 */
#ifndef SYNOD_STORE_AZURE_IMPL_H
#define SYNOD_STORE_AZURE_IMPL_H

#include "store/azure/account.h"
#include "store/http/http.h"
#include "store/json.h"
#include "store/azure/token.h"
#include "store/transport.h"
#include "store/azure/xml.h"

/* The version of the service's interface that is spoken: the newest in which an append takes 4 MiB. */
#define AZURE_VERSION "2021-12-02"

enum {
    AZURE_URL_MAX = 64 * 1024,          /* bytes of a request's URL */
    AZURE_SPARE_CALLS_MAX = 16,         /* finished calls whose memory is kept for the next ones */
    AZURE_SPARE_ANSWER_MAX = 64 * 1024, /* bytes of an answer's memory that are kept with them */
    AZURE_BODY_MAX = 32 * 1024 * 1024,  /* bytes of a batch in JSON: escapes may take six for one */
    AZURE_SKEW_SHOWN_MIN = 5, /* minutes from which a wrong clock is worth a word; 15 are refused */
};

struct azure {
    struct transport base;
    struct account account;
    struct http *http;
    struct http *urgent; /* for what must not stand in line; NULL until the first such request */
    struct token_source *tokens; /* NULL: requests are proved by something else */
    struct xml *xml;             /* NULL until an answer in XML came */
    struct json *json;           /* NULL until an answer in JSON came */
    int64_t date_second;         /* of `date` */
    char date[INSTANT_TEXT_MAX];
    struct buf text, authorization; /* of the request being signed */
    struct azure_call *spare;
    int spare_count;
};

/* One attempt on its way. */
struct azure_call {
    struct http_call http;
    struct azure *azure;
    struct attempt *attempt;
    struct token_wait token;
    uint64_t token_number; /* the one it was sent with */
    bool repeated;         /* with a newer one, after a 401 */
    struct buf url;
    struct buf body;         /* of requests whose body is made here: tables */
    struct azure_call *next; /* among the spare ones */
};

/* queue.c, for the verbs of queues and messages: the same two, and what follows for tables. */
bool azure_queue_build(struct azure *az, struct azure_call *call, struct error *err);
void azure_queue_fill(struct azure *az, struct azure_call *call);

/* table.c, for the verbs of tables: all but date, version and signature. False, with err. */
bool azure_table_build(struct azure *az, struct azure_call *call, struct error *err);
/* table_reply.c: a success, and what the body of a refusal says. */
void azure_table_fill(struct azure *az, struct azure_call *call);
bool azure_table_error(struct azure *az, struct http_call *http, struct xml_error *out);

/* blocks.c: what a block's URL says, the list of a commit as its body, and the address of a copy's source
 * as a header. False: no memory, or no room. */
void azure_block_query(const struct store_request *req, struct buf *url);
bool azure_block_list(const struct store_request *req, struct azure_call *call);
bool azure_copy_source(struct azure *az, struct http_call *http, const struct store_request *req);

/* Percent-encodes what may not stand in a path as it is; a slash may, in a path. */
void append_encoded(struct buf *out, const char *s, bool in_path);

/* authorize.c: adds the signature, SAS or token to a request that is complete but for it. */
bool azure_authorize(struct azure *az, struct azure_call *call, const struct endpoint *at,
                     bool lite, struct error *err);

/* Says of a credential that was refused, with the service's word or NULL, which it was and what is wrong with it;
 * nothing of an account key, of which the list knows enough. */
void azure_explain_credential(struct azure *az, const char *word, struct error *err);

/* Makes the HTTP request of an attempt, signed. False, with err, when it cannot be said. */
bool azure_request_build(struct azure *az, struct azure_call *call, struct error *err);
/* Fills in the attempt's reply from a complete answer. */
void azure_reply_fill(struct azure *az, struct azure_call *call);

#endif
