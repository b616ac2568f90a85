/* kern_row: norms, activations and other loops over one row. Included by kernels_*.c only. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_ROW_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_ROW_PRIV_H

#include "backend/cpu/cpu_kernels_priv.h"
#include "backend/cpu/v16_math_priv.h"

/* x . y: four vectors side by side, added (0 + 1) + (2 + 3), then across lanes. */
static float row_dot(const float *x, const float *y, int64_t n)
{
    v16 s[4] = {v16_zero(), v16_zero(), v16_zero(), v16_zero()};
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (int j = 0; j < 4; j++)
            s[j] = v16_fma(v16_load(x + i + 16 * j), v16_load(y + i + 16 * j), s[j]);
    for (int j = 0; i < n; i += 16, j++)
        s[j] = v16_fma(v16_load_n(x + i, n - i), v16_load_n(y + i, n - i), s[j]);
    return v16_hsum(v16_add(v16_add(s[0], s[1]), v16_add(s[2], s[3])));
}

static void row_rmsnorm(const float *x, const float *w, float eps, int64_t n, float *y)
{
    float mean = row_dot(x, x, n) / (float)n;
    v16 scale = v16_set1(1.0f / __builtin_sqrtf(mean + eps));
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v16_mul(v16_load_n(x + i, n - i), scale);
        v16_store_n(y + i, v16_mul(v, v16_load_n(w + i, n - i)), n - i);
    }
}

static void row_swiglu(const float *gate, const float *up, int n_rows, int n, float *y,
                       int64_t stride)
{
    for (int r = 0; r < n_rows; r++, y += stride) {
        int at = r * TILE_PANELS * PANEL_N;
        v16_store_n(y, v16_mul(v16_silu(v16_load(gate + at)), v16_load(up + at)), n);
    }
}

static void row_gate(float *y, const float *g, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        v16 s = v16_sigmoid(v16_load_n(g + i, n - i));
        v16_store_n(y + i, v16_mul(v16_load_n(y + i, n - i), s), n - i);
    }
}

static void row_sigmoid(const float *x, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i += 16)
        v16_store_n(y + i, v16_sigmoid(v16_load_n(x + i, n - i)), n - i);
}

static void row_exp(const float *x, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i += 16)
        v16_store_n(y + i, v16_exp(v16_load_n(x + i, n - i)), n - i);
}

static void row_softcap(const float *x, int64_t n, float scale, float softcap, float *y)
{
    for (int64_t i = 0; i < n; i += 16) {
        v16 v = v16_mul(v16_load_n(x + i, n - i), v16_set1(scale));
        if (softcap > 0) v = v16_mul(v16_set1(softcap), v16_tanh(v16_div(v, v16_set1(softcap))));
        v16_store_n(y + i, v, n - i);
    }
}

#endif
