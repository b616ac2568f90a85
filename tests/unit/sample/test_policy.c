#include "sample/policy.h"

#include "support/test.h"

static status check(policy p, const char **where)
{
    static err e;
    e = (err){0};
    status s = policy_check(&p, 3072, &e);
    *where = e.where;
    return s;
}

TEST(neutral_settings_pass)
{
    policy p = policy_neutral();
    err e = {0};
    CHECK_OK(policy_check(&p, 3072, &e), &e);
    assert_false(policy_has_penalties(&p));
}

TEST(each_range_is_checked_and_named)
{
    struct {
        const char *name;
        policy p;
    } cases[] = {
        {"temperature", {.temperature = 2.5, .top_p = 1, .repetition = 1}},
        {"temperature", {.temperature = -0.1, .top_p = 1, .repetition = 1}},
        {"temperature", {.temperature = (double)NAN, .top_p = 1, .repetition = 1}},
        {"top_p", {.temperature = 1, .top_p = 0, .repetition = 1}},
        {"top_p", {.temperature = 1, .top_p = 1.01, .repetition = 1}},
        {"min_p", {.temperature = 1, .top_p = 1, .min_p = 1.5, .repetition = 1}},
        {"top_k", {.temperature = 1, .top_p = 1, .top_k = -2, .repetition = 1}},
        {"repetition_penalty", {.temperature = 1, .top_p = 1, .repetition = 0}},
        {"presence_penalty", {.temperature = 1, .top_p = 1, .repetition = 1, .presence = 2.1}},
        {"frequency_penalty", {.temperature = 1, .top_p = 1, .repetition = 1, .frequency = -3}},
        {"logit_bias", {.temperature = 1, .top_p = 1, .repetition = 1, .n_bias = 5000}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *where;
        assert_int_equal(check(cases[i].p, &where), ERR_INVALID);
        assert_string_equal(where, cases[i].name);
    }
}

TEST(a_bias_outside_the_vocabulary_is_refused)
{
    policy_bias bias = {3072, 1};
    policy p = policy_neutral();
    p.bias = &bias;
    p.n_bias = 1;
    const char *where;
    assert_int_equal(check(p, &where), ERR_INVALID);
    bias.id = 3071;
    assert_int_equal(check(p, &where), ERR_OK);
}

TEST(top_k_minus_one_and_beyond_the_vocabulary_turn_it_off)
{
    err e = {0};
    for (int i = 0; i < 2; i++) {
        policy p = policy_neutral();
        p.top_k = i ? 5000 : -1;
        CHECK_OK(policy_check(&p, 3072, &e), &e);
        assert_int_equal(p.top_k, 0);
    }
}

TEST(a_tiny_temperature_is_raised_but_zero_stays)
{
    err e = {0};
    policy p = policy_neutral();
    p.temperature = 1e-6;
    CHECK_OK(policy_check(&p, 10, &e), &e);
    assert_true(p.temperature == 0.01);
    p.temperature = 0;
    CHECK_OK(policy_check(&p, 10, &e), &e);
    assert_true(p.temperature == 0);
}
