#include "base/rng.h"
#include "support/test.h"

TEST(the_same_key_gives_the_same_bits_and_others_do_not)
{
    rng_key a = rng_row_key(1, 2, 3), b = rng_row_key(1, 2, 3);
    assert_int_equal(a.k0, b.k0);
    assert_int_equal(a.k1, b.k1);
    assert_int_equal(rng_bits(a, 7), rng_bits(b, 7));
    rng_key others[] = {rng_row_key(2, 2, 3), rng_row_key(1, 3, 3), rng_row_key(1, 2, 4)};
    for (int i = 0; i < 3; i++) assert_true(others[i].k0 != a.k0 || others[i].k1 != a.k1);
}

TEST(bits_are_uniform_over_tokens_positions_and_choices)
{
    enum { N = 1 << 18, BINS = 64 };
    uint64_t seed = test_seed();
    for (int along = 0; along < 3; along++) {
        int count[BINS] = {0};
        for (uint32_t i = 0; i < N; i++) {
            rng_key k = rng_row_key(seed, along == 1 ? i : 0, along == 2 ? (int64_t)i : 0);
            count[rng_bits(k, along == 0 ? i : 5) >> 26]++;
        }
        double chi2 = 0, want = (double)N / BINS;
        for (int i = 0; i < BINS; i++) chi2 += (count[i] - want) * (count[i] - want) / want;
        /* 63 degrees of freedom: beyond 150 one run in ten million. */
        if (chi2 > 150) fail_msg("along %d: chi2 %.1f", along, chi2);
    }
}

TEST(neighbouring_tokens_and_rows_are_uncorrelated)
{
    enum { N = 1 << 17 };
    uint64_t seed = test_seed();
    double by_token = 0, by_row = 0;
    for (int64_t i = 0; i < N; i++) {
        rng_key k = rng_row_key(seed, 0, i / 512), next = rng_row_key(seed, 0, i / 512 + 1);
        double a = rng_bits(k, (uint32_t)(i % 512)) * 0x1p-32 - 0.5;
        double b = rng_bits(k, (uint32_t)(i % 512) + 1) * 0x1p-32 - 0.5;
        double c = rng_bits(next, (uint32_t)(i % 512)) * 0x1p-32 - 0.5;
        by_token += a * b * 12;
        by_row += a * c * 12;
    }
    /* Each sum has standard deviation sqrt(N): 6 of them one run in 5e8. */
    assert_true(fabs(by_token) < 6 * sqrt(N));
    assert_true(fabs(by_row) < 6 * sqrt(N));
}

TEST(gumbel_is_finite_at_both_ends_and_has_the_right_moments)
{
    assert_true(isfinite(rng_gumbel(0)) && isfinite(rng_gumbel(UINT32_MAX)));
    assert_true(rng_gumbel(0) > 22 && rng_gumbel(UINT32_MAX) < -3);
    enum { N = 1 << 20 };
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < N; i++) {
        double g = rng_gumbel(i * (uint32_t)(((uint64_t)1 << 32) / N) + 2048);
        sum += g;
        squares += g * g;
    }
    double mean = sum / N, variance = squares / N - mean * mean;
    assert_true(fabs(mean - 0.5772156649) < 1e-4);
    assert_true(fabs(variance - 1.6449340668) < 1e-3);
}

/* The argmax of log p + gumbel draws from p: what sampling relies on. */
TEST(argmax_of_log_p_plus_gumbel_draws_from_p)
{
    enum { N = 100000, K = 5 };
    const double p[K] = {0.5, 0.25, 0.15, 0.07, 0.03};
    int count[K] = {0};
    uint64_t seed = test_seed();
    for (int64_t pos = 0; pos < N; pos++) {
        rng_key k = rng_row_key(seed, 0, pos);
        int best = 0;
        double most = -INFINITY;
        for (int i = 0; i < K; i++) {
            double z = log(p[i]) + rng_gumbel(rng_bits(k, (uint32_t)i));
            if (z > most) {
                most = z;
                best = i;
            }
        }
        count[best]++;
    }
    double chi2 = 0;
    for (int i = 0; i < K; i++) chi2 += pow(count[i] - N * p[i], 2) / (N * p[i]);
    /* 4 degrees of freedom: beyond 40 one run in twenty million. */
    assert_true(chi2 < 40);
}
