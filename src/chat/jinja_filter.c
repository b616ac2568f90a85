#include "chat/jinja_filter_priv.h"

const jbuiltin *jfilter_find(str name)
{
    const jbuiltin *const tables[] = {jfilters_value, jfilters_text, jfilters_seq, jfilters_pick,
                                      jfilters_order};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const jbuiltin *b = jbuiltin_in(tables[i], name);
        if (b) return b;
    }
    return NULL;
}

void jfilter_put_escaped(jbuilder *b, const jtext *t)
{
    if (t->is_safe) {
        jbuilder_put_text(b, t);
        return;
    }
    jtext_walk w = {0};
    str piece;
    bool is_input;
    while (jtext_next(t, &w, &piece, &is_input)) {
        size_t from = 0;
        for (size_t i = 0; i < piece.len; i++) {
            const char *entity = piece.ptr[i] == '&'    ? "&amp;"
                                 : piece.ptr[i] == '<'  ? "&lt;"
                                 : piece.ptr[i] == '>'  ? "&gt;"
                                 : piece.ptr[i] == '\'' ? "&#39;"
                                 : piece.ptr[i] == '"'  ? "&#34;"
                                                        : NULL;
            if (!entity) continue;
            jbuilder_put(b, str_slice(piece, from, i), is_input);
            jbuilder_put(b, str_from(entity), is_input);
            from = i + 1;
        }
        jbuilder_put(b, str_skip(piece, from), is_input);
    }
}

status jfilter_mark(jrt *r, jvalue *out, bool is_safe)
{
    out->s = jtext_mark(r->a, out->s, is_safe);
    return out->s ? ERR_OK : jrt_fail_memory(r);
}

status jfilter_fold(jrt *r, bool is_case_sensitive, jvalue v, jvalue *out)
{
    if (!is_case_sensitive && v.kind == JVALUE_STR) return jcase_map(r, v.s, JCASE_LOWER, out);
    *out = v;
    return ERR_OK;
}

/* One part of a path: digits are an index, anything else a name. */
static status get_part(jrt *r, const jtext *path, size_t from, size_t to, jvalue item, jvalue *out)
{
    str part = str_slice(path->s, from, to);
    bool is_number = part.len > 0;
    for (size_t i = 0; i < part.len; i++) is_number &= part.ptr[i] >= '0' && part.ptr[i] <= '9';
    int64_t index;
    if (is_number && str_to_int64(part, &index)) return jitem_get(r, item, jvalue_int(index), out);
    const jtext *name = jtext_slice(r->a, path, from, to);
    if (!name) return jrt_fail_memory(r);
    return jitem_get(r, item, jvalue_text(name), out);
}

status jpath_get(jrt *r, jvalue path, jvalue fallback, jvalue item, jvalue *out)
{
    bool has_fallback = !jvalue_is_missing(fallback) && fallback.kind != JVALUE_NONE;
    *out = item;
    if (jvalue_is_missing(path) || path.kind == JVALUE_NONE) return ERR_OK;
    if (path.kind != JVALUE_STR) {
        TRY(jitem_get(r, item, path, out));
        if (has_fallback && out->kind == JVALUE_UNDEFINED) *out = fallback;
        return ERR_OK;
    }
    for (size_t from = 0; from <= path.s->s.len;) {
        int64_t dot = str_find(path.s->s, STR("."), from);
        size_t to = dot < 0 ? path.s->s.len : (size_t)dot;
        jvalue part;
        TRY(get_part(r, path.s, from, to, *out, &part));
        *out = has_fallback && part.kind == JVALUE_UNDEFINED ? fallback : part;
        from = to + 1;
    }
    return ERR_OK;
}
