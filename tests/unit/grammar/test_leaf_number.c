/* Numbers under bounds and divisors, against exact comparison. */
#include "fixture_grammar.h"
#include "grammar/leaf_number_priv.h"

static decimal read(arena *a, const char *text)
{
    decimal d;
    json v = {.kind = JSON_NUMBER, .text = str_from(text)};
    assert_true(decimal_read(a, &v, &d));
    return d;
}

static bool matches(const leaf *l, const char *text)
{
    int state = 0;
    for (; *text; text++) {
        int to = l->code[(unsigned char)*text];
        if (to == LEAF_DEAD) return false;
        to = l->next[state * l->n_classes + (to & ~LEAF_CLASS)];
        if (to == LEAF_DEAD) return false;
        state = to;
    }
    return l->accept[state];
}

/* A number of few digits, so that random ones are often equal. */
static void put_random(char *out, bool is_integer, uint64_t *seed)
{
    static const char digits[] = "0019";
    int n = 1 + (int)(test_random(seed) % 3), at = 0;
    if (test_random(seed) % 2) out[at++] = '-';
    for (int i = 0; i < n; i++) {
        char c = digits[test_random(seed) % 4];
        if (i == 0 && c == '0' && n > 1) c = '1';
        out[at++] = c;
    }
    if (!is_integer && test_random(seed) % 2) {
        out[at++] = '.';
        for (int i = 0; i < n; i++) out[at++] = digits[test_random(seed) % 4];
    }
    out[at] = '\0';
}

TEST(random_numbers_are_taken_exactly_within_their_bounds)
{
    uint64_t seed = test_seed();
    err e = {0};
    int64_t work = INT64_MAX;
    for (int round = 0; round < 150; round++) {
        arena a;
        char lower[16], upper[16], text[16];
        const leaf *l = NULL;
        arena_init(&a, 0);
        put_random(lower, false, &seed);
        put_random(upper, false, &seed);
        number_bounds b = {.is_integer = test_random(&seed) % 2,
                           .has_lower = test_random(&seed) % 4 != 0,
                           .has_upper = test_random(&seed) % 4 != 0,
                           .lower_excluded = test_random(&seed) % 2,
                           .upper_excluded = test_random(&seed) % 2,
                           .lower = read(&a, lower),
                           .upper = read(&a, upper)};
        decimal m = read(&a, "0.3");
        if (test_random(&seed) % 3 == 0) b.divisor = 3, b.scale = 1;
        CHECK_OK(leaf_number_build(&a, &work, &b, "test", &l, &e), &e);
        for (int i = 0; i < 200; i++) {
            put_random(text, b.is_integer, &seed);
            decimal d = read(&a, text);
            int low = decimal_compare(&d, &b.lower), high = decimal_compare(&d, &b.upper);
            bool fits = !(b.has_lower && (low < 0 || (low == 0 && b.lower_excluded))) &&
                        !(b.has_upper && (high > 0 || (high == 0 && b.upper_excluded))) &&
                        !(b.divisor && !decimal_is_multiple(&d, &m));
            /* "-0" is only refused; multiples are written with no more digits than the divisor */
            bool is_odd = text[0] == '-' && d.n == 0;
            const char *dot = strchr(text, '.');
            if (b.divisor && dot && strlen(dot) > 2) is_odd = true;
            bool took = l && matches(l, text);
            if (is_odd ? took && !fits : took != fits)
                fail_msg("%s in %s..%s (%d%d%d%d): %d", text, lower, upper, b.has_lower,
                         b.lower_excluded, b.has_upper, b.upper_excluded, took);
        }
        arena_fini(&a);
    }
}

TEST(bounds_may_be_far_beyond_any_integer_type)
{
    arena a;
    err e = {0};
    int64_t work = LEAF_WORK_MOST;
    const leaf *l = NULL;
    arena_init(&a, 0);
    number_bounds b = {.is_integer = true, .has_upper = true, .upper = read(&a, "1e30")};
    CHECK_OK(leaf_number_build(&a, &work, &b, "test", &l, &e), &e);
    assert_true(matches(l, "1000000000000000000000000000000"));
    assert_false(matches(l, "1000000000000000000000000000001"));
    assert_true(matches(l, "-99999999999999999999999999999999999999"));
    b.upper = read(&a, "1e500");
    CHECK_STATUS(leaf_number_build(&a, &work, &b, "test", &l, &e), ERR_LIMIT);
    arena_fini(&a);
}
