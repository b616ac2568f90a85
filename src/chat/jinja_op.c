/* Operators on values of any kind. */
#include "chat/jinja_builtin_priv.h"
#include "chat/jinja_filter_priv.h"

static const char *op_name(jop op)
{
    static const char *const names[] = {"+",   "-",  "*",  "/", "//", "%", "**", "-",  "+",
                                        "not", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return names[op];
}

static status fail_operands(jrt *r, jop op, jvalue a, jvalue b)
{
    if (a.kind == JVALUE_UNDEFINED) return jrt_fail_undefined(r, a);
    if (b.kind == JVALUE_UNDEFINED) return jrt_fail_undefined(r, b);
    return jrt_fail(r, ERR_FORMAT, "unsupported operand types for %s: '%s' and '%s'", op_name(op),
                    jvalue_type_name(a), jvalue_type_name(b));
}

/* Joining anything to Markup escapes it and gives Markup. */
status jop_concat_text(jrt *r, const jtext *a, const jtext *b, jvalue *out)
{
    bool is_safe = a->is_safe || b->is_safe;
    jbuilder built;
    jrt_builder(r, &built);
    if (is_safe) {
        jfilter_put_escaped(&built, a);
        jfilter_put_escaped(&built, b);
    } else {
        jbuilder_put_text(&built, a);
        jbuilder_put_text(&built, b);
    }
    TRY(jrt_built(r, &built, out));
    return is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}

static status concat_lists(jrt *r, jvalue a, jvalue b, jvalue *out)
{
    TRY(jrt_spend(r, a.list->n + b.list->n));
    jlist *l = jlist_new(r->a, a.list->n + b.list->n);
    if (!l) return jrt_fail_memory(r);
    if (a.list->n) memcpy(l->items, a.list->items, (size_t)a.list->n * sizeof *l->items);
    if (b.list->n)
        memcpy(l->items + a.list->n, b.list->items, (size_t)b.list->n * sizeof *l->items);
    l->is_input = a.list->is_input && b.list->is_input;
    *out = (jvalue){.kind = a.kind, .list = l};
    return ERR_OK;
}

static status repeat_text(jrt *r, const jtext *t, int64_t n, jvalue *out)
{
    jbuilder b;
    jrt_builder(r, &b);
    if (n > 0 && t->s.len > 0 && (uint64_t)n > r->text_most / t->s.len)
        return jrt_fail(r, ERR_LIMIT, "a text longer than %zu bytes", r->text_most);
    for (int64_t i = 0; i < n && t->s.len && !b.failed; i++) jbuilder_put_text(&b, t);
    TRY(jrt_spend(r, n > 0 && t->s.len ? n : 0));
    TRY(jrt_built(r, &b, out));
    return t->is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}

static status repeat_list(jrt *r, jvalue v, int64_t n, jvalue *out)
{
    int64_t total;
    if (n < 0) n = 0;
    if (__builtin_mul_overflow(v.list->n, n, &total) || total > r->budget)
        return jrt_fail(r, ERR_LIMIT, "the template does more work than it may");
    TRY(jrt_spend(r, total));
    jlist *l = jlist_new(r->a, total);
    if (!l) return jrt_fail_memory(r);
    for (int64_t i = 0; i < total; i++) l->items[i] = v.list->items[i % v.list->n];
    *out = (jvalue){.kind = v.kind, .list = l};
    return ERR_OK;
}

static bool is_sequence(jvalue v)
{
    return v.kind == JVALUE_STR || v.kind == JVALUE_LIST || v.kind == JVALUE_TUPLE;
}

static status repeat(jrt *r, jvalue v, int64_t n, jvalue *out)
{
    return v.kind == JVALUE_STR ? repeat_text(r, v.s, n, out) : repeat_list(r, v, n, out);
}

status jop_binary(jrt *r, jop op, jvalue a, jvalue b, jvalue *out)
{
    int64_t n;
    if (jvalue_is_number(a) && jvalue_is_number(b)) {
        const char *why = jnumber_binary(op, a, b, out);
        return why ? jrt_fail(r, ERR_FORMAT, "%s", why) : ERR_OK;
    }
    if (op == JOP_ADD && a.kind == b.kind) {
        if (a.kind == JVALUE_STR) return jop_concat_text(r, a.s, b.s, out);
        if (a.kind == JVALUE_LIST || a.kind == JVALUE_TUPLE) return concat_lists(r, a, b, out);
    }
    if (op == JOP_MUL && is_sequence(a) && jvalue_to_int(b, &n)) return repeat(r, a, n, out);
    if (op == JOP_MUL && is_sequence(b) && jvalue_to_int(a, &n)) return repeat(r, b, n, out);
    if (op == JOP_MOD && a.kind == JVALUE_STR) return jformat_percent(r, a.s, b, out);
    return fail_operands(r, op, a, b);
}

status jop_unary(jrt *r, jop op, jvalue v, jvalue *out)
{
    if (!jvalue_is_number(v))
        return jrt_fail_type(r, op == JOP_NEG ? "object has no unary -" : "object has no unary +",
                             v);
    const char *why = jnumber_unary(op, v, out);
    return why ? jrt_fail(r, ERR_FORMAT, "%s", why) : ERR_OK;
}

/* Comparing costs what is compared, at most: charge for the smaller side. */
static status spend_on_pair(jrt *r, jvalue a, jvalue b)
{
    int64_t n = 0;
    if (a.kind == JVALUE_STR && b.kind == JVALUE_STR)
        n = (int64_t)(a.s->s.len < b.s->s.len ? a.s->s.len : b.s->s.len) / 16;
    else if (a.kind == b.kind && (a.kind == JVALUE_LIST || a.kind == JVALUE_TUPLE))
        n = a.list->n < b.list->n ? a.list->n : b.list->n;
    else if (a.kind == JVALUE_DICT && b.kind == JVALUE_DICT)
        n = a.dict->n;
    return jrt_spend(r, n);
}

status jop_compare(jrt *r, jop op, jvalue a, jvalue b, bool *out)
{
    int order;
    TRY(spend_on_pair(r, a, b));
    switch (op) {
    case JOP_EQ: *out = jvalue_equal(a, b); return ERR_OK;
    case JOP_NE: *out = !jvalue_equal(a, b); return ERR_OK;
    case JOP_IN: return jattr_contains(r, b, a, out);
    case JOP_NOT_IN:
        TRY(jattr_contains(r, b, a, out));
        *out = !*out;
        return ERR_OK;
    default: break;
    }
    if (!jvalue_compare(a, b, &order)) return fail_operands(r, op, a, b);
    *out = op == JOP_LT   ? order == -1
           : op == JOP_LE ? order == -1 || order == 0
           : op == JOP_GT ? order == 1
                          : order == 1 || order == 0;
    return ERR_OK;
}
