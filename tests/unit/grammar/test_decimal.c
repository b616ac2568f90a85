#include "grammar/decimal_priv.h"
#include "support/test.h"

static decimal read(arena *a, const char *text)
{
    decimal d;
    json v = {.kind = JSON_NUMBER, .text = str_from(text)};
    assert_true(decimal_read(a, &v, &d));
    return d;
}

TEST(numbers_compare_by_value)
{
    static const char *const ascending[] = {"-1e400",
                                            "-12",
                                            "-1.5",
                                            "-1.49",
                                            "-0.001",
                                            "0",
                                            "1e-400",
                                            "0.0099",
                                            "0.01",
                                            "0.1",
                                            "9007199254740992",
                                            "9007199254740993",
                                            "1e16",
                                            "12345678901234567890.5",
                                            "1e400"};
    int n = sizeof ascending / sizeof *ascending;
    arena a;
    arena_init(&a, 0);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            decimal x = read(&a, ascending[i]), y = read(&a, ascending[k]);
            assert_int_equal(decimal_compare(&x, &y), (i > k) - (i < k));
        }
    arena_fini(&a);
}

TEST(a_value_is_written_in_one_way)
{
    static const char *const pairs[][2] = {
        {"1.0", "1"},     {"-0", "0"},          {"0.0e5", "0"},  {"1e3", "1000"},
        {"1.50", "1.5"},  {"-12e-3", "-0.012"}, {"100e-2", "1"}, {"12.5e1", "125"},
        {"1e-2", "0.01"}, {"1e500", "1e500"}};
    arena a;
    arena_init(&a, 0);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        buf b;
        buf_init(&b);
        decimal d = read(&a, pairs[i][0]);
        decimal_put(&b, &d);
        assert_string_equal(b.ptr, pairs[i][1]);
        buf_fini(&b);
    }
    arena_fini(&a);
}

TEST(multiples_are_exact)
{
    static const struct {
        const char *x, *m;
        bool is;
    } cases[] = {{"0.3", "0.1", true},
                 {"4.02", "0.01", true},
                 {"1e308", "0.123456789", false},
                 {"12", "5", false},
                 {"1e3", "8", true},
                 {"0.005", "0.01", false},
                 {"0", "7", true},
                 {"-9", "3", true},
                 {"12391239123", "1e-8", true},
                 {"0.00751", "0.0001", false}};
    arena a;
    arena_init(&a, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        decimal x = read(&a, cases[i].x), m = read(&a, cases[i].m);
        if (decimal_is_multiple(&x, &m) != cases[i].is)
            fail_msg("%s of %s", cases[i].x, cases[i].m);
    }
    arena_fini(&a);
}

TEST(what_is_beyond_the_limits_is_refused)
{
    arena a;
    decimal d;
    json v = {.kind = JSON_NUMBER, .text = STR("1e1000001")};
    arena_init(&a, 0);
    assert_false(decimal_read(&a, &v, &d));
    v.text = STR("1e99999999999999999999");
    assert_false(decimal_read(&a, &v, &d));
    v.text = STR("0e99999999999999999999");
    assert_true(decimal_read(&a, &v, &d));
    assert_int_equal(d.n, 0);
    arena_fini(&a);
}
