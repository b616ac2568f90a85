#include "chat/jinja_call_priv.h"

#include "chat/jinja_loop_priv.h"

/* ---- builtins ---- */

typedef struct {
    str name;
    bool is_optional, is_positional_only;
} param;

static int read_params(const char *text, param *params)
{
    int n = 0;
    while (*text) {
        size_t len = strcspn(text, " ");
        param p = {.name = {text, len}};
        if (p.name.ptr[0] == '.') {
            p.is_positional_only = true;
            p.name = str_skip(p.name, 1);
        }
        if (p.name.len && p.name.ptr[p.name.len - 1] == '=') {
            p.is_optional = true;
            p.name.len--;
        }
        params[n++] = p;
        text += len;
        text += *text == ' ';
    }
    return n;
}

static status bind(jrt *r, const jbuiltin *b, const jcall *call, jvalue *a)
{
    param params[JBUILTIN_PARAMS_MOST];
    int n = read_params(b->params, params);
    if (call->n > n)
        return jrt_fail(r, ERR_FORMAT, "%s() takes at most %d arguments (%d given)", b->name, n,
                        call->n);
    for (int i = 0; i < call->n; i++) a[i] = call->positional[i];
    for (int k = 0; k < call->n_named; k++) {
        const jnamed *named = &call->named[k];
        int i = 0;
        while (i < n && (params[i].is_positional_only || !str_equal(params[i].name, named->name)))
            i++;
        int len = (int)(named->name.len < 60 ? named->name.len : 60);
        if (i == n)
            return jrt_fail(r, ERR_FORMAT, "%s() got an unexpected keyword argument '%.*s'",
                            b->name, len, named->name.ptr);
        if (!jvalue_is_missing(a[i]))
            return jrt_fail(r, ERR_FORMAT, "%s() got multiple values for argument '%.*s'", b->name,
                            len, named->name.ptr);
        a[i] = named->value;
    }
    for (int i = 0; i < n; i++)
        if (jvalue_is_missing(a[i]) && !params[i].is_optional)
            return jrt_fail(r, ERR_FORMAT, "%s() misses its argument '%.*s'", b->name,
                            (int)params[i].name.len, params[i].name.ptr);
    return ERR_OK;
}

status jbuiltin_call(jrt *r, const jbuiltin *b, jvalue self, const jcall *call, jvalue *out)
{
    jvalue a[JBUILTIN_PARAMS_MOST] = {{0}};
    if (b->params) TRY(bind(r, b, call, a));
    return b->fn(r, self, a, call, out);
}

const jbuiltin *jbuiltin_in(const jbuiltin *table, str name)
{
    for (; table->name; table++)
        if (str_is(name, table->name)) return table;
    return NULL;
}

status jarg_int(jrt *r, jvalue v, const char *what, int64_t *out)
{
    if (jvalue_is_missing(v) || jvalue_to_int(v, out)) return ERR_OK;
    if (v.kind == JVALUE_UNDEFINED) return jrt_fail_undefined(r, v);
    return jrt_fail(r, ERR_FORMAT, "%s must be an integer, not %s", what, jvalue_type_name(v));
}

status jarg_bool(jrt *r, jvalue v, bool *out)
{
    (void)r;
    if (!jvalue_is_missing(v)) *out = jvalue_is_true(v);
    return ERR_OK;
}

status jarg_text(jrt *r, jvalue v, const char *what, const jtext **out)
{
    if (jvalue_is_missing(v)) return ERR_OK;
    if (v.kind == JVALUE_UNDEFINED) return jrt_fail_undefined(r, v);
    if (v.kind != JVALUE_STR)
        return jrt_fail(r, ERR_FORMAT, "%s must be a string, not %s", what, jvalue_type_name(v));
    *out = v.s;
    return ERR_OK;
}

/* ---- macros ---- */

static bool take_named(const jcall *call, bool *is_taken, str name, jvalue *out)
{
    for (int i = 0; i < call->n_named; i++) {
        if (is_taken[i] || !str_equal(call->named[i].name, name)) continue;
        is_taken[i] = true;
        *out = call->named[i].value;
        return true;
    }
    return false;
}

static status bind_kwargs(jrt *r, const jmacro_def *def, const jcall *call, const bool *is_taken,
                          jactivation *act)
{
    jdict *kwargs = NULL;
    if (def->kwargs >= 0) {
        if (!(kwargs = jdict_new(r->a, call->n_named))) return jrt_fail_memory(r);
        act->slots[def->kwargs] = (jvalue){.kind = JVALUE_DICT, .dict = kwargs};
    }
    for (int i = 0; i < call->n_named; i++) {
        if (is_taken[i]) continue;
        str name = call->named[i].name;
        if (!kwargs)
            return jrt_fail(r, ERR_FORMAT, "macro takes no keyword argument '%.*s'",
                            (int)(name.len < 60 ? name.len : 60), name.ptr);
        jvalue key;
        TRY(jrt_text(r, name, &key));
        if (!jdict_set(r->a, kwargs, key, call->named[i].value)) return jrt_fail_memory(r);
    }
    return ERR_OK;
}

static status bind_varargs(jrt *r, const jmacro_def *def, const jcall *call, jactivation *act)
{
    int n = call->n > def->params.n ? call->n - def->params.n : 0;
    if (def->varargs < 0) {
        if (n == 0) return ERR_OK;
        return jrt_fail(r, ERR_FORMAT, "macro takes not more than %d argument(s)", def->params.n);
    }
    jlist *l = jlist_new(r->a, n);
    if (!l) return jrt_fail_memory(r);
    for (int i = 0; i < n; i++) l->items[i] = call->positional[def->params.n + i];
    act->slots[def->varargs] = (jvalue){.kind = JVALUE_TUPLE, .list = l};
    return ERR_OK;
}

/* Put the arguments into the slots of a fresh activation; what was not given stays MISSING. */
static status bind_macro(jrt *r, const jmacro_def *def, const jcall *call, jactivation *act)
{
    bool *is_taken = arena_new(r->a, (size_t)call->n_named + 1);
    if (!is_taken) return jrt_fail_memory(r);
    int i = 0;
    for (const jnode *p = def->params.first; p; p = p->next, i++) {
        jvalue *slot = &act->slots[p->name.ref.slot];
        if (i < call->n)
            *slot = call->positional[i];
        else
            take_named(call, is_taken, r->program->names.names[p->name.name], slot);
    }
    if (def->caller >= 0) {
        jvalue *slot = &act->slots[def->caller];
        bool given = take_named(call, is_taken, STR("caller"), slot);
        if (!given || slot->kind == JVALUE_NONE)
            TRY(jrt_undefined(r, STR("caller"), JVALUE_MISSING, "No caller defined", slot));
    }
    TRY(bind_kwargs(r, def, call, is_taken, act));
    return bind_varargs(r, def, call, act);
}

static status fill_defaults(jrt *r, const jscope *s, const jmacro_def *def)
{
    const jnode *value = NULL;
    int i = 0;
    for (const jnode *p = def->params.first; p; p = p->next, i++) {
        if (i == def->params.n - def->defaults.n) value = def->defaults.first;
        jvalue *slot = &s->act->slots[p->name.ref.slot];
        if (jvalue_is_missing(*slot)) {
            jvalue v;
            if (value)
                TRY(jeval(r, s, value, &v));
            else
                TRY(jrt_undefined(r, r->program->names.names[p->name.name], JVALUE_MISSING, NULL,
                                  &v));
            *slot = v;
        }
        if (value) value = value->next;
    }
    return ERR_OK;
}

status jcall_macro(jrt *r, const jmacro *m, const jcall *call, jvalue *out)
{
    jactivation *act = NULL;
    jbuilder b;
    jflow flow = JFLOW_NEXT;
    TRY(jexec_new_activation(r, m->outer, &m->def->func, &act));
    TRY(bind_macro(r, m->def, call, act));
    jrt_builder(r, &b);
    jscope s = {act, &b, NULL};
    TRY(jexec_enter_frame(r, &s, &m->def->frame));
    TRY(fill_defaults(r, &s, m->def));
    TRY(jexec(r, &s, m->def->body.first, &flow));
    return jrt_built(r, &b, out);
}

static status call_joiner(jrt *r, jjoiner *j, const jcall *call, jvalue *out)
{
    if (call->n || call->n_named) return jrt_fail(r, ERR_FORMAT, "a joiner takes no arguments");
    if (j->is_used) {
        *out = jvalue_text(j->sep);
        return ERR_OK;
    }
    j->is_used = true;
    return jrt_c_text(r, "", out);
}

status jcall_value(jrt *r, jvalue callee, const jcall *call, jvalue *out)
{
    status s;
    TRY(jrt_enter(r));
    switch (callee.kind) {
    case JVALUE_BUILTIN: s = jbuiltin_call(r, callee.builtin, (jvalue){0}, call, out); break;
    case JVALUE_METHOD:
        s = jbuiltin_call(r, callee.method->builtin, callee.method->self, call, out);
        break;
    case JVALUE_MACRO: s = jcall_macro(r, callee.macro, call, out); break;
    case JVALUE_LOOP: s = jloop_call(r, callee.loop, call, out); break;
    case JVALUE_JOINER: s = call_joiner(r, callee.joiner, call, out); break;
    default: s = jrt_fail_type(r, "object is not callable", callee); break;
    }
    jrt_leave(r);
    return s;
}
