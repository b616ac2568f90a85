/* kern_sample: passes over a row of logits. Included by kernels_*.c only. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_SAMPLE_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_SAMPLE_PRIV_H

#include "backend/cpu/cpu_kernels_priv.h"
#include "backend/cpu/v16_math_priv.h"

enum { SUM_RUN = 2048 }; /* logits whose exp are added in f32 before double takes over */

#define SAMPLE_NOTHING (-__builtin_inff())

/* Past the end: -inf, which no comparison takes. */
V16_FN v16 sample_load(const float *x, int64_t n)
{
    if (n >= 16) return v16_load(x);
    float lanes[16];
    for (int i = 0; i < 16; i++) lanes[i] = i < n ? x[i] : SAMPLE_NOTHING;
    return v16_load(lanes);
}

static float sample_max(const float *x, int64_t n)
{
    v16 m[4];
    for (int j = 0; j < 4; j++) m[j] = v16_set1(SAMPLE_NOTHING);
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (int j = 0; j < 4; j++) m[j] = v16_max(v16_load(x + i + 16 * j), m[j]);
    for (; i < n; i += 16) m[0] = v16_max(sample_load(x + i, n - i), m[0]);
    return v16_hmax(v16_max(v16_max(m[0], m[1]), v16_max(m[2], m[3])));
}

static double sample_sum_exp(const float *x, int64_t n, float max)
{
    double sum = 0;
    for (int64_t at = 0; at < n; at += SUM_RUN) {
        int64_t end = n - at < SUM_RUN ? n : at + SUM_RUN;
        v16 s[2] = {v16_zero(), v16_zero()};
        int64_t i = at;
        for (; i + 32 <= end; i += 32)
            for (int j = 0; j < 2; j++)
                s[j] = v16_add(s[j], v16_exp(v16_sub(v16_load(x + i + 16 * j), v16_set1(max))));
        for (; i < end; i += 16)
            s[0] = v16_add(s[0], v16_exp(v16_sub(sample_load(x + i, end - i), v16_set1(max))));
        sum += (double)v16_hsum(v16_add(s[0], s[1]));
    }
    return sum;
}

/* The best of 16 running maxima; each lane kept its first, so equal values go to the lower id. */
V16_FN cpu_best sample_best_lane(v16 best, v16i at)
{
    float value[16];
    int32_t id[16];
    v16_store(value, best);
    v16i_store(id, at);
    cpu_best b = {value[0], id[0]};
    for (int i = 1; i < 16; i++)
        if (value[i] > b.value || (value[i] == b.value && id[i] >= 0 && id[i] < b.id))
            b = (cpu_best){value[i], id[i]};
    return b;
}

static cpu_best sample_argmax(const float *x, int64_t n)
{
    v16 best = v16_set1(SAMPLE_NOTHING);
    v16i at = v16i_set1(-1);
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = sample_load(x + i, n - i);
        v16_mask is_better = v16_gt(v, best);
        best = v16_select(is_better, v, best);
        at = v16i_select(is_better, v16i_add(v16i_ramp(), v16i_set1((int32_t)i)), at);
    }
    return sample_best_lane(best, at);
}

/* No less than the noise of these bits: -log(-log(1 - v)) <= -log(v), and v = (bits + 0.5) / 2^32
 * is at least 2^e with its binary exponent e. The little more covers the rounding of v16_gumbel. */
V16_FN v16 sample_noise_bound(v16i bits)
{
    v16i exponent = v16i_shr(v16i_of_bits(v16_unit_of_u32(bits)), 23); /* e + 127 */
    v16 e = v16_of_i(v16i_sub(v16i_set1(127), exponent));
    return v16_fma(e, v16_set1(0.693148f), v16_set1(1e-3f));
}

/* Most ids cannot win whatever their noise is in detail; only vectors with one that can are
 * looked at closely. */
static cpu_best sample_gumbel_argmax(const float *x, int64_t n, int32_t id0, float t, float least,
                                     rng_key key)
{
    const v16 divisor = v16_set1(t), lowest = v16_set1(least), nothing = v16_set1(SAMPLE_NOTHING);
    v16 best = nothing, bar = nothing;
    v16i at = v16i_set1(-1), id = v16i_add(v16i_ramp(), v16i_set1(id0));
    for (int64_t i = 0; i < n; i += 16, id = v16i_add(id, v16i_set1(16))) {
        v16 z = v16_div(sample_load(x + i, n - i), divisor);
        v16i bits = v16_rng_bits(key, id);
        v16 most = v16_add(z, sample_noise_bound(bits));
        if (!v16_any(v16_gt(most, bar))) continue;
        v16 noisy = v16_add(z, v16_gumbel(bits));
        noisy = v16_select(v16_gt(lowest, z), nothing, noisy);
        v16_mask is_better = v16_gt(noisy, best);
        best = v16_select(is_better, noisy, best);
        at = v16i_select(is_better, id, at);
        if (v16_any(is_better)) bar = v16_set1(v16_hmax(best));
    }
    return sample_best_lane(best, at);
}

static void sample_gumbel16(const int32_t *ids, rng_key key, float *noise)
{
    v16_store(noise, v16_gumbel(v16_rng_bits(key, v16i_load(ids))));
}

static void sample_masked_div(const float *x, int64_t n, const uint32_t *mask, float t, float *y)
{
    const v16 divisor = v16_set1(t), nothing = v16_set1(SAMPLE_NOTHING);
    static const int32_t bit[16] = {1 << 0,  1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                    1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                    1 << 12, 1 << 13, 1 << 14, 1 << 15};
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v16_div(v16_load_n(x + i, n - i), divisor);
        if (mask) {
            v16i m = v16i_set1((int32_t)(mask[i / 32] >> (i % 32) & 0xffff));
            v = v16_select(v16i_gt(v16i_and(m, v16i_load(bit)), v16i_set1(0)), v, nothing);
        }
        v16_store_n(y + i, v, n - i);
    }
}

#endif
