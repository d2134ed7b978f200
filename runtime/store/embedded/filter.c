/* filter.c -- a parser by descent, one function a rule:
 *
 *     or         = and {"or" and}
 *     and        = not {"and" not}
 *     not        = "not" not | "(" or ")" | comparison
 *     comparison = operand [("eq" | "ne" | "gt" | "ge" | "lt" | "le") operand]
 *     operand    = literal | name
 */
#include "store/embedded/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum filter_kind { FILTER_AND, FILTER_OR, FILTER_NOT, FILTER_COMPARE, FILTER_ALONE };
enum filter_order { ORDER_EQ, ORDER_NE, ORDER_GT, ORDER_GE, ORDER_LT, ORDER_LE, ORDER_COUNT };

struct operand {
    const char *name; /* NULL: a literal */
    struct edm_value value;
};

struct filter {
    enum filter_kind kind;
    enum filter_order order;
    const struct filter *left, *right; /* and, or; not: left alone */
    struct operand a, b;               /* a comparison; alone: a */
};

struct parser {
    struct arena *arena;
    const char *text, *at;
    struct error *err;
    int depth, nodes;
};

static const struct filter *parse_or(struct parser *p);

/* --- words --- */

static const struct filter *refuse(struct parser *p, const char *why) {
    if (p->err->code == ERR_OK) {
        error_set(p->err, ERR_INVALID_INPUT, "the filter is malformed at its character %d: %s",
                  (int)(p->at - p->text) + 1, why);
    }
    return NULL;
}

static const struct filter *no_memory(struct parser *p) {
    error_set(p->err, ERR_NO_MEMORY, NULL);
    return NULL;
}

static void skip_blanks(struct parser *p) {
    p->at += strspn(p->at, " \t\r\n");
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (c & 0x80);
}

static size_t word_length(const char *s) {
    size_t n = 0;
    while (is_name_char(s[n])) {
        n++;
    }
    return n;
}

static bool take_word(struct parser *p, const char *word) {
    skip_blanks(p);
    size_t n = word_length(p->at);
    if (n != strlen(word) || memcmp(p->at, word, n) != 0 || p->at[n] == '\'') {
        return false;
    }
    p->at += n;
    return true;
}

static bool take_char(struct parser *p, char c) {
    skip_blanks(p);
    bool there = *p->at == c;
    p->at += there;
    return there;
}

/* --- operands --- */

/* What stands between quotes, '' for one of them. */
static bool take_quoted(struct parser *p, const char **text, size_t *len) {
    const char *from = ++p->at;
    char *out = arena_alloc(p->arena, strlen(from) + 1);
    if (!out) {
        return no_memory(p) != NULL;
    }
    *text = out;
    for (; *p->at && (p->at[0] != '\'' || p->at[1] == '\''); p->at++) {
        p->at += *p->at == '\'';
        *out++ = *p->at;
    }
    *out = '\0';
    *len = (size_t)(out - *text);
    if (*p->at != '\'') {
        return refuse(p, "a quote that has no end") != NULL;
    }
    p->at++;
    return true;
}

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool bytes_from_hex(struct parser *p, struct edm_value *v) {
    size_t n = v->len / 2;
    char *out = arena_alloc(p->arena, n + 1);
    if (!out) {
        return no_memory(p) != NULL;
    }
    for (size_t i = 0; i < n; i++) {
        int high = hex(v->text[2 * i]), low = hex(v->text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (char)(high << 4 | low);
    }
    out[n] = '\0';
    bool even = v->len % 2 == 0;
    v->text = out;
    v->len = n;
    return even;
}

static bool guid_from_text(struct parser *p, struct edm_value *v) {
    char guid[EDM_GUID_TEXT];
    bool ok = edm_guid_parse(v->text, v->len, guid);
    v->text = ok ? arena_strdup(p->arena, guid) : NULL;
    v->len = EDM_GUID_TEXT - 1;
    return v->text != NULL;
}

/* A word and a quoted text: datetime'...', guid'...', X'...', binary'...'. */
static bool take_typed(struct parser *p, size_t n, struct edm_value *v) {
    static const struct {
        const char *word;
        enum edm_type type;
    } WORDS[] = {
        {"datetime", EDM_TIME}, {"guid", EDM_GUID}, {"X", EDM_BINARY}, {"binary", EDM_BINARY}};
    const char *word = p->at;
    enum edm_type type = EDM_COUNT;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strlen(WORDS[i].word) == n && memcmp(word, WORDS[i].word, n) == 0) {
            type = WORDS[i].type;
        }
    }
    if (type == EDM_COUNT) {
        return refuse(p, "datetime, guid, X or binary expected before a quote") != NULL;
    }
    p->at += n;
    *v = (struct edm_value){.type = type};
    if (!take_quoted(p, &v->text, &v->len)) {
        return false;
    }
    bool ok = type == EDM_TIME   ? edm_time_parse(v->text, v->len, &v->integer)
              : type == EDM_GUID ? guid_from_text(p, v)
                                 : bytes_from_hex(p, v);
    return ok || refuse(p, "what stands before is not a value of its type") != NULL;
}

static bool take_number(struct parser *p, struct edm_value *v) {
    char *end;
    size_t n = strspn(p->at, "+-0123456789");
    bool whole = !strchr(".eE", p->at[n]) || !p->at[n];
    *v = (struct edm_value){.type = whole ? EDM_INT32 : EDM_DOUBLE};
    errno = 0;
    if (whole) {
        v->integer = strtoll(p->at, &end, 10);
    } else {
        v->number = strtod(p->at, &end);
    }
    bool ok = end > p->at && (errno == 0 || !whole);
    p->at = end > p->at ? end : p->at;
    if (whole && (*p->at == 'L' || *p->at == 'l')) {
        v->type = EDM_INT64;
        p->at++;
    }
    return (ok && !is_name_char(*p->at)) || refuse(p, "a number that is none") != NULL;
}

static bool is_reserved(const char *word, size_t n) {
    static const char *const WORDS[] = {"and", "or", "not", "eq", "ne", "gt", "ge", "lt", "le"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strlen(WORDS[i]) == n && memcmp(WORDS[i], word, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool take_operand(struct parser *p, struct operand *o) {
    *o = (struct operand){.name = NULL};
    skip_blanks(p);
    if (*p->at == '\'') {
        o->value.type = EDM_STRING;
        return take_quoted(p, &o->value.text, &o->value.len);
    }
    if (*p->at && strchr("+-.0123456789", *p->at)) {
        return take_number(p, &o->value);
    }
    if (take_word(p, "true") || take_word(p, "false")) {
        o->value = (struct edm_value){.type = EDM_BOOLEAN, .integer = p->at[-2] == 'u'};
        return true;
    }
    size_t n = word_length(p->at);
    if (n > 0 && p->at[n] == '\'') {
        return take_typed(p, n, &o->value);
    }
    if (n == 0 || is_reserved(p->at, n)) {
        return refuse(p, "a property or a value expected") != NULL;
    }
    o->name = arena_copy(p->arena, p->at, n);
    p->at += n;
    return o->name || no_memory(p) != NULL;
}

/* --- rules --- */

static struct filter *new_node(struct parser *p, enum filter_kind kind) {
    if (++p->nodes > FILTER_NODES_MAX) {
        refuse(p, "it has too many parts");
        return NULL;
    }
    struct filter *f = arena_alloc(p->arena, sizeof *f);
    if (f) {
        *f = (struct filter){.kind = kind};
    } else {
        no_memory(p);
    }
    return f;
}

static const struct filter *parse_comparison(struct parser *p) {
    static const char *const WORDS[ORDER_COUNT] = {"eq", "ne", "gt", "ge", "lt", "le"};
    struct filter *f = new_node(p, FILTER_ALONE);
    if (!f || !take_operand(p, &f->a)) {
        return NULL;
    }
    for (int i = 0; i < ORDER_COUNT; i++) {
        if (take_word(p, WORDS[i])) {
            f->kind = FILTER_COMPARE;
            f->order = (enum filter_order)i;
            return take_operand(p, &f->b) ? f : NULL;
        }
    }
    if (!f->a.name && f->a.value.type != EDM_BOOLEAN) {
        return refuse(p, "a comparison expected: eq, ne, gt, ge, lt or le");
    }
    return f;
}

static const struct filter *parse_not(struct parser *p) {
    if (p->depth == FILTER_DEPTH_MAX) {
        return refuse(p, "it is nested too deeply");
    }
    p->depth++;
    const struct filter *f = NULL;
    if (take_word(p, "not")) {
        struct filter *not = new_node(p, FILTER_NOT);
        if (not &&(not ->left = parse_not(p))) {
            f = not ;
        }
    } else if (take_char(p, '(')) {
        f = parse_or(p);
        if (f && !take_char(p, ')')) {
            f = refuse(p, "a closing parenthesis expected");
        }
    } else {
        f = parse_comparison(p);
    }
    p->depth--;
    return f;
}

/* Terms joined by a word. */
static const struct filter *parse_joined(struct parser *p, const char *word, enum filter_kind kind,
                                         const struct filter *(*term)(struct parser *)) {
    const struct filter *left = term(p);
    while (left && take_word(p, word)) {
        struct filter *f = new_node(p, kind);
        const struct filter *right = f ? term(p) : NULL;
        if (!right) {
            return NULL;
        }
        f->left = left;
        f->right = right;
        left = f;
    }
    return left;
}

static const struct filter *parse_and(struct parser *p) {
    return parse_joined(p, "and", FILTER_AND, parse_not);
}

static const struct filter *parse_or(struct parser *p) {
    return parse_joined(p, "or", FILTER_OR, parse_and);
}

const struct filter *filter_parse(struct arena *arena, const char *text, struct error *err) {
    struct parser p = {.arena = arena, .text = text, .at = text, .err = err};
    error_clear(err);
    if (strlen(text) > FILTER_BYTES_MAX) {
        return refuse(&p, "it is longer than 32 KiB");
    }
    const struct filter *f = parse_or(&p);
    skip_blanks(&p);
    return f && *p.at ? refuse(&p, "and, or, or the end expected") : f;
}

/* --- asking --- */

/* The operand's value; false: the entity has none. */
static bool value_of(const struct operand *o, const struct entity *e, struct edm_value *out) {
    if (!o->name) {
        *out = o->value;
        return true;
    }
    const char *key = strcmp(o->name, "PartitionKey") == 0 ? e->partition
                      : strcmp(o->name, "RowKey") == 0     ? e->row
                                                           : NULL;
    if (key) {
        *out = (struct edm_value){.type = EDM_STRING, .text = key, .len = strlen(key)};
        return true;
    }
    if (strcmp(o->name, "Timestamp") == 0) {
        *out = (struct edm_value){.type = EDM_TIME, .integer = e->timestamp};
        return true;
    }
    const struct edm_value *own = entity_get(e, o->name);
    if (own) {
        *out = *own;
    }
    return own != NULL;
}

enum { UNORDERED = 2 };

static int compare_numbers(double a, double b) {
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : UNORDERED;
}

/* Exact, where a conversion of the integer would round. */
static int compare_mixed(int64_t a, double b) {
    if (b != b) {
        return UNORDERED;
    }
    if (b >= 9223372036854775808.0) {
        return -1;
    }
    if (b < -9223372036854775808.0) {
        return 1;
    }
    int64_t whole = (int64_t)b;
    return a < whole ? -1 : a > whole ? 1 : compare_numbers((double)whole, b);
}

static bool is_integer(const struct edm_value *v) {
    return v->type == EDM_INT32 || v->type == EDM_INT64;
}

static bool is_number(const struct edm_value *v) {
    return is_integer(v) || v->type == EDM_DOUBLE;
}

static int compare(const struct edm_value *a, const struct edm_value *b) {
    if (is_integer(a) && b->type == EDM_DOUBLE) {
        return compare_mixed(a->integer, b->number);
    }
    if (a->type == EDM_DOUBLE && is_integer(b)) {
        int order = compare_mixed(b->integer, a->number);
        return order == UNORDERED ? UNORDERED : -order;
    }
    if (a->type == EDM_DOUBLE && b->type == EDM_DOUBLE) {
        return compare_numbers(a->number, b->number);
    }
    if (a->type != b->type && !(is_integer(a) && is_integer(b))) {
        return UNORDERED;
    }
    if (a->type == EDM_STRING || a->type == EDM_GUID || a->type == EDM_BINARY) {
        size_t n = a->len < b->len ? a->len : b->len;
        int order = memcmp(a->text, b->text, n);
        return order ? (order < 0 ? -1 : 1) : (a->len > b->len) - (a->len < b->len);
    }
    return (a->integer > b->integer) - (a->integer < b->integer);
}

static bool comparison_holds(const struct filter *f, const struct entity *e) {
    struct edm_value a, b;
    if (!value_of(&f->a, e, &a) || !value_of(&f->b, e, &b)) {
        return false;
    }
    int order = compare(&a, &b);
    if (order == UNORDERED) {
        return f->order == ORDER_NE && is_number(&a) && is_number(&b); /* one is no number at all */
    }
    switch (f->order) {
    case ORDER_EQ:
        return order == 0;
    case ORDER_NE:
        return order != 0;
    case ORDER_GT:
        return order > 0;
    case ORDER_GE:
        return order >= 0;
    case ORDER_LT:
        return order < 0;
    case ORDER_LE:
    case ORDER_COUNT:
        break;
    }
    return order <= 0;
}

bool filter_takes(const struct filter *f, const struct entity *e) {
    struct edm_value alone;
    switch (f->kind) {
    case FILTER_AND:
        return filter_takes(f->left, e) && filter_takes(f->right, e);
    case FILTER_OR:
        return filter_takes(f->left, e) || filter_takes(f->right, e);
    case FILTER_NOT:
        return !filter_takes(f->left, e);
    case FILTER_COMPARE:
        return comparison_holds(f, e);
    case FILTER_ALONE:
        break;
    }
    return value_of(&f->a, e, &alone) && alone.type == EDM_BOOLEAN && alone.integer;
}
