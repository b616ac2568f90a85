#include "chat/outparse_priv.h"

enum { NAME_MOST = 256 };

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static tag_match more(tag_text t)
{
    return t.is_final ? TAG_NO : TAG_MORE;
}

tag_match tag_literal(tag_text t, size_t at, const char *literal)
{
    size_t n = strlen(literal), left = t.s.len - at;
    if (memcmp(t.s.ptr + at, literal, left < n ? left : n) != 0) return TAG_NO;
    return left >= n ? TAG_YES : more(t);
}

size_t tag_skip_space(tag_text t, size_t at)
{
    while (at < t.s.len && is_space(t.s.ptr[at])) at++;
    return at;
}

tag_match tag_named(tag_text t, size_t at, const char *opening, str *name, size_t *end)
{
    tag_match m = tag_literal(t, at, opening);
    if (m != TAG_YES) return m;
    size_t from = at + strlen(opening), to = from;
    while (to < t.s.len && t.s.ptr[to] != '>') {
        if (t.s.ptr[to] == '<' || t.s.ptr[to] == '\n' || to - from == NAME_MOST) return TAG_NO;
        to++;
    }
    if (to == t.s.len) return more(t);
    *name = str_trim(str_slice(t.s, from, to));
    size_t n = name->len;
    if (n >= 2 && (name->ptr[0] == '"' || name->ptr[0] == '\'') && name->ptr[n - 1] == name->ptr[0])
        *name = str_slice(*name, 1, n - 1);
    *end = to + 1;
    return name->len ? TAG_YES : TAG_NO;
}

tag_match tag_call(tag_text t, size_t at, bool bare_ok, str *name, size_t *end)
{
    tag_match m = tag_literal(t, at, "<tool_call>");
    if (m == TAG_YES) {
        at = tag_skip_space(t, at + strlen("<tool_call>"));
        return at == t.s.len ? more(t) : tag_named(t, at, "<function=", name, end);
    }
    tag_match bare = bare_ok ? tag_named(t, at, "<function=", name, end) : TAG_NO;
    return bare == TAG_NO ? m : bare;
}

/* After a closing tag inside a value: only more closing, or what may follow it, proves that the
 * tag was meant. */
static tag_match closing_goes_on(tag_text t, size_t at)
{
    static const char *const closing[] = {"</parameter>", "</function>"};
    static const char *const leading_out[] = {"</tool_call>", "<tool_call>", "<function="};
    for (;;) {
        at = tag_skip_space(t, at);
        if (at == t.s.len) return t.is_final ? TAG_YES : TAG_MORE;
        bool is_open = false, is_closing = false;
        for (int i = 0; i < 3; i++) {
            tag_match m = tag_literal(t, at, leading_out[i]);
            if (m == TAG_YES) return m;
            is_open |= m == TAG_MORE;
        }
        str key;
        size_t end;
        tag_match m = tag_named(t, at, "<parameter=", &key, &end);
        if (m == TAG_YES) return m;
        is_open |= m == TAG_MORE;
        for (int i = 0; i < 2 && !is_closing; i++) {
            m = tag_literal(t, at, closing[i]);
            is_closing = m == TAG_YES;
            is_open |= m == TAG_MORE;
            if (is_closing) at += strlen(closing[i]);
        }
        if (is_closing) continue;
        if (is_open) return TAG_MORE;
        /* The text ends in the middle of what began like a closing tag. */
        str rest = str_skip(t.s, at);
        for (int i = 0; t.is_final && i < 2; i++)
            if (str_starts(str_from(closing[i]), rest)) return TAG_YES;
        return t.is_final && str_starts(STR("</tool_call>"), rest) ? TAG_YES : TAG_NO;
    }
}

/* A bare "</tool_call>" inside a value ends it only at the end of the text or before a call. */
static tag_match call_end_goes_on(tag_text t, size_t at)
{
    str name;
    size_t end;
    at = tag_skip_space(t, at);
    if (at == t.s.len) return t.is_final ? TAG_YES : TAG_MORE;
    return tag_call(t, at, true, &name, &end);
}

tag_match tag_value_end(tag_text t, size_t at, bool at_line_start, tag_is_key_fn *is_key,
                        const void *ctx)
{
    static const char *const closing[] = {"</parameter>", "</function>"};
    bool is_open = false;
    for (int i = 0; i < 2; i++) {
        tag_match m = tag_literal(t, at, closing[i]);
        if (m == TAG_YES) return closing_goes_on(t, at + strlen(closing[i]));
        is_open |= m == TAG_MORE;
    }
    tag_match m = tag_literal(t, at, "</tool_call>");
    if (m == TAG_YES) return call_end_goes_on(t, at + strlen("</tool_call>"));
    is_open |= m == TAG_MORE;
    if (at_line_start) {
        str key;
        size_t end;
        m = tag_named(t, at, "<parameter=", &key, &end);
        if (m == TAG_YES) return is_key(ctx, key) ? TAG_YES : TAG_NO;
        is_open |= m == TAG_MORE;
    }
    if (is_open) return TAG_MORE;
    /* The text ends inside a closing tag: cut off, unless a lone '<' may be text as well. */
    str rest = str_skip(t.s, at);
    bool is_cut = t.is_final && (at_line_start || rest.len > 2) &&
                  (str_starts(STR("</parameter>"), rest) || str_starts(STR("</function>"), rest) ||
                   str_starts(STR("</tool_call>"), rest));
    return is_cut ? TAG_YES : TAG_NO;
}
