/* str.format: "{}", "{0}", "{name.attr[key]!r:>10}". */
#include <math.h>

#include "chat/jinja_filter_priv.h"
#include "chat/jinja_format_priv.h"
#include "chat/jinja_unicode_priv.h"

typedef struct {
    jrt *r;
    const jtext *format;
    const jcall *call;
    int64_t next_auto; /* -1 once a field was numbered by hand */
    bool has_auto;
    jbuilder b;
} braces;

static status fail_format(jrt *r, const char *what)
{
    return jrt_fail(r, ERR_FORMAT, "format: %s", what);
}

static status find_argument(braces *p, str name, jvalue *out)
{
    int64_t i = -1;
    if (name.len == 0) {
        if (p->next_auto < 0)
            return fail_format(p->r, "cannot switch from manual field specification to automatic");
        p->has_auto = true;
        i = p->next_auto++;
    } else if (str_to_int64(name, &i) && i >= 0) {
        if (p->has_auto)
            return fail_format(p->r, "cannot switch from automatic field numbering to manual");
        p->next_auto = -1;
    }
    if (i >= 0) {
        if (i >= p->call->n) return fail_format(p->r, "replacement index out of range");
        *out = p->call->positional[i];
        return ERR_OK;
    }
    for (int k = 0; k < p->call->n_named; k++) {
        if (!str_equal(p->call->named[k].name, name)) continue;
        *out = p->call->named[k].value;
        return ERR_OK;
    }
    return fail_format(p->r, "no such argument");
}

/* name(.attr|[index])* */
static status find_field(braces *p, str field, jvalue *out)
{
    size_t at = 0;
    while (at < field.len && field.ptr[at] != '.' && field.ptr[at] != '[') at++;
    TRY(find_argument(p, str_slice(field, 0, at), out));
    while (at < field.len) {
        bool is_attr = field.ptr[at++] == '.';
        size_t from = at;
        while (at < field.len && field.ptr[at] != (is_attr ? '.' : ']') &&
               !(is_attr && field.ptr[at] == '['))
            at++;
        str key = str_slice(field, from, at);
        if (key.len == 0) return fail_format(p->r, "empty attribute in format string");
        if (!is_attr) {
            if (at == field.len) return fail_format(p->r, "expected '}' before end of string");
            at++;
            if (at < field.len && field.ptr[at] != '.' && field.ptr[at] != '[')
                return fail_format(p->r, "only '.' or '[' may follow ']'");
        }
        const jtext *name = jtext_new(p->r->a, key, false);
        if (!name) return jrt_fail_memory(p->r);
        jvalue v = *out;
        int64_t i;
        if (is_attr)
            TRY(jattr_get(p->r, v, name, out));
        else if (str_to_int64(key, &i) && i >= 0)
            TRY(jitem_get(p->r, v, jvalue_int(i), out));
        else
            TRY(jitem_get(p->r, v, jvalue_text(name), out));
    }
    return ERR_OK;
}

static bool is_align(uint32_t c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static bool read_int(str s, size_t *at, int64_t most, int64_t *out)
{
    for (*out = 0; *at < s.len && s.ptr[*at] >= '0' && s.ptr[*at] <= '9'; ++*at) {
        *out = *out * 10 + (s.ptr[*at] - '0');
        if (*out > most) return false;
    }
    return true;
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static status read_spec(jrt *r, str s, jfield *f)
{
    size_t at = 0;
    int64_t n;
    uint32_t cp = 0;
    *f = (jfield){.precision = -1};
    size_t first = s.len ? (size_t)junicode_at(s, 0, &cp) : 0;
    if (first < s.len && is_align((unsigned char)s.ptr[first])) {
        f->fill = cp;
        f->align = s.ptr[first];
        at = first + 1;
    } else if (s.len && is_align(cp)) {
        f->align = (char)cp;
        at = 1;
    }
    if (at < s.len && strchr("+- ", s.ptr[at])) {
        f->sign = s.ptr[at] == '-' ? 0 : s.ptr[at];
        at++;
    }
    if (at < s.len && s.ptr[at] == '#') {
        f->is_alternate = true;
        at++;
    }
    if (at < s.len && s.ptr[at] == '0') {
        if (!f->fill) f->fill = '0';
        if (!f->align) f->align = '=';
        at++;
    }
    if (!read_int(s, &at, JFIELD_WIDTH_MOST, &f->width)) return fail_format(r, "too wide");
    if (at < s.len && (s.ptr[at] == ',' || s.ptr[at] == '_')) f->grouping = s.ptr[at++];
    if (at < s.len && s.ptr[at] == '.') {
        size_t from = ++at;
        if (!read_int(s, &at, JFIELD_PRECISION_MOST, &n)) return fail_format(r, "too precise");
        if (at == from) return fail_format(r, "format specifier missing precision");
        f->precision = (int)n;
    }
    if (at < s.len) f->type = s.ptr[at++];
    return at == s.len ? ERR_OK : fail_format(r, "invalid format specifier");
}

static status put_number(braces *p, jfield *f, jvalue v)
{
    int64_t i;
    double d = 0;
    bool is_int = jvalue_to_int(v, &i);
    if (is_int && (!f->type || f->type == 'n')) f->type = 'd';
    if (!is_int && f->type == 'n') f->type = 'g';
    if (f->type && strchr("bdoxX", f->type)) {
        if (!is_int) return fail_format(p->r, "unknown format code for this object");
        if (f->precision >= 0) return fail_format(p->r, "precision not allowed for integers");
        return jfield_put_int(p->r, &p->b, f, i);
    }
    if (f->type && !strchr("eEfFgG%", f->type))
        return fail_format(p->r, "unknown format code for this object");
    jvalue_to_double(v, &d);
    return jfield_put_double(p->r, &p->b, f, d);
}

static status put_formatted(braces *p, str spec, jvalue v)
{
    jfield f;
    TRY(read_spec(p->r, spec, &f));
    if (jvalue_is_number(v) && v.kind != JVALUE_BIG) return put_number(p, &f, v);
    if (v.kind != JVALUE_STR)
        return fail_format(p->r, "unsupported format string passed to this object");
    if (f.align == '=' && f.fill == '0') f.align = '<'; /* a leading zero only fills */
    if ((f.type && f.type != 's') || f.sign || f.align == '=' || f.grouping || f.is_alternate)
        return fail_format(p->r, "invalid format specifier for a string");
    return jfield_put_text(p->r, &p->b, &f, v.s);
}

/* Print v; Markup formats escape what they print. */
static status put_field(braces *p, str spec, char conversion, jvalue v)
{
    jbuilder outer = p->b;
    jvalue text = v, shown;
    if (conversion) {
        jbuilder b;
        jrt_builder(p->r, &b);
        TRY(conversion == 's' ? jprint_str(p->r, &b, v) : jprint_repr(p->r, &b, v));
        TRY(jrt_built(p->r, &b, &text));
    }
    jrt_builder(p->r, &p->b);
    if (spec.len)
        TRY(put_formatted(p, spec, text));
    else
        TRY(jprint_str(p->r, &p->b, text));
    TRY(jrt_built(p->r, &p->b, &shown));
    p->b = outer;
    if (p->format->is_safe && !(text.kind == JVALUE_STR && text.s->is_safe))
        jfilter_put_escaped(&p->b, shown.s);
    else
        jbuilder_put_text(&p->b, shown.s);
    return ERR_OK;
}

/* A spec may hold fields itself: "{:{width}}". One level deep. */
static status expand_spec(braces *p, size_t from, size_t to, str *out)
{
    str s = str_slice(p->format->s, from, to);
    *out = s;
    if (str_find(s, STR("{"), 0) < 0) return ERR_OK;
    jbuilder b;
    jvalue text;
    jrt_builder(p->r, &b);
    for (size_t at = 0; at < s.len;) {
        int64_t open = str_find(s, STR("{"), at);
        size_t end = open < 0 ? s.len : (size_t)open;
        jbuilder_put(&b, str_slice(s, at, end), false);
        if (open < 0) break;
        int64_t close = str_find(s, STR("}"), end);
        if (close < 0) return fail_format(p->r, "expected '}' before end of string");
        jvalue v;
        TRY(find_field(p, str_slice(s, end + 1, (size_t)close), &v));
        TRY(jprint_str(p->r, &b, v));
        at = (size_t)close + 1;
    }
    TRY(jrt_built(p->r, &b, &text));
    *out = text.s->s;
    return ERR_OK;
}

/* The field that starts after the brace at `at`; *end is behind its closing brace. */
static status put_replacement(braces *p, size_t at, size_t *end)
{
    str s = p->format->s;
    int level = 1;
    size_t close = at;
    for (; close < s.len; close++) {
        level += s.ptr[close] == '{' ? 1 : s.ptr[close] == '}' ? -1 : 0;
        if (!level) break;
    }
    if (level) return fail_format(p->r, "expected '}' before end of string");
    size_t name_end = at;
    bool in_index = false;
    for (; name_end < close; name_end++) {
        char c = s.ptr[name_end];
        if (c == '[') in_index = true;
        if (c == ']') in_index = false;
        if (!in_index && (c == '!' || c == ':')) break;
    }
    jvalue v;
    char conversion = 0;
    str spec = {"", 0};
    TRY(find_field(p, str_slice(s, at, name_end), &v));
    size_t next = name_end;
    if (next < close && s.ptr[next] == '!') {
        conversion = next + 1 < close ? s.ptr[next + 1] : 0;
        next += 2;
        if (conversion != 'r' && conversion != 's')
            return fail_format(p->r, "unsupported conversion in a format string");
        if (next < close && s.ptr[next] != ':')
            return fail_format(p->r, "expected ':' after conversion specifier");
    }
    if (next < close) TRY(expand_spec(p, next + 1, close, &spec));
    *end = close + 1;
    return put_field(p, spec, conversion, v);
}

status jformat_braces(jrt *r, const jtext *format, const jcall *call, jvalue *out)
{
    braces p = {.r = r, .format = format, .call = call};
    str s = format->s;
    jrt_builder(r, &p.b);
    for (size_t at = 0; at < s.len && !p.b.failed;) {
        size_t from = at;
        while (at < s.len && s.ptr[at] != '{' && s.ptr[at] != '}') at++;
        jbuilder_put_slice(&p.b, format, from, at);
        if (at == s.len) break;
        if (at + 1 < s.len && s.ptr[at + 1] == s.ptr[at]) {
            jbuilder_put_slice(&p.b, format, at, at + 1);
            at += 2;
        } else if (s.ptr[at] == '}') {
            return fail_format(r, "single '}' encountered in format string");
        } else {
            TRY(put_replacement(&p, at + 1, &at));
        }
    }
    TRY(jrt_built(r, &p.b, out));
    return format->is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}
