/* azure_impl.h -- what the files of the Azure transport share.
 *
 *     store_request --azure_request.c--> http_call --http.c--> answer --azure_reply.c--> store_reply
 */
#ifndef SYNOD_STORE_AZURE_IMPL_H
#define SYNOD_STORE_AZURE_IMPL_H

#include "store/azure_account.h"
#include "store/http.h"
#include "store/transport.h"
#include "store/xml.h"

/* The version of the service's interface that is spoken: the newest in which an append takes 4 MiB. */
#define AZURE_VERSION "2021-12-02"

enum {
    AZURE_URL_MAX = 16 * 1024,          /* bytes of a request's URL */
    AZURE_SPARE_CALLS_MAX = 16,         /* finished calls whose memory is kept for the next ones */
    AZURE_SPARE_ANSWER_MAX = 64 * 1024, /* bytes of an answer's memory that are kept with them */
    AZURE_SKEW_SHOWN_MIN = 5, /* minutes from which a wrong clock is worth a word; 15 are refused */
};

struct azure {
    struct transport base;
    struct account account;
    struct http *http;
    struct xml *xml;     /* NULL until an answer in XML came */
    int64_t date_second; /* of `date` */
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
    struct buf url;
    struct azure_call *next; /* among the spare ones */
};

/* Makes the HTTP request of an attempt, signed. False, with err, when it cannot be said. */
bool azure_request_build(struct azure *az, struct azure_call *call, struct error *err);
/* Fills in the attempt's reply from a complete answer. */
void azure_reply_fill(struct azure *az, struct azure_call *call);

#endif
