/* Expected values are Python 3.11's. */
#include "chat/jinja_number_priv.h"
#include "support/test.h"

static const char *repr(double d)
{
    static char text[40];
    jnumber_format(d, text);
    return text;
}

TEST(floats_print_the_shortest_text)
{
    assert_string_equal(repr(1), "1.0");
    assert_string_equal(repr(0.1), "0.1");
    assert_string_equal(repr(0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(repr(-0.0), "-0.0");
    assert_string_equal(repr(1e16), "1e+16");
    assert_string_equal(repr(123456789012345680.0), "1.2345678901234568e+17");
    assert_string_equal(repr(1e15), "1000000000000000.0");
    assert_string_equal(repr(0.0001), "0.0001");
    assert_string_equal(repr(0.00001), "1e-05");
    assert_string_equal(repr(5e-324), "5e-324");
    assert_string_equal(repr(1.7976931348623157e308), "1.7976931348623157e+308");
    assert_string_equal(repr(INFINITY), "inf");
    assert_string_equal(repr(2.5e-7), "2.5e-07");
}

static const char *compute(jop op, jvalue a, jvalue b)
{
    static char text[60];
    jvalue v = {0};
    const char *why = jnumber_binary(op, a, b, &v);
    if (why) return why;
    if (v.kind == JVALUE_INT)
        snprintf(text, sizeof text, "%lld", (long long)v.i);
    else
        jnumber_format(v.f, text);
    return text;
}
#define INTS(op, a, b) compute(op, jvalue_int(a), jvalue_int(b))
#define FLOATS(op, a, b) compute(op, jvalue_float(a), jvalue_float(b))

TEST(division_and_rest_go_to_the_floor)
{
    assert_string_equal(INTS(JOP_FLOORDIV, -7, 2), "-4");
    assert_string_equal(INTS(JOP_MOD, -7, 3), "2");
    assert_string_equal(INTS(JOP_MOD, 7, -3), "-2");
    assert_string_equal(INTS(JOP_DIV, 1, 2), "0.5");
    assert_string_equal(FLOATS(JOP_FLOORDIV, -7.5, 2), "-4.0");
    assert_string_equal(FLOATS(JOP_MOD, -7.5, 2), "0.5");
    assert_string_equal(FLOATS(JOP_MOD, 5.5, -2), "-0.5");
    assert_string_equal(INTS(JOP_POW, 2, 62), "4611686018427387904");
    assert_string_equal(INTS(JOP_POW, 2, -1), "0.5");
    assert_string_equal(compute(JOP_ADD, jvalue_bool(true), jvalue_int(1)), "2");
}

TEST(what_python_refuses_or_64_bits_cannot_hold_is_said)
{
    assert_string_equal(INTS(JOP_DIV, 1, 0), "division by zero");
    assert_non_null(strstr(INTS(JOP_MOD, 1, 0), "zero"));
    assert_non_null(strstr(INTS(JOP_ADD, INT64_MAX, 1), "64 bits"));
    assert_non_null(strstr(INTS(JOP_MUL, INT64_MIN, -1), "64 bits"));
    assert_non_null(strstr(INTS(JOP_FLOORDIV, INT64_MIN, -1), "64 bits"));
    assert_string_equal(INTS(JOP_MOD, INT64_MIN, -1), "0");
    assert_non_null(strstr(INTS(JOP_POW, 10, 30), "64 bits"));
    assert_non_null(strstr(FLOATS(JOP_POW, -8, 0.5), "complex"));
    assert_non_null(strstr(FLOATS(JOP_POW, 0, -1), "negative power"));
}

TEST(numbers_of_any_kind_compare_exactly)
{
    int order;
    jvalue big = {.kind = JVALUE_BIG};
    jtext digits = {.s = STR("99999999999999999999")};
    big.s = &digits;
    assert_true(
        jnumber_compare(jvalue_int(9007199254740993), jvalue_float(9007199254740992.0), &order));
    assert_int_equal(order, 1);
    assert_true(jnumber_compare(jvalue_int(INT64_MAX), big, &order));
    assert_int_equal(order, -1);
    assert_true(jnumber_compare(jvalue_float(NAN), jvalue_int(1), &order));
    assert_int_equal(order, 2);
    assert_true(jnumber_compare(jvalue_float(INFINITY), jvalue_float(INFINITY), &order));
    assert_int_equal(order, 0);
}

TEST(text_becomes_a_number_as_int_and_float_read_it)
{
    arena a;
    jvalue v;
    double d;
    arena_init(&a, 0);
    assert_null(jnumber_int_of_text(&a, STR(" -1_000 \n"), 10, &v));
    assert_int_equal(v.i, -1000);
    assert_null(jnumber_int_of_text(&a, STR("0x1F"), 0, &v));
    assert_int_equal(v.i, 31);
    assert_null(jnumber_int_of_text(&a, STR("\xd9\xa1\xd9\xa2"), 10, &v));
    assert_int_equal(v.i, 12);
    assert_null(jnumber_int_of_text(&a, STR("00123456789012345678901"), 10, &v));
    assert_true(v.kind == JVALUE_BIG && str_is(v.s->s, "123456789012345678901"));
    assert_non_null(jnumber_int_of_text(&a, STR("1__0"), 10, &v));
    assert_non_null(jnumber_int_of_text(&a, STR(""), 10, &v));
    assert_non_null(jnumber_int_of_text(&a, STR("1.0"), 10, &v));
    assert_true(jnumber_float_of_text(STR(" 1e3 "), &d) && d == 1000);
    assert_true(jnumber_float_of_text(STR("-Infinity"), &d) && isinf(d) && d < 0);
    assert_true(jnumber_float_of_text(STR("1e999"), &d) && isinf(d));
    assert_true(jnumber_float_of_text(STR("nan"), &d) && isnan(d));
    assert_false(jnumber_float_of_text(STR("1e"), &d));
    assert_false(jnumber_float_of_text(STR("1E+16--1"), &d));
    assert_false(jnumber_float_of_text(STR("x"), &d));
    arena_fini(&a);
}

TEST(rounding_goes_half_to_even_of_the_exact_value)
{
    jvalue v;
    assert_null(jnumber_round(jvalue_float(2.5), 0, &v));
    assert_string_equal(repr(v.f), "2.0");
    assert_null(jnumber_round(jvalue_float(2.675), 2, &v));
    assert_string_equal(repr(v.f), "2.67");
    assert_null(jnumber_round(jvalue_int(1250), -2, &v));
    assert_int_equal(v.i, 1200);
    assert_null(jnumber_round(jvalue_int(-1350), -2, &v));
    assert_int_equal(v.i, -1400);
    assert_null(jnumber_floor(jvalue_float(-0.125), 0, true, &v));
    assert_string_equal(repr(v.f), "0.0");
    assert_non_null(jnumber_floor(jvalue_float(INFINITY), 0, false, &v));
}
