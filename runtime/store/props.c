#include "store/props.h"

#include <string.h>

const char *blob_type_word(enum blob_type type) {
    static const char *const WORDS[] = {"block", "page", "append"};
    return WORDS[type];
}

const char *lease_state_word(enum lease_state state) {
    static const char *const WORDS[] = {"available", "leased", "expired", "breaking", "broken"};
    return WORDS[state];
}

void props_init(struct store_props *props) {
    memset(props, 0, sizeof *props);
    props->last_modified = UNSET;
    props->length = UNSET;
    props->block_count = UNSET;
    props->append_offset = UNSET;
    pairs_init(&props->metadata);
}

void props_release(struct store_props *props) {
    pairs_release(&props->metadata);
}
