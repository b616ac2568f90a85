#include "base/json.h"
#include "support/test.h"

static json number(const char *text)
{
    return (json){.kind = JSON_NUMBER, .text = str_from(text)};
}

static void check_int64(const char *text, int64_t want)
{
    json v = number(text);
    int64_t got = ~want;
    if (!json_to_int64(&v, &got) || got != want) fail_msg("%s gave %lld", text, (long long)got);
}

static void refuse_int64(const char *text)
{
    json v = number(text);
    int64_t got = 77;
    if (json_to_int64(&v, &got) || got != 77) fail_msg("%s gave %lld", text, (long long)got);
}

TEST(integers_are_read_exactly_however_they_are_written)
{
    check_int64("0", 0);
    check_int64("-0", 0);
    check_int64("-0.000e5", 0);
    check_int64("0e99999999999999999999999", 0);
    check_int64("0e-99999999999999999999999", 0);
    check_int64("5.0", 5);
    check_int64("5e0", 5);
    check_int64("5E+2", 500);
    check_int64("1.5e1", 15);
    check_int64("1200e-2", 12);
    check_int64("12.3400e2", 1234);
    check_int64("0.0005e4", 5);
    check_int64("100000000000000000000e-20", 1);
}

TEST(the_ends_of_int64)
{
    check_int64("9223372036854775807", INT64_MAX);
    check_int64("-9223372036854775808", INT64_MIN);
    check_int64("9223372036854775807.000", INT64_MAX);
    check_int64("922337203685477580.7e1", INT64_MAX);
    refuse_int64("9223372036854775808");
    refuse_int64("-9223372036854775809");
    refuse_int64("1e19");
    refuse_int64("-12e18");
    refuse_int64("18446744073709551616");
    refuse_int64("184467440737095516150");
    refuse_int64("1e99999999999999999999999999");
    refuse_int64("1e9223372036854775807");
    refuse_int64("1e-9223372036854775808");
}

TEST(what_is_not_whole_is_no_integer)
{
    refuse_int64("0.5");
    refuse_int64("1e-1");
    refuse_int64("5.0000000000000000000000000000001");
    refuse_int64("123.4e0");
    refuse_int64("1e-99999999999999999999999");
}

TEST(uint64_takes_its_range_and_no_negative)
{
    uint64_t v = 7;
    json most = number("18446744073709551615"), over = number("18446744073709551616");
    json minus = number("-1"), zero = number("-0.0");
    assert_true(json_to_uint64(&most, &v) && v == UINT64_MAX);
    assert_false(json_to_uint64(&over, &v) || json_to_uint64(&minus, &v));
    assert_true(v == UINT64_MAX);
    assert_true(json_to_uint64(&zero, &v) && v == 0);
}

TEST(doubles_are_finite_or_refused)
{
    double d = 7;
    json good = number("-1.25e2"), tiny = number("1e-999"), huge = number("1e999");
    assert_true(json_to_double(&good, &d) && d == -125);
    assert_true(json_to_double(&tiny, &d) && d == 0);
    d = 7;
    assert_false(json_to_double(&huge, &d));
    assert_true(d == 7);
}

TEST(other_kinds_are_refused)
{
    int64_t i = 7;
    uint64_t u = 7;
    double d = 7;
    json text = {.kind = JSON_STRING, .text = STR("5")}, yes = {.kind = JSON_TRUE};
    const json *others[] = {&text, &yes, NULL};
    for (int k = 0; k < 3; k++) {
        assert_false(json_to_int64(others[k], &i));
        assert_false(json_to_uint64(others[k], &u));
        assert_false(json_to_double(others[k], &d));
    }
    assert_true(i == 7 && u == 7 && d == 7);
}
