/* Fields, and the printf-style `%`. */
#include "chat/jinja_format_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chat/jinja_filter_priv.h"
#include "chat/jinja_unicode_priv.h"

static void put_fill(jbuilder *b, uint32_t fill, int64_t n)
{
    for (; n > 0 && !b->failed; n--) jbuilder_put_cp(b, fill ? fill : ' ', false);
}

/* sign and prefix, then digits, in the field. */
static status put_number(jrt *r, jbuilder *b, const jfield *f, str head, str digits)
{
    int64_t n = (int64_t)(head.len + digits.len), pad = f->width > n ? f->width - n : 0;
    char align = f->align ? f->align : '>';
    int64_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    TRY(jrt_spend(r, pad));
    put_fill(b, f->fill, left);
    jbuilder_put(b, head, false);
    if (align == '=') put_fill(b, f->fill, pad);
    jbuilder_put(b, digits, false);
    put_fill(b, f->fill, align == '=' ? 0 : pad - left);
    return ERR_OK;
}

/* Put `sep` between groups of `size` among the n leading digits; returns the new length. */
static size_t group_digits(char *text, size_t len, size_t cap, char sep, size_t size, size_t n)
{
    for (size_t at = n; at > size && len + 2 < cap;) {
        at -= size;
        memmove(text + at + 1, text + at, len - at + 1);
        text[at] = sep;
        len++;
    }
    return len;
}

status jfield_put_int(jrt *r, jbuilder *b, const jfield *f, int64_t i)
{
    char text[700], head[4] = "";
    uint64_t v = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    size_t len = 0, n_head = 0;
    int base = f->type == 'o' ? 8 : f->type == 'b' ? 2 : (f->type | 32) == 'x' ? 16 : 10;
    const char *digits = f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[70];
    int n = 0;
    do {
        reversed[n++] = digits[v % (uint64_t)base];
    } while (v /= (uint64_t)base);
    for (int k = f->precision; k > n && len < 400; k--) text[len++] = '0';
    while (n > 0) text[len++] = reversed[--n];
    text[len] = 0;
    if (f->grouping)
        len = group_digits(text, len, sizeof text, f->grouping, base == 10 ? 3 : 4, len);
    if (i < 0)
        head[n_head++] = '-';
    else if (f->sign)
        head[n_head++] = f->sign;
    if (f->is_alternate && base != 10) {
        head[n_head++] = '0';
        head[n_head++] = f->type;
    }
    return put_number(r, b, f, (str){head, n_head}, (str){text, len});
}

/* Without a type but with a precision: like g, but with a digit after the point. */
static void print_general(char *text, size_t cap, double d, int precision)
{
    int n = snprintf(text, cap, "%.*g", precision ? precision : 1, d);
    if (strcspn(text, ".en") == (size_t)n) snprintf(text + n, cap - (size_t)n, ".0");
}

status jfield_put_double(jrt *r, jbuilder *b, const jfield *f, double d)
{
    char text[800], format[16], head[2] = "";
    double abs = fabs(d);
    int precision = f->precision < 0 ? 6 : f->precision;
    char type = f->type == '%' ? 'f' : f->type;
    if (f->type == '%') abs *= 100;
    if (!type && f->precision < 0) {
        jnumber_format(abs, text);
    } else if (!type) {
        print_general(text, sizeof text, abs, f->precision);
    } else {
        snprintf(format, sizeof format, "%%%s.*%c", f->is_alternate ? "#" : "", type);
        snprintf(text, sizeof text - 2, format, precision, abs);
    }
    size_t len = strlen(text);
    if (f->type == '%') {
        text[len++] = '%';
        text[len] = 0;
    }
    if (f->grouping)
        len = group_digits(text, len, sizeof text, f->grouping, 3, strspn(text, "0123456789"));
    if (signbit(d) && !isnan(d))
        head[0] = '-';
    else if (f->sign)
        head[0] = f->sign;
    return put_number(r, b, f, str_from(head), (str){text, len});
}

status jfield_put_text(jrt *r, jbuilder *b, const jfield *f, const jtext *t)
{
    size_t end = f->precision < 0 ? t->s.len : junicode_offset(t->s, f->precision);
    int64_t n = junicode_count(str_slice(t->s, 0, end)), pad = f->width > n ? f->width - n : 0;
    int64_t left = f->align == '>' ? pad : f->align == '^' ? pad / 2 : 0;
    TRY(jrt_spend(r, pad));
    put_fill(b, f->fill, left);
    jbuilder_put_slice(b, t, 0, end);
    put_fill(b, f->fill, pad - left);
    return ERR_OK;
}

/* ---- format % values ---- */

typedef struct {
    jrt *r;
    const jtext *format;
    size_t at;
    jvalue arg;
    int64_t next; /* of a tuple's items; 1 when a single value is used up */
    jbuilder b;
} percent;

static status fail_format(jrt *r, const char *what)
{
    return jrt_fail(r, ERR_FORMAT, "format: %s", what);
}

static status take_arg(percent *p, jvalue *out)
{
    bool is_tuple = p->arg.kind == JVALUE_TUPLE;
    if (p->next >= (is_tuple ? p->arg.list->n : 1))
        return fail_format(p->r, "not enough arguments for format string");
    *out = is_tuple ? p->arg.list->items[p->next] : p->arg;
    p->next++;
    return ERR_OK;
}

static char peek_char(const percent *p)
{
    return p->at < p->format->s.len ? p->format->s.ptr[p->at] : 0;
}

static status read_number(percent *p, int64_t most, int64_t *out)
{
    if (peek_char(p) == '*') {
        jvalue v;
        p->at++;
        TRY(take_arg(p, &v));
        TRY(jarg_int(p->r, v, "* in a format", out));
    } else {
        for (*out = 0; peek_char(p) >= '0' && peek_char(p) <= '9' && *out <= most; p->at++)
            *out = *out * 10 + (peek_char(p) - '0');
    }
    return *out > most ? jrt_fail(p->r, ERR_LIMIT, "format: too wide") : ERR_OK;
}

/* Flags, width and precision; *has_key when a "(key)" picked the value. */
static status read_field(percent *p, jfield *f, bool *has_key, jvalue *key_value)
{
    *f = (jfield){.precision = -1};
    *has_key = peek_char(p) == '(';
    if (*has_key) {
        size_t from = ++p->at, level = 1;
        for (; p->at < p->format->s.len && level; p->at++)
            level += peek_char(p) == '(' ? 1 : peek_char(p) == ')' ? (size_t)-1 : 0;
        if (level) return fail_format(p->r, "incomplete format key");
        if (p->arg.kind != JVALUE_DICT) return fail_format(p->r, "format requires a mapping");
        const jvalue *v = jdict_get_str(p->arg.dict, str_slice(p->format->s, from, p->at - 1));
        if (!v) return fail_format(p->r, "no such key");
        *key_value = *v;
        p->next = 1;
    }
    bool is_zero = false, is_left = false;
    for (;; p->at++) {
        char c = peek_char(p);
        if (c == '-')
            is_left = true;
        else if (c == '0')
            is_zero = true;
        else if (c == '+' || (c == ' ' && !f->sign))
            f->sign = c;
        else if (c == '#')
            f->is_alternate = true;
        else if (c != ' ')
            break;
    }
    TRY(read_number(p, JFIELD_WIDTH_MOST, &f->width));
    if (f->width < 0) {
        is_left = true;
        f->width = f->width < -JFIELD_WIDTH_MOST ? 0 : -f->width;
    }
    if (peek_char(p) == '.') {
        int64_t precision = 0;
        p->at++;
        TRY(read_number(p, JFIELD_PRECISION_MOST, &precision));
        f->precision = precision < 0 ? 0 : (int)precision;
    }
    while (peek_char(p) == 'h' || peek_char(p) == 'l' || peek_char(p) == 'L') p->at++;
    f->align = is_left ? '<' : is_zero ? '=' : '>';
    f->fill = is_zero && !is_left ? '0' : 0;
    return ERR_OK;
}

static status put_as_text(percent *p, jfield *f, jvalue v)
{
    jbuilder b;
    jvalue text;
    jrt_builder(p->r, &b);
    if (f->type == 's')
        TRY(jprint_str(p->r, &b, v));
    else
        TRY(jprint_repr(p->r, &b, v));
    TRY(jrt_built(p->r, &b, &text));
    if (f->type == 's' && v.kind == JVALUE_STR && v.s->is_safe)
        TRY(jfilter_mark(p->r, &text, true));
    if (p->format->is_safe && !text.s->is_safe) {
        jrt_builder(p->r, &b);
        jfilter_put_escaped(&b, text.s);
        TRY(jrt_built(p->r, &b, &text));
    }
    f->fill = 0;
    if (f->align == '=') f->align = '>';
    return jfield_put_text(p->r, &p->b, f, text.s);
}

static status put_as_char(percent *p, jfield *f, jvalue v)
{
    int64_t cp;
    jvalue text = v;
    f->fill = 0;
    f->precision = -1;
    if (f->align == '=') f->align = '>';
    if (jvalue_to_int(v, &cp)) {
        if (cp < 0 || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
            return fail_format(p->r, "%c arg not in range(0x110000)");
        jbuilder b;
        jrt_builder(p->r, &b);
        jbuilder_put_cp(&b, (uint32_t)cp, false);
        TRY(jrt_built(p->r, &b, &text));
    } else if (v.kind != JVALUE_STR || junicode_count(v.s->s) != 1) {
        return fail_format(p->r, "%c requires int or char");
    }
    return jfield_put_text(p->r, &p->b, f, text.s);
}

static status put_as_number(percent *p, jfield *f, jvalue v)
{
    int64_t i;
    double d;
    if (!jvalue_is_number(v)) return jrt_fail_type(p->r, "object is no number for this format", v);
    if (strchr("diuoxX", f->type)) {
        if (f->type == 'i' || f->type == 'u') f->type = 'd';
        if (v.kind == JVALUE_FLOAT && f->type == 'd') {
            if (!isfinite(v.f)) return fail_format(p->r, "cannot convert float to integer");
            v = jnumber_int_of_double(p->r->a, v.f);
        }
        if (v.kind == JVALUE_BIG && f->type == 'd') {
            f->precision = -1;
            return put_number(p->r, &p->b, f, STR(""), v.s->s);
        }
        if (!jvalue_to_int(v, &i)) return fail_format(p->r, "an integer is required");
        return jfield_put_int(p->r, &p->b, f, i);
    }
    jvalue_to_double(v, &d);
    return jfield_put_double(p->r, &p->b, f, d);
}

/* After the percent sign. */
static status put_conversion(percent *p)
{
    jfield f;
    jvalue v = {0};
    bool has_key;
    TRY(read_field(p, &f, &has_key, &v));
    f.type = peek_char(p);
    if (!f.type) return fail_format(p->r, "incomplete format");
    p->at++;
    if (f.type == '%') {
        jbuilder_put_byte(&p->b, '%', false);
        return ERR_OK;
    }
    if (!strchr("srdiuoxXeEfFgGc", f.type))
        return fail_format(p->r, "unsupported format character");
    if (!has_key) TRY(take_arg(p, &v));
    if (f.type == 's' || f.type == 'r') return put_as_text(p, &f, v);
    if (f.type == 'c') return put_as_char(p, &f, v);
    return put_as_number(p, &f, v);
}

status jformat_percent(jrt *r, const jtext *format, jvalue arg, jvalue *out)
{
    percent p = {.r = r, .format = format, .arg = arg};
    jrt_builder(r, &p.b);
    while (p.at < format->s.len && !p.b.failed) {
        int64_t sign = str_find(format->s, STR("%"), p.at);
        size_t end = sign < 0 ? format->s.len : (size_t)sign;
        jbuilder_put_slice(&p.b, format, p.at, end);
        p.at = end + 1;
        if (sign >= 0) TRY(put_conversion(&p));
    }
    bool has_rest = arg.kind == JVALUE_TUPLE
                        ? p.next < arg.list->n
                        : p.next == 0 && arg.kind != JVALUE_DICT && arg.kind != JVALUE_LIST;
    if (has_rest) return fail_format(r, "not all arguments converted");
    TRY(jrt_built(r, &p.b, out));
    return format->is_safe ? jfilter_mark(r, out, true) : ERR_OK;
}
