#include "grammar/schema_check.h"

#include "base/utf8.h"
#include "grammar/decimal_priv.h"
#include "grammar/leaf_priv.h"
#include "grammar/regex_parse_priv.h"
#include "grammar/schema_format_priv.h"
#include "grammar/schema_match_priv.h"
#include "grammar/schema_ref_priv.h"

enum { DEPTH_MOST = 400 };

typedef struct {
    schema_doc doc;
    arena a;
    int depth;
    status failed;
    err error;
} checker;

static bool check(checker *c, const json *schema, const json *value);

static bool refuse(checker *c, status s, const json *schema, const char *key, const char *why)
{
    if (c->failed == ERR_OK) {
        char where[160];
        schema_pointer(c->doc.root, schema, key, where, sizeof where);
        c->failed = err_set(&c->error, s, where, -1, "%s", why);
    }
    return false;
}

/* ---- values --------------------------------------------------------------------------------- */

bool schema_same_value(arena *a, const json *x, const json *y)
{
    decimal p, q;
    if (x->kind != y->kind) return false;
    switch (x->kind) {
    case JSON_NULL:
    case JSON_FALSE:
    case JSON_TRUE: return true;
    case JSON_STRING: return str_equal(x->text, y->text);
    case JSON_NUMBER:
        if (!decimal_read(a, x, &p) || !decimal_read(a, y, &q)) return str_equal(x->text, y->text);
        return decimal_compare(&p, &q) == 0;
    case JSON_ARRAY: {
        const json *q2 = y->first;
        if (x->n != y->n) return false;
        for (const json *p2 = x->first; p2; p2 = p2->next, q2 = q2->next)
            if (!schema_same_value(a, p2, q2)) return false;
        return true;
    }
    case JSON_OBJECT:
        for (const json *m = x->first; m; m = m->next) {
            const json *other = json_get_str(y, m->key);
            if (!other || !schema_same_value(a, json_get_str(x, m->key), other)) return false;
        }
        for (const json *m = y->first; m; m = m->next)
            if (!json_get_str(x, m->key)) return false;
        return true;
    }
    return false;
}

struct schema_pattern {
    str text;
    const leaf *l; /* NULL: it matches nothing */
    schema_pattern *next;
};

void schema_cache_init(schema_cache *c)
{
    *c = (schema_cache){.work = LEAF_WORK_MOST};
    arena_init(&c->a, 0);
}

void schema_cache_fini(schema_cache *c)
{
    arena_fini(&c->a);
}

static status find_pattern(schema_cache *c, str pattern, const char *where, const leaf **l, err *e)
{
    leaf_part part = {0};
    int least = 0, most = EXPR_NO_MOST;
    for (const schema_pattern *p = c->patterns; p; p = p->next)
        if (str_equal(p->text, pattern)) {
            *l = p->l;
            return ERR_OK;
        }
    TRY(regex_parse(&c->a, pattern, where, &part.e, e));
    part.e = expr_search(&c->a, part.e);
    schema_pattern *made = arena_new(&c->a, sizeof *made);
    char *copy = arena_copy(&c->a, pattern.ptr, pattern.len);
    if (!part.e || !made || !copy) return err_set(e, ERR_NOMEM, where, -1, "a pattern");
    TRY(leaf_build(&c->a, &c->work, &part, 1, LEAF_RAW, &least, &most, where, l, e));
    *made = (schema_pattern){{copy, pattern.len}, *l, c->patterns};
    c->patterns = made;
    return ERR_OK;
}

status schema_pattern_matches(schema_cache *c, str pattern, const char *where, str text,
                              bool *matches, err *e)
{
    const leaf *l = NULL;
    int state = 0, inner = 0;
    TRY(find_pattern(c, pattern, where, &l, e));
    bool alive = l != NULL;
    for (size_t i = 0; i < text.len && alive; i++) {
        uint16_t to = l->code[inner * 256 + (unsigned char)text.ptr[i]];
        if (to == LEAF_DEAD) {
            alive = false;
        } else if (to & LEAF_CLASS) {
            to = l->next[state * l->n_classes + (to & ~LEAF_CLASS)];
            alive = to != LEAF_DEAD;
            state = to;
            inner = 0;
        } else {
            inner = to;
        }
    }
    *matches = alive && inner == 0 && l->accept[state];
    return ERR_OK;
}

static bool pattern_matches(checker *c, const json *schema, const char *key, str pattern, str text)
{
    bool matches = false;
    err e = {0};
    status s = schema_pattern_matches(c->doc.cache, pattern, "#", text, &matches, &e);
    if (s != ERR_OK) refuse(c, s, schema, key, e.msg);
    return s == ERR_OK && matches;
}

static bool is_integer(checker *c, const json *value)
{
    decimal d;
    return value->kind == JSON_NUMBER && decimal_read(&c->a, value, &d) && decimal_is_integer(&d);
}

static int64_t characters(str s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s.len; i++) n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    return n;
}

/* Members counted once each. */
static int64_t members(const json *object)
{
    int64_t n = 0;
    for (const json *m = object->first; m; m = m->next) n += json_get_str(object, m->key) == m;
    return n;
}

/* ---- keywords ------------------------------------------------------------------------------- */

static bool type_fits(checker *c, const json *schema, str type, const json *value)
{
    static const struct {
        const char *name;
        json_kind kind;
    } types[] = {{"null", JSON_NULL},     {"string", JSON_STRING}, {"array", JSON_ARRAY},
                 {"object", JSON_OBJECT}, {"number", JSON_NUMBER}, {"integer", JSON_NUMBER},
                 {"boolean", JSON_TRUE}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!str_is(type, types[i].name)) continue;
        if (types[i].kind == JSON_TRUE) return json_is_bool(value);
        return value->kind == types[i].kind && (!str_is(type, "integer") || is_integer(c, value));
    }
    return refuse(c, ERR_FORMAT, schema, "type", "an unknown type");
}

static bool check_type(checker *c, const json *schema, const json *value)
{
    const json *type = json_get(schema, "type");
    bool fits = false;
    if (!type) return true;
    if (type->kind == JSON_STRING) return type_fits(c, schema, type->text, value);
    if (type->kind != JSON_ARRAY)
        return refuse(c, ERR_FORMAT, schema, "type", "must be a string or an array");
    for (const json *t = type->first; t; t = t->next) fits |= type_fits(c, schema, t->text, value);
    return fits;
}

static bool check_constants(checker *c, const json *schema, const json *value)
{
    const json *constant = json_get(schema, "const"), *list = json_get(schema, "enum");
    if (constant && !schema_same_value(&c->a, constant, value)) return false;
    if (!list) return true;
    for (const json *v = list->first; v; v = v->next)
        if (schema_same_value(&c->a, v, value)) return true;
    return false;
}

static bool compare_with(checker *c, const json *schema, const char *key, const json *value,
                         int *order)
{
    decimal bound, d;
    const json *k = json_get(schema, key);
    if (!k) return false;
    if (k->kind != JSON_NUMBER) return refuse(c, ERR_FORMAT, schema, key, "must be a number");
    if (!decimal_read(&c->a, k, &bound) || !decimal_read(&c->a, value, &d))
        return refuse(c, ERR_LIMIT, schema, key, "a number of too many digits");
    *order = decimal_compare(&d, &bound);
    return true;
}

static bool check_number(checker *c, const json *schema, const json *value)
{
    int order;
    decimal d, m;
    if (compare_with(c, schema, "minimum", value, &order) && order < 0) return false;
    if (compare_with(c, schema, "maximum", value, &order) && order > 0) return false;
    if (compare_with(c, schema, "exclusiveMinimum", value, &order) && order <= 0) return false;
    if (compare_with(c, schema, "exclusiveMaximum", value, &order) && order >= 0) return false;
    const json *multiple = json_get(schema, "multipleOf");
    if (!multiple) return true;
    if (multiple->kind != JSON_NUMBER || !decimal_read(&c->a, multiple, &m) || m.n == 0 ||
        m.is_negative)
        return refuse(c, ERR_FORMAT, schema, "multipleOf", "must be a number above 0");
    return decimal_read(&c->a, value, &d) && decimal_is_multiple(&d, &m);
}

/* Whether `count` is within the two bounds. */
static bool check_count(checker *c, const json *schema, const char *least, const char *most,
                        int64_t count)
{
    int64_t v;
    const json *lo = json_get(schema, least), *hi = json_get(schema, most);
    if (lo && !json_to_int64(lo, &v))
        return refuse(c, ERR_FORMAT, schema, least, "must be an integer");
    if (lo && count < v) return false;
    if (hi && !json_to_int64(hi, &v))
        return refuse(c, ERR_FORMAT, schema, most, "must be an integer");
    return !hi || count <= v;
}

static bool check_string(checker *c, const json *schema, const json *value)
{
    const json *pattern = json_get(schema, "pattern"), *format = json_get(schema, "format");
    if (!check_count(c, schema, "minLength", "maxLength", characters(value->text))) return false;
    if (json_is(pattern, JSON_STRING) &&
        !pattern_matches(c, schema, "pattern", pattern->text, value->text))
        return false;
    const char *known = json_is(format, JSON_STRING) ? schema_format_pattern(format->text) : NULL;
    return !known || pattern_matches(c, schema, "format", str_from(known), value->text);
}

static bool check_contains(checker *c, const json *schema, const json *value)
{
    const json *contains = json_get(schema, "contains");
    int64_t n = 0;
    if (!contains) return true;
    for (const json *v = value->first; v; v = v->next) n += check(c, contains, v);
    if (!json_get(schema, "minContains") && n == 0) return false;
    return check_count(c, schema, "minContains", "maxContains", n);
}

static bool check_array(checker *c, const json *schema, const json *value)
{
    const json *prefix = json_get(schema, "prefixItems"), *items = json_get(schema, "items");
    const json *rest = items, *unique = json_get(schema, "uniqueItems");
    if (json_is(items, JSON_ARRAY)) {
        prefix = items;
        rest = json_get(schema, "additionalItems");
    }
    const json *first = prefix ? prefix->first : NULL;
    if (!check_count(c, schema, "minItems", "maxItems", value->n)) return false;
    for (const json *v = value->first; v; v = v->next) {
        const json *s = first ? first : rest;
        if (s && !check(c, s, v)) return false;
        if (first) first = first->next;
    }
    if (json_is(unique, JSON_TRUE))
        for (const json *v = value->first; v; v = v->next)
            for (const json *w = v->next; w; w = w->next)
                if (schema_same_value(&c->a, v, w)) return false;
    return check_contains(c, schema, value);
}

static bool check_member(checker *c, const json *schema, str key, const json *value)
{
    const json *properties = json_get(schema, "properties");
    const json *patterns = json_get(schema, "patternProperties");
    const json *own = properties ? json_get_str(properties, key) : NULL;
    bool is_known = own != NULL;
    if (own && !check(c, own, value)) return false;
    for (const json *p = patterns ? patterns->first : NULL; p; p = p->next) {
        if (!pattern_matches(c, schema, "patternProperties", p->key, key)) continue;
        is_known = true;
        if (!check(c, p, value)) return false;
    }
    const json *other = json_get(schema, "additionalProperties");
    if (!is_known && other && !check(c, other, value)) return false;
    const json *names = json_get(schema, "propertyNames");
    json name = {.kind = JSON_STRING, .text = key};
    return !names || check(c, names, &name);
}

static bool has_all(const json *list, const json *value)
{
    for (const json *r = list ? list->first : NULL; r; r = r->next)
        if (!json_get_str(value, r->text)) return false;
    return true;
}

static bool check_dependencies(checker *c, const json *schema, const char *key, const json *value)
{
    const json *list = json_get(schema, key);
    for (const json *d = list ? list->first : NULL; d; d = d->next) {
        if (!json_get_str(value, d->key)) continue;
        if (d->kind == JSON_ARRAY ? !has_all(d, value) : !check(c, d, value)) return false;
    }
    return true;
}

static bool check_object(checker *c, const json *schema, const json *value)
{
    if (!check_count(c, schema, "minProperties", "maxProperties", members(value))) return false;
    if (!has_all(json_get(schema, "required"), value)) return false;
    for (const json *m = value->first; m; m = m->next)
        if (json_get_str(value, m->key) == m && !check_member(c, schema, m->key, m)) return false;
    return check_dependencies(c, schema, "dependencies", value) &&
           check_dependencies(c, schema, "dependentRequired", value) &&
           check_dependencies(c, schema, "dependentSchemas", value);
}

static bool check_combinations(checker *c, const json *schema, const json *value)
{
    const json *all = json_get(schema, "allOf"), *any = json_get(schema, "anyOf");
    const json *one = json_get(schema, "oneOf"), *no = json_get(schema, "not");
    int n = 0;
    for (const json *s = all ? all->first : NULL; s; s = s->next)
        if (!check(c, s, value)) return false;
    for (const json *s = any ? any->first : NULL; s && n == 0; s = s->next) n += check(c, s, value);
    if (any && n == 0) return false;
    n = 0;
    for (const json *s = one ? one->first : NULL; s; s = s->next) n += check(c, s, value);
    if (one && n != 1) return false;
    if (no && check(c, no, value)) return false;
    const json *cond = json_get(schema, "if");
    if (!cond) return true;
    const json *then = json_get(schema, check(c, cond, value) ? "then" : "else");
    return !then || check(c, then, value);
}

static bool check_keywords(checker *c, const json *schema, const json *value)
{
    static const char *const unknown[] = {"$dynamicRef", "$recursiveRef", "unevaluatedProperties",
                                          "unevaluatedItems"};
    const json *ref = json_get(schema, "$ref");
    if (ref) {
        const json *target = NULL;
        err e = {0};
        status s = schema_ref_find(&c->doc, ref, &target, &e);
        if (s != ERR_OK) return refuse(c, s, ref, NULL, e.msg);
        if (!check(c, target, value)) return false;
        if (c->doc.ref_is_alone) return true;
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (json_get(schema, unknown[i]))
            return refuse(c, ERR_UNSUPPORTED, schema, unknown[i], "not supported");
    if (!check_type(c, schema, value) || !check_constants(c, schema, value)) return false;
    if (value->kind == JSON_NUMBER && !check_number(c, schema, value)) return false;
    if (value->kind == JSON_STRING && !check_string(c, schema, value)) return false;
    if (value->kind == JSON_ARRAY && !check_array(c, schema, value)) return false;
    if (value->kind == JSON_OBJECT && !check_object(c, schema, value)) return false;
    return check_combinations(c, schema, value);
}

static bool check(checker *c, const json *schema, const json *value)
{
    if (c->failed != ERR_OK) return false;
    if (schema->kind == JSON_TRUE) return true;
    if (schema->kind == JSON_FALSE) return false;
    if (schema->kind != JSON_OBJECT)
        return refuse(c, ERR_FORMAT, schema, NULL, "a schema must be an object or a boolean");
    if (c->depth == DEPTH_MOST) return refuse(c, ERR_LIMIT, schema, NULL, "nested too deep");
    c->depth++;
    bool fits = check_keywords(c, schema, value);
    c->depth--;
    return fits;
}

status schema_check_in(const schema_doc *doc, const json *schema, const json *value, bool *valid,
                       err *e)
{
    checker c = {.doc = *doc};
    arena_init(&c.a, 0);
    bool fits = check(&c, schema, value);
    arena_fini(&c.a);
    if (c.failed != ERR_OK) {
        if (e) *e = c.error;
        return c.failed;
    }
    *valid = fits;
    return ERR_OK;
}

status schema_check(const json *root, const json *schema, const json *value, bool *valid, err *e)
{
    schema_doc doc;
    schema_cache cache;
    schema_doc_init(&doc, root);
    schema_cache_init(&cache);
    doc.cache = &cache;
    status s = schema_check_in(&doc, schema, value, valid, e);
    schema_cache_fini(&cache);
    return s;
}
