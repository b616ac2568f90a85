/* Methods of str. */
#include "chat/jinja_filter_priv.h"
#include "chat/jinja_unicode_priv.h"

static status m_upper(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return jcase_map(r, self.s, JCASE_UPPER, out);
}

static status m_lower(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return jcase_map(r, self.s, JCASE_LOWER, out);
}

static status m_capitalize(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return jcase_map(r, self.s, JCASE_CAPITALIZE, out);
}

static status m_title(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return jcase_map(r, self.s, JCASE_TITLE, out);
}

static status m_swapcase(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return jcase_map(r, self.s, JCASE_SWAP, out);
}

static status strip(jrt *r, jvalue self, const jvalue *a, bool at_left, bool at_right, jvalue *out)
{
    const jtext *chars = NULL;
    size_t from, to;
    if (a[0].kind != JVALUE_NONE) TRY(jarg_text(r, a[0], "the characters", &chars));
    TRY(jrt_spend(r, (int64_t)self.s->s.len / 64));
    jstrip_range(self.s, chars, at_left, at_right, &from, &to);
    return jslice_text(r, self.s, from, to, out);
}

static status m_strip(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return strip(r, self, a, true, true, out);
}

static status m_lstrip(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return strip(r, self, a, true, false, out);
}

static status m_rstrip(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return strip(r, self, a, false, true, out);
}

/* Markup escapes the texts that are passed to its methods. */
static status read_arg(jrt *r, jvalue self, jvalue v, const char *what, const jtext **out)
{
    TRY(jarg_text(r, v, what, out));
    if (!self.s->is_safe || !*out || (*out)->is_safe) return ERR_OK;
    jbuilder b;
    jvalue escaped;
    jrt_builder(r, &b);
    jfilter_put_escaped(&b, *out);
    TRY(jrt_built(r, &b, &escaped));
    *out = escaped.s;
    return ERR_OK;
}

static status m_replace(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    const jtext *old = NULL, *new_text = NULL;
    int64_t most = -1;
    TRY(read_arg(r, self, a[0], "what to replace", &old));
    TRY(read_arg(r, self, a[1], "the replacement", &new_text));
    TRY(jarg_int(r, a[2], "count", &most));
    return jreplace_text(r, self.s, old, new_text, most, out);
}

/* The byte range of characters [start, end) given like slice bounds. False when start lies behind
 * the end of the text or of the range. */
static status read_range(jrt *r, str s, const jvalue *start, const jvalue *end, size_t *from,
                         size_t *to, bool *is_valid)
{
    int64_t n = junicode_count(s), i = 0, k = n;
    if (start->kind != JVALUE_NONE) TRY(jarg_int(r, *start, "start", &i));
    if (end->kind != JVALUE_NONE) TRY(jarg_int(r, *end, "end", &k));
    TRY(jrt_spend(r, (int64_t)s.len / 16));
    if (i < 0) i = i + n < 0 ? 0 : i + n;
    if (k < 0) k = k + n < 0 ? 0 : k + n;
    if (k > n) k = n;
    *is_valid = i <= k && i <= n;
    *from = *is_valid ? junicode_offset(s, i) : s.len;
    *to = *is_valid ? junicode_offset(s, k) : s.len;
    return ERR_OK;
}

static int64_t find_last(str s, str needle)
{
    for (size_t at = s.len + 1; at-- > 0;)
        if (s.len - at >= needle.len && memcmp(s.ptr + at, needle.ptr, needle.len) == 0)
            return (int64_t)at;
    return -1;
}

/* The character index of a[0] in the range of a[1] and a[2], or -1. */
static status find(jrt *r, jvalue self, const jvalue *a, bool is_last, int64_t *out)
{
    const jtext *needle = NULL;
    size_t from, to;
    bool is_valid;
    str s = self.s->s;
    TRY(jarg_text(r, a[0], "what to find", &needle));
    TRY(read_range(r, s, &a[1], &a[2], &from, &to, &is_valid));
    *out = -1;
    if (!is_valid) return ERR_OK;
    str part = str_slice(s, from, to);
    int64_t at = is_last ? find_last(part, needle->s) : str_find(part, needle->s, 0);
    if (at >= 0) *out = junicode_count(str_slice(s, 0, from + (size_t)at));
    return jrt_spend(r, (int64_t)s.len / 4);
}

static status m_find(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    *out = jvalue_int(0);
    return find(r, self, a, false, &out->i);
}

static status m_rfind(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    *out = jvalue_int(0);
    return find(r, self, a, true, &out->i);
}

static status m_index(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    TRY(m_find(r, self, a, call, out));
    return out->i < 0 ? jrt_fail(r, ERR_FORMAT, "substring not found") : ERR_OK;
}

static status m_rindex(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    TRY(m_rfind(r, self, a, call, out));
    return out->i < 0 ? jrt_fail(r, ERR_FORMAT, "substring not found") : ERR_OK;
}

static status m_count(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    const jtext *needle = NULL;
    size_t from, to;
    bool is_valid;
    TRY(jarg_text(r, a[0], "what to count", &needle));
    TRY(read_range(r, self.s->s, &a[1], &a[2], &from, &to, &is_valid));
    str part = str_slice(self.s->s, from, to);
    int64_t n = 0;
    if (needle->s.len == 0) {
        n = is_valid ? junicode_count(part) + 1 : 0;
    } else {
        for (int64_t at = str_find(part, needle->s, 0); at >= 0 && is_valid; n++)
            at = str_find(part, needle->s, (size_t)at + needle->s.len);
    }
    *out = jvalue_int(n);
    return ERR_OK;
}

static status affix(jrt *r, jvalue self, const jvalue *a, bool at_end, jvalue *out)
{
    size_t from, to;
    bool is_valid, is_match = false;
    TRY(read_range(r, self.s->s, &a[1], &a[2], &from, &to, &is_valid));
    str part = str_slice(self.s->s, from, to);
    int64_t n = a[0].kind == JVALUE_TUPLE ? a[0].list->n : 1;
    for (int64_t i = 0; i < n && !is_match; i++) {
        const jtext *t = NULL;
        TRY(jarg_text(r, a[0].kind == JVALUE_TUPLE ? a[0].list->items[i] : a[0], "the affix", &t));
        is_match = is_valid && (at_end ? str_ends(part, t->s) : str_starts(part, t->s));
    }
    *out = jvalue_bool(is_match);
    return ERR_OK;
}

static status m_startswith(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return affix(r, self, a, false, out);
}

static status m_endswith(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return affix(r, self, a, true, out);
}

static status m_removeprefix(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    const jtext *t = NULL;
    TRY(jarg_text(r, a[0], "the prefix", &t));
    size_t from = str_starts(self.s->s, t->s) ? t->s.len : 0;
    TRY(jslice_text(r, self.s, from, self.s->s.len, out));
    return jfilter_mark(r, out, false);
}

static status m_removesuffix(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    const jtext *t = NULL;
    TRY(jarg_text(r, a[0], "the suffix", &t));
    size_t n = self.s->s.len;
    TRY(jslice_text(r, self.s, 0, str_ends(self.s->s, t->s) ? n - t->s.len : n, out));
    return jfilter_mark(r, out, false);
}

static status m_join(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    jlist *items = NULL;
    jbuilder b;
    TRY(jiter_collect(r, a[0], &items));
    jrt_builder(r, &b);
    for (int64_t i = 0; i < items->n; i++) {
        const jtext *t = NULL;
        if (i) jbuilder_put_text(&b, self.s);
        if (self.s->is_safe)
            TRY(jprint_text(r, items->items[i], &t));
        else
            TRY(jarg_text(r, items->items[i], "a joined item", &t));
        if (self.s->is_safe)
            jfilter_put_escaped(&b, t);
        else
            jbuilder_put_text(&b, t);
    }
    TRY(jrt_built(r, &b, out));
    return self.s->is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}

static status pad(jrt *r, jvalue self, const jvalue *a, jpad where, jvalue *out)
{
    int64_t width = 0;
    const jtext *fill = NULL;
    uint32_t cp = ' ';
    TRY(jarg_int(r, a[0], "width", &width));
    TRY(jarg_text(r, a[1], "fillchar", &fill));
    if (fill) {
        if (junicode_count(fill->s) != 1)
            return jrt_fail(r, ERR_FORMAT, "the fill character must be exactly one character long");
        junicode_at(fill->s, 0, &cp);
    }
    return jpad_text(r, self.s, width, cp, where, out);
}

static status m_center(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return pad(r, self, a, JPAD_CENTER, out);
}

static status m_ljust(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return pad(r, self, a, JPAD_LEFT, out);
}

static status m_rjust(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return pad(r, self, a, JPAD_RIGHT, out);
}

static status m_zfill(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    int64_t width = 0;
    TRY(jarg_int(r, a[0], "width", &width));
    const jtext *t = self.s;
    bool has_sign = t->s.len && (t->s.ptr[0] == '-' || t->s.ptr[0] == '+');
    jvalue digits, sign;
    TRY(jslice_text(r, t, 0, has_sign, &sign));
    TRY(jslice_text(r, t, has_sign, t->s.len, &digits));
    if (width < -1000) width = 0;
    TRY(jpad_text(r, digits.s, width - has_sign, '0', JPAD_RIGHT, &digits));
    return jop_concat_text(r, sign.s, digits.s, out);
}

static status m_format(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a;
    return jformat_braces(r, self.s, call, out);
}

const jbuiltin jmethods_str[] = {
    {"capitalize", m_capitalize, ""},
    {"center", m_center, ".width .fillchar="},
    {"count", m_count, ".sub .start= .end="},
    {"endswith", m_endswith, ".suffix .start= .end="},
    {"find", m_find, ".sub .start= .end="},
    {"format", m_format, NULL},
    {"index", m_index, ".sub .start= .end="},
    {"join", m_join, ".iterable"},
    {"ljust", m_ljust, ".width .fillchar="},
    {"lower", m_lower, ""},
    {"lstrip", m_lstrip, ".chars="},
    {"removeprefix", m_removeprefix, ".prefix"},
    {"removesuffix", m_removesuffix, ".suffix"},
    {"replace", m_replace, ".old .new .count="},
    {"rfind", m_rfind, ".sub .start= .end="},
    {"rindex", m_rindex, ".sub .start= .end="},
    {"rjust", m_rjust, ".width .fillchar="},
    {"rstrip", m_rstrip, ".chars="},
    {"startswith", m_startswith, ".prefix .start= .end="},
    {"strip", m_strip, ".chars="},
    {"swapcase", m_swapcase, ""},
    {"title", m_title, ""},
    {"upper", m_upper, ""},
    {"zfill", m_zfill, ".width"},
    {0},
};
