/* Strings and numbers. */
#include "grammar/regex_parse_priv.h"
#include "grammar/schema_format_priv.h"
#include "grammar/schema_priv.h"

/* A string's automaton that was made before, by what it was made from. */
struct schema_string {
    str key;
    int leaf; /* -1: no text matches */
    int least, most;
    schema_string *next;
};

typedef struct {
    leaf_part parts[LEAF_PARTS_MOST];
    int n, least, most;
    buf key;
} string_parts;

static bool add_part(schema_compiler *c, string_parts *p, expr *e, bool is_negated, const json *at)
{
    if (!e) {
        graph_fail(c->g, ERR_NOMEM, "#", "a pattern");
        return false;
    }
    if (p->n == LEAF_PARTS_MOST)
        return !schema_refuse(c, ERR_LIMIT, at, NULL, "too many patterns for one string");
    p->parts[p->n++] = (leaf_part){e, is_negated};
    return true;
}

/* The set of a pattern ^[set]{least,most}$, or NULL. */
static const expr *repeated_set(const expr *e, int *least, int *most)
{
    if (e->kind != EXPR_CAT || e->n != 3 || e->items[0]->kind != EXPR_START ||
        e->items[1]->kind != EXPR_REPEAT || e->items[2]->kind != EXPR_END)
        return NULL;
    *least = e->items[1]->least;
    *most = e->items[1]->most;
    return e->items[1]->items[0]->kind == EXPR_SET ? e->items[1]->items[0] : NULL;
}

static void add_pattern(schema_compiler *c, string_parts *p, str pattern, bool is_negated,
                        const json *at, const char *key)
{
    expr *e = NULL;
    err why = {0};
    if (c->g->failed != ERR_OK) return;
    status s = regex_parse(&c->a, pattern, "#", &e, &why);
    if (s != ERR_OK) {
        schema_refuse(c, s, at, key, why.msg);
        return;
    }
    int least, most;
    const expr *set = is_negated ? NULL : repeated_set(e, &least, &most);
    if (set) { /* counted outside: one state instead of one for each length */
        buf_printf(&p->key, "*%d:", set->n);
        buf_put(&p->key, set->ranges, (size_t)set->n * sizeof *set->ranges);
        if (least > p->least) p->least = least;
        if (most != EXPR_NO_MOST && (p->most == EXPR_NO_MOST || most < p->most)) p->most = most;
        add_part(c, p, expr_repeat(&c->a, e->items[1]->items[0], 0, EXPR_NO_MOST), false, at);
        return;
    }
    buf_printf(&p->key, "%c%zu:", is_negated ? '!' : '~', pattern.len);
    buf_put_str(&p->key, pattern);
    add_part(c, p, expr_search(&c->a, e), is_negated, at);
}

static void add_schemas(schema_compiler *c, string_parts *p, const schema_flat *f)
{
    schema_counts(c, f, "minLength", "maxLength", &p->least, &p->most);
    for (int i = 0; i < f->n; i++) {
        const json *s = f->plain[i], *pattern = json_get(s, "pattern");
        const json *format = json_get(s, "format");
        if (json_is(pattern, JSON_STRING))
            add_pattern(c, p, pattern->text, false, s, "pattern");
        else if (pattern)
            schema_refuse(c, ERR_FORMAT, s, "pattern", "must be a string");
        if (!json_is(format, JSON_STRING)) continue;
        const char *known = schema_format_pattern(format->text);
        if (known)
            add_pattern(c, p, str_from(known), false, s, "format");
        else
            schema_refuse(c, ERR_UNSUPPORTED, s, "format", "an unknown format");
    }
}

static void add_not_texts(schema_compiler *c, string_parts *p, const schema_string_wish *w)
{
    if (w->n_not == 0 || c->g->failed != ERR_OK) return;
    expr **items = arena_new_array(&c->a, (size_t)w->n_not, sizeof *items);
    for (int i = 0; items && i < w->n_not; i++) {
        items[i] = expr_text(&c->a, w->not_texts[i]);
        buf_printf(&p->key, "-%zu:", w->not_texts[i].len);
        buf_put_str(&p->key, w->not_texts[i]);
    }
    add_part(c, p, items ? expr_list(&c->a, EXPR_ALT, items, w->n_not) : NULL, true, w->at);
}

static schema_string *find_string(schema_compiler *c, str key)
{
    for (schema_string *s = c->strings; s; s = s->next)
        if (str_equal(s->key, key)) return s;
    schema_string *s = arena_new(&c->a, sizeof *s);
    char *copy = s ? arena_copy(&c->a, key.ptr, key.len) : NULL;
    if (!copy) return NULL;
    *s = (schema_string){.key = {copy, key.len}, .leaf = -2, .next = c->strings};
    c->strings = s;
    return s;
}

static uint32_t build_string(schema_compiler *c, const schema_string_wish *w, string_parts *p,
                             uint32_t next)
{
    bool is_free = p->n == 0 && !w->is_key;
    if (!is_free) buf_printf(&p->key, "#%d,%d", p->least, p->most);
    schema_string *s = p->key.failed ? NULL : find_string(c, buf_str(&p->key));
    if (!s) {
        graph_fail(c->g, ERR_NOMEM, "#", "a pattern");
        return GRAPH_NEVER;
    }
    if (s->leaf == -2) {
        const leaf *l = NULL;
        err why = {0};
        s->least = is_free ? 0 : p->least;
        s->most = is_free ? EXPR_NO_MOST : p->most;
        status st = leaf_build(&c->g->a, &c->g->work, p->parts, p->n,
                               is_free ? LEAF_FREE : LEAF_STRING, &s->least, &s->most, "#", &l,
                               &why);
        if (st == ERR_LIMIT) st = ERR_UNSUPPORTED;
        c->work += l ? l->n_states * l->n_classes / 100 : st == ERR_OK ? 1 : SCHEMA_WORK_MOST / 16;
        if (c->work > SCHEMA_WORK_MOST) st = ERR_LIMIT;
        if (st != ERR_OK) {
            if (!schema_refuse(c, st, w->at, NULL, why.msg)) { /* lenient: any string */
                schema_string_wish any = {.is_key = w->is_key, .at = w->at};
                return schema_string_inside(c, &any, next);
            }
            return GRAPH_NEVER;
        }
        s->leaf = l ? graph_add_leaf(c->g, l) : -1;
    }
    if (s->leaf < 0) return GRAPH_NEVER;
    int least = is_free ? p->least : s->least, most = is_free ? p->most : s->most;
    if (most != EXPR_NO_MOST && least > most) return GRAPH_NEVER;
    return graph_leaf(c->g, s->leaf, least, most, next);
}

uint32_t schema_string_inside(schema_compiler *c, const schema_string_wish *w, uint32_t next)
{
    string_parts p = {.most = EXPR_NO_MOST};
    uint32_t out = GRAPH_NEVER;
    buf_init(&p.key);
    if (w->is_key) buf_put_byte(&p.key, 'k');
    if (w->f) add_schemas(c, &p, w->f);
    for (int i = 0; i < w->n_patterns; i++)
        add_pattern(c, &p, w->patterns[i], w->is_negated[i], w->at, NULL);
    add_not_texts(c, &p, w);
    if (c->g->failed == ERR_OK) out = build_string(c, w, &p, next);
    buf_fini(&p.key);
    return out;
}

uint32_t schema_text(schema_compiler *c, const schema_flat *f, uint32_t next)
{
    schema_string_wish w = {.f = f, .at = f->n ? f->plain[0] : NULL};
    return graph_bytes(c->g, STR("\""), schema_string_inside(c, &w, next));
}

/* ---- strings as they are --------------------------------------------------------------------- */

static bool has_anchor(const expr *e)
{
    if (e->kind == EXPR_START || e->kind == EXPR_END) return true;
    for (int i = 0; e->kind != EXPR_SET && i < e->n; i++)
        if (has_anchor(e->items[i])) return true;
    return false;
}

/* The texts in which a pattern is found, without anchors, so that something may follow; NULL when
 * its anchors stand elsewhere than at both ends. */
static expr *whole_texts(arena *a, expr *e)
{
    expr *any = expr_repeat(a, expr_any(a), 0, EXPR_NO_MOST);
    int from = 0, to = 1;
    expr **items = &e;
    if (e->kind == EXPR_CAT) {
        items = e->items;
        to = e->n;
    }
    bool at_start = items[0]->kind == EXPR_START, at_end = items[to - 1]->kind == EXPR_END;
    if (at_start) from++;
    if (at_end && to > from) to--;
    expr *middle = expr_list(a, EXPR_CAT, items + from, to - from);
    if (!middle || has_anchor(middle)) return NULL;
    if (!at_start) middle = expr_pair(a, EXPR_CAT, any, middle);
    return at_end ? middle : expr_pair(a, EXPR_CAT, middle, any);
}

static void add_raw_pattern(schema_compiler *c, string_parts *p, str pattern, expr *end,
                            const json *at, const char *key)
{
    expr *e = NULL;
    err why = {0};
    if (c->g->failed != ERR_OK) return;
    status s = regex_parse(&c->a, pattern, "#", &e, &why);
    if (s != ERR_OK) {
        schema_refuse(c, s, at, key, why.msg);
        return;
    }
    e = whole_texts(&c->a, e);
    if (!e) {
        schema_refuse(c, ERR_UNSUPPORTED, at, key, "anchors within a pattern of a raw string");
        return;
    }
    buf_printf(&p->key, "~%zu:", pattern.len);
    buf_put_str(&p->key, pattern);
    add_part(c, p, expr_pair(&c->a, EXPR_CAT, e, end), false, at);
}

/* The shape of all raw texts: anything up to the first end. */
static void add_raw_shape(schema_compiler *c, string_parts *p, expr *end)
{
    expr *any = expr_repeat(&c->a, expr_any(&c->a), 0, EXPR_NO_MOST);
    expr *more = expr_repeat(&c->a, expr_any(&c->a), 1, EXPR_NO_MOST);
    expr *fewest = expr_repeat(&c->a, expr_any(&c->a), p->least, EXPR_NO_MOST);
    expr *early[3] = {any, end, more};
    add_part(c, p, expr_pair(&c->a, EXPR_CAT, fewest, end), false, NULL);
    add_part(c, p, expr_list(&c->a, EXPR_CAT, early, 3), true, NULL);
}

static uint32_t build_raw(schema_compiler *c, string_parts *p, int length, uint32_t next)
{
    int most = p->most == EXPR_NO_MOST ? EXPR_NO_MOST : p->most + length;
    buf_printf(&p->key, "#%d", p->least);
    schema_string *s = p->key.failed ? NULL : find_string(c, buf_str(&p->key));
    if (!s) {
        graph_fail(c->g, ERR_NOMEM, "#", "a pattern");
        return GRAPH_NEVER;
    }
    if (s->leaf == -2) {
        const leaf *l = NULL;
        err why = {0};
        int none = 0, no_most = EXPR_NO_MOST;
        status st = leaf_build(&c->g->a, &c->g->work, p->parts, p->n, LEAF_RAW, &none, &no_most,
                               "#", &l, &why);
        if (st != ERR_OK) {
            graph_fail(c->g, st == ERR_LIMIT ? ERR_UNSUPPORTED : st, "#", why.msg);
            return GRAPH_NEVER;
        }
        s->leaf = l ? graph_add_leaf(c->g, l) : -1;
    }
    if (s->leaf < 0) return GRAPH_NEVER;
    if (most != EXPR_NO_MOST && c->g->leaves[s->leaf]->least[0] > (uint32_t)most)
        return GRAPH_NEVER;
    return graph_leaf(c->g, s->leaf, 0, most, next);
}

uint32_t schema_raw_text(schema_compiler *c, const schema_flat *f, const char *end, uint32_t next)
{
    string_parts p = {.most = EXPR_NO_MOST};
    expr *stop = expr_text(&c->a, str_from(end));
    uint32_t out = GRAPH_NEVER;
    buf_init(&p.key);
    buf_printf(&p.key, "r%s", end);
    if (f) schema_counts(c, f, "minLength", "maxLength", &p.least, &p.most);
    for (int i = 0; f && i < f->n; i++) {
        const json *s = f->plain[i], *pattern = json_get(s, "pattern");
        const json *format = json_get(s, "format");
        const char *known = json_is(format, JSON_STRING) ? schema_format_pattern(format->text)
                                                         : NULL;
        if (json_is(pattern, JSON_STRING))
            add_raw_pattern(c, &p, pattern->text, stop, s, "pattern");
        if (known)
            add_raw_pattern(c, &p, str_from(known), stop, s, "format");
        else if (format)
            schema_refuse(c, ERR_UNSUPPORTED, s, "format", "an unknown format");
    }
    add_raw_shape(c, &p, stop);
    if (c->g->failed == ERR_OK) out = build_raw(c, &p, (int)strlen(end), next);
    buf_fini(&p.key);
    return out;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool read_number(schema_compiler *c, const json *s, const char *key, const json *v,
                        decimal *out)
{
    if (v->kind != JSON_NUMBER)
        return schema_refuse(c, ERR_FORMAT, s, key, "must be a number"), false;
    if (!decimal_read(&c->a, v, out))
        return schema_refuse(c, ERR_UNSUPPORTED, s, key, "a number of too many digits"), false;
    return true;
}

/* Keep the tighter bound. is_upper: minimum or maximum. */
static void add_bound(schema_compiler *c, number_bounds *b, const json *s, const char *key,
                      bool is_upper, bool is_excluded)
{
    const json *v = json_get(s, key);
    decimal d;
    if (!v || !read_number(c, s, key, v, &d)) return;
    bool *has = is_upper ? &b->has_upper : &b->has_lower;
    bool *excluded = is_upper ? &b->upper_excluded : &b->lower_excluded;
    decimal *bound = is_upper ? &b->upper : &b->lower;
    int order = *has ? decimal_compare(&d, bound) : 0;
    if (*has && (is_upper ? order > 0 : order < 0)) return;
    *excluded = is_excluded || (*has && order == 0 && *excluded);
    *has = true;
    *bound = d;
}

static uint64_t greatest_common(uint64_t x, uint64_t y)
{
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x;
}

static void add_divisor(schema_compiler *c, number_bounds *b, const json *s)
{
    const json *v = json_get(s, "multipleOf");
    uint64_t p;
    int k;
    decimal d;
    if (!v || !read_number(c, s, "multipleOf", v, &d)) return;
    if (d.n == 0 || d.is_negative) {
        schema_refuse(c, ERR_FORMAT, s, "multipleOf", "must be above 0");
        return;
    }
    bool ok = decimal_scale(&d, &p, &k);
    if (ok && b->divisor) { /* the least common multiple, at one scale */
        uint64_t q = b->divisor;
        int scale = k > b->scale ? k : b->scale;
        for (int i = k; ok && i < scale; i++) ok = (p *= 10) < DECIMAL_SCALE_MOST;
        for (int i = b->scale; ok && i < scale; i++) ok = (q *= 10) < DECIMAL_SCALE_MOST;
        p = p / greatest_common(p, q) * q;
        k = scale;
    }
    if (!ok || p > LEAF_NUMBER_DIVISOR_MOST) {
        schema_refuse(c, ERR_UNSUPPORTED, s, "multipleOf", "a divisor of too many digits");
        return;
    }
    b->divisor = p;
    b->scale = k;
}

uint32_t schema_number(schema_compiler *c, const schema_flat *f, bool is_integer, uint32_t next)
{
    number_bounds b = {.is_integer = is_integer};
    const leaf *l = NULL;
    err why = {0};
    for (int i = 0; i < f->n; i++) {
        add_bound(c, &b, f->plain[i], "minimum", false, false);
        add_bound(c, &b, f->plain[i], "exclusiveMinimum", false, true);
        add_bound(c, &b, f->plain[i], "maximum", true, false);
        add_bound(c, &b, f->plain[i], "exclusiveMaximum", true, true);
        add_divisor(c, &b, f->plain[i]);
    }
    if (c->g->failed != ERR_OK) return GRAPH_NEVER;
    status s = leaf_number_build(&c->g->a, &c->g->work, &b, "#", &l, &why);
    if (s == ERR_LIMIT) s = ERR_UNSUPPORTED;
    if (s != ERR_OK) {
        if (schema_refuse(c, s, f->n ? f->plain[0] : NULL, NULL, why.msg)) return GRAPH_NEVER;
        number_bounds none = {.is_integer = is_integer};
        if (leaf_number_build(&c->g->a, &c->g->work, &none, "#", &l, &why) != ERR_OK) {
            graph_fail(c->g, ERR_NOMEM, "#", "a number");
            return GRAPH_NEVER;
        }
    }
    return l ? graph_leaf(c->g, graph_add_leaf(c->g, l), 0, EXPR_NO_MOST, next) : GRAPH_NEVER;
}
