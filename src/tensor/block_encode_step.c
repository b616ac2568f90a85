/* Choosing a step: a few are tried around the one that reaches the largest value, and the one with
 * the least squared error stays.
 *
 * Errors are summed up in lanes, each in its own order, so that compilers may use vectors. */
#include <math.h>

#include "tensor/block_encode_priv.h"

/* Steps are tried from a little less to a little more than what reaches the largest value. */
enum { TRIES = 9, LANES = 8, IQ4_BORDERS = 15, FP4_BORDERS = 7 };

static float stretched(float step, int i)
{
    return step * (0.92f + 0.02f * (float)i);
}

float encode_largest(const float *x, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

static float add_up(const float *sums)
{
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/* Squared error of n values less `offset` on whole steps from lo to hi. */
static float miss_steps(const float *x, int n, float offset, float step, float lo, float hi)
{
    float sums[LANES] = {0};
    for (int i = 0; i < n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float v = x[i + j] - offset, d = v - step * encode_round(v / step, lo, hi);
            sums[j] += d * d;
        }
    return add_up(sums);
}

static float best_step(const float *x, int n, float offset, float start, float lo, float hi)
{
    float best = start, least = INFINITY;
    for (int i = 0; i < TRIES && start != 0; i++) {
        float step = stretched(start, i), miss = miss_steps(x, n, offset, step, lo, hi);
        if (miss >= least) continue;
        least = miss;
        best = step;
    }
    return best;
}

float encode_symmetric(const float *x, int n, int lo, int hi)
{
    return best_step(x, n, 0, encode_largest(x, n) / (float)lo, (float)lo, (float)hi);
}

void encode_affine(const float *x, int n, int top, float *step, float *min)
{
    float lo = 0, hi = x[0];
    for (int i = 0; i < n; i++) {
        if (x[i] < lo) lo = x[i];
        if (x[i] > hi) hi = x[i];
    }
    if (hi < lo) hi = lo;
    *min = -lo;
    *step = best_step(x, n, lo, (hi - lo) / (float)top, 0, (float)top);
}

/* Halfway between neighbours of block_iq4_values, and how far these are apart. */
static const float iq4_borders[IQ4_BORDERS] = {
    -115.5f, -93.5f, -74, -57, -42, -28.5f, -16, -4.5f, 7, 19, 31.5f, 45.5f, 61, 79, 101};
static const float iq4_gaps[IQ4_BORDERS] = {23, 21, 18, 16, 14, 13, 12, 11,
                                            12, 12, 13, 15, 16, 20, 24};
/* Halfway between the magnitudes of block_fp4_values. */
static const float fp4_borders[FP4_BORDERS] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};

static int count_below(const float *borders, int n, float v)
{
    int count = 0;
    for (int i = 0; i < n; i++) count += v > borders[i];
    return count;
}

int encode_iq4_code(float x, float step)
{
    return step == 0 ? 0 : count_below(iq4_borders, IQ4_BORDERS, x / step);
}

int encode_fp4_code(float x, float step)
{
    int q = step == 0 ? 0 : count_below(fp4_borders, FP4_BORDERS, fabsf(x / step));
    return q > 0 && x < 0 ? q + 8 : q;
}

static float miss_iq4(const float *x, int n, float step)
{
    float sums[LANES] = {0};
    for (int i = 0; i < n; i += LANES) {
        float v[LANES], value[LANES];
        for (int j = 0; j < LANES; j++) {
            v[j] = x[i + j] / step;
            value[j] = -127;
        }
        for (int b = 0; b < IQ4_BORDERS; b++)
            for (int j = 0; j < LANES; j++) value[j] += v[j] > iq4_borders[b] ? iq4_gaps[b] : 0;
        for (int j = 0; j < LANES; j++) {
            float d = x[i + j] - step * value[j];
            sums[j] += d * d;
        }
    }
    return add_up(sums);
}

float encode_iq4_step(const float *x, int n)
{
    float start = encode_largest(x, n) / -127, best = start, least = INFINITY;
    for (int i = 0; i < TRIES && start != 0; i++) {
        float step = stretched(start, i), miss = miss_iq4(x, n, step);
        if (miss >= least) continue;
        least = miss;
        best = step;
    }
    return best;
}
