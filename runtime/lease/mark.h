/* mark.h -- what stands in the metadata of a blob that is, or was, held: who, since when, and the fence.
 *
 *     struct mark m;
 *     if (mark_read(&m, &reply->props.metadata, &err) != ERR_OK) stop(&err);     NewerVersion, FenceRegressed
 *     int64_t fence = mark_next_fence(&m, highest_seen, reply->server_date, &err);
 *     m.fence = fence; mark_text(m.holder, "Worker_IN_2"); ...
 *     mark_write(&m, &reply->props.metadata, &metadata);                         others' pairs are kept
 *
 * The names are fixed, since commands, scripts and two versions of synod meet there:
 *
 *   synod_v        1; a greater or unreadable one is refused with NewerVersion, and never overwritten
 *   synod_fence    decimal; grows with each holder, and stays when nobody holds
 *   synod_holder, synod_host, synod_pid, synod_since (RFC 3339, UTC), synod_purpose, synod_next (while it is handed over)
 *   synod_hints     where the holder can be asked to tell of its end (HOST:PORT)
 *   synod_ttl_ms, synod_beat     of a record: it is over when it has not changed for so long; counts its renewals
 *   synod_nonce    whose write it was: the client's (store/lost.h), which hides it from metadata
 *
 * Values are percent-encoded UTF-8. Control characters are shown as '?', since a mark is for terminals.
 */
#ifndef SYNOD_LEASE_MARK_H
#define SYNOD_LEASE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/pairs.h"

enum {
    MARK_VERSION = 1,
    MARK_TEXT_MAX =
        256, /* bytes of a text with its zero; what is longer is cut between characters */
    MARK_TTL_MAX_MS = 60000 /* an unreadable or greater synod_ttl_ms counts as this */
};

struct mark {
    char holder[MARK_TEXT_MAX];  /* instance id; "": not told, or nobody */
    char host[MARK_TEXT_MAX];    /* "": not told */
    char since[MARK_TEXT_MAX];   /* UTC, RFC 3339; "": not told */
    char purpose[MARK_TEXT_MAX]; /* "": not told */
    char hints[MARK_TEXT_MAX];   /* HOST:PORT; "": not told */
    char next[MARK_TEXT_MAX];    /* instance id of the successor during a transfer; else "" */
    int64_t pid;                 /* 0: not told */
    int64_t fence;               /* 0: never written */
    int64_t ttl_ms;              /* of a record that was not released; else 0 */
    int64_t beat;                /* renewals of this record so far */
};

/* ERR_OK, ERR_NEWER_VERSION, or ERR_FENCE_REGRESSED when the fence there is no number; then `m` holds what
 * could be read, for people. */
enum err mark_read(struct mark *m, const struct pairs *metadata, struct error *e);
/* `out`: `others` without any mark, then this one. A field that is "" or 0 is left out. False: no memory. */
bool mark_write(const struct mark *m, const struct pairs *others, struct pairs *out);
/* Nobody holds: all but the fence is forgotten. */
void mark_clear(struct mark *m);
/* Takes a text into a field; NULL: "". */
void mark_text(char field[MARK_TEXT_MAX], const char *text);

/* The fence of the next holder; `highest` was seen there before (0: nothing was), `date` is the store's own
 * (ns since 1970, UNSET when not told), where a missing fence starts in milliseconds. 0 and `e`:
 * FenceRegressed, or BadAnswer when a start is needed and the store told no date. */
int64_t mark_next_fence(const struct mark *m, int64_t highest, int64_t date, struct error *e);

#endif
