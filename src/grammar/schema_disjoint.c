/* Whether two alternatives of a oneOf can hold at once. Only what is easy to prove is proved:
 * different types, constants, ranges of numbers or lengths that do not meet, and objects told
 * apart by a property that one must have and the other has otherwise or not at all. */
#include "base/mem.h"
#include "grammar/schema_priv.h"

enum { DEPTH_MOST = 4 };

typedef struct {
    schema_compiler *c;
    const schema_flat *base;
    int depth;
} prover;

static const json *constants_of(const schema_flat *f, bool *is_one)
{
    for (int i = 0; i < f->n; i++) {
        const json *only = json_get(f->plain[i], "const"), *list = json_get(f->plain[i], "enum");
        *is_one = only != NULL;
        if (only) return only;
        if (json_is(list, JSON_ARRAY)) return list;
    }
    return NULL;
}

/* True when x has constants and none of them satisfies y, whole schema and all. */
static bool constants_differ(prover *p, const schema_flat *x, const json *y)
{
    bool is_one;
    const json *list = constants_of(x, &is_one);
    if (!list) return false;
    for (const json *v = is_one ? list : list->first; v; v = is_one ? NULL : v->next) {
        bool valid = true;
        err e;
        if (schema_check_in(&p->c->doc, y, v, &valid, &e) != ERR_OK || valid) return false;
    }
    return true;
}

/* Whether an object under f cannot have the property. */
static bool is_forbidden(const schema_flat *f, str name)
{
    for (int i = 0; i < f->n; i++) {
        const json *own = json_get(f->plain[i], "properties");
        const json *mine = own ? json_get_str(own, name) : NULL;
        if (json_is(mine, JSON_FALSE)) return true;
        if (!mine && !json_get(f->plain[i], "patternProperties") &&
            json_is(json_get(f->plain[i], "additionalProperties"), JSON_FALSE))
            return true;
    }
    return false;
}

/* A property required by x and, in values, at odds with y. */
static bool objects_differ(prover *p, const schema_flat *x, const schema_flat *y)
{
    static const schema_flat nothing;
    for (int i = 0; i < x->n; i++) {
        const json *list = json_get(x->plain[i], "required");
        for (const json *r = json_is(list, JSON_ARRAY) ? list->first : NULL; r; r = r->next) {
            if (!json_is(r, JSON_STRING)) continue;
            if (is_forbidden(y, r->text)) return true;
            for (int k = 0; k < x->n; k++) {
                const json *in_x = json_get(x->plain[k], "properties");
                const json *mine = in_x ? json_get_str(in_x, r->text) : NULL;
                for (int m = 0; mine && m < y->n; m++) {
                    const json *in_y = json_get(y->plain[m], "properties");
                    const json *other = in_y ? json_get_str(in_y, r->text) : NULL;
                    if (other && schema_are_disjoint(p->c, &nothing, mine, other, p->depth + 1))
                        return true;
                }
            }
        }
    }
    return false;
}

static bool bound(prover *p, const schema_flat *f, const char *key, bool is_upper, decimal *out)
{
    bool has = false;
    for (int i = 0; i < f->n; i++) {
        const json *v = json_get(f->plain[i], key);
        decimal d;
        if (!json_is(v, JSON_NUMBER) || !decimal_read(&p->c->a, v, &d)) continue;
        int order = has ? decimal_compare(&d, out) : 0;
        if (!has || (is_upper ? order < 0 : order > 0)) *out = d;
        has = true;
    }
    return has;
}

/* All of x below all of y. */
static bool is_below(prover *p, const schema_flat *x, const schema_flat *y)
{
    static const char *const upper[] = {"maximum", "exclusiveMaximum"};
    static const char *const lower[] = {"minimum", "exclusiveMinimum"};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            decimal hi, lo;
            if (!bound(p, x, upper[i], true, &hi) || !bound(p, y, lower[k], false, &lo)) continue;
            int order = decimal_compare(&hi, &lo);
            if (order < 0 || (order == 0 && (i || k))) return true;
        }
    return false;
}

static bool is_shorter(prover *p, const schema_flat *x, const schema_flat *y, const char *least_key,
                       const char *most_key)
{
    int least, most, other_least, other_most;
    schema_counts(p->c, x, least_key, most_key, &least, &most);
    schema_counts(p->c, y, least_key, most_key, &other_least, &other_most);
    return most != EXPR_NO_MOST && most < other_least;
}

static bool differ(prover *p, const schema_flat *x, const schema_flat *y, int types)
{
    if (types == 0 || x->is_never || y->is_never) return true;
    if (types == SCHEMA_OBJECT && (objects_differ(p, x, y) || objects_differ(p, y, x))) return true;
    if ((types & ~(SCHEMA_INTEGER | SCHEMA_FRACTION)) == 0)
        return is_below(p, x, y) || is_below(p, y, x);
    if (types == SCHEMA_STRING)
        return is_shorter(p, x, y, "minLength", "maxLength") ||
               is_shorter(p, y, x, "minLength", "maxLength");
    if (types == SCHEMA_ARRAY)
        return is_shorter(p, x, y, "minItems", "maxItems") ||
               is_shorter(p, y, x, "minItems", "maxItems");
    return false;
}

bool schema_are_disjoint(schema_compiler *c, const schema_flat *base, const json *x, const json *y,
                         int depth)
{
    prover p = {c, base, depth};
    bool is = false;
    if (depth > DEPTH_MOST || c->g->failed != ERR_OK || ++c->work > SCHEMA_WORK_MOST) return false;
    schema_flat *in_x = mem_new(sizeof *in_x), *in_y = mem_new(sizeof *in_y);
    if (in_x && in_y) {
        schema_flatten(c, x, in_x);
        schema_flatten(c, y, in_y);
        int types = schema_type_set(c, base) & schema_type_set(c, in_x) & schema_type_set(c, in_y);
        is = differ(&p, in_x, in_y, types) || constants_differ(&p, in_x, y) ||
             constants_differ(&p, in_y, x);
    } else {
        graph_fail(c->g, ERR_NOMEM, "#", "a schema");
    }
    mem_free(in_x);
    mem_free(in_y);
    return is && c->g->failed == ERR_OK;
}
