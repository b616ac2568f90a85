/* Methods of str that cut it into pieces. */
#include "chat/jinja_filter_priv.h"
#include "chat/jinja_unicode_priv.h"

static status push_slice(jrt *r, jgrow *g, const jtext *t, size_t from, size_t to)
{
    jvalue part;
    TRY(jrt_spend(r, 1));
    TRY(jslice_text(r, t, from, to, &part));
    return jgrow_push(r, g, part);
}

static status split_spaces(jrt *r, const jtext *t, int64_t most, jgrow *g)
{
    uint32_t cp;
    size_t at = 0;
    for (;;) {
        while (at < t->s.len) {
            size_t n = (size_t)junicode_at(t->s, at, &cp);
            if (!junicode_is_space(cp)) break;
            at += n;
        }
        if (at == t->s.len) return ERR_OK;
        size_t from = at;
        if (g->n == most) return push_slice(r, g, t, from, t->s.len);
        while (at < t->s.len) {
            size_t n = (size_t)junicode_at(t->s, at, &cp);
            if (junicode_is_space(cp)) break;
            at += n;
        }
        TRY(push_slice(r, g, t, from, at));
    }
}

static status split_spaces_right(jrt *r, const jtext *t, int64_t most, jgrow *g)
{
    uint32_t cp;
    size_t end = t->s.len;
    for (;;) {
        while (end > 0) {
            size_t at = junicode_before(t->s, end);
            junicode_at(t->s, at, &cp);
            if (!junicode_is_space(cp)) break;
            end = at;
        }
        if (end == 0) return ERR_OK;
        size_t to = end;
        if (g->n == most) return push_slice(r, g, t, 0, to);
        while (end > 0) {
            size_t at = junicode_before(t->s, end);
            junicode_at(t->s, at, &cp);
            if (junicode_is_space(cp)) break;
            end = at;
        }
        TRY(push_slice(r, g, t, end, to));
    }
}

static status split_at(jrt *r, const jtext *t, str sep, int64_t most, jgrow *g)
{
    size_t from = 0;
    while (g->n != most) {
        int64_t at = str_find(t->s, sep, from);
        if (at < 0) break;
        TRY(push_slice(r, g, t, from, (size_t)at));
        from = (size_t)at + sep.len;
    }
    return push_slice(r, g, t, from, t->s.len);
}

static status split_at_right(jrt *r, const jtext *t, str sep, int64_t most, jgrow *g)
{
    size_t to = t->s.len;
    for (size_t at = t->s.len; g->n != most && at >= sep.len; at--) {
        size_t from = at - sep.len;
        if (memcmp(t->s.ptr + from, sep.ptr, sep.len) != 0) continue;
        TRY(push_slice(r, g, t, at, to));
        to = from;
        at = from + 1;
    }
    return push_slice(r, g, t, 0, to);
}

static void reverse_list(jgrow *g)
{
    for (int64_t i = 0, k = g->n - 1; i < k; i++, k--) {
        jvalue v = g->items[i];
        g->items[i] = g->items[k];
        g->items[k] = v;
    }
}

static status split(jrt *r, jvalue self, const jvalue *a, bool from_right, jvalue *out)
{
    const jtext *sep = NULL;
    int64_t most = -1;
    jgrow g = {0};
    jlist *l = NULL;
    if (a[0].kind != JVALUE_NONE) TRY(jarg_text(r, a[0], "the separator", &sep));
    TRY(jarg_int(r, a[1], "maxsplit", &most));
    if (most < 0) most = -1;
    if (sep && sep->s.len == 0) return jrt_fail(r, ERR_FORMAT, "empty separator");
    TRY(jrt_spend(r, (int64_t)self.s->s.len / 8));
    if (!sep)
        TRY(from_right ? split_spaces_right(r, self.s, most, &g)
                       : split_spaces(r, self.s, most, &g));
    else
        TRY(from_right ? split_at_right(r, self.s, sep->s, most, &g)
                       : split_at(r, self.s, sep->s, most, &g));
    if (from_right) reverse_list(&g);
    TRY(jgrow_list(r, &g, &l));
    *out = jvalue_list(l);
    return ERR_OK;
}

static status m_split(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return split(r, self, a, false, out);
}

static status m_rsplit(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return split(r, self, a, true, out);
}

static status m_splitlines(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    bool keep_ends = false;
    size_t at = 0, from, to;
    jgrow g = {0};
    jlist *l = NULL;
    TRY(jarg_bool(r, a[0], &keep_ends));
    TRY(jrt_spend(r, (int64_t)self.s->s.len / 8));
    while (jnext_line(self.s->s, &at, &from, &to))
        TRY(push_slice(r, &g, self.s, from, keep_ends ? at : to));
    TRY(jgrow_list(r, &g, &l));
    *out = jvalue_list(l);
    return ERR_OK;
}

static status partition(jrt *r, jvalue self, const jvalue *a, bool from_right, jvalue *out)
{
    const jtext *sep = NULL, *t = self.s;
    TRY(jarg_text(r, a[0], "the separator", &sep));
    if (sep->s.len == 0) return jrt_fail(r, ERR_FORMAT, "empty separator");
    TRY(jrt_spend(r, (int64_t)t->s.len / 8));
    int64_t at = str_find(t->s, sep->s, 0);
    for (int64_t next = at; from_right && next >= 0;) {
        at = next;
        next = str_find(t->s, sep->s, (size_t)at + 1);
    }
    size_t n = t->s.len, first = at < 0 ? (from_right ? 0 : n) : (size_t)at;
    size_t second = at < 0 ? first : first + sep->s.len;
    jlist *l = jlist_new(r->a, 3);
    if (!l) return jrt_fail_memory(r);
    TRY(jslice_text(r, t, 0, first, &l->items[0]));
    TRY(jslice_text(r, t, first, second, &l->items[1]));
    TRY(jslice_text(r, t, second, n, &l->items[2]));
    *out = (jvalue){.kind = JVALUE_TUPLE, .list = l};
    return ERR_OK;
}

static status m_partition(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return partition(r, self, a, false, out);
}

static status m_rpartition(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return partition(r, self, a, true, out);
}

static status m_expandtabs(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    int64_t size = 8, column = 0;
    jbuilder b;
    uint32_t cp;
    const jtext *t = self.s;
    TRY(jarg_int(r, a[0], "tabsize", &size));
    if (size > 1000) return jrt_fail(r, ERR_LIMIT, "tabs wider than 1000");
    jrt_builder(r, &b);
    for (size_t at = 0; at < t->s.len && !b.failed;) {
        size_t n = (size_t)junicode_at(t->s, at, &cp);
        if (cp == '\t') {
            for (int64_t fill = size > 0 ? size - column % size : 0; fill > 0; fill--, column++)
                jbuilder_put_byte(&b, ' ', jtext_is_input_at(t, at));
        } else {
            jbuilder_put_slice(&b, t, at, at + n);
            column = cp == '\n' || cp == '\r' ? 0 : column + 1;
        }
        at += n;
    }
    TRY(jrt_built(r, &b, out));
    return t->is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}

const jbuiltin jmethods_str_split[] = {
    {"expandtabs", m_expandtabs, "tabsize="},
    {"partition", m_partition, ".sep"},
    {"rpartition", m_rpartition, ".sep"},
    {"rsplit", m_rsplit, "sep= maxsplit="},
    {"split", m_split, "sep= maxsplit="},
    {"splitlines", m_splitlines, "keepends="},
    {0},
};
