/* Penalties and filters on numbers that can be worked out by hand; their law is tested in
 * tests/ops/test_sample_law.c. */
#include "backend/ref/ref_priv.h"
#include "support/test.h"

TEST(penalties_follow_the_count_word)
{
    sample_policy p = {.repetition = 2, .presence = 0.5f, .frequency = 0.25f};
    assert_true(ref_pick_penalise(&p, 3, 0, 0) == 3);
    assert_true(ref_pick_penalise(&p, 3, SAMPLE_IN_PROMPT, 0) == 1.5); /* repetition alone */
    assert_true(ref_pick_penalise(&p, -3, SAMPLE_IN_PROMPT, 0) == -6);
    assert_true(ref_pick_penalise(&p, 3, 1, 0) == 0.75);                    /* 1.5 - 0.25 - 0.5 */
    assert_true(ref_pick_penalise(&p, 3, 2 | SAMPLE_IN_PROMPT, 1) == 0.25); /* 1.5 - 0.75 - 0.5 */
    assert_true(ref_pick_penalise(&p, 3, 0, 1) == 0.75);                    /* the block's own */
    assert_true(ref_pick_penalise(&p, -INFINITY, 5, 0) == -INFINITY);
}

/* The kept indices as letters, in order of the alphabet. */
static const char *kept(const sample_policy *p, const double *z, const int32_t *ids, int n)
{
    static char out[16];
    int32_t keep[16];
    bool is_kept[16] = {false};
    int n_kept = ref_pick_filter(p, z, ids, n, keep), at = 0;
    for (int i = 0; i < n_kept; i++) {
        assert_false(is_kept[keep[i]]);
        is_kept[keep[i]] = true;
    }
    for (int i = 0; i < n; i++) {
        if (is_kept[i]) out[at++] = (char)('a' + i);
    }
    out[at] = 0;
    return out;
}

TEST(filters_keep_what_they_should)
{
    const double z[] = {log(0.1), log(0.4), log(0.2), log(0.3)};
    sample_policy p = {.top_p = 1};
    assert_string_equal(kept(&p, z, NULL, 4), "abcd");
    p.top_k = 2;
    assert_string_equal(kept(&p, z, NULL, 4), "bd");
    p.top_p = 0.5f; /* of 4/7 and 3/7 the first is enough */
    assert_string_equal(kept(&p, z, NULL, 4), "b");
    p.top_k = 100;
    p.top_p = 0.85f;
    assert_string_equal(kept(&p, z, NULL, 4), "bcd");
    p.min_p = 0.6f;
    assert_string_equal(kept(&p, z, NULL, 4), "bd");
    p.min_p = 1;
    assert_string_equal(kept(&p, z, NULL, 4), "b");
}

TEST(ties_go_to_the_lower_id_not_the_lower_index)
{
    const double z[] = {1, 1, 1, 1};
    const int32_t ids[] = {40, 10, 30, 20};
    sample_policy p = {.top_p = 1, .top_k = 2};
    assert_string_equal(kept(&p, z, NULL, 4), "ab");
    assert_string_equal(kept(&p, z, ids, 4), "bd");
    p = (sample_policy){.top_p = 0.3f};
    assert_string_equal(kept(&p, z, ids, 4), "bd");
}

TEST(one_always_survives)
{
    const double z[] = {-INFINITY, -INFINITY, 2};
    sample_policy p = {.top_p = 0};
    assert_string_equal(kept(&p, z, NULL, 3), "c");
    assert_string_equal(kept(&p, z, NULL, 2), "a"); /* nothing is allowed */
    p.top_p = 1;
    assert_string_equal(kept(&p, z, NULL, 3), "c"); /* what is masked stays out */
}
