/* Objects: declared properties in the order written, each with a comma before it unless it is the
 * first, then additional ones. The graph has a node for each (property, members so far), the count
 * kept only as far as a bound needs it: "none or some" when there is none. */
#include "grammar/schema_priv.h"

enum { NAMES_MOST = 4096, PATTERNS_MOST = 4, CELLS_MOST = 100000 };

typedef struct {
    str name;
    bool is_required;
} property;

typedef struct {
    schema_compiler *c;
    const schema_flat *f;
    property *names;
    int n_names, cap_names;
    str patterns[PATTERNS_MOST];
    int n_patterns;
    int least, most;    /* members */
    int n_counts;       /* counts told apart: 0 .. n_counts - 1, the last meaning also more */
    bool has_more;      /* additional members may come */
    schema_flat *named; /* what propertyNames say; NULL when nothing */
    uint32_t close, *some, *after; /* [n_counts] see build_rest */
} builder;

static int find_name(const builder *b, str name)
{
    for (int i = 0; i < b->n_names; i++)
        if (str_equal(b->names[i].name, name)) return i;
    return -1;
}

static int add_name(builder *b, str name)
{
    int at = find_name(b, name);
    if (at >= 0) return at;
    if (b->n_names == b->cap_names) {
        int cap = b->cap_names ? b->cap_names * 2 : 16;
        property *more = arena_new_array(&b->c->a, (size_t)cap, sizeof *more);
        if (!more || cap > 2 * NAMES_MOST) {
            graph_fail(b->c->g, more ? ERR_LIMIT : ERR_NOMEM, "#", "too many properties");
            return -1;
        }
        if (b->n_names) memcpy(more, b->names, (size_t)b->n_names * sizeof *more);
        b->names = more;
        b->cap_names = cap;
    }
    b->names[b->n_names] = (property){name, false};
    return b->n_names++;
}

static const json *object_at(builder *b, const json *s, const char *key)
{
    const json *v = json_get(s, key);
    if (v && v->kind != JSON_OBJECT) {
        schema_refuse(b->c, ERR_FORMAT, s, key, "must be an object");
        return NULL;
    }
    return v;
}

static void add_required(builder *b, const json *s)
{
    const json *list = json_get(s, "required");
    if (!list) return;
    if (list->kind != JSON_ARRAY) {
        schema_refuse(b->c, ERR_FORMAT, s, "required", "must be an array");
        return;
    }
    for (const json *r = list->first; r; r = r->next) {
        int at = json_is(r, JSON_STRING) ? add_name(b, r->text) : -1;
        if (at >= 0)
            b->names[at].is_required = true;
        else
            schema_refuse(b->c, ERR_FORMAT, s, "required", "must hold strings");
    }
}

static void add_patterns(builder *b, const json *s)
{
    const json *patterns = object_at(b, s, "patternProperties");
    for (const json *p = patterns ? patterns->first : NULL; p; p = p->next) {
        bool is_known = false;
        for (int i = 0; i < b->n_patterns; i++) is_known |= str_equal(b->patterns[i], p->key);
        if (is_known) continue;
        if (b->n_patterns == PATTERNS_MOST) {
            schema_refuse(b->c, ERR_UNSUPPORTED, s, "patternProperties", "more than 4 patterns");
            return;
        }
        b->patterns[b->n_patterns++] = p->key;
    }
}

static void refuse_object_keywords(builder *b, const json *s)
{
    static const char *const keys[] = {"dependencies", "dependentRequired", "dependentSchemas",
                                       "unevaluatedProperties"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json *v = json_get(s, keys[i]);
        if (!v || (v->kind == JSON_OBJECT && v->n == 0) || v->kind == JSON_TRUE) continue;
        schema_refuse(b->c, ERR_UNSUPPORTED, s, keys[i], "not supported");
    }
}

/* Names that propertyNames lists are declared; else it shapes the additional names. */
static void add_property_names(builder *b)
{
    for (int i = 0; i < b->f->n; i++) {
        const json *names = json_get(b->f->plain[i], "propertyNames");
        if (!names) continue;
        if (!b->named) {
            b->named = arena_new(&b->c->a, sizeof *b->named);
            if (!b->named) {
                graph_fail(b->c->g, ERR_NOMEM, "#", "propertyNames");
                return;
            }
        }
        schema_flatten(b->c, names, b->named);
        if (b->named->n_choices > 0)
            schema_refuse(b->c, ERR_UNSUPPORTED, b->f->plain[i], "propertyNames",
                          "alternatives are not supported here");
    }
    if (!b->named) return;
    if (b->named->is_never || !(schema_type_set(b->c, b->named) & SCHEMA_STRING))
        b->has_more = false;
    for (int i = 0; i < b->named->n; i++) {
        const json *list = json_get(b->named->plain[i], "enum");
        const json *only = json_get(b->named->plain[i], "const");
        if (!list && !only) continue;
        b->has_more = false;
        for (const json *v = only ? only : list->first; v; v = only ? NULL : v->next)
            if (v->kind == JSON_STRING) add_name(b, v->text);
    }
}

static bool name_is_fit(builder *b, str name)
{
    json value = {.kind = JSON_STRING, .text = name};
    return !b->named || schema_holds(b->c, b->named, &value);
}

static bool matches(builder *b, str pattern, str name, const json *at)
{
    bool is = false;
    err e = {0};
    if (b->c->g->failed != ERR_OK) return false;
    status s = schema_pattern_matches(&b->c->cache, pattern, "#", name, &is, &e);
    if (s != ERR_OK) schema_refuse(b->c, s, at, "patternProperties", e.msg);
    return s == ERR_OK && is;
}

static bool push(builder *b, schema_set *set, const json *s)
{
    if (set->n == SCHEMA_SET_MOST) {
        schema_refuse(b->c, ERR_LIMIT, s, NULL, "too many schemas for one property");
        return false;
    }
    set->list[set->n++] = s;
    return true;
}

/* All that must hold for the value of a declared name. */
static void set_of_name(builder *b, str name, schema_set *set)
{
    set->n = 0;
    for (int i = 0; i < b->f->n; i++) {
        const json *s = b->f->plain[i], *own = object_at(b, s, "properties");
        const json *patterns = object_at(b, s, "patternProperties");
        const json *other = json_get(s, "additionalProperties");
        bool is_known = false;
        own = own ? json_get_str(own, name) : NULL;
        if (own) is_known = push(b, set, own);
        for (const json *p = patterns ? patterns->first : NULL; p; p = p->next)
            if (matches(b, p->key, name, s)) is_known = push(b, set, p);
        if (!is_known && other) push(b, set, other);
    }
}

/* The same for names that match just the patterns of `mask`. */
static void set_of_mask(builder *b, unsigned mask, schema_set *set)
{
    set->n = 0;
    for (int i = 0; i < b->f->n; i++) {
        const json *s = b->f->plain[i], *patterns = json_get(s, "patternProperties");
        const json *other = json_get(s, "additionalProperties");
        bool is_known = false;
        for (const json *p = patterns ? patterns->first : NULL; p; p = p->next)
            for (int k = 0; k < b->n_patterns; k++)
                if (mask >> k & 1 && str_equal(b->patterns[k], p->key)) is_known = push(b, set, p);
        if (!is_known && other) push(b, set, other);
    }
}

/* `"name":` and its value, then `next`. */
static uint32_t named_member(builder *b, str name, uint32_t next)
{
    const json *list[SCHEMA_SET_MOST];
    schema_set set = {list, 0};
    uint32_t out = GRAPH_NEVER;
    buf key;
    if (!name_is_fit(b, name)) return GRAPH_NEVER;
    set_of_name(b, name, &set);
    out = graph_space(b->c->g, b->c->space, schema_value(b->c, &set, next));
    buf_init(&key);
    json_put_string(&key, name);
    buf_put_byte(&key, ':');
    if (key.failed) graph_fail(b->c->g, ERR_NOMEM, "#", "a property's name");
    out = graph_bytes(b->c->g, buf_str(&key), out);
    buf_fini(&key);
    return out;
}

/* A member of any other name, then `next`. */
static uint32_t other_member(builder *b, uint32_t next)
{
    const json *list[SCHEMA_SET_MOST];
    schema_set set = {list, 0};
    uint32_t out = GRAPH_NEVER;
    if (!b->has_more || b->c->g->failed != ERR_OK) return GRAPH_NEVER;
    str *names = arena_new_array(&b->c->a, (size_t)b->n_names + 1, sizeof *names);
    if (!names) {
        graph_fail(b->c->g, ERR_NOMEM, "#", "an object's names");
        return GRAPH_NEVER;
    }
    for (int i = 0; i < b->n_names; i++) names[i] = b->names[i].name;
    for (unsigned mask = 0; mask < 1u << b->n_patterns; mask++) {
        bool is_negated[PATTERNS_MOST], is_closed = false;
        set_of_mask(b, mask, &set);
        for (int i = 0; i < set.n; i++) is_closed |= set.list[i]->kind == JSON_FALSE;
        if (is_closed) continue;
        for (int k = 0; k < b->n_patterns; k++) is_negated[k] = !(mask >> k & 1);
        schema_string_wish w = {.f = b->named,
                                .not_texts = names,
                                .n_not = b->n_names,
                                .patterns = b->patterns,
                                .is_negated = is_negated,
                                .n_patterns = b->n_patterns,
                                .is_key = true,
                                .at = b->f->n ? b->f->plain[0] : NULL};
        uint32_t value = graph_space(b->c->g, b->c->space, schema_value(b->c, &set, next));
        uint32_t key = schema_string_inside(b->c, &w, graph_bytes(b->c->g, STR(":"), value));
        out = graph_either(b->c->g, out, graph_bytes(b->c->g, STR("\""), key));
    }
    return out;
}

/* The count after one more member. */
static int more_by_one(const builder *b, int k)
{
    return k + 1 < b->n_counts ? k + 1 : b->n_counts - 1;
}

static bool may_add(const builder *b, int k)
{
    return b->most == EXPR_NO_MOST || k < b->most;
}

/* some[k]: at the end of the k-th member's value, when properties from some place on are still to
 * come. after[k]: the same behind the comma (or the opening brace when k is 0): a member must come.
 * Here for the place behind all declared properties. */
static void build_rest(builder *b)
{
    grammar *g = b->c->g;
    int last = b->n_counts - 1;
    bool is_endless = b->most == EXPR_NO_MOST;
    uint32_t again = is_endless ? graph_reserve(g) : GRAPH_NEVER;
    for (int k = last; k >= 0; k--) {
        uint32_t next = k == last && is_endless ? again : b->some[more_by_one(b, k)];
        b->after[k] = may_add(b, k) ? other_member(b, next) : GRAPH_NEVER;
        uint32_t comma = graph_bytes(g, STR(","), graph_space(g, b->c->space, b->after[k]));
        b->some[k] = graph_either(g, comma, k >= b->least ? b->close : GRAPH_NEVER);
    }
    if (is_endless) graph_patch(g, again, b->some[last]);
}

/* Move one declared property to the front. can_close: none behind it is required. */
static void build_property(builder *b, property p, bool can_close, uint32_t *some, uint32_t *after)
{
    grammar *g = b->c->g;
    for (int k = 0; k < b->n_counts; k++) {
        uint32_t own = may_add(b, k) ? named_member(b, p.name, b->some[more_by_one(b, k)])
                                     : GRAPH_NEVER;
        after[k] = p.is_required ? own : graph_either(g, own, b->after[k]);
        uint32_t comma = graph_bytes(g, STR(","), graph_space(g, b->c->space, after[k]));
        bool closes = can_close && !p.is_required && k >= b->least;
        some[k] = graph_either(g, comma, closes ? b->close : GRAPH_NEVER);
    }
    memcpy(b->some, some, (size_t)b->n_counts * sizeof *some);
    memcpy(b->after, after, (size_t)b->n_counts * sizeof *after);
}

static uint32_t build_members(builder *b, uint32_t next)
{
    grammar *g = b->c->g;
    size_t n = (size_t)b->n_counts;
    uint32_t *cells = arena_new_array(&b->c->a, 4 * n, sizeof *cells);
    bool can_close = true;
    if (!cells) {
        graph_fail(g, ERR_NOMEM, "#", "an object's members");
        return GRAPH_NEVER;
    }
    b->some = cells;
    b->after = cells + n;
    uint32_t brace = graph_bytes(g, STR("}"), next);
    b->close = graph_space(g, b->c->space, brace);
    build_rest(b);
    for (int i = b->n_names - 1; i >= 0; i--) {
        build_property(b, b->names[i], can_close, cells + 2 * n, cells + 3 * n);
        can_close &= !b->names[i].is_required;
    }
    /* the white space behind the brace is followed by a member or by the end at once */
    uint32_t first = graph_either(g, b->after[0], can_close && b->least == 0 ? brace : GRAPH_NEVER);
    return graph_bytes(g, STR("{"), graph_space(g, b->c->space, first));
}

uint32_t schema_object(schema_compiler *c, const schema_flat *f, uint32_t next)
{
    builder b = {.c = c, .f = f, .has_more = true};
    schema_counts(c, f, "minProperties", "maxProperties", &b.least, &b.most);
    for (int i = 0; i < f->n; i++) {
        const json *properties = object_at(&b, f->plain[i], "properties");
        refuse_object_keywords(&b, f->plain[i]);
        for (const json *p = properties ? properties->first : NULL; p; p = p->next)
            add_name(&b, p->key);
        add_patterns(&b, f->plain[i]);
    }
    for (int i = 0; i < f->n; i++) add_required(&b, f->plain[i]);
    add_property_names(&b);
    int64_t n_counts = b.most != EXPR_NO_MOST ? b.most + 1LL : (b.least ? b.least : 1) + 1LL;
    if (n_counts * (b.n_names + 1) > CELLS_MOST) {
        schema_refuse(c, ERR_UNSUPPORTED, f->plain[0],
                      b.most != EXPR_NO_MOST ? "maxProperties" : "minProperties",
                      "too large with this many properties");
        return GRAPH_NEVER;
    }
    b.n_counts = (int)n_counts;
    return c->g->failed == ERR_OK ? build_members(&b, next) : GRAPH_NEVER;
}
