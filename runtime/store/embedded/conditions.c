/* conditions.c -- the conditional headers: which one decides, and with what answer.
 *
 * A read takes all that are given: If-Match and If-Unmodified-Since must both hold (412); of
 * If-None-Match and If-Modified-Since one that holds is enough (else 304). A write takes one, or one of
 * the two pairs {If-None-Match, If-Modified-Since} and {If-Match, If-Unmodified-Since}, of which the
 * ETag decides; anything else is 400. */
#include <string.h>

#include "store/embedded/part.h"

/* Each answer has one: written by hand, in a tenth of snprintf's time. */
void etag_text(int64_t etag, char out[ETAG_TEXT]) {
    static const char HEX[] = "0123456789ABCDEF", HEAD[] = "\"0x8D";
    size_t at = ETAG_TEXT - 1, head = sizeof HEAD - 1;
    out[at--] = '\0';
    out[at--] = '"';
    for (uint64_t left = (uint64_t)etag; at >= head; left >>= 4) {
        out[at--] = HEX[left & 15];
    }
    memcpy(out, HEAD, head);
}

static bool is_any(const char *tag) {
    return strcmp(tag, "*") == 0;
}

/* The service takes a tag with its quotes and without. */
static bool etag_equals(const char *tag, const struct row *row) {
    char own[ETAG_TEXT];
    etag_text(row->etag, own);
    size_t n = ETAG_TEXT - 1;
    return strcmp(tag, own) == 0 || (strlen(tag) == n - 2 && memcmp(tag, own + 1, n - 2) == 0);
}

bool etag_matches(const char *tag, const struct row *row) {
    return is_any(tag) || etag_equals(tag, row);
}

static bool modified_since(const struct row *row, int64_t date) {
    return row->modified > date / NS_PER_S;
}

static bool read_absent(struct answer *a, const struct store_conditions *when) {
    if (when->if_match) {
        return refuse(a, ERR_CONDITION_NOT_MET);
    }
    return true;
}

static bool read_existing(struct answer *a, const struct store_conditions *when,
                          const struct row *row) {
    bool match = !when->if_match || etag_matches(when->if_match, row);
    bool unmodified =
        when->if_unmodified_since == UNSET || !modified_since(row, when->if_unmodified_since);
    if (!match || !unmodified) {
        return refuse(a, ERR_CONDITION_NOT_MET);
    }
    bool tag_given = when->if_none_match != NULL, date_given = when->if_modified_since != UNSET;
    bool tag_holds = tag_given && !etag_equals(when->if_none_match, row);
    bool date_holds = date_given && modified_since(row, when->if_modified_since);
    if ((tag_given || date_given) && !tag_holds && !date_holds) {
        return refuse(a, ERR_NOT_MODIFIED);
    }
    return true;
}

static bool read_conditions(struct answer *a, const struct row *row) {
    const struct store_conditions *when = &a->req->when;
    if (when->if_none_match && is_any(when->if_none_match)) {
        return refuse_word(
            a, "UnsatisfiableCondition", 400,
            "a read cannot ask for what does not exist: if_none_match = \"*\" is for "
            "writes");
    }
    return row ? read_existing(a, when, row) : read_absent(a, when);
}

static bool write_combination(struct answer *a) {
    const struct store_conditions *when = &a->req->when;
    int tags = (when->if_match != NULL) + (when->if_none_match != NULL);
    int dates = (when->if_modified_since != UNSET) + (when->if_unmodified_since != UNSET);
    bool absent_pair = when->if_none_match && when->if_modified_since != UNSET;
    bool present_pair = when->if_match && when->if_unmodified_since != UNSET;
    if (tags + dates > 2 || (tags + dates == 2 && !absent_pair && !present_pair)) {
        return refuse_word(a, "MultipleConditionHeadersNotSupported", 400,
                           "these conditions cannot be given together for a write");
    }
    return true;
}

static bool write_holds(const struct store_request *req, const struct row *row) {
    const struct store_conditions *when = &req->when;
    if (when->if_none_match) { /* "*" is judged by the put: BlobAlreadyExists */
        return is_any(when->if_none_match) || !row || !etag_equals(when->if_none_match, row);
    }
    if (when->if_match) {
        bool creates = req->verb == VERB_BLOB_PUT || req->verb == VERB_BLOB_COMMIT ||
                       req->verb == VERB_BLOB_COPY;
        return row ? etag_matches(when->if_match, row) : is_any(when->if_match) && !creates;
    }
    if (!row) {
        return true;
    }
    if (when->if_modified_since != UNSET) {
        return modified_since(row, when->if_modified_since);
    }
    return when->if_unmodified_since == UNSET || !modified_since(row, when->if_unmodified_since);
}

bool conditions_hold(struct answer *a, enum condition_use use, const struct row *row) {
    if (use == CONDITION_READ) {
        return read_conditions(a, row);
    }
    return write_combination(a) && (write_holds(a->req, row) || refuse(a, ERR_CONDITION_NOT_MET));
}
