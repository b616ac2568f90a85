#include "grammar/repeat_priv.h"

#include "support/test.h"

static int pushed_until_round(int period, int fresh)
{
    repeat r = {0};
    int n = 0;
    for (int i = 0; i < fresh; i++) repeat_push(&r, 100000 + i);
    while (!repeat_is_round(&r, 0)) {
        repeat_push(&r, n % period);
        n++;
        assert_true(n < 5000);
        /* n more tokens are foreseen, and no earlier than they can come */
        if (!repeat_is_round(&r, 0) && repeat_is_round(&r, 3)) assert_true(n > period);
    }
    return n;
}

TEST(a_circle_is_seen_when_it_has_come_often_and_long_enough)
{
    const int periods[] = {1, 2, 3, 50, 64, 65, 100, REPEAT_PERIOD_MOST};
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++) {
        int p = periods[i],
            want = REPEAT_TIMES * p > REPEAT_LEAST ? REPEAT_TIMES * p : REPEAT_LEAST;
        assert_int_equal(pushed_until_round(p, 0), want);
        assert_int_equal(pushed_until_round(p, 777), want);
    }
}

TEST(what_does_not_come_back_exactly_is_no_circle)
{
    repeat r = {0};
    uint64_t seed = test_seed();
    for (int i = 0; i < 20000; i++) {
        /* a period of 40, but for one token in each round */
        int32_t id = i % 40 == 39 ? (int32_t)(1000 + test_random(&seed) % 100000) : i % 40;
        repeat_push(&r, id);
        assert_false(repeat_is_round(&r, 0));
    }
    for (int i = 0; i < 5 * (REPEAT_PERIOD_MOST + 1); i++) { /* a longer period is not looked for */
        repeat_push(&r, i % (REPEAT_PERIOD_MOST + 1));
        assert_false(repeat_is_round(&r, 0));
    }
}

TEST(n_more_tokens_are_foreseen)
{
    repeat r = {0};
    for (int i = 0; i < REPEAT_LEAST - 4; i++) repeat_push(&r, 7);
    assert_false(repeat_is_round(&r, 3));
    assert_true(repeat_is_round(&r, 4));
    repeat copy = r;
    for (int i = 0; i < 4; i++) repeat_push(&copy, 7);
    assert_true(repeat_is_round(&copy, 0));
    repeat_push(&r, 8);
    assert_false(repeat_is_round(&r, 255)); /* of period 64, 4 rounds more */
    assert_true(repeat_is_round(&r, 256));
}
