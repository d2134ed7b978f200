/* error.h -- every way in which the world can refuse, in one list.
 *
 * An expected refusal travels as `struct error` in C and as `nil, err` in Lua. A caller's mistake is
 * raised at the caller's line instead, and a broken invariant aborts: there is no third way.
 *
 * A code is a word: the storage service's own where it has one (BlobNotFound), else ours (Timeout).
 * A word that the service sends and this list does not know travels as ERR_OTHER with `word` set, so
 * that nothing is lost.
 */
#ifndef SYNOD_BASE_ERROR_H
#define SYNOD_BASE_ERROR_H

#include <stdbool.h>

/* X(enum, word, usual HTTP status or 0, sentence, what to do -- may be empty) */
#define ERR_LIST(X)                                                                                \
    X(OK, "Ok", 0, "done", "")                                                                     \
    X(OTHER, "Other", 0, "the store refused", "")                                                  \
    /* the runtime's own */                                                                        \
    X(TIMEOUT, "Timeout", 0, "the time allowed has passed", "")                                    \
    X(CANCELLED, "Cancelled", 0, "the task was cancelled", "")                                     \
    X(USAGE, "Usage", 0, "it was called wrongly", "")                                              \
    X(LEASE_LOST, "LeaseLost", 412, "the lease is no longer ours", "")                             \
    X(FENCED, "Fenced", 0, "a newer fencing token is stored there", "")                            \
    X(FENCE_REGRESSED, "FenceRegressed", 0, "the fencing token fell",                              \
      "find out who overwrote or restored the blob")                                               \
    X(UNREACHABLE, "Unreachable", 0, "the store cannot be reached",                                \
      "check the address, the network and that the service runs")                                  \
    X(THROTTLED, "Throttled", 503, "the store is too busy", "try later, or spread the load")       \
    X(UNAUTHORIZED, "Unauthorized", 403, "the store refused the credentials",                      \
      "check the account's name and the credentials")                                              \
    X(BAD_ANSWER, "BadAnswer", 0, "the store's answer could not be understood",                    \
      "check that the address is that of a storage service")                                       \
    X(ANSWER_TOO_LARGE, "AnswerTooLarge", 0, "the store's answer is larger than allowed",          \
      "raise the limit, or read in ranges")                                                        \
    X(ANSWER_LOST, "AnswerLost", 0, "the answer was lost; the write may or may not have happened", \
      "read the target before trying again")                                                       \
    X(UNSUPPORTED, "Unsupported", 0, "this store cannot do that", "")                              \
    X(NEWER_VERSION, "NewerVersion", 0, "it was written by a newer version of synod",              \
      "upgrade synod here first")                                                                  \
    X(STUCK, "Stuck", 0, "every task waits and nothing can ever wake one of them",                 \
      "look for an event that nobody sets, or a task that waits for itself")                       \
    X(NO_MEMORY, "NoMemory", 0, "memory is exhausted",                                             \
      "raise it with --memory-limit, or keep less at a time")                                      \
    /* commands, connections and output */                                                         \
    X(COMMAND_NOT_FOUND, "CommandNotFound", 0, "there is no such command",                         \
      "check its name and PATH")                                                                   \
    X(COMMAND_NOT_RUN, "CommandNotRun", 0, "the command could not be run", "")                     \
    X(OUTPUT_TOO_LARGE, "OutputTooLarge", 0, "there is more output than allowed",                  \
      "raise max_output, or let it write into a file")                                             \
    X(ADDRESS_NOT_FOUND, "AddressNotFound", 0, "the host name is not known",                       \
      "check the name and the name server")                                                        \
    X(ADDRESS_IN_USE, "AddressInUse", 0, "the address is in use",                                  \
      "choose another port, or end the program that has it")                                       \
    X(CONNECTION_FAILED, "ConnectionFailed", 0, "the connection was not made",                     \
      "check the address, and that something listens there")                                       \
    X(CONNECTION_LOST, "ConnectionLost", 0, "the connection was lost", "")                         \
    X(LINE_TOO_LONG, "LineTooLong", 0, "the line is longer than allowed", "")                      \
    /* the embedded store's file */                                                                \
    X(STORE_CORRUPT, "StoreCorrupt", 0, "the store's file is damaged",                             \
      "restore it from a copy, or move it away to start empty")                                    \
    X(STORE_FULL, "StoreFull", 0, "the disk is full", "free some space and try again")             \
    X(STORE_READ_ONLY, "StoreReadOnly", 0, "the store's file cannot be written",                   \
      "check its permissions and that the disk is not mounted read-only")                          \
    X(STORE_FOREIGN, "StoreForeign", 0, "the store's file belongs to another user",                \
      "choose a file of your own with --store embedded:PATH")                                      \
    X(STORE_REMOTE, "StoreRemote", 0, "the store's file is on a network file system",              \
      "choose a local path with --store embedded:PATH, or use --store azure")                      \
    X(STORE_GONE, "StoreGone", 0, "the store's file was removed or replaced underneath",           \
      "start again; whoever removed it removed the state")                                         \
    /* the storage service's: any resource */                                                      \
    X(AUTHENTICATION_FAILED, "AuthenticationFailed", 403, "the signature was refused",             \
      "check the credentials and this machine's clock")                                            \
    X(CONDITION_NOT_MET, "ConditionNotMet", 412, "a condition of the request does not hold", "")   \
    X(NOT_MODIFIED, "NotModified", 304, "it has not changed", "")                                  \
    X(INTERNAL_ERROR, "InternalError", 500, "the store had an internal error", "try again")        \
    X(OPERATION_TIMED_OUT, "OperationTimedOut", 500, "the store gave up on the request",           \
      "try again")                                                                                 \
    X(SERVER_BUSY, "ServerBusy", 503, "the store is too busy", "try later, or spread the load")    \
    X(INVALID_HEADER_VALUE, "InvalidHeaderValue", 400, "a value is outside what is allowed", "")   \
    X(INVALID_INPUT, "InvalidInput", 400, "the request is not valid", "")                          \
    X(INVALID_QUERY_PARAMETER_VALUE, "InvalidQueryParameterValue", 400,                            \
      "a parameter is outside what is allowed", "")                                                \
    X(OUT_OF_RANGE_QUERY_PARAMETER_VALUE, "OutOfRangeQueryParameterValue", 400,                    \
      "a parameter is outside what is allowed", "")                                                \
    X(INVALID_RESOURCE_NAME, "InvalidResourceName", 400, "the name is not allowed", "")            \
    X(MISSING_REQUIRED_HEADER, "MissingRequiredHeader", 400, "a required value is missing", "")    \
    X(REQUEST_BODY_TOO_LARGE, "RequestBodyTooLarge", 413, "the content is too large", "")          \
    X(METADATA_TOO_LARGE, "MetadataTooLarge", 400, "the metadata is larger than 8 KiB", "")        \
    X(INVALID_METADATA, "InvalidMetadata", 400, "the metadata is not valid", "")                   \
    X(INVALID_RANGE, "InvalidRange", 416, "the range lies outside the content", "")                \
    /* containers and blobs */                                                                     \
    X(CONTAINER_NOT_FOUND, "ContainerNotFound", 404, "the container does not exist",               \
      "create it first")                                                                           \
    X(CONTAINER_ALREADY_EXISTS, "ContainerAlreadyExists", 409, "the container exists", "")         \
    X(CONTAINER_BEING_DELETED, "ContainerBeingDeleted", 409, "the container is being deleted",     \
      "try again in a minute")                                                                     \
    X(BLOB_NOT_FOUND, "BlobNotFound", 404, "the blob does not exist", "")                          \
    X(BLOB_ALREADY_EXISTS, "BlobAlreadyExists", 409, "the blob exists", "")                        \
    X(INVALID_BLOB_TYPE, "InvalidBlobType", 409, "the blob is of another type", "")                \
    X(APPEND_POSITION_CONDITION_NOT_MET, "AppendPositionConditionNotMet", 412,                     \
      "the blob does not end at the position given", "")                                           \
    X(BLOCK_COUNT_EXCEEDS_LIMIT, "BlockCountExceedsLimit", 409,                                    \
      "an append blob takes no more than 50,000 blocks", "go on with another blob")                \
    X(INVALID_BLOCK_LIST, "InvalidBlockList", 400, "a block of the list is not there",             \
      "another writer may have replaced the blob meanwhile: write it again")                       \
    X(PENDING_COPY_OPERATION, "PendingCopyOperation", 409, "a copy to the blob is under way",      \
      "wait until it is done")                                                                     \
    X(SOURCE_CONDITION_NOT_MET, "SourceConditionNotMet", 412, "the blob to copy from was changed", \
      "")                                                                                          \
    /* leases */                                                                                   \
    X(LEASE_ALREADY_PRESENT, "LeaseAlreadyPresent", 409, "someone else holds the lease", "")       \
    X(LEASE_ID_MISSING, "LeaseIdMissing", 412, "it is leased and no lease id was given", "")       \
    X(LEASE_ID_MISMATCH_WITH_BLOB_OPERATION, "LeaseIdMismatchWithBlobOperation", 412,              \
      "the lease id is not that of the blob's lease", "")                                          \
    X(LEASE_ID_MISMATCH_WITH_CONTAINER_OPERATION, "LeaseIdMismatchWithContainerOperation", 412,    \
      "the lease id is not that of the container's lease", "")                                     \
    X(LEASE_ID_MISMATCH_WITH_LEASE_OPERATION, "LeaseIdMismatchWithLeaseOperation", 409,            \
      "the lease id is not that of the lease", "")                                                 \
    X(LEASE_NOT_PRESENT_WITH_BLOB_OPERATION, "LeaseNotPresentWithBlobOperation", 412,              \
      "a lease id was given and the blob has no lease", "")                                        \
    X(LEASE_NOT_PRESENT_WITH_CONTAINER_OPERATION, "LeaseNotPresentWithContainerOperation", 412,    \
      "a lease id was given and the container has no lease", "")                                   \
    X(LEASE_NOT_PRESENT_WITH_LEASE_OPERATION, "LeaseNotPresentWithLeaseOperation", 409,            \
      "there is no lease", "")                                                                     \
    X(LEASE_IS_BREAKING_AND_CANNOT_BE_ACQUIRED, "LeaseIsBreakingAndCannotBeAcquired", 409,         \
      "the lease is being broken", "")                                                             \
    X(LEASE_IS_BREAKING_AND_CANNOT_BE_CHANGED, "LeaseIsBreakingAndCannotBeChanged", 409,           \
      "the lease is being broken", "")                                                             \
    X(LEASE_IS_BROKEN_AND_CANNOT_BE_RENEWED, "LeaseIsBrokenAndCannotBeRenewed", 409,               \
      "the lease was broken", "")                                                                  \
    /* queues */                                                                                   \
    X(QUEUE_NOT_FOUND, "QueueNotFound", 404, "the queue does not exist", "create it first")        \
    X(QUEUE_ALREADY_EXISTS, "QueueAlreadyExists", 409, "the queue exists with other metadata", "") \
    X(QUEUE_BEING_DELETED, "QueueBeingDeleted", 409, "the queue is being deleted",                 \
      "try again in a minute")                                                                     \
    X(QUEUE_DISABLED, "QueueDisabled", 409, "the queue was disabled by its owner", "")             \
    X(MESSAGE_TOO_LARGE, "MessageTooLarge", 400, "the message is larger than 64 KiB", "")          \
    X(MESSAGE_NOT_FOUND, "MessageNotFound", 404, "the message is gone", "")                        \
    X(POP_RECEIPT_MISMATCH, "PopReceiptMismatch", 400, "the message was taken or updated since",   \
      "")                                                                                          \
    /* tables */                                                                                   \
    X(TABLE_NOT_FOUND, "TableNotFound", 404, "the table does not exist", "create it first")        \
    X(TABLE_ALREADY_EXISTS, "TableAlreadyExists", 409, "the table exists", "")                     \
    X(TABLE_BEING_DELETED, "TableBeingDeleted", 409, "the table is being deleted",                 \
      "try again in a minute")                                                                     \
    X(RESOURCE_NOT_FOUND, "ResourceNotFound", 404, "the entity does not exist", "")                \
    X(ENTITY_ALREADY_EXISTS, "EntityAlreadyExists", 409, "the entity exists", "")                  \
    X(UPDATE_CONDITION_NOT_SATISFIED, "UpdateConditionNotSatisfied", 412,                          \
      "the entity was changed since it was read", "")

#define ERR_ENUM(name, word, status, sentence, advice) ERR_##name,
enum err { ERR_LIST(ERR_ENUM) ERR_COUNT };
#undef ERR_ENUM

enum {
    ERR_WORD_MAX = 64,
    ERR_ID_MAX = 64,
    ERR_MESSAGE_MAX = 320,
};

/* Why something was refused. Plain data: copy it by assignment. What was attempted, and on what, is
 * known by the one who asked and added when the error is shown. */
struct error {
    enum err code;
    int status;                    /* HTTP status, 0 when there was no answer */
    bool retryable;                /* the same request may succeed later */
    char word[ERR_WORD_MAX];       /* only for ERR_OTHER: the service's own word */
    char request_id[ERR_ID_MAX];   /* the service's, for its support; may be empty */
    char message[ERR_MESSAGE_MAX]; /* a sentence; empty: that of the list */
};

const char *err_word(enum err code);
const char *err_sentence(enum err code);
const char *err_advice(enum err code); /* what to do; "" when there is nothing to say */
/* How a process ends that did not handle it: 3 the store cannot be had, 4 timed out, 5 lost, else 1. */
int err_exit_code(enum err code);
int err_status(enum err code);            /* the status the service usually sends with it */
enum err err_from_word(const char *word); /* ERR_OTHER when unknown */

/* Fill in: the message is printf's, or NULL for the list's sentence; status and retryable follow the
 * list (5xx and Throttled, Timeout, Unreachable are retryable). Returns `code`. */
enum err error_set(struct error *e, enum err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void error_clear(struct error *e);
/* The word to show: the service's own where the list does not know it. */
const char *error_word(const struct error *e);
/* The sentence to show. */
const char *error_sentence(const struct error *e);

#endif
