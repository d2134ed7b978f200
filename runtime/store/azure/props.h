/* props.h -- the service's words for what a container or blob is like, in headers and in lists. */
#ifndef SYNOD_STORE_AZURE_PROPS_H
#define SYNOD_STORE_AZURE_PROPS_H

#include "store/request.h"

/* Each takes the service's text; false when it has no meaning. */
bool props_set_etag(struct store_props *p,
                    const char *text); /* quotes are added if they are missing */
bool props_set_length(struct store_props *p, const char *text);
bool props_set_type(struct store_props *p, const char *text);
bool props_set_lease_state(struct store_props *p, const char *text);
void props_set_lease_status(struct store_props *p, const char *text);
void props_set_lease_duration(struct store_props *p, const char *text);
void props_set_content_type(struct store_props *p, const char *text);
bool parse_number(const char *text, int64_t *out); /* decimal, not negative */

#endif
