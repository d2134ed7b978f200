/* names.c -- what the service checks of names and metadata, beyond names.h. */
#include <string.h>
#include <strings.h>

#include "store/embedded/part.h"
#include "store/names.h"

enum { BLOB_SEGMENTS_MAX = 254 };

static bool refuse_name(struct answer *a, const char *whose, const char *fault) {
    error_set(&a->reply->err, ERR_INVALID_RESOURCE_NAME, "the name of a %s %s", whose, fault);
    return false;
}

static const char *segments_fault(const char *name) {
    int segments = 1;
    for (const char *c = name; *c; c++) {
        segments += *c == '/';
    }
    return segments > BLOB_SEGMENTS_MAX ? "may have at most 254 parts between slashes" : NULL;
}

static const char *blob_fault(const char *name) {
    const char *fault = name_fault_blob(name, strlen(name));
    return fault ? fault : segments_fault(name);
}

bool names_allowed(struct answer *a) {
    const struct store_request *req = a->req;
    if (req->verb == VERB_CONTAINER_LIST || req->verb == VERB_QUEUE_LIST) {
        return true;
    }
    if (req->verb >= VERB_TABLE_CREATE) {
        return table_name_allowed(a);
    }
    const char *container = req->container ? req->container : "";
    bool of_queue = req->verb >= VERB_QUEUE_CREATE && req->verb <= VERB_MESSAGE_DELETE;
    const char *fault = of_queue ? name_fault_queue(container, strlen(container))
                                 : name_fault_container(container, strlen(container));
    if (fault) {
        return refuse_name(a, of_queue ? "queue" : "container", fault);
    }
    bool of_blob =
        (req->verb >= VERB_BLOB_PUT && req->verb <= VERB_BLOB_COPY) || req->verb == VERB_BLOB_LEASE;
    if (!of_blob) {
        return true;
    }
    fault = blob_fault(req->name ? req->name : "");
    return !fault || refuse_name(a, "blob", fault);
}

static bool given_before(const char *metadata, const char *name) {
    const char *next;
    for (const char *at = metadata; at < name; at = next) {
        const char *value = pairs_value(at);
        next = value + strlen(value) + 1;
        if (strcasecmp(at, name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *metadata_fault(const char *metadata, const char *name) {
    const char *value = pairs_value(name);
    if (name_fault_metadata(name, strlen(name))) {
        return "a metadata name is a letter or '_', then letters, digits and '_'";
    }
    if (name_fault_value(value, strlen(value))) {
        return "a metadata value is printable ASCII without blanks at its ends";
    }
    return given_before(metadata, name) ? "a metadata name is given twice" : NULL;
}

bool metadata_allowed(struct answer *a) {
    const char *metadata = a->req->metadata, *next;
    size_t len = a->req->metadata_len, counted = 0;
    for (const char *name = metadata; name && name < metadata + len; name = next) {
        const char *value = pairs_value(name);
        size_t n = strlen(name), v = strlen(value);
        next = value + v + 1;
        counted += n + v;
        const char *fault = metadata_fault(metadata, name);
        if (fault) {
            return refuse_because(a, ERR_INVALID_METADATA, fault);
        }
    }
    return counted <= METADATA_MAX || refuse(a, ERR_METADATA_TOO_LARGE);
}
