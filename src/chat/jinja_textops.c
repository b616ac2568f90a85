/* What both filters and string methods do with texts. */
#include "chat/jinja_filter_priv.h"
#include "chat/jinja_unicode_priv.h"

static void put_mapped(jbuilder *b, const uint32_t *cps, int n, bool is_input)
{
    for (int i = 0; i < n; i++) jbuilder_put_cp(b, cps[i], is_input);
}

static bool is_cased(uint32_t cp)
{
    return junicode_is_lower(cp) || junicode_is_upper(cp) || junicode_is_title(cp);
}

status jcase_map(jrt *r, const jtext *t, jcase how, jvalue *out)
{
    jbuilder b;
    uint32_t cp, to[3];
    bool after_cased = false;
    jrt_builder(r, &b);
    jtext_walk w = {0};
    str piece;
    bool is_input;
    for (size_t start = 0; jtext_next(t, &w, &piece, &is_input); start += piece.len) {
        for (size_t at = 0; at < piece.len;) {
            size_t pos = start + at;
            at += (size_t)junicode_at(piece, at, &cp);
            bool upper = how == JCASE_UPPER || (how == JCASE_SWAP && junicode_is_lower(cp));
            bool lower = how == JCASE_LOWER || (how == JCASE_SWAP && junicode_is_upper(cp)) ||
                         (how == JCASE_CAPITALIZE && pos > 0) ||
                         (how == JCASE_TITLE && after_cased);
            int n = 1;
            to[0] = cp;
            if (upper)
                n = junicode_upper(cp, to);
            else if (lower)
                n = junicode_lower(t->s, pos, cp, to);
            else if (how != JCASE_SWAP)
                n = junicode_title(cp, to);
            put_mapped(&b, to, n, is_input);
            after_cased = is_cased(cp);
        }
    }
    TRY(jrt_spend(r, (int64_t)t->s.len / 4));
    TRY(jrt_built(r, &b, out));
    return t->is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}

static bool is_stripped(const jtext *chars, uint32_t cp)
{
    if (!chars) return junicode_is_space(cp);
    uint32_t other;
    for (size_t at = 0; at < chars->s.len;) {
        at += (size_t)junicode_at(chars->s, at, &other);
        if (other == cp) return true;
    }
    return false;
}

void jstrip_range(const jtext *t, const jtext *chars, bool at_left, bool at_right, size_t *from,
                  size_t *to)
{
    uint32_t cp;
    *from = 0;
    *to = t->s.len;
    while (at_left && *from < *to) {
        int n = junicode_at(t->s, *from, &cp);
        if (!is_stripped(chars, cp)) break;
        *from += (size_t)n;
    }
    while (at_right && *to > *from) {
        size_t at = junicode_before(t->s, *to);
        junicode_at(t->s, at, &cp);
        if (!is_stripped(chars, cp)) break;
        *to = at;
    }
}

status jslice_text(jrt *r, const jtext *t, size_t from, size_t to, jvalue *out)
{
    const jtext *part = jtext_slice(r->a, t, from, to);
    if (!part) return jrt_fail_memory(r);
    *out = jvalue_text(part);
    return ERR_OK;
}

/* str.replace with an empty `old`: `new` goes before every character and at the end. */
static void interleave(jbuilder *b, const jtext *t, const jtext *new_text, int64_t most)
{
    uint32_t cp;
    size_t at = 0;
    for (int64_t i = 0; i != most && !b->failed; i++) {
        jbuilder_put_text(b, new_text);
        if (at == t->s.len) return;
        size_t n = (size_t)junicode_at(t->s, at, &cp);
        jbuilder_put_slice(b, t, at, at + n);
        at += n;
    }
    jbuilder_put_slice(b, t, at, t->s.len);
}

status jreplace_text(jrt *r, const jtext *t, const jtext *old, const jtext *new_text, int64_t most,
                     jvalue *out)
{
    jbuilder b;
    jrt_builder(r, &b);
    TRY(jrt_spend(r, (int64_t)t->s.len / 8));
    if (old->s.len == 0) {
        interleave(&b, t, new_text, most);
    } else {
        size_t from = 0;
        for (int64_t i = 0; i != most && !b.failed; i++) {
            int64_t at = str_find(t->s, old->s, from);
            if (at < 0) break;
            jbuilder_put_slice(&b, t, from, (size_t)at);
            jbuilder_put_text(&b, new_text);
            from = (size_t)at + old->s.len;
        }
        jbuilder_put_slice(&b, t, from, t->s.len);
    }
    TRY(jrt_built(r, &b, out));
    return t->is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}

bool jnext_line(str s, size_t *at, size_t *from, size_t *to)
{
    if (*at >= s.len) return false;
    uint32_t cp;
    *from = *at;
    for (size_t i = *at; i < s.len;) {
        size_t end = i + (size_t)junicode_at(s, i, &cp);
        if (junicode_is_line_end(cp)) {
            *to = i;
            *at = end + (cp == '\r' && end < s.len && s.ptr[end] == '\n');
            return true;
        }
        i = end;
    }
    *to = *at = s.len;
    return true;
}

status jpad_text(jrt *r, const jtext *t, int64_t width, uint32_t fill, jpad where, jvalue *out)
{
    int64_t n = junicode_count(t->s), pad = width > n ? width - n : 0;
    int64_t left = where == JPAD_LEFT ? 0 : where == JPAD_RIGHT ? pad : pad / 2 + (pad & width & 1);
    jbuilder b;
    jrt_builder(r, &b);
    if (pad > (int64_t)r->text_most)
        return jrt_fail(r, ERR_LIMIT, "a text longer than %zu bytes", r->text_most);
    for (int64_t i = 0; i < left; i++) jbuilder_put_cp(&b, fill, false);
    jbuilder_put_text(&b, t);
    for (int64_t i = left; i < pad; i++) jbuilder_put_cp(&b, fill, false);
    TRY(jrt_spend(r, pad));
    TRY(jrt_built(r, &b, out));
    return t->is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}
