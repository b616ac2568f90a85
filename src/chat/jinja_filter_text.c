/* Filters that give a text. */
#include <stdio.h>

#include "chat/jinja_filter_priv.h"
#include "chat/jinja_unicode_priv.h"

static status f_upper(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    const jtext *t = NULL;
    TRY(jprint_text(r, self, &t));
    return jcase_map(r, t, JCASE_UPPER, out);
}

static status f_lower(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    const jtext *t = NULL;
    TRY(jprint_text(r, self, &t));
    return jcase_map(r, t, JCASE_LOWER, out);
}

static status f_capitalize(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    const jtext *t = NULL;
    TRY(jprint_text(r, self, &t));
    return jcase_map(r, t, JCASE_CAPITALIZE, out);
}

/* jinja2's own idea of title case: a word starts after white space or one of -({[<. */
static status f_title(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    const jtext *t = NULL;
    jbuilder b;
    uint32_t cp, to[3];
    bool is_start = true;
    TRY(jprint_text(r, self, &t));
    jrt_builder(r, &b);
    for (size_t at = 0; at < t->s.len;) {
        bool is_input = jtext_is_input_at(t, at);
        size_t pos = at;
        at += (size_t)junicode_at(t->s, at, &cp);
        int n = is_start ? junicode_upper(cp, to) : junicode_lower(t->s, pos, cp, to);
        for (int i = 0; i < n; i++) jbuilder_put_cp(&b, to[i], is_input);
        is_start = junicode_is_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp));
    }
    return jrt_built(r, &b, out);
}

static status f_trim(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    const jtext *t = NULL, *chars = NULL;
    size_t from, to;
    TRY(jprint_text(r, self, &t));
    if (a[0].kind != JVALUE_NONE) TRY(jarg_text(r, a[0], "the characters", &chars));
    TRY(jrt_spend(r, (int64_t)t->s.len / 64));
    jstrip_range(t, chars, true, true, &from, &to);
    return jslice_text(r, t, from, to, out);
}

static status f_replace(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    const jtext *t = NULL, *old = NULL, *new_text = NULL;
    int64_t most = -1;
    TRY(jprint_text(r, self, &t));
    TRY(jprint_text(r, a[0], &old));
    TRY(jprint_text(r, a[1], &new_text));
    if (a[2].kind != JVALUE_NONE) TRY(jarg_int(r, a[2], "count", &most));
    TRY(jreplace_text(r, t, old, new_text, most, out));
    return jfilter_mark(r, out, false);
}

static status f_center(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    const jtext *t = NULL;
    int64_t width = 80;
    TRY(jprint_text(r, self, &t));
    TRY(jarg_int(r, a[0], "width", &width));
    return jpad_text(r, t, width, ' ', JPAD_CENTER, out);
}

static status f_format(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a;
    const jtext *t = NULL;
    TRY(jprint_text(r, self, &t));
    if (call->n && call->n_named)
        return jrt_fail(r, ERR_FORMAT, "format takes positional or keyword arguments, not both");
    if (call->n_named) {
        jdict *d = jdict_new(r->a, call->n_named);
        if (!d) return jrt_fail_memory(r);
        for (int i = 0; i < call->n_named; i++) {
            jvalue key;
            TRY(jrt_text(r, call->named[i].name, &key));
            if (!jdict_set(r->a, d, key, call->named[i].value)) return jrt_fail_memory(r);
        }
        return jformat_percent(r, t, (jvalue){.kind = JVALUE_DICT, .dict = d}, out);
    }
    jlist *l = jlist_new(r->a, call->n);
    if (!l) return jrt_fail_memory(r);
    for (int i = 0; i < call->n; i++) l->items[i] = call->positional[i];
    return jformat_percent(r, t, (jvalue){.kind = JVALUE_TUPLE, .list = l}, out);
}

static status f_indent(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    const jtext *t = NULL, *prefix = NULL;
    bool first = false, blank = false;
    int64_t width = 4;
    jbuilder b;
    if (self.kind != JVALUE_STR) return jrt_fail_type(r, "object cannot be indented", self);
    t = self.s;
    TRY(jarg_bool(r, a[1], &first));
    TRY(jarg_bool(r, a[2], &blank));
    if (a[0].kind == JVALUE_STR) {
        prefix = a[0].s;
    } else {
        jvalue spaces;
        TRY(jarg_int(r, a[0], "width", &width));
        TRY(jrt_c_text(r, " ", &spaces));
        TRY(jop_binary(r, JOP_MUL, spaces, jvalue_int(width), &spaces));
        prefix = spaces.s;
    }
    jrt_builder(r, &b);
    if (first) jbuilder_put_text(&b, prefix);
    /* A newline is appended before the text is cut into lines, so an empty last line counts. */
    size_t at = 0, from = 0, to = 0, n_lines = 0;
    bool ends_open = true;
    while (jnext_line(t->s, &at, &from, &to) && !b.failed) {
        if (n_lines++) {
            jbuilder_put_byte(&b, '\n', jtext_is_input_at(t, from - 1));
            if (blank || to > from) jbuilder_put_text(&b, prefix);
        }
        jbuilder_put_slice(&b, t, from, to);
        ends_open = to == at;
    }
    if (!ends_open && t->s.ptr[t->s.len - 1] != '\r') {
        jbuilder_put_byte(&b, '\n', jtext_is_input_at(t, t->s.len - 1));
        if (blank) jbuilder_put_text(&b, prefix);
    }
    TRY(jrt_built(r, &b, out));
    return t->is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}

static status f_truncate(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    static const jtext dots = {.s = {"...", 3}};
    const jtext *t = NULL, *end = &dots;
    int64_t length = 255, leeway = 5;
    bool cut_words = false;
    TRY(jarg_int(r, a[0], "length", &length));
    TRY(jarg_bool(r, a[1], &cut_words));
    TRY(jarg_text(r, a[2], "end", &end));
    if (a[3].kind != JVALUE_NONE) TRY(jarg_int(r, a[3], "leeway", &leeway));
    int64_t end_length = junicode_count(end->s);
    if (length < end_length || leeway < 0)
        return jrt_fail(r, ERR_FORMAT, "truncate: length %lld is too short", (long long)length);
    int64_t n = jvalue_length(self);
    if (n >= 0 && n - leeway <= length) {
        *out = self;
        return ERR_OK;
    }
    if (self.kind != JVALUE_STR) return jrt_fail_type(r, "object cannot be truncated", self);
    t = self.s;
    size_t to = junicode_offset(t->s, length - end_length);
    for (size_t i = to; !cut_words && i > 0; i--) {
        if (t->s.ptr[i - 1] != ' ') continue;
        to = i - 1;
        break;
    }
    jvalue head;
    TRY(jslice_text(r, t, 0, to, &head));
    return jop_concat_text(r, head.s, end, out);
}

static status f_wordcount(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    const jtext *t = NULL;
    int64_t n = 0;
    bool in_word = false;
    uint32_t cp;
    TRY(jprint_text(r, self, &t));
    for (size_t at = 0; at < t->s.len;) {
        at += (size_t)junicode_at(t->s, at, &cp);
        bool is_word = junicode_is_word(cp);
        n += is_word && !in_word;
        in_word = is_word;
    }
    *out = jvalue_int(n);
    return jrt_spend(r, (int64_t)t->s.len / 4);
}

static void put_quoted(jbuilder *b, const jtext *t, bool is_query)
{
    static const char safe[] = "_.-~";
    for (size_t i = 0; i < t->s.len; i++) {
        unsigned char c = (unsigned char)t->s.ptr[i];
        bool is_input = jtext_is_input_at(t, i);
        bool is_plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                        (c && c < 0x80 && strchr(safe, c)) || (c == '/' && !is_query);
        char hex[4];
        if (is_plain || (c == ' ' && is_query)) {
            jbuilder_put_byte(b, c == ' ' ? '+' : (char)c, is_input);
        } else {
            snprintf(hex, sizeof hex, "%%%02X", c);
            jbuilder_put(b, str_from(hex), is_input);
        }
    }
}

static status put_query_pair(jrt *r, jbuilder *b, jvalue key, jvalue value)
{
    const jtext *k = NULL, *v = NULL;
    TRY(jprint_text(r, key, &k));
    TRY(jprint_text(r, value, &v));
    if (b->len) jbuilder_put_byte(b, '&', false);
    put_quoted(b, k, true);
    jbuilder_put_byte(b, '=', false);
    put_quoted(b, v, true);
    return ERR_OK;
}

static status f_urlencode(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    jbuilder b;
    jrt_builder(r, &b);
    if (self.kind == JVALUE_STR || !jiter_can(self)) {
        const jtext *t = NULL;
        TRY(jprint_text(r, self, &t));
        put_quoted(&b, t, false);
        return jrt_built(r, &b, out);
    }
    if (self.kind == JVALUE_DICT)
        self = (jvalue){.kind = JVALUE_VIEW, .view = JVIEW_ITEMS, .dict = self.dict};
    jlist *pairs = NULL;
    TRY(jiter_collect(r, self, &pairs));
    for (int64_t i = 0; i < pairs->n; i++) {
        jlist *pair = NULL;
        TRY(jiter_collect(r, pairs->items[i], &pair));
        if (pair->n != 2) return jrt_fail(r, ERR_FORMAT, "urlencode wants pairs");
        TRY(put_query_pair(r, &b, pair->items[0], pair->items[1]));
    }
    return jrt_built(r, &b, out);
}

const jbuiltin jfilters_text[] = {
    {"capitalize", f_capitalize, ""},
    {"center", f_center, "width="},
    {"format", f_format, NULL},
    {"indent", f_indent, "width= first= blank="},
    {"lower", f_lower, ""},
    {"replace", f_replace, "old new count="},
    {"title", f_title, ""},
    {"trim", f_trim, "chars="},
    {"truncate", f_truncate, "length= killwords= end= leeway="},
    {"upper", f_upper, ""},
    {"urlencode", f_urlencode, ""},
    {"wordcount", f_wordcount, ""},
    {0},
};
