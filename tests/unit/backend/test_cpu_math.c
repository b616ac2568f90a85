/* The elementary functions against libm in double, and equal on every instruction set. */
#include "base/rng.h"
#include "cpu_tables.h"

enum { N = 4096 };

static float x[N], y[N], want[N];

static double worst_relative(const cpu_kernels *k, void (*f)(const float *, int64_t, float *),
                             double (*exact)(double), double low, double high)
{
    (void)k;
    double worst = 0;
    for (int i = 0; i < N; i++) x[i] = (float)(low + (high - low) * i / (N - 1));
    f(x, N, y);
    for (int i = 0; i < N; i++) {
        double w = exact((double)x[i]), d = fabs((double)y[i] - w) / w;
        if (d > worst) worst = d;
    }
    return worst;
}

static double exact_sigmoid(double v)
{
    return 1 / (1 + exp(-v));
}

TEST(exp_and_sigmoid_are_right_to_a_few_units_in_the_last_place)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    for (int i = 0; i < n; i++) {
        assert_true(worst_relative(k[i], k[i]->exp, exp, -87, 87) < 2e-7);
        assert_true(worst_relative(k[i], k[i]->sigmoid, exact_sigmoid, -80, 80) < 3e-7);
    }
}

TEST(exp_has_its_edges)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    float in[5] = {-INFINITY, -1000, -87.4f, 0, 1000}, out[5];
    for (int i = 0; i < n; i++) {
        k[i]->exp(in, 5, out);
        assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0);
        assert_true(out[3] == 1.0f);
        assert_true(isfinite(out[4]) && out[4] > 1e38f);
    }
}

TEST(noise_is_the_gumbel_number_of_rng)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    rng_key key = rng_row_key(7, 1, 1234);
    double worst = 0;
    for (int id0 = 0; id0 < 400000; id0 += 16) {
        int32_t ids[16];
        float noise[CPU_TABLES][16];
        for (int i = 0; i < 16; i++) ids[i] = id0 + i;
        for (int i = 0; i < n; i++) {
            k[i]->gumbel16(ids, key, noise[i]);
            check_same("gumbel16", k[i], noise[i], noise[0], sizeof noise[0]);
        }
        for (int i = 0; i < 16; i++) {
            double w = rng_gumbel(rng_bits(key, (uint32_t)ids[i]));
            double d = fabs((double)noise[0][i] - w) / fmax(1, fabs(w));
            if (d > worst) worst = d;
        }
    }
    assert_true(worst < 1e-6);
}

TEST(noise_of_the_extreme_bits_is_finite_and_right)
{
    /* Ids are found whose bits are near both ends of 32 bits: the largest and smallest of many. */
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    rng_key key = rng_row_key(3, 0, 5);
    uint32_t low = UINT32_MAX, high = 0;
    int32_t ids[16] = {0};
    for (int32_t id = 0; id < 30000000; id++) {
        uint32_t b = rng_bits(key, (uint32_t)id);
        if (b < low) {
            low = b;
            ids[0] = id;
        }
        if (b > high) {
            high = b;
            ids[1] = id;
        }
    }
    assert_true(low < 2000 && high > UINT32_MAX - 2000);
    for (int i = 0; i < n; i++) {
        float noise[16];
        k[i]->gumbel16(ids, key, noise);
        for (int j = 0; j < 2; j++) {
            double w = rng_gumbel(rng_bits(key, (uint32_t)ids[j]));
            assert_true(fabs((double)noise[j] - w) < 3e-6);
        }
    }
}

TEST(softcap_and_swiglu_follow_their_formulas)
{
    const cpu_kernels *k[CPU_TABLES];
    int n = cpu_tables(k);
    uint64_t seed = test_seed();
    static float g[N];
    fill_normal(&seed, x, N, 20);
    fill_normal(&seed, g, N, 4);
    for (int i = 0; i < n; i++) {
        k[i]->softcap(x, N, 0.5f, 30, y);
        for (int j = 0; j < N; j++)
            assert_true(fabs((double)y[j] - 30 * tanh((double)x[j] * 0.5 / 30)) < 1e-5);
        k[i]->swiglu(g, x, 3, 13, y, 50); /* rows of a tile lie 32 apart */
        for (int r = 0; r < 3; r++)
            for (int j = 0; j < 13; j++) {
                double a = (double)g[r * 32 + j], w = a * exact_sigmoid(a) * (double)x[r * 32 + j];
                assert_true(fabs((double)y[r * 50 + j] - w) <= 1e-6 * fabs(w) + 1e-30);
            }
        if (i == 0) memcpy(want, y, sizeof want);
        check_same("swiglu", k[i], y, want, 113 * sizeof *y);
    }
}
