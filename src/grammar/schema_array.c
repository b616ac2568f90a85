#include "grammar/schema_priv.h"

enum { PREFIX_MOST = 2000 };

typedef struct {
    schema_compiler *c;
    const schema_flat *f;
    int least, most, n_prefix;
} builder;

/* The schemas of the first elements: prefixItems, or items as a list. */
static const json *prefix_of(const json *s)
{
    const json *items = json_get(s, "items"), *prefix = json_get(s, "prefixItems");
    if (json_is(prefix, JSON_ARRAY)) return prefix;
    return json_is(items, JSON_ARRAY) ? items : NULL;
}

/* The schema of the elements behind them. */
static const json *rest_of(const json *s)
{
    const json *items = json_get(s, "items");
    if (json_is(items, JSON_ARRAY)) return json_get(s, "additionalItems");
    return items;
}

static bool is_true(const json *v)
{
    return v->kind == JSON_TRUE || (v->kind == JSON_OBJECT && v->n == 0);
}

static void read_keywords(builder *b)
{
    schema_counts(b->c, b->f, "minItems", "maxItems", &b->least, &b->most);
    for (int i = 0; i < b->f->n; i++) {
        const json *s = b->f->plain[i], *prefix = prefix_of(s);
        const json *unique = json_get(s, "uniqueItems"), *left = json_get(s, "unevaluatedItems");
        if (prefix && prefix->n > b->n_prefix) b->n_prefix = prefix->n;
        if (json_get(s, "contains"))
            schema_refuse(b->c, ERR_UNSUPPORTED, s, "contains", "not supported");
        if (left && !is_true(left))
            schema_refuse(b->c, ERR_UNSUPPORTED, s, "unevaluatedItems", "not supported");
        if (json_is(unique, JSON_TRUE) && !(b->most != EXPR_NO_MOST && b->most <= 1))
            schema_refuse(b->c, ERR_UNSUPPORTED, s, "uniqueItems", "not supported");
    }
    if (b->n_prefix > PREFIX_MOST) {
        schema_refuse(b->c, ERR_LIMIT, b->f->plain[0], NULL, "too many elements with own schemas");
        b->n_prefix = 0;
    }
}

/* The i-th element (n_prefix: any behind the prefix), then `next`. */
static uint32_t element(builder *b, int i, uint32_t next)
{
    const json *list[SCHEMA_SET_MOST];
    schema_set set = {list, 0};
    for (int k = 0; k < b->f->n; k++) {
        const json *prefix = prefix_of(b->f->plain[k]);
        const json *s = prefix && i < prefix->n ? json_at(prefix, i) : rest_of(b->f->plain[k]);
        if (s) list[set.n++] = s;
    }
    return schema_value(b->c, &set, next);
}

static uint32_t comma_element(builder *b, int i, uint32_t next)
{
    grammar *g = b->c->g;
    return graph_bytes(g, STR(","), graph_space(g, b->c->space, element(b, i, next)));
}

uint32_t schema_array(schema_compiler *c, const schema_flat *f, uint32_t next)
{
    builder b = {.c = c, .f = f};
    grammar *g = c->g;
    read_keywords(&b);
    if (g->failed != ERR_OK || (b.most != EXPR_NO_MOST && b.most < b.least)) return GRAPH_NEVER;
    uint32_t bracket = graph_bytes(g, STR("]"), next);
    uint32_t close = graph_space(g, c->space, bracket), first = GRAPH_NEVER;
    /* Elements one by one as far as they differ, at least the first, which has no comma. */
    int n_single = b.n_prefix > 0 ? b.n_prefix : 1;
    if (b.most != EXPR_NO_MOST && b.most < n_single) n_single = b.most;
    uint32_t behind = close;
    if (b.most == EXPR_NO_MOST || b.most > n_single) {
        int most = b.most == EXPR_NO_MOST ? EXPR_NO_MOST : b.most - n_single;
        int least = b.least > n_single ? b.least - n_single : 0;
        behind = graph_repeat(g, comma_element(&b, b.n_prefix, GRAPH_RETURN), least, most, close);
    }
    for (int i = n_single - 1; i >= 0; i--) { /* behind: what may follow i + 1 elements */
        if (i == 0) {
            first = element(&b, 0, behind);
            break;
        }
        behind = graph_either(g, comma_element(&b, i, behind), i >= b.least ? close : GRAPH_NEVER);
    }
    if (b.least == 0) first = graph_either(g, first, bracket);
    return graph_bytes(g, STR("["), graph_space(g, c->space, first));
}
