/* Filters that call a filter or test on every item, lazily: map, select and their kin. */
#include "chat/jinja_filter_priv.h"

/* What an iterator of this file does with each item; set up when the first one is asked for. */
typedef struct {
    bool is_started, is_empty;
    bool is_reject, wants_attr;
    const jcall *call;
    jcall rest;  /* arguments of the filter or test */
    jvalue path; /* attribute to look at, or MISSING */
    jvalue fallback;
    const jbuiltin *builtin; /* NULL: the item itself, or its truth */
} pick_state;

/* The arguments of a filter call outlive the call. */
static status keep_call(jrt *r, const jcall *call, const jcall **out)
{
    jcall *copy = arena_new(r->a, sizeof *copy);
    if (!copy) return jrt_fail_memory(r);
    *copy = *call; /* its arrays are in the arena */
    *out = copy;
    return ERR_OK;
}

static status fail_unknown(jrt *r, const char *what, jvalue name)
{
    str s = name.kind == JVALUE_STR ? name.s->s : str_from(jvalue_type_name(name));
    return jrt_fail(r, ERR_UNSUPPORTED, "no %s named '%.*s'", what, (int)(s.len < 60 ? s.len : 60),
                    s.ptr);
}

static jcall call_after(const jcall *call, int n)
{
    jcall rest = *call;
    rest.positional += n;
    rest.n -= n;
    return rest;
}

static status start_map(jrt *r, pick_state *p)
{
    const jcall *call = p->call;
    bool by_attribute = false;
    for (int i = 0; i < call->n_named && call->n == 0; i++)
        by_attribute |= str_is(call->named[i].name, "attribute");
    if (by_attribute) {
        for (int i = 0; i < call->n_named; i++) {
            if (str_is(call->named[i].name, "attribute"))
                p->path = call->named[i].value;
            else if (str_is(call->named[i].name, "default"))
                p->fallback = call->named[i].value;
            else
                return jrt_fail(r, ERR_FORMAT, "map: unexpected keyword argument");
        }
        return ERR_OK;
    }
    if (call->n == 0) return jrt_fail(r, ERR_FORMAT, "map requires a filter argument");
    jvalue name = call->positional[0];
    p->builtin = name.kind == JVALUE_STR ? jfilter_find(name.s->s) : NULL;
    if (!p->builtin) return fail_unknown(r, "filter", name);
    p->rest = call_after(call, 1);
    return ERR_OK;
}

static status start_select(jrt *r, pick_state *p)
{
    const jcall *call = p->call;
    int at = 0;
    if (p->wants_attr) {
        if (call->n == 0) return jrt_fail(r, ERR_FORMAT, "missing parameter for attribute name");
        p->path = call->positional[at++];
    }
    if (call->n == at) return ERR_OK;
    jvalue name = call->positional[at++];
    p->builtin = name.kind == JVALUE_STR ? jtest_find(name.s->s) : NULL;
    if (!p->builtin) return fail_unknown(r, "test", name);
    p->rest = call_after(call, at);
    return ERR_OK;
}

static status start(jrt *r, jiter *it, status (*prepare)(jrt *, pick_state *))
{
    pick_state *p = it->state;
    if (p->is_started) return ERR_OK;
    p->is_started = true;
    p->is_empty = !jvalue_is_true(it->source);
    if (p->is_empty) return ERR_OK;
    TRY(prepare(r, p));
    return jiter_open(r, it->source, &it->inner);
}

static status next_mapped(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    pick_state *p = it->state;
    jvalue source;
    TRY(start(r, it, start_map));
    *has_item = false;
    if (p->is_empty) return ERR_OK;
    TRY(jiter_next(r, it->inner, &source, has_item));
    if (!*has_item) return ERR_OK;
    if (p->builtin) return jbuiltin_call(r, p->builtin, source, &p->rest, item);
    return jpath_get(r, p->path, p->fallback, source, item);
}

static status next_selected(jrt *r, jiter *it, jvalue *item, bool *has_item)
{
    pick_state *p = it->state;
    TRY(start(r, it, start_select));
    *has_item = false;
    if (p->is_empty) return ERR_OK;
    for (;;) {
        jvalue tested, result;
        TRY(jiter_next(r, it->inner, item, has_item));
        if (!*has_item) return ERR_OK;
        TRY(jpath_get(r, p->path, (jvalue){0}, *item, &tested));
        result = tested;
        if (p->builtin) TRY(jbuiltin_call(r, p->builtin, tested, &p->rest, &result));
        if (jvalue_is_true(result) != p->is_reject) return ERR_OK;
    }
}

static status open_pick(jrt *r, jiter_fn *next, jvalue self, const jcall *call, bool is_reject,
                        bool wants_attr, jvalue *out)
{
    pick_state *p = arena_new(r->a, sizeof *p);
    if (!p) return jrt_fail_memory(r);
    *p = (pick_state){.is_reject = is_reject, .wants_attr = wants_attr};
    TRY(keep_call(r, call, &p->call));
    return jiter_new(r, next, self, p, out);
}

static status f_map(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a;
    return open_pick(r, next_mapped, self, call, false, false, out);
}

static status f_select(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a;
    return open_pick(r, next_selected, self, call, false, false, out);
}

static status f_reject(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a;
    return open_pick(r, next_selected, self, call, true, false, out);
}

static status f_selectattr(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a;
    return open_pick(r, next_selected, self, call, false, true, out);
}

static status f_rejectattr(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a;
    return open_pick(r, next_selected, self, call, true, true, out);
}

const jbuiltin jfilters_pick[] = {
    {"map", f_map, NULL},
    {"reject", f_reject, NULL},
    {"rejectattr", f_rejectattr, NULL},
    {"select", f_select, NULL},
    {"selectattr", f_selectattr, NULL},
    {0},
};
