/* What may stand after `is`. */
#include <math.h>

#include "chat/jinja_filter_priv.h"
#include "chat/jinja_loop_priv.h"

static status t_defined(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind != JVALUE_UNDEFINED);
    return ERR_OK;
}

static status t_undefined(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_UNDEFINED);
    return ERR_OK;
}

static status t_none(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_NONE);
    return ERR_OK;
}

static status t_boolean(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_BOOL);
    return ERR_OK;
}

static status t_true(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_BOOL && self.b);
    return ERR_OK;
}

static status t_false(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_BOOL && !self.b);
    return ERR_OK;
}

static status t_integer(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_INT || self.kind == JVALUE_BIG);
    return ERR_OK;
}

static status t_float(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_FLOAT);
    return ERR_OK;
}

static status t_number(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(jvalue_is_number(self));
    return ERR_OK;
}

static status t_string(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_STR);
    return ERR_OK;
}

static status t_mapping(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_DICT);
    return ERR_OK;
}

static status t_iterable(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(jiter_can(self));
    return ERR_OK;
}

/* Has len() and []: also an undefined value, whose class has both. */
static status t_sequence(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind != JVALUE_VIEW && jvalue_length(self) >= 0);
    return ERR_OK;
}

static status t_callable(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_BUILTIN || self.kind == JVALUE_METHOD ||
                       self.kind == JVALUE_MACRO || self.kind == JVALUE_LOOP ||
                       self.kind == JVALUE_JOINER || self.kind == JVALUE_UNDEFINED);
    return ERR_OK;
}

static status t_escaped(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)a, (void)call;
    *out = jvalue_bool(self.kind == JVALUE_STR && self.s->is_safe);
    return ERR_OK;
}

static status t_sameas(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)r, (void)call;
    bool is_same = self.kind == a[0].kind;
    if (is_same && self.kind > JVALUE_NONE)
        is_same = self.kind <= JVALUE_FLOAT ? jvalue_equal(self, a[0]) : self.macro == a[0].macro;
    *out = jvalue_bool(is_same);
    return ERR_OK;
}

static status case_test(jrt *r, jvalue self, bool wants_upper, jvalue *out)
{
    const jtext *t = NULL;
    TRY(jprint_text(r, self, &t));
    *out = jvalue_bool(jtext_is_lower(t->s, wants_upper));
    return jrt_spend(r, (int64_t)t->s.len / 8);
}

static status t_lower(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return case_test(r, self, false, out);
}

static status t_upper(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return case_test(r, self, true, out);
}

static status rest_is(jrt *r, jvalue self, jvalue by, int64_t want, jvalue *out)
{
    jvalue rest;
    TRY(jop_binary(r, JOP_MOD, self, by, &rest));
    *out = jvalue_bool(jvalue_equal(rest, jvalue_int(want)));
    return ERR_OK;
}

static status t_odd(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return rest_is(r, self, jvalue_int(2), 1, out);
}

static status t_even(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    return rest_is(r, self, jvalue_int(2), 0, out);
}

static status t_divisibleby(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)call;
    return rest_is(r, self, a[0], 0, out);
}

static status t_filter(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    uint64_t hash;
    if (!jvalue_hash(self, &hash)) return jrt_fail_type(r, "object is unhashable", self);
    *out = jvalue_bool(self.kind == JVALUE_STR && jfilter_find(self.s->s));
    return ERR_OK;
}

static status t_test(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out)
{
    (void)a, (void)call;
    uint64_t hash;
    if (!jvalue_hash(self, &hash)) return jrt_fail_type(r, "object is unhashable", self);
    *out = jvalue_bool(self.kind == JVALUE_STR && jtest_find(self.s->s));
    return ERR_OK;
}

static status compare(jrt *r, jop op, jvalue self, const jvalue *a, jvalue *out)
{
    bool is_true;
    TRY(jop_compare(r, op, self, a[0], &is_true));
    *out = jvalue_bool(is_true);
    return ERR_OK;
}

#define COMPARISON(name, op)                                                                     \
    static status t_##name(jrt *r, jvalue self, const jvalue *a, const jcall *call, jvalue *out) \
    {                                                                                            \
        (void)call;                                                                              \
        return compare(r, op, self, a, out);                                                     \
    }
COMPARISON(eq, JOP_EQ)
COMPARISON(ne, JOP_NE)
COMPARISON(lt, JOP_LT)
COMPARISON(le, JOP_LE)
COMPARISON(gt, JOP_GT)
COMPARISON(ge, JOP_GE)
COMPARISON(in, JOP_IN)

static const jbuiltin tests[] = {
    {"!=", t_ne, ".other"},
    {"<", t_lt, ".other"},
    {"<=", t_le, ".other"},
    {"==", t_eq, ".other"},
    {">", t_gt, ".other"},
    {">=", t_ge, ".other"},
    {"boolean", t_boolean, ""},
    {"callable", t_callable, ""},
    {"defined", t_defined, ""},
    {"divisibleby", t_divisibleby, "num"},
    {"eq", t_eq, ".other"},
    {"equalto", t_eq, ".other"},
    {"escaped", t_escaped, ""},
    {"even", t_even, ""},
    {"false", t_false, ""},
    {"filter", t_filter, ""},
    {"float", t_float, ""},
    {"ge", t_ge, ".other"},
    {"greaterthan", t_gt, ".other"},
    {"gt", t_gt, ".other"},
    {"in", t_in, "seq"},
    {"integer", t_integer, ""},
    {"iterable", t_iterable, ""},
    {"le", t_le, ".other"},
    {"lessthan", t_lt, ".other"},
    {"lower", t_lower, ""},
    {"lt", t_lt, ".other"},
    {"mapping", t_mapping, ""},
    {"ne", t_ne, ".other"},
    {"none", t_none, ""},
    {"number", t_number, ""},
    {"odd", t_odd, ""},
    {"sameas", t_sameas, "other"},
    {"sequence", t_sequence, ""},
    {"string", t_string, ""},
    {"test", t_test, ""},
    {"true", t_true, ""},
    {"undefined", t_undefined, ""},
    {"upper", t_upper, ""},
    {0},
};

const jbuiltin *jtest_find(str name)
{
    return jbuiltin_in(tests, name);
}
