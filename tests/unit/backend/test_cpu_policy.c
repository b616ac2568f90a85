#include "backend/cpu/cpu_policy_priv.h"
#include "cpu_tables.h"

static const sample_policy neutral = {.temperature = 1, .top_p = 1, .repetition = 1};

TEST(penalties_follow_the_formula_of_sample)
{
    sample_policy p = neutral;
    assert_false(cpu_policy_has_penalty(&p));
    p.repetition = 2;
    p.frequency = 0.5f;
    p.presence = 0.25f;
    assert_true(cpu_policy_has_penalty(&p));
    assert_true(cpu_policy_penalise(&p, 3, 0, 0) == 3);
    assert_true(cpu_policy_penalise(&p, 3, SAMPLE_IN_PROMPT, 0) == 1.5f);
    assert_true(cpu_policy_penalise(&p, -3, SAMPLE_IN_PROMPT, 0) == -6);
    assert_true(cpu_policy_penalise(&p, 3, 2, 0) == 1.5f - 1.25f);
    assert_true(cpu_policy_penalise(&p, 3, 1 | SAMPLE_IN_PROMPT, 2) == 1.5f - 1.75f);
    assert_true(cpu_policy_penalise(&p, 3, 0, 1) == 1.5f - 0.75f);
}

TEST(filters_cut_a_sorted_list_in_order)
{
    float z[4] = {(float)log(0.5), (float)log(0.25), (float)log(0.15), (float)log(0.1)};
    sample_policy p = neutral;
    assert_int_equal(cpu_policy_keep(&p, z, 4), 4);
    p.top_k = 3;
    assert_int_equal(cpu_policy_keep(&p, z, 4), 3);
    p.top_p = 0.8f; /* of 0.9: 0.5 + 0.25 reach 0.72 */
    assert_int_equal(cpu_policy_keep(&p, z, 4), 2);
    p.top_p = 0;
    assert_int_equal(cpu_policy_keep(&p, z, 4), 1);
    p = neutral;
    p.min_p = 0.31f; /* of 0.5: 0.155 */
    assert_int_equal(cpu_policy_keep(&p, z, 4), 2);
    float nothing[2] = {-INFINITY, -INFINITY};
    assert_int_equal(cpu_policy_keep(&neutral, nothing, 2), 0);
    assert_int_equal(cpu_policy_keep(&neutral, z, 0), 0);
}
