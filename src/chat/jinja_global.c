/* Functions that every template can call. */
#include <time.h>

#include "chat/jinja_filter_priv.h"

enum { RANGE_MOST = 100000 }; /* of jinja2's sandbox */

static status g_range(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)self, (void)a;
    int64_t v[3] = {0, 0, 1};
    if (call->n < 1 || call->n > 3 || call->n_named)
        return jrt_fail(r, ERR_FORMAT, "range() takes 1 to 3 positional arguments");
    for (int i = 0; i < call->n; i++) {
        if (call->positional[i].kind == JVALUE_MISSING) return jrt_fail(r, ERR_FORMAT, "range()");
        TRY(jarg_int(r, call->positional[i], "range()'s argument", &v[i]));
    }
    if (call->n == 1) {
        v[1] = v[0];
        v[0] = 0;
    }
    if (v[2] == 0) return jrt_fail(r, ERR_FORMAT, "range() arg 3 must not be zero");
    bool is_empty = v[2] > 0 ? v[0] >= v[1] : v[0] <= v[1];
    uint64_t span = v[2] > 0 ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
    uint64_t step = v[2] > 0 ? (uint64_t)v[2] : 0 - (uint64_t)v[2];
    uint64_t n = is_empty ? 0 : (span - 1) / step + 1;
    if (n > RANGE_MOST)
        return jrt_fail(r, ERR_FORMAT, "range too big: more than %d items", RANGE_MOST);
    jrange *range = arena_new(r->a, sizeof *range);
    if (!range) return jrt_fail_memory(r);
    *range = (jrange){v[0], v[1], v[2], (int64_t)n};
    *out = (jvalue){.kind = JVALUE_RANGE, .range = range};
    return ERR_OK;
}

static status add_pair(jrt *r, jdict *d, jvalue key, jvalue value)
{
    uint64_t hash;
    if (!jvalue_hash(key, &hash)) return jrt_fail_type(r, "object is unhashable", key);
    return jdict_set(r->a, d, key, value) ? ERR_OK : jrt_fail_memory(r);
}

static status add_pairs(jrt *r, jdict *d, jvalue from)
{
    if (from.kind == JVALUE_UNDEFINED) return jrt_fail_undefined(r, from);
    if (from.kind == JVALUE_DICT) {
        TRY(jrt_spend(r, from.dict->n));
        for (int64_t i = 0; i < from.dict->n; i++)
            TRY(add_pair(r, d, from.dict->keys[i], from.dict->values[i]));
        return ERR_OK;
    }
    jlist *pairs = NULL;
    TRY(jiter_collect(r, from, &pairs));
    for (int64_t i = 0; i < pairs->n; i++) {
        jlist *pair = NULL;
        TRY(jiter_collect(r, pairs->items[i], &pair));
        if (pair->n != 2) return jrt_fail(r, ERR_FORMAT, "dictionary update sequence wants pairs");
        TRY(add_pair(r, d, pair->items[0], pair->items[1]));
    }
    return ERR_OK;
}

static status make_dict(jrt *r, const jcall *call, jdict **out)
{
    jdict *d = jdict_new(r->a, call->n_named);
    if (!d) return jrt_fail_memory(r);
    if (call->n > 1) return jrt_fail(r, ERR_FORMAT, "dict expected at most 1 argument");
    if (call->n == 1) TRY(add_pairs(r, d, call->positional[0]));
    for (int i = 0; i < call->n_named; i++) {
        jvalue key;
        TRY(jrt_text(r, call->named[i].name, &key));
        TRY(add_pair(r, d, key, call->named[i].value));
    }
    *out = d;
    return ERR_OK;
}

static status g_dict(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)self, (void)a;
    jdict *d = NULL;
    TRY(make_dict(r, call, &d));
    *out = (jvalue){.kind = JVALUE_DICT, .dict = d};
    return ERR_OK;
}

static status g_namespace(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    TRY(g_dict(r, self, a, call, out));
    out->kind = JVALUE_NAMESPACE;
    return ERR_OK;
}

static status g_cycler(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)self, (void)a;
    if (call->n_named) return jrt_fail(r, ERR_FORMAT, "cycler() takes no keyword arguments");
    if (!call->n) return jrt_fail(r, ERR_FORMAT, "at least one item has to be provided");
    jcycler *c = arena_new(r->a, sizeof *c);
    jlist *items = jlist_new(r->a, call->n);
    if (!c || !items) return jrt_fail_memory(r);
    for (int i = 0; i < call->n; i++) items->items[i] = call->positional[i];
    c->items = items;
    *out = (jvalue){.kind = JVALUE_CYCLER, .cycler = c};
    return ERR_OK;
}

static status g_joiner(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)self, (void)call;
    static const jtext comma = {.s = {", ", 2}};
    jjoiner *j = arena_new(r->a, sizeof *j);
    if (!j) return jrt_fail_memory(r);
    j->sep = &comma;
    TRY(jarg_text(r, a[0], "sep", &j->sep));
    *out = (jvalue){.kind = JVALUE_JOINER, .joiner = j};
    return ERR_OK;
}

/* The template refuses its input: the message is its author's. */
static status g_raise_exception(jrt *r, jvalue self, const jvalue *a, const jcall *call,
                                jvalue *out)
{
    (void)self, (void)call, (void)out;
    const jtext *t = NULL;
    TRY(jprint_text(r, a[0], &t));
    int n = (int)(t->s.len < 200 ? t->s.len : 200);
    return err_set(r->e, ERR_FORMAT, r->program->source.name, r->pos, "%.*s", n, t->s.ptr);
}

static status g_strftime_now(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)self, (void)call;
    const jtext *format = NULL;
    TRY(jarg_text(r, a[0], "format", &format));
    char text[512], *copy = arena_copy(r->a, format->s.ptr, format->s.len);
    if (!copy) return jrt_fail_memory(r);
    if (format->s.len > 200) return jrt_fail(r, ERR_LIMIT, "a date format of more than 200 bytes");
    time_t now = (time_t)r->now_s;
    struct tm tm;
    localtime_r(&now, &tm);
    size_t n = strftime(text, sizeof text, copy, &tm);
    return jrt_text(r, (str){text, n}, out);
}

const jbuiltin *jglobal_find(str name)
{
    static const jbuiltin globals[] = {
        {"cycler", g_cycler, NULL},
        {"dict", g_dict, NULL},
        {"joiner", g_joiner, "sep="},
        {"namespace", g_namespace, NULL},
        {"raise_exception", g_raise_exception, "message"},
        {"range", g_range, NULL},
        {"strftime_now", g_strftime_now, "format"},
        {0},
    };
    return jbuiltin_in(globals, name);
}
