#include "chat/jinja_iter_priv.h"

#include "chat/jinja_unicode_priv.h"

status jgrow_push(jrt *r, jgrow *g, jvalue v)
{
    if (g->n == g->cap) {
        int64_t cap = g->cap ? g->cap * 2 : 8;
        jvalue *items = arena_new_array(r->a, (size_t)cap, sizeof *items);
        if (!items) return jrt_fail_memory(r);
        if (g->n) memcpy(items, g->items, (size_t)g->n * sizeof *items);
        g->items = items;
        g->cap = cap;
    }
    g->items[g->n++] = v;
    return ERR_OK;
}

status jgrow_list(jrt *r, const jgrow *g, jlist **out)
{
    jlist *l = jlist_new(r->a, 0);
    if (!l) return jrt_fail_memory(r);
    l->items = g->items;
    l->n = g->n;
    *out = l;
    return ERR_OK;
}

status jiter_pair(jrt *r, jvalue a, jvalue b, jvalue *out)
{
    jlist *pair = jlist_new(r->a, 2);
    if (!pair) return jrt_fail_memory(r);
    pair->items[0] = a;
    pair->items[1] = b;
    *out = (jvalue){.kind = JVALUE_TUPLE, .list = pair};
    return ERR_OK;
}

static status next_of_list(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    (void)r;
    const jlist *l = it->source.list;
    *has_item = it->at < l->n;
    if (*has_item) *item = l->items[it->at++];
    return ERR_OK;
}

static status next_of_str(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    const jtext *t = it->source.s;
    *has_item = (size_t)it->at < t->s.len;
    if (!*has_item) return ERR_OK;
    uint32_t cp;
    size_t from = (size_t)it->at, to = from + (size_t)junicode_at(t->s, from, &cp);
    const jtext *one = jtext_slice(r->a, t, from, to);
    if (one) one = jtext_mark(r->a, one, false); /* iterating over Markup gives plain characters */
    if (!one) return jrt_fail_memory(r);
    it->at = (int64_t)to;
    *item = jvalue_text(one);
    return ERR_OK;
}

static status next_of_dict(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    const jdict *d = it->source.dict;
    *has_item = it->at < d->n;
    if (!*has_item) return ERR_OK;
    int64_t i = it->at++;
    bool is_view = it->source.kind == JVALUE_VIEW;
    if (is_view && it->source.view == JVIEW_ITEMS)
        return jiter_pair(r, d->keys[i], d->values[i], item);
    *item = is_view && it->source.view == JVIEW_VALUES ? d->values[i] : d->keys[i];
    return ERR_OK;
}

static status next_of_range(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    (void)r;
    const jrange *range = it->source.range;
    *has_item = it->at < range->n;
    if (*has_item) *item = jvalue_int(range->start + it->at++ * range->step);
    return ERR_OK;
}

static status next_of_nothing(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    (void)r, (void)it, (void)item;
    *has_item = false;
    return ERR_OK;
}

static jiter_fn *find_next(jvalue v)
{
    switch (v.kind) {
    case JVALUE_LIST:
    case JVALUE_TUPLE: return next_of_list;
    case JVALUE_STR: return next_of_str;
    case JVALUE_DICT:
    case JVALUE_VIEW: return next_of_dict;
    case JVALUE_RANGE: return next_of_range;
    case JVALUE_UNDEFINED: return next_of_nothing;
    default: return NULL;
    }
}

bool jiter_can(jvalue v)
{
    return v.kind == JVALUE_ITER || v.kind == JVALUE_LOOP || find_next(v) != NULL;
}

status jiter_open(jrt *r, jvalue v, jiter **out)
{
    if (v.kind == JVALUE_ITER) {
        *out = v.iter;
        return ERR_OK;
    }
    jiter_fn *next = find_next(v);
    if (!next) return jrt_fail_type(r, "object is not iterable", v);
    jiter *it = arena_new(r->a, sizeof *it);
    if (!it) return jrt_fail_memory(r);
    *it = (jiter){.next = next, .source = v};
    *out = it;
    return ERR_OK;
}

status jiter_next(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    TRY(jrt_spend(r, 1));
    /* A filter over a filter over … is as deep as the template made it. */
    TRY(jrt_enter(r));
    status s = it->next(r, it, item, has_item);
    jrt_leave(r);
    return s;
}

status jiter_collect(jrt *r, jvalue v, jlist **out)
{
    jiter *it = NULL;
    jgrow g = {0};
    TRY(jiter_open(r, v, &it));
    for (;;) {
        jvalue item;
        bool has_item = false;
        TRY(jiter_next(r, it, &item, &has_item));
        if (!has_item) break;
        TRY(jgrow_push(r, &g, item));
    }
    return jgrow_list(r, &g, out);
}

status jiter_new(jrt *r, jiter_fn *fn, jvalue source, void *state, jvalue *out)
{
    jiter *it = arena_new(r->a, sizeof *it);
    if (!it) return jrt_fail_memory(r);
    *it = (jiter){.next = fn, .source = source, .state = state};
    *out = (jvalue){.kind = JVALUE_ITER, .iter = it};
    return ERR_OK;
}
