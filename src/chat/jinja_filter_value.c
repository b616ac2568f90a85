/* Filters on single values: conversions, defaults, escaping, JSON. */
#include <math.h>
#include <stdio.h>

#include "chat/jinja_filter_priv.h"
#include "chat/jinja_loop_priv.h"

static status f_abs(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    if (!jvalue_is_number(self)) return jrt_fail_type(r, "object has no absolute value", self);
    if (self.kind == JVALUE_FLOAT) {
        *out = jvalue_float(fabs(self.f));
        return ERR_OK;
    }
    int64_t i;
    bool is_negative = jvalue_to_int(self, &i) ? i < 0 : self.s->s.ptr[0] == '-';
    return jop_unary(r, is_negative ? JOP_NEG : JOP_POS, self, out);
}

static status f_attr(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    const jtext *name = NULL;
    TRY(jarg_text(r, a[0], "the attribute name", &name));
    /* Like v.name, but without falling back to v["name"], which only a dict answers. */
    if (self.kind == JVALUE_DICT && !jmethod_find(self, name->s))
        return jrt_undefined(r, name->s, self.kind, NULL, out);
    return jattr_get(r, self, name, out);
}

static status f_default(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    bool by_truth = false;
    TRY(jarg_bool(r, a[1], &by_truth));
    if (self.kind != JVALUE_UNDEFINED && !(by_truth && !jvalue_is_true(self))) {
        *out = self;
        return ERR_OK;
    }
    if (jvalue_is_missing(a[0])) return jrt_c_text(r, "", out);
    *out = a[0];
    return ERR_OK;
}

static status f_escape(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    const jtext *t = NULL;
    jbuilder b;
    TRY(jprint_text(r, self, &t));
    jrt_builder(r, &b);
    jfilter_put_escaped(&b, t);
    TRY(jrt_built(r, &b, out));
    return jfilter_mark(r, out, true);
}

static status f_forceescape(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    if (self.kind == JVALUE_STR) TRY(jfilter_mark(r, &self, false));
    return f_escape(r, self, a, call, out);
}

static status f_safe(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    const jtext *t = NULL;
    TRY(jprint_text(r, self, &t));
    *out = jvalue_text(t);
    return jfilter_mark(r, out, true);
}

static status f_string(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    const jtext *t = NULL;
    TRY(jprint_text(r, self, &t));
    *out = jvalue_text(t);
    return ERR_OK;
}

static status f_length(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    int64_t n = jvalue_length(self);
    if (self.kind == JVALUE_LOOP) TRY(jloop_length(r, self.loop, &n));
    if (n < 0) return jrt_fail_type(r, "object has no len()", self);
    *out = jvalue_int(n);
    return jrt_spend(r, self.kind == JVALUE_STR ? (int64_t)(self.s->s.len / 16) : 0);
}

static status fail_infinite(jrt *r, double d)
{
    return jrt_fail(r, ERR_FORMAT, "cannot convert float %s to integer",
                    isnan(d) ? "NaN" : "infinity");
}

static status int_of_double(jrt *r, double d, jvalue *out)
{
    *out = jnumber_int_of_double(r->a, d);
    return jvalue_is_missing(*out) ? jrt_fail_memory(r) : ERR_OK;
}

static status f_int(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    int64_t base = 10, i;
    double d;
    TRY(jarg_int(r, a[1], "base", &base));
    *out = jvalue_is_missing(a[0]) ? jvalue_int(0) : a[0];
    if (self.kind == JVALUE_UNDEFINED) return jrt_fail_undefined(r, self);
    if (jvalue_to_int(self, &i)) {
        *out = jvalue_int(i);
        return ERR_OK;
    }
    if (self.kind == JVALUE_BIG) {
        *out = self;
        return ERR_OK;
    }
    if (self.kind == JVALUE_FLOAT) {
        if (isnan(self.f)) return ERR_OK; /* a ValueError, and int(float(nan)) too */
        return isinf(self.f) ? fail_infinite(r, self.f) : int_of_double(r, self.f, out);
    }
    if (self.kind != JVALUE_STR) return ERR_OK;
    jvalue parsed;
    const char *why = jnumber_int_of_text(r->a, self.s->s, base < 0 || base > 36 ? 1 : (int)base,
                                          &parsed);
    if (!why) {
        if (jvalue_is_missing(parsed)) return jrt_fail_memory(r);
        *out = parsed;
        return ERR_OK;
    }
    if (!jnumber_float_of_text(self.s->s, &d) || isnan(d)) return ERR_OK;
    return isinf(d) ? fail_infinite(r, d) : int_of_double(r, d, out);
}

static status f_float(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    double d;
    *out = jvalue_is_missing(a[0]) ? jvalue_float(0) : a[0];
    if (self.kind == JVALUE_UNDEFINED) return jrt_fail_undefined(r, self);
    if (jvalue_to_double(self, &d) ||
        (self.kind == JVALUE_STR && jnumber_float_of_text(self.s->s, &d)))
        *out = jvalue_float(d);
    return ERR_OK;
}

static status f_round(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    int64_t digits = 0;
    const jtext *method = NULL;
    TRY(jarg_int(r, a[0], "precision", &digits));
    TRY(jarg_text(r, a[1], "method", &method));
    bool is_ceil = method && str_is(method->s, "ceil"),
         is_floor = method && str_is(method->s, "floor");
    if (method && !is_ceil && !is_floor && !str_is(method->s, "common"))
        return jrt_fail(r, ERR_FORMAT, "method must be common, ceil or floor");
    if (!jvalue_is_number(self)) return jrt_fail_type(r, "object cannot be rounded", self);
    const char *why = is_ceil || is_floor ? jnumber_floor(self, digits, is_ceil, out)
                                          : jnumber_round(self, digits, out);
    return why ? jrt_fail(r, ERR_FORMAT, "%s", why) : ERR_OK;
}

static status read_indent(jrt *r, jvalue v, const jtext **out)
{
    int64_t n;
    if (jvalue_is_missing(v) || v.kind == JVALUE_NONE) return ERR_OK;
    if (!jvalue_to_int(v, &n)) return jarg_text(r, v, "indent", out);
    jbuilder b;
    jvalue made;
    jrt_builder(r, &b);
    if (n > 1000) return jrt_fail(r, ERR_LIMIT, "an indent of more than 1000");
    for (; n > 0; n--) jbuilder_put_byte(&b, ' ', false);
    TRY(jrt_built(r, &b, &made));
    *out = made.s;
    return ERR_OK;
}

static status f_tojson(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    jjson_style style = {0};
    jbuilder b;
    TRY(jarg_bool(r, a[0], &style.ensure_ascii));
    TRY(read_indent(r, a[1], &style.indent));
    TRY(jarg_bool(r, a[3], &style.sort_keys));
    if (!jvalue_is_missing(a[2]) && a[2].kind != JVALUE_NONE) {
        jlist *pair = NULL;
        TRY(jiter_collect(r, a[2], &pair));
        if (pair->n != 2) return jrt_fail(r, ERR_FORMAT, "separators must be two strings");
        TRY(jarg_text(r, pair->items[0], "the item separator", &style.item_sep));
        TRY(jarg_text(r, pair->items[1], "the key separator", &style.key_sep));
    }
    jrt_builder(r, &b);
    TRY(jjson_put(r, &b, self, &style));
    return jrt_built(r, &b, out);
}

static status f_filesizeformat(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    static const char letters[] = "kMGTPEZY";
    (void)call;
    bool is_binary = false;
    double bytes;
    TRY(jarg_bool(r, a[0], &is_binary));
    if (!jvalue_to_double(self, &bytes) &&
        !(self.kind == JVALUE_STR && jnumber_float_of_text(self.s->s, &bytes)))
        return jrt_fail_type(r, "object is no size", self);
    if (!isfinite(bytes)) return fail_infinite(r, bytes);
    double base = is_binary ? 1024 : 1000;
    char text[400];
    if (bytes == 1) return jrt_c_text(r, "1 Byte", out);
    if (bytes < base) {
        snprintf(text, sizeof text, "%.0f Bytes", bytes > -1 && bytes < 1 ? 0 : trunc(bytes));
        return jrt_text(r, str_from(text), out);
    }
    double unit = base;
    int i = 0;
    do {
        unit *= base;
    } while (bytes >= unit && ++i < 8);
    if (i == 8) i = 7;
    char prefix = is_binary && letters[i] == 'k' ? 'K' : letters[i];
    snprintf(text, sizeof text, "%.1f %c%sB", base * bytes / unit, prefix, is_binary ? "i" : "");
    return jrt_text(r, str_from(text), out);
}

const jbuiltin jfilters_value[] = {
    {"abs", f_abs, ""},
    {"attr", f_attr, "name"},
    {"count", f_length, ""},
    {"d", f_default, "default_value= boolean="},
    {"default", f_default, "default_value= boolean="},
    {"e", f_escape, ""},
    {"escape", f_escape, ""},
    {"filesizeformat", f_filesizeformat, "binary="},
    {"float", f_float, "default="},
    {"forceescape", f_forceescape, ""},
    {"int", f_int, "default= base="},
    {"length", f_length, ""},
    {"round", f_round, "precision= method="},
    {"safe", f_safe, ""},
    {"string", f_string, ""},
    {"tojson", f_tojson, "ensure_ascii= indent= separators= sort_keys="},
    {0},
};
