/* Expressions. */
#include "chat/jinja_call_priv.h"
#include "chat/jinja_iter_priv.h"

jvalue *jactivation_slot(jactivation *act, jref ref)
{
    for (int i = 0; i < ref.hops; i++) act = act->outer;
    return &act->slots[ref.slot];
}

static status eval_name(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    const jvalue *slot = jactivation_slot(s->act, n->name.ref);
    if (!jvalue_is_missing(*slot)) {
        *out = *slot;
        return ERR_OK;
    }
    return jrt_undefined(r, r->program->names.names[n->name.name], JVALUE_MISSING, NULL, out);
}

static status eval_list(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jlist *l = jlist_new(r->a, n->items.n);
    if (!l) return jrt_fail_memory(r);
    int64_t i = 0;
    for (const jnode *item = n->items.first; item; item = item->next)
        TRY(jeval(r, s, item, &l->items[i++]));
    *out = jvalue_list(l);
    if (n->kind == JNODE_TUPLE) out->kind = JVALUE_TUPLE;
    return ERR_OK;
}

static status eval_dict(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jdict *d = jdict_new(r->a, n->items.n / 2);
    if (!d) return jrt_fail_memory(r);
    for (const jnode *key = n->items.first; key; key = key->next->next) {
        jvalue k, v;
        uint64_t hash;
        TRY(jeval(r, s, key, &k));
        TRY(jeval(r, s, key->next, &v));
        if (!jvalue_hash(k, &hash)) return jrt_fail_type(r, "object is unhashable", k);
        if (!jdict_set(r->a, d, k, v)) return jrt_fail_memory(r);
    }
    *out = (jvalue){.kind = JVALUE_DICT, .dict = d};
    return ERR_OK;
}

static status eval_concat(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jbuilder b;
    jrt_builder(r, &b);
    for (const jnode *item = n->items.first; item; item = item->next) {
        jvalue v;
        TRY(jeval(r, s, item, &v));
        TRY(jprint_str(r, &b, v));
    }
    return jrt_built(r, &b, out);
}

/* a < b < c is a < b and b < c with b evaluated once. */
static status eval_compare(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jvalue left, right;
    bool is_true = true;
    TRY(jeval(r, s, n->compare.first, &left));
    for (const jnode *op = n->compare.rest.first; op && is_true; op = op->next) {
        TRY(jeval(r, s, op->pair.left, &right));
        r->pos = n->pos;
        TRY(jop_compare(r, op->op, left, right, &is_true));
        left = right;
    }
    *out = jvalue_bool(is_true);
    return ERR_OK;
}

static status eval_cond(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jvalue test;
    TRY(jeval(r, s, n->cond.test, &test));
    if (jvalue_is_true(test)) return jeval(r, s, n->cond.then, out);
    if (n->cond.otherwise) return jeval(r, s, n->cond.otherwise, out);
    return jrt_undefined(r, (str){"", 0}, JVALUE_MISSING,
                         "the inline if-expression was false and has no else", out);
}

static status eval_slice(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jvalue object, start = {0}, stop = {0}, step = {0};
    TRY(jeval(r, s, n->slice.object, &object));
    if (n->slice.start) TRY(jeval(r, s, n->slice.start, &start));
    if (n->slice.stop) TRY(jeval(r, s, n->slice.stop, &stop));
    if (n->slice.step) TRY(jeval(r, s, n->slice.step, &step));
    r->pos = n->pos;
    return jslice_get(r, object, start, stop, step, out);
}

static status push_named(jrt *r, jnamed *named, int *n, jnamed item)
{
    for (int i = 0; i < *n; i++)
        if (str_equal(named[i].name, item.name))
            return jrt_fail(r, ERR_FORMAT, "got multiple values for keyword argument '%.*s'",
                            (int)(item.name.len < 60 ? item.name.len : 60), item.name.ptr);
    named[(*n)++] = item;
    return ERR_OK;
}

static status eval_named(jrt *r, const jscope *s, const jargs *args, const jvalue *caller,
                         jvalue star_star, jcall *call)
{
    int64_t cap = args->named.n + (star_star.kind == JVALUE_DICT ? star_star.dict->n : 0) + 1;
    jnamed *named = arena_new_array(r->a, (size_t)cap, sizeof *named);
    if (!named) return jrt_fail_memory(r);
    int n = 0;
    for (const jnode *k = args->named.first; k; k = k->next) {
        jnamed item = {.name = r->program->names.names[k->keyword.name]};
        TRY(jeval(r, s, k->keyword.value, &item.value));
        TRY(push_named(r, named, &n, item));
    }
    for (int64_t i = 0; star_star.kind == JVALUE_DICT && i < star_star.dict->n; i++) {
        jvalue key = star_star.dict->keys[i];
        if (key.kind != JVALUE_STR) return jrt_fail(r, ERR_FORMAT, "keywords must be strings");
        TRY(jrt_spend(r, 1));
        TRY(push_named(r, named, &n, (jnamed){key.s->s, star_star.dict->values[i]}));
    }
    if (caller) TRY(push_named(r, named, &n, (jnamed){STR("caller"), *caller}));
    call->named = named;
    call->n_named = n;
    return ERR_OK;
}

status jeval_args(jrt *r, const jscope *s, const jargs *args, const jvalue *caller, jcall *call)
{
    jvalue star = {0}, star_star = {0};
    jlist *more = NULL;
    if (args->star) {
        TRY(jeval(r, s, args->star, &star));
        TRY(jiter_collect(r, star, &more));
    }
    if (args->star_star) {
        TRY(jeval(r, s, args->star_star, &star_star));
        if (star_star.kind != JVALUE_DICT)
            return jrt_fail_type(r, "object after ** is no mapping", star_star);
        if (star_star.dict->n > 1000) return jrt_fail(r, ERR_LIMIT, "too many keyword arguments");
    }
    int64_t n = args->positional.n + (more ? more->n : 0);
    if (n > INT32_MAX) return jrt_fail(r, ERR_LIMIT, "too many arguments");
    jvalue *positional = arena_new_array(r->a, (size_t)n + 1, sizeof *positional);
    if (!positional) return jrt_fail_memory(r);
    int64_t i = 0;
    for (const jnode *p = args->positional.first; p; p = p->next)
        TRY(jeval(r, s, p, &positional[i++]));
    for (int64_t k = 0; more && k < more->n; k++) positional[i++] = more->items[k];
    *call = (jcall){.positional = positional, .n = (int)n};
    if (!args->named.n && !args->star_star && !caller) return ERR_OK;
    return eval_named(r, s, args, caller, star_star, call);
}

status jeval_call(jrt *r, const jscope *s, const jnode *n, const jvalue *caller, jvalue *out)
{
    jvalue callee;
    jcall call;
    TRY(jeval(r, s, n->call.callee, &callee));
    TRY(jeval_args(r, s, &n->call.args, caller, &call));
    r->pos = n->pos;
    return jcall_value(r, callee, &call, out);
}

static status eval_filter(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jvalue object;
    jcall call;
    if (n->filter.object)
        TRY(jeval(r, s, n->filter.object, &object));
    else
        object = *s->block;
    TRY(jeval_args(r, s, &n->filter.args, NULL, &call));
    r->pos = n->pos;
    if (n->filter.builtin) return jbuiltin_call(r, n->filter.builtin, object, &call, out);
    str name = r->program->names.names[n->filter.name];
    return jrt_fail(r, ERR_UNSUPPORTED, "no %s named '%.*s'",
                    n->kind == JNODE_FILTER ? "filter" : "test",
                    (int)(name.len < 60 ? name.len : 60), name.ptr);
}

static status eval_pair(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jvalue left, right;
    TRY(jeval(r, s, n->pair.left, &left));
    switch (n->kind) {
    case JNODE_AND:
        if (jvalue_is_true(left)) return jeval(r, s, n->pair.right, out);
        *out = left;
        return ERR_OK;
    case JNODE_OR:
        if (!jvalue_is_true(left)) return jeval(r, s, n->pair.right, out);
        *out = left;
        return ERR_OK;
    case JNODE_NOT: *out = jvalue_bool(!jvalue_is_true(left)); return ERR_OK;
    case JNODE_UNARY: r->pos = n->pos; return jop_unary(r, n->op, left, out);
    default:
        TRY(jeval(r, s, n->pair.right, &right));
        r->pos = n->pos;
        return jop_binary(r, n->op, left, right, out);
    }
}

static status eval_lookup(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    jvalue object, index;
    bool is_attr = n->kind == JNODE_ATTR;
    TRY(jeval(r, s, is_attr ? n->attr.object : n->item.object, &object));
    if (!is_attr) TRY(jeval(r, s, n->item.index, &index));
    r->pos = n->pos;
    return is_attr ? jattr_get(r, object, n->attr.name, out) : jitem_get(r, object, index, out);
}

static status eval(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    switch (n->kind) {
    case JNODE_CONST: *out = n->constant; return ERR_OK;
    case JNODE_NAME: return eval_name(r, s, n, out);
    case JNODE_TUPLE:
    case JNODE_LIST: return eval_list(r, s, n, out);
    case JNODE_DICT: return eval_dict(r, s, n, out);
    case JNODE_CONCAT: return eval_concat(r, s, n, out);
    case JNODE_COMPARE: return eval_compare(r, s, n, out);
    case JNODE_COND: return eval_cond(r, s, n, out);
    case JNODE_ATTR:
    case JNODE_ITEM: return eval_lookup(r, s, n, out);
    case JNODE_SLICE: return eval_slice(r, s, n, out);
    case JNODE_CALL: return jeval_call(r, s, n, NULL, out);
    case JNODE_FILTER:
    case JNODE_TEST: return eval_filter(r, s, n, out);
    default: return eval_pair(r, s, n, out);
    }
}

status jeval(jrt *r, const jscope *s, const jnode *n, jvalue *out)
{
    r->pos = n->pos;
    TRY(jrt_spend(r, 1));
    TRY(jrt_enter(r));
    status st = eval(r, s, n, out);
    jrt_leave(r);
    return st;
}
