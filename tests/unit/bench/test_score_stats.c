#include "bench/score_priv.h"
#include "support/test.h"

static float norms[64];

static score fresh(void)
{
    return (score){.norms = norms, .cap = 64};
}

#define CHECK_NEAR(got, want) assert_true(fabs((double)(got) - (want)) < 1e-6)

/* p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4): KL = log(2) / 2 - log(2) / 4. The logits may have any
 * sum of exponentials. */
TEST(kl_and_perplexity_are_those_of_the_distributions)
{
    const float p[] = {2 * (float)M_LN2 + 5, (float)M_LN2 + 5, (float)M_LN2 + 5};
    const float q[] = {(float)M_LN2 - 1, 2 * (float)M_LN2 - 1, (float)M_LN2 - 1};
    score s = fresh();
    CHECK_STATUS(score_add(&s, q, p, 3, 0), ERR_OK);
    CHECK_NEAR(s.kl, M_LN2 / 4);
    CHECK_NEAR(s.nll, 2 * M_LN2);
    CHECK_NEAR(s.reference_nll, M_LN2);
    assert_int_equal(s.n_same, 0);
    assert_int_equal(s.n_clear, 1);
    assert_int_equal(s.n_clear_same, 0);
    CHECK_STATUS(score_add(&s, p, p, 3, 2), ERR_OK);
    CHECK_NEAR(s.kl, M_LN2 / 4);
    CHECK_NEAR(s.worst_kl, M_LN2 / 4);
    CHECK_NEAR(s.nll, 4 * M_LN2);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.n_same, 1);
    assert_int_equal(s.n_clear_same, 1);
}

TEST(a_close_pair_is_no_clear_row_and_ties_go_to_the_lower_id)
{
    const float p[] = {0, 1, 1}, q[] = {0, 1, 0.9f}, r[] = {0, 1, 1.1f}, gap[] = {0, 1, 1.3f};
    score s = fresh();
    CHECK_STATUS(score_add(&s, q, p, 3, 0), ERR_OK);
    assert_int_equal(s.n_same, 1);
    CHECK_STATUS(score_add(&s, p, r, 3, 0), ERR_OK);
    assert_int_equal(s.n_same, 1);
    assert_int_equal(s.n_clear, 0);
    CHECK_STATUS(score_add(&s, p, gap, 3, 0), ERR_OK);
    assert_int_equal(s.n_clear, 1);
}

TEST(norms_are_relative_to_the_reference)
{
    const float p[] = {3, 4}, a[] = {3, 4.5f}, b[] = {3, 3};
    score s = fresh();
    CHECK_NEAR(score_median_norm(&s), 0);
    CHECK_STATUS(score_add(&s, b, p, 2, 0), ERR_OK);
    CHECK_STATUS(score_add(&s, p, p, 2, 0), ERR_OK);
    CHECK_STATUS(score_add(&s, a, p, 2, 0), ERR_OK);
    CHECK_NEAR(score_median_norm(&s), 0.1);
    CHECK_NEAR(s.norms[2], 0.2);
}

TEST(a_logit_that_is_not_finite_is_refused_and_changes_nothing)
{
    const float p[] = {1, 2}, bad[] = {1, NAN}, over[] = {INFINITY, 0};
    score s = fresh(), before = s;
    CHECK_STATUS(score_add(&s, bad, p, 2, 0), ERR_INVALID);
    CHECK_STATUS(score_add(&s, p, over, 2, 0), ERR_INVALID);
    assert_memory_equal(&s, &before, sizeof s);
}
