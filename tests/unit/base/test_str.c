#include <float.h>
#include <stdlib.h>

#include "base/str.h"
#include "support/guard.h"
#include "support/test.h"

TEST(equal_compares_length_and_bytes)
{
    assert_true(str_equal(STR("ab"), str_from("ab")));
    assert_false(str_equal(STR("ab"), STR("abc")));
    assert_true(str_equal((str){NULL, 0}, STR("")));
    assert_true(str_equal(STR("a\0b"), STR("a\0b")));
    assert_false(str_equal(STR("a\0b"), STR("a\0c")));
    assert_true(str_is(STR("ab"), "ab"));
    assert_int_equal(str_from(NULL).len, 0);
}

TEST(starts_and_ends)
{
    assert_true(str_starts(STR("abc"), STR("ab")));
    assert_true(str_starts(STR("abc"), STR("")));
    assert_false(str_starts(STR("ab"), STR("abc")));
    assert_true(str_ends(STR("abc"), STR("bc")));
    assert_true(str_ends(STR("abc"), STR("abc")));
    assert_false(str_ends(STR("bc"), STR("abc")));
    assert_true(str_ends((str){NULL, 0}, (str){NULL, 0}));
}

TEST(skip_and_slice_borrow_parts)
{
    str s = STR("abcdef");
    assert_true(str_is(str_skip(s, 2), "cdef"));
    assert_int_equal(str_skip(s, 6).len, 0);
    assert_true(str_is(str_slice(s, 1, 3), "bc"));
    assert_int_equal(str_slice((str){NULL, 0}, 0, 0).len, 0);
}

TEST(find_gives_the_first_at_or_after)
{
    str s = STR("abcabc");
    assert_int_equal(str_find(s, STR("bc"), 0), 1);
    assert_int_equal(str_find(s, STR("bc"), 1), 1);
    assert_int_equal(str_find(s, STR("bc"), 2), 4);
    assert_int_equal(str_find(s, STR("bc"), 5), -1);
    assert_int_equal(str_find(s, STR(""), 6), 6);
    assert_int_equal(str_find(s, STR(""), 7), -1);
    assert_int_equal(str_find(s, STR("abcabcd"), 0), -1);
    assert_int_equal(str_find((str){NULL, 0}, STR("a"), 0), -1);
}

TEST(trim_takes_ascii_space_off_both_ends)
{
    assert_true(str_is(str_trim(STR(" \t\r\n\v\f a b \n")), "a b"));
    assert_int_equal(str_trim(STR("  \n ")).len, 0);
    assert_int_equal(str_trim((str){NULL, 0}).len, 0);
    assert_true(str_is(str_trim(STR("\xa0x")), "\xa0x"));
}

TEST(compare_orders_by_bytes)
{
    assert_true(str_compare(STR("a"), STR("b")) < 0);
    assert_true(str_compare(STR("b"), STR("a")) > 0);
    assert_true(str_compare(STR("a"), STR("ab")) < 0);
    assert_true(str_compare(STR("ab"), STR("a")) > 0);
    assert_int_equal(str_compare(STR("ab"), STR("ab")), 0);
    assert_true(str_compare(STR("\xff"), STR("a")) > 0);
    assert_int_equal(str_compare((str){NULL, 0}, STR("")), 0);
}

TEST(to_int64_takes_exactly_the_range)
{
    int64_t v = 7;
    assert_true(str_to_int64(STR("-9223372036854775808"), &v) && v == INT64_MIN);
    assert_true(str_to_int64(STR("9223372036854775807"), &v) && v == INT64_MAX);
    assert_true(str_to_int64(STR("-0"), &v) && v == 0);
    assert_true(str_to_int64(STR("007"), &v) && v == 7);
    const char *bad[] = {"",
                         "-",
                         "+1",
                         " 1",
                         "1 ",
                         "1.0",
                         "0x1",
                         "--1",
                         "9223372036854775808",
                         "-9223372036854775809",
                         "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(str_to_int64(str_from(bad[i]), &v));
        assert_int_equal(v, 7);
    }
}

TEST(to_uint64_takes_exactly_the_range)
{
    uint64_t v = 7;
    assert_true(str_to_uint64(STR("18446744073709551615"), &v) && v == UINT64_MAX);
    assert_true(str_to_uint64(STR("0"), &v) && v == 0);
    assert_false(str_to_uint64(STR("18446744073709551616"), &v));
    assert_false(str_to_uint64(STR("-1"), &v));
    assert_false(str_to_uint64(STR(""), &v));
    assert_int_equal(v, 0);
}

static void check_double(const char *text, double want)
{
    double got = 12345;
    assert_true(str_to_double(str_from(text), &got));
    if (memcmp(&got, &want, sizeof got) != 0) fail_msg("%s: got %a, want %a", text, got, want);
}

TEST(to_double_rounds_correctly_at_the_hard_places)
{
    check_double("0", 0.0);
    check_double("-0.0", -0.0);
    check_double("-0e5", -0.0);
    check_double("+1.5", 1.5);
    check_double("1.", 1.0);
    check_double(".5", 0.5);
    check_double("1e23", 1e23);
    check_double("9007199254740993", 9007199254740992.0);
    check_double("9007199254740993.0000000000000000000000000000001", 9007199254740994.0);
    check_double("1.7976931348623157e308", DBL_MAX);
    check_double("2.2250738585072011e-308", 0x0.fffffffffffffp-1022);
    check_double("4.9e-324", 0x1p-1074);
    check_double("2.4703282292062327e-324", 0.0);
    check_double("2.4703282292062328e-324", 0x1p-1074);
    check_double("1e-400", 0.0);
    check_double("0.000000000000000000000000000000000000000001e42", 1.0);
    check_double("1000000000000000000000000000000000000e-36", 1.0);
    check_double("123456789012345678", 123456789012345678.0);
}

TEST(to_double_sees_a_digit_far_behind_a_tie)
{
    /* 1 + 2^-53 is a tie and goes to 1; anything more goes up. */
    char text[4000] = "1.00000000000000011102230246251565404236316680908203125";
    size_t at = strlen(text);
    check_double(text, 1.0);
    for (size_t zeros = 1; zeros < 3500; zeros += 499) {
        memset(text + at, '0', zeros);
        strcpy(text + at + zeros, "1");
        check_double(text, 1 + 0x1p-52);
    }
}

TEST(to_double_agrees_with_strtod_on_random_text)
{
    uint64_t rng = test_seed();
    for (int i = 0; i < 50000; i++) {
        char text[80];
        uint64_t bits = test_random(&rng);
        double d;
        memcpy(&d, &bits, sizeof d);
        if (!isfinite(d)) continue;
        switch (i % 4) {
        case 0: snprintf(text, sizeof text, "%.17g", d); break;
        case 1: snprintf(text, sizeof text, "%.*e", (int)(bits % 25), d); break;
        case 2:
            snprintf(text, sizeof text, "%llu.%llue%d", (unsigned long long)bits % 100000,
                     (unsigned long long)bits >> 20, (int)(bits % 40) - 20);
            break;
        default:
            snprintf(text, sizeof text, "%llu.%02u", (unsigned long long)bits % 1000000000,
                     (unsigned)(bits >> 50) % 100);
            break;
        }
        double want = strtod(text, NULL);
        if (isfinite(want)) check_double(text, want);
    }
}

TEST(to_double_refuses_what_is_no_decimal_number)
{
    const char *bad[] = {"",      "-",    "+",     ".",        "e5",    "1e",    "1e+",
                         "1e5x",  "0x10", "inf",   "nan",      " 1",    "1 ",    "1,5",
                         "1.2.3", "--1",  "1e1.5", "infinity", "1e999", "-1e309"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double v = 7;
        if (str_to_double(str_from(bad[i]), &v)) fail_msg("took \"%s\"", bad[i]);
        assert_true(v == 7);
    }
}

TEST(to_double_reads_no_byte_beyond_the_slice)
{
    const char *texts[] = {"1", "1.5", "1e5", "-123456789012345678901234567890", "1.5e-300"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t n = strlen(texts[i]);
        char *p = guard_copy(texts[i], n);
        double v;
        assert_true(str_to_double((str){p, n}, &v));
        assert_true(v == strtod(texts[i], NULL));
        guard_free(p, n);
    }
    /* The digit after the slice is not part of the number. */
    double v;
    assert_true(str_to_double((str){"12345678901234567890", 3}, &v) && v == 123);
}
