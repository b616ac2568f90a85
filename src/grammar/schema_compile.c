#include "base/hash.h"
#include "base/mem.h"
#include "grammar/schema_priv.h"

enum { RULE_SLOTS = 4096, IN_PLACE_MOST = 100, TEXTS_MOST = 20000 };

struct schema_rule {
    schema_set set;
    int rule;
    uint64_t hash;
    schema_rule *next;
};

bool schema_refuse(schema_compiler *c, status s, const json *at, const char *key, const char *why)
{
    char where[160];
    int n = (int)strlen(c->prefix);
    memcpy(where, c->prefix, (size_t)n);
    schema_pointer(c->doc.root, at, key, where + n, (int)sizeof where - n);
    if (s == ERR_UNSUPPORTED && c->is_lenient) {
        if (c->notes && c->notes->n_left_out++ == 0)
            memcpy(c->notes->first, where, sizeof c->notes->first);
        return false;
    }
    graph_fail(c->g, s, where, why);
    return true;
}

/* ---- following ------------------------------------------------------------------------------ */

static void flatten(schema_compiler *c, const json *s, schema_flat *f, int depth);

static void add_choices(schema_compiler *c, const json *s, const char *key, bool is_one,
                        schema_flat *f)
{
    const json *list = json_get(s, key);
    if (!list) return;
    if (list->kind != JSON_ARRAY || list->n == 0) {
        schema_refuse(c, ERR_FORMAT, s, key, "must be an array that is not empty");
        return;
    }
    if (f->n_choices == SCHEMA_SET_MOST) {
        schema_refuse(c, ERR_LIMIT, s, key, "too many alternatives at once");
        return;
    }
    f->choices[f->n_choices] = list;
    f->is_one[f->n_choices++] = is_one;
}

/* Keywords that we know and do not take, wherever they stand. */
static void refuse_keywords(schema_compiler *c, const json *s)
{
    static const char *const keys[] = {"if", "$dynamicRef", "$recursiveRef"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_get(s, keys[i])) schema_refuse(c, ERR_UNSUPPORTED, s, keys[i], "not supported");
    const json *no = json_get(s, "not");
    if (no && no->kind != JSON_FALSE && !(no->kind == JSON_OBJECT && no->n == 0) &&
        no->kind != JSON_TRUE)
        schema_refuse(c, ERR_UNSUPPORTED, s, "not", "not supported");
}

static void flatten_object(schema_compiler *c, const json *s, schema_flat *f, int depth)
{
    const json *ref = json_get(s, "$ref"), *target = NULL, *all = json_get(s, "allOf");
    const json *no = json_get(s, "not");
    err e = {0};
    status found = ref ? schema_ref_find(&c->doc, ref, &target, &e) : ERR_OK;
    if (found != ERR_OK && schema_refuse(c, found, ref, NULL, e.msg)) return;
    if (ref && c->doc.ref_is_alone) {
        if (target) flatten(c, target, f, depth + 1);
        return;
    }
    if (f->n == SCHEMA_SET_MOST) {
        schema_refuse(c, ERR_LIMIT, s, NULL, "too many schemas for one value");
        return;
    }
    f->plain[f->n++] = s;
    if (target) flatten(c, target, f, depth + 1);
    if (no && (no->kind == JSON_TRUE || (no->kind == JSON_OBJECT && no->n == 0)))
        f->is_never = true;
    if (all && (all->kind != JSON_ARRAY || all->n == 0))
        schema_refuse(c, ERR_FORMAT, s, "allOf", "must be an array that is not empty");
    for (const json *part = json_is(all, JSON_ARRAY) ? all->first : NULL; part; part = part->next)
        flatten(c, part, f, depth + 1);
    add_choices(c, s, "anyOf", false, f);
    add_choices(c, s, "oneOf", true, f);
}

static void flatten(schema_compiler *c, const json *s, schema_flat *f, int depth)
{
    if (c->g->failed != ERR_OK || s->kind == JSON_TRUE) return;
    if (s->kind == JSON_FALSE) {
        f->is_never = true;
        return;
    }
    if (s->kind != JSON_OBJECT) {
        schema_refuse(c, ERR_FORMAT, s, NULL, "a schema must be an object or a boolean");
        return;
    }
    for (int i = 0; i < f->n; i++)
        if (f->plain[i] == s) return;
    if (depth > IN_PLACE_MOST) {
        schema_refuse(c, ERR_INVALID, s, NULL, "refers back to itself, or on and on too deeply");
        return;
    }
    flatten_object(c, s, f, depth);
}

void schema_flatten(schema_compiler *c, const json *schema, schema_flat *f)
{
    flatten(c, schema, f, 0);
}

int schema_type_set(schema_compiler *c, const schema_flat *f)
{
    static const struct {
        const char *name;
        int types;
    } names[] = {{"null", SCHEMA_NULL},       {"boolean", SCHEMA_BOOLEAN},
                 {"integer", SCHEMA_INTEGER}, {"number", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"string", SCHEMA_STRING},   {"array", SCHEMA_ARRAY},
                 {"object", SCHEMA_OBJECT}};
    int all = SCHEMA_ALL;
    for (int i = 0; i < f->n; i++) {
        const json *type = json_get(f->plain[i], "type");
        int own = 0;
        if (!type) continue;
        for (const json *t = type->kind == JSON_ARRAY ? type->first : type; t; t = t->next) {
            int known = 0;
            for (size_t k = 0; k < sizeof names / sizeof *names; k++)
                if (json_is(t, JSON_STRING) && str_is(t->text, names[k].name))
                    known = names[k].types;
            if (!known) schema_refuse(c, ERR_FORMAT, f->plain[i], "type", "an unknown type");
            own |= known;
            if (t == type) break;
        }
        all &= own;
    }
    return all;
}

bool schema_holds(schema_compiler *c, const schema_flat *f, const json *value)
{
    for (int i = 0; i < f->n; i++) {
        bool valid = false;
        err e = {0};
        status s = schema_check_in(&c->doc, f->plain[i], value, &valid, &e);
        if (s != ERR_OK) {
            graph_fail(c->g, s, e.where, e.msg);
            return false;
        }
        if (!valid) return false;
    }
    return !f->is_never;
}

void schema_counts(schema_compiler *c, const schema_flat *f, const char *least_key,
                   const char *most_key, int *least, int *most)
{
    *least = 0;
    *most = EXPR_NO_MOST;
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < 2; k++) {
            const char *key = k ? most_key : least_key;
            const json *v = json_get(f->plain[i], key);
            int64_t n;
            if (!v) continue;
            if (!json_to_int64(v, &n) || n < 0) {
                schema_refuse(c, ERR_FORMAT, f->plain[i], key, "must be an integer, 0 or more");
                continue;
            }
            if (n > INT32_MAX / 2) n = INT32_MAX / 2; /* no text is as long as that */
            if (k == 0 && n > *least) *least = (int)n;
            if (k == 1 && (*most == EXPR_NO_MOST || n < *most)) *most = (int)n;
        }
}

/* ---- constants ------------------------------------------------------------------------------ */

static void put_value(schema_compiler *c, buf *b, const json *v)
{
    decimal d;
    switch (v->kind) {
    case JSON_NULL: buf_put_c(b, "null"); return;
    case JSON_FALSE: buf_put_c(b, "false"); return;
    case JSON_TRUE: buf_put_c(b, "true"); return;
    case JSON_STRING: json_put_string(b, v->text); return;
    case JSON_NUMBER:
        if (decimal_read(&c->a, v, &d))
            decimal_put(b, &d);
        else
            buf_put_str(b, v->text);
        return;
    case JSON_ARRAY:
    case JSON_OBJECT: break;
    }
    buf_put_byte(b, v->kind == JSON_ARRAY ? '[' : '{');
    for (const json *m = v->first; m; m = m->next) {
        if (m != v->first) buf_put_byte(b, ',');
        if (v->kind == JSON_OBJECT) {
            json_put_string(b, m->key);
            buf_put_byte(b, ':');
        }
        put_value(c, b, m);
    }
    buf_put_byte(b, v->kind == JSON_ARRAY ? ']' : '}');
}

/* Of the constants of one schema those that all allow. True when there is such a schema. */
static bool constants(schema_compiler *c, const schema_flat *f, uint32_t next, uint32_t *out)
{
    const json *constant = NULL, *list = NULL;
    int n = 0;
    for (int i = 0; i < f->n && !constant; i++) {
        const json *values = json_get(f->plain[i], "enum");
        constant = json_get(f->plain[i], "const");
        if (values && values->kind != JSON_ARRAY)
            schema_refuse(c, ERR_FORMAT, f->plain[i], "enum", "must be an array");
        if (json_is(values, JSON_ARRAY) && (!list || values->n < list->n)) list = values;
    }
    if (!constant && !list) return false;
    int n_most = constant ? 1 : list->n;
    str *texts = arena_new_array(&c->a, (size_t)n_most + 1, sizeof *texts);
    *out = GRAPH_NEVER;
    if (!texts || n_most > TEXTS_MOST) {
        graph_fail(c->g, texts ? ERR_LIMIT : ERR_NOMEM, "#", "too many constants");
        return true;
    }
    for (const json *v = constant ? constant : list->first; v && c->g->failed == ERR_OK;
         v = constant ? NULL : v->next) {
        if (!schema_holds(c, f, v)) continue;
        buf b;
        buf_init(&b);
        if (c->raw_end && v->kind == JSON_STRING) {
            if (str_find(v->text, str_from(c->raw_end), 0) >= 0) continue;
            buf_put_str(&b, v->text);
        } else {
            put_value(c, &b, v);
        }
        if (c->raw_end) buf_put_c(&b, c->raw_end);
        char *copy = b.failed ? NULL : arena_copy(&c->a, b.ptr, b.len);
        if (copy)
            texts[n++] = (str){copy, b.len};
        else
            graph_fail(c->g, ERR_NOMEM, "#", "a constant");
        buf_fini(&b);
    }
    if (c->g->failed == ERR_OK) *out = graph_texts(c->g, texts, n, next);
    return true;
}

/* ---- values --------------------------------------------------------------------------------- */

static uint32_t plain_value(schema_compiler *c, const schema_flat *f, uint32_t next)
{
    int types = schema_type_set(c, f), n = 0;
    uint32_t alts[8];
    const char *raw_end = c->raw_end;
    for (int i = 0; i < f->n; i++) refuse_keywords(c, f->plain[i]);
    if (raw_end) {
        if (types & SCHEMA_STRING) alts[n++] = schema_raw_text(c, f, raw_end, next);
        types &= ~SCHEMA_STRING;
        next = graph_bytes(c->g, str_from(raw_end), next);
    }
    c->raw_end = NULL; /* what is inside stands as JSON */
    if (types & SCHEMA_NULL) alts[n++] = graph_bytes(c->g, STR("null"), next);
    if (types & SCHEMA_BOOLEAN) {
        alts[n++] = graph_bytes(c->g, STR("true"), next);
        alts[n++] = graph_bytes(c->g, STR("false"), next);
    }
    if (types & SCHEMA_INTEGER) alts[n++] = schema_number(c, f, !(types & SCHEMA_FRACTION), next);
    if (types & SCHEMA_STRING) alts[n++] = schema_text(c, f, next);
    if (types & SCHEMA_ARRAY) alts[n++] = schema_array(c, f, next);
    if (types & SCHEMA_OBJECT) alts[n++] = schema_object(c, f, next);
    c->raw_end = raw_end;
    return graph_split(c->g, alts, n);
}

static bool one_is_sure(schema_compiler *c, const schema_flat *f, const json *list)
{
    for (const json *x = list->first; x; x = x->next)
        for (const json *y = x->next; y; y = y->next)
            if (!schema_are_disjoint(c, f, x, y, 0)) {
                schema_refuse(c, ERR_UNSUPPORTED, list, NULL,
                              "oneOf: two alternatives may hold at once");
                return false;
            }
    return true;
}

uint32_t schema_flat_value(schema_compiler *c, const schema_flat *f, uint32_t next)
{
    uint32_t out = GRAPH_NEVER;
    if (c->g->failed != ERR_OK || f->is_never) return GRAPH_NEVER;
    if (++c->work > SCHEMA_WORK_MOST) {
        graph_fail(c->g, ERR_LIMIT, "#", "the alternatives multiply to too many");
        return GRAPH_NEVER;
    }
    if (constants(c, f, next, &out)) return out;
    if (f->n_choices == 0) return plain_value(c, f, next);
    const json *list = f->choices[f->n_choices - 1];
    schema_flat *rest = mem_new(sizeof *rest);
    if (!rest) {
        graph_fail(c->g, ERR_NOMEM, "#", "a schema");
        return GRAPH_NEVER;
    }
    *rest = *f;
    rest->n_choices--;
    if (f->is_one[rest->n_choices]) one_is_sure(c, rest, list);
    schema_flat *chosen = mem_new(sizeof *chosen);
    if (!chosen) graph_fail(c->g, ERR_NOMEM, "#", "a schema");
    for (const json *x = list->first; x && c->g->failed == ERR_OK; x = x->next) {
        *chosen = *rest;
        schema_flatten(c, x, chosen);
        out = graph_either(c->g, out, schema_flat_value(c, chosen, next));
    }
    mem_free(chosen);
    mem_free(rest);
    return out;
}

static bool same_set(const schema_set *x, const schema_set *y)
{
    return x->n == y->n && memcmp(x->list, y->list, (size_t)x->n * sizeof *x->list) == 0;
}

/* The rule of a set; *is_new when its body is still to be made. -1 without memory. */
static int find_rule(schema_compiler *c, const schema_set *set, bool *is_new)
{
    uint64_t h = hash_bytes(set->list, (size_t)set->n * sizeof *set->list, 0);
    schema_rule **slot = &c->rule_slots[h % RULE_SLOTS];
    *is_new = false;
    for (schema_rule *r = *slot; r; r = r->next)
        if (r->hash == h && same_set(&r->set, set)) return r->rule;
    schema_rule *r = arena_new(&c->a, sizeof *r);
    const json **list = arena_new_array(&c->a, (size_t)set->n + 1, sizeof *list);
    if (!r || !list) return -1;
    memcpy(list, set->list, (size_t)set->n * sizeof *list);
    *r = (schema_rule){{list, set->n}, graph_add_rule(c->g), h, *slot};
    *slot = r;
    *is_new = true;
    return r->rule;
}

static bool is_trivial(const schema_set *set)
{
    for (int i = 0; i < set->n; i++)
        if (!(set->list[i]->kind == JSON_TRUE ||
              (set->list[i]->kind == JSON_OBJECT && set->list[i]->n == 0)))
            return false;
    return true;
}

uint32_t schema_value(schema_compiler *c, const schema_set *set, uint32_t next)
{
    bool is_new;
    if (c->g->failed != ERR_OK) return GRAPH_NEVER;
    if (is_trivial(set)) return schema_any(c, next);
    for (int i = 0; i < set->n; i++)
        if (set->list[i]->kind == JSON_FALSE) return GRAPH_NEVER;
    int rule = find_rule(c, set, &is_new);
    if (rule < 0) {
        graph_fail(c->g, ERR_NOMEM, "#", "a schema's rules");
        return GRAPH_NEVER;
    }
    if (is_new) {
        schema_flat *f = mem_new(sizeof *f);
        if (!f) graph_fail(c->g, ERR_NOMEM, "#", "a schema");
        if (c->depth == SCHEMA_DEPTH_MOST)
            schema_refuse(c, ERR_LIMIT, set->list[0], NULL, "schemas nested too deep");
        c->depth++;
        for (int i = 0; f && i < set->n; i++) schema_flatten(c, set->list[i], f);
        uint32_t body = f ? schema_flat_value(c, f, GRAPH_RETURN) : GRAPH_NEVER;
        graph_set_rule(c->g, rule, body);
        c->depth--;
        mem_free(f);
    }
    return graph_call(c->g, rule, next);
}

uint32_t schema_any(schema_compiler *c, uint32_t next)
{
    if (c->any_rule < 0) {
        schema_flat *none = mem_new(sizeof *none);
        if (!none) graph_fail(c->g, ERR_NOMEM, "#", "a schema");
        c->any_rule = graph_add_rule(c->g);
        if (none) graph_set_rule(c->g, c->any_rule, plain_value(c, none, GRAPH_RETURN));
        mem_free(none);
    }
    return graph_call(c->g, c->any_rule, next);
}

/* ---- opening -------------------------------------------------------------------------------- */

status schema_compiler_open(schema_compiler *c, const json *root, const grammar_json_options *opt,
                            grammar_notes *notes, err *e)
{
    *c = (schema_compiler){
        .any_rule = -1, .space = GRAMMAR_SPACE_DEFAULT, .notes = notes, .prefix = ""};
    if (notes) *notes = (grammar_notes){0};
    arena_init(&c->a, 0);
    if (opt) {
        if (opt->space_most < 0 || opt->space_most > 4096)
            return err_set(e, ERR_INVALID, "#", -1, "%d bytes of white space", opt->space_most);
        c->space = opt->space_most;
        c->is_lenient = opt->is_lenient;
    }
    schema_doc_init(&c->doc, root);
    schema_cache_init(&c->cache);
    c->doc.cache = &c->cache;
    c->rule_slots = arena_new_array(&c->a, RULE_SLOTS, sizeof(schema_rule *));
    if (!c->rule_slots) return err_set(e, ERR_NOMEM, "#", -1, "a schema's rules");
    return graph_open(&c->g, e);
}

status schema_compiler_close(schema_compiler *c, uint32_t start, status s, grammar **out, err *e)
{
    if (s == ERR_OK) s = graph_finish(c->g, start, "#", e);
    arena_fini(&c->a);
    schema_cache_fini(&c->cache);
    if (s == ERR_OK)
        *out = c->g;
    else
        grammar_close(c->g);
    return s;
}

status grammar_open_schema(grammar **out, const json *schema, const grammar_json_options *opt,
                           grammar_notes *notes, err *e)
{
    schema_compiler c;
    uint32_t start = GRAPH_NEVER;
    status s = schema_compiler_open(&c, schema, opt, notes, e);
    if (s == ERR_OK) {
        schema_set set = {&schema, 1};
        start = schema_value(&c, &set, GRAPH_END);
    }
    return schema_compiler_close(&c, start, s, out, e);
}

status grammar_open_json_object(grammar **out, const grammar_json_options *opt, err *e)
{
    static const json type = {.kind = JSON_STRING, .text = {"object", 6}, .key = {"type", 4}};
    static const json object = {.kind = JSON_OBJECT, .n = 1, .first = &type};
    return grammar_open_schema(out, &object, opt, NULL, e);
}
