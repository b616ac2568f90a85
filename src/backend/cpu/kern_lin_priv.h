/* kern_lin: tiles of x W^T over panels. Included by kernels_*.c only.
 *
 * int8:  y = sum over blocks of (scale * xs) * (codes . q) + bias * (xs * sum q), one fma each, in
 *        ascending order; the dot products are exact, so a tile's shape never shows in a result.
 * f32:   y = sum over k of w x, one chain of fma in ascending k. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_LIN_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_LIN_PRIV_H

#include "backend/cpu/cpu_kernels_priv.h"
#include "backend/cpu/v16_priv.h"

enum { LIN_FLOAT_R = 4 }; /* rows of the same for f32 activations, with up to two panels */

V16_FN v16 lin_scales(const uint8_t *p, bool is_f32)
{
    return is_f32 ? v16_load((const float *)(const void *)p)
                  : v16_load_bf16((const uint16_t *)(const void *)p);
}

#include "backend/cpu/kern_lin_block_priv.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
#include "backend/cpu/kern_lin_avx2_priv.h"
#else
#include "backend/cpu/kern_lin_int8_priv.h"
#endif

/* The weights of a panel from k0 on, up to the end of a block. */
typedef struct {
    const uint8_t *src; /* the k0-th elements, or the block's codes */
    v16 s, o;           /* affine: scales, and biases unless there is a zero */
    int zero;
} lin_block;

V16_FN lin_block lin_block_at(const lin_tile *t, const uint8_t *panel, panel_kind kind, int64_t k0)
{
    lin_block b = {panel + k0 * PANEL_N * (kind == PANEL_F32 ? 4 : 2), v16_zero(), v16_zero(), 0};
    if (!panel_is_affine(kind)) return b;
    const bool is_f32 = t->format.has_f32_scales;
    const uint8_t *at = panel + k0 / t->format.group * panel_block_bytes(t->format);
    b.s = lin_scales(at, is_f32);
    b.zero = t->format.zero;
    if (b.zero == 0) b.o = lin_scales(at + panel_scale_bytes(t->format), is_f32);
    b.src = at + panel_head_bytes(t->format);
    return b;
}

/* Element k of 16 outputs: exactly the values of quant.h and half.h. */
V16_FORM v16 lin_weight(const lin_block *b, panel_kind kind, int k)
{
    const uint16_t *h = (const uint16_t *)(const void *)b->src + k * PANEL_N;
    if (kind == PANEL_F32) return v16_load((const float *)(const void *)b->src + k * PANEL_N);
    if (kind == PANEL_BF16) return v16_load_bf16(h);
    if (kind == PANEL_F16) return v16_load_f16(h);
    const int per_run = kind == PANEL_FQ4 ? 8 : 4;
    v16i w = v16i_load(b->src + 64 * (k / per_run));
    int shift = 8 * (k % 4) + (k % per_run >= 4 ? 4 : 0);
    v16i code = v16i_and(v16i_shr(w, shift), v16i_set1(kind == PANEL_FQ4 ? 15 : 255));
    if (b->zero) return v16_mul(b->s, v16_of_i(v16i_add(code, v16i_set1(-b->zero))));
    return v16_add(v16_mul(b->s, v16_of_i(code)), b->o);
}

/* Up to 4 rows: every weight is used as soon as it is decoded. */
V16_FORM void lin_float_few(const lin_tile *t, int R, int P, panel_kind kind)
{
    const int step = panel_is_affine(kind) ? t->format.group : 64;
    v16 y[LIN_FLOAT_R][TILE_PANELS];
    for (int r = 0; r < R; r++)
        for (int p = 0; p < P; p++) y[r][p] = v16_zero();
    for (int64_t k0 = 0; k0 < t->K; k0 += step) {
        int n = t->K - k0 < step ? (int)(t->K - k0) : step;
        lin_block b[TILE_PANELS];
        for (int p = 0; p < P; p++) b[p] = lin_block_at(t, t->panel[p], kind, k0);
        for (int k = 0; k < n; k++) {
            v16 a[TILE_PANELS];
            for (int p = 0; p < P; p++) a[p] = lin_weight(&b[p], kind, k);
            for (int r = 0; r < R; r++) {
                v16 x = v16_set1(t->x[r][k0 + k]);
                for (int p = 0; p < P; p++) y[r][p] = v16_fma(a[p], x, y[r][p]);
            }
        }
    }
    for (int r = 0; r < R; r++)
        for (int p = 0; p < P; p++) v16_store(t->out + (r * TILE_PANELS + p) * PANEL_N, y[r][p]);
}

/* Rows [r0, r0 + R) against P decoded panels, n more k's from k0 on. */
V16_FORM void lin_float_rows(const lin_tile *t, int r0, int R, int P, int64_t k0, int n,
                             float w[TILE_PANELS][64 * PANEL_N])
{
    const float *x[LIN_FLOAT_R];
    float *out = t->out + r0 * TILE_PANELS * PANEL_N;
    v16 y[LIN_FLOAT_R][TILE_PANELS];
    for (int r = 0; r < R; r++) {
        x[r] = t->x[r0 + r] + k0;
        for (int p = 0; p < P; p++)
            y[r][p] = k0 == 0 ? v16_zero() : v16_load(out + (r * TILE_PANELS + p) * PANEL_N);
    }
    for (int k = 0; k < n; k++) {
        v16 a[TILE_PANELS];
        for (int p = 0; p < P; p++) a[p] = v16_load(w[p] + k * PANEL_N);
        for (int r = 0; r < R; r++) {
            v16 b = v16_set1(x[r][k]);
            for (int p = 0; p < P; p++) y[r][p] = v16_fma(a[p], b, y[r][p]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int p = 0; p < P; p++) v16_store(out + (r * TILE_PANELS + p) * PANEL_N, y[r][p]);
}

V16_FORM void lin_float_tile(const lin_tile *t, int P, int64_t k0, int n,
                             float w[TILE_PANELS][64 * PANEL_N])
{
    int r = 0;
    for (; r + LIN_FLOAT_R <= t->n_rows; r += LIN_FLOAT_R)
        lin_float_rows(t, r, LIN_FLOAT_R, P, k0, n, w);
    for (; r < t->n_rows; r++) lin_float_rows(t, r, 1, P, k0, n, w);
}

/* Many rows: a block of each panel is decoded once for all of them. */
V16_FORM void lin_float_many(const lin_tile *t, panel_kind kind)
{
    float w[TILE_PANELS][64 * PANEL_N];
    const int step = panel_is_affine(kind) ? t->format.group : 64;
    for (int64_t k0 = 0; k0 < t->K; k0 += step) {
        int n = t->K - k0 < step ? (int)(t->K - k0) : step;
        for (int p = 0; p < t->n_panels; p++) {
            lin_block b = lin_block_at(t, t->panel[p], kind, k0);
            for (int k = 0; k < n; k++) v16_store(w[p] + k * PANEL_N, lin_weight(&b, kind, k));
        }
        if (t->n_panels == 2)
            lin_float_tile(t, 2, k0, n, w);
        else
            lin_float_tile(t, 1, k0, n, w);
    }
}

V16_FORM void lin_float(const lin_tile *t, panel_kind kind)
{
    if (t->n_panels == 2 && t->n_rows == 1)
        lin_float_few(t, 1, 2, kind);
    else if (t->n_panels == 2 && t->n_rows == 2)
        lin_float_few(t, 2, 2, kind);
    else if (t->n_panels == 2 && t->n_rows == 4)
        lin_float_few(t, 4, 2, kind);
    else if (t->n_rows == 1)
        lin_float_few(t, 1, 1, kind);
    else
        lin_float_many(t, kind);
}

/* Up to LIN_R rows. Block kinds have their group size from the kind. */
V16_FORM void lin_some_rows(const lin_tile *t, const uint8_t *const *panel, int p, int r, int R,
                            panel_kind kind, int group, bool fetches)
{
    if (panel_is_block(kind))
        lin_blocks(t, panel, p, r, R, kind, fetches);
    else
        lin_int8(t, panel, p, r, R, kind == PANEL_Q4 ? 4 : 8, group, fetches);
}

V16_FORM void lin_rows(const lin_tile *t, const uint8_t *const *panel, int p, panel_kind kind,
                       int group, bool fetches)
{
    const bool few = t->n_rows <= LIN_FEW && lin_fetches_few(t, fetches);
    for (int r = 0; r < t->n_rows;) {
        int n = t->n_rows - r < LIN_R ? t->n_rows - r : LIN_R;
        switch (n) {
        case 1:
            if (few)
                lin_some_rows(t, panel, p, r, 1, kind, group, true);
            else
                lin_some_rows(t, panel, p, r, 1, kind, group, false);
            break;
        case 2:
            if (few)
                lin_some_rows(t, panel, p, r, 2, kind, group, true);
            else
                lin_some_rows(t, panel, p, r, 2, kind, group, false);
            break;
#if LIN_R >= 4
        case 3: lin_some_rows(t, panel, p, r, 3, kind, group, fetches); break;
        case 4: lin_some_rows(t, panel, p, r, 4, kind, group, fetches); break;
#endif
#if LIN_R >= 6
        case 5: lin_some_rows(t, panel, p, r, 5, kind, group, fetches); break;
        case 6: lin_some_rows(t, panel, p, r, 6, kind, group, fetches); break;
#endif
#if LIN_R >= 8
        case 7: lin_some_rows(t, panel, p, r, 7, kind, group, fetches); break;
        case 8: lin_some_rows(t, panel, p, r, 8, kind, group, fetches); break;
#endif
        }
        r += n;
    }
}

V16_FORM void lin_int8_tile(const lin_tile *t, panel_kind kind)
{
    for (int p = 0; p < t->n_panels; p += LIN_P) {
        const uint8_t *panel[LIN_P]; /* a panel that is missing at the end is done twice */
        for (int i = 0; i < LIN_P; i++)
            panel[i] = t->panel[p + i < t->n_panels ? p + i : t->n_panels - 1];
        if (panel_is_block(kind))
            lin_rows(t, panel, p, kind, 0, true);
        else if (kind == PANEL_Q4 && t->format.group == 64 && t->next[0])
            lin_rows(t, panel, p, kind, 64, true);
        else if (t->format.group == 64)
            lin_rows(t, panel, p, kind, 64, false);
        else if (kind == PANEL_Q8 && t->format.group == 16)
            lin_rows(t, panel, p, kind, 16, false);
        else
            lin_rows(t, panel, p, kind, 32, false);
    }
}

/* The int8 tiles are not used where others take their place. */
V16_OP void lin_q4(const lin_tile *t)
{
    lin_int8_tile(t, PANEL_Q4);
}

V16_OP void lin_q8(const lin_tile *t)
{
    lin_int8_tile(t, PANEL_Q8);
}

#define LIN_BLOCK(name, kind)           \
    V16_OP void name(const lin_tile *t) \
    {                                   \
        lin_int8_tile(t, kind);         \
    }
LIN_BLOCK(lin_q4_0, PANEL_Q4_0)
LIN_BLOCK(lin_q8_0, PANEL_Q8_0)
LIN_BLOCK(lin_q4_k, PANEL_Q4_K)
LIN_BLOCK(lin_q5_k, PANEL_Q5_K)
LIN_BLOCK(lin_q6_k, PANEL_Q6_K)
LIN_BLOCK(lin_iq4_nl, PANEL_IQ4_NL)
LIN_BLOCK(lin_iq4_xs, PANEL_IQ4_XS)

static void lin_fq4(const lin_tile *t)
{
    lin_float(t, PANEL_FQ4);
}

static void lin_fq8(const lin_tile *t)
{
    lin_float(t, PANEL_FQ8);
}

static void lin_f32(const lin_tile *t)
{
    lin_float(t, PANEL_F32);
}

static void lin_bf16(const lin_tile *t)
{
    lin_float(t, PANEL_BF16);
}

static void lin_f16(const lin_tile *t)
{
    lin_float(t, PANEL_F16);
}

static void lin_quantise(const float *x, int64_t k, int group, int8_t *q, float *scale, float *sum)
{
    for (int64_t b = 0; b < k / group; b++, x += group, q += group) {
        v16 most = v16_zero();
        for (int i = 0; i < group; i += 16) most = v16_max(v16_abs(v16_load(x + i)), most);
        float peak = v16_hmax(most);
        /* A subnormal peak would overflow the reciprocal: its group counts as zero. */
        float inverse = peak > 1e-35f ? 127.0f / peak : 0.0f;
        v16i total = v16i_set1(0);
        for (int i = 0; i < group; i += 16) {
            v16i c = v16i_round(v16_mul(v16_load(x + i), v16_set1(inverse)));
            v16i_store_i8(q + i, c);
            total = v16i_add(total, c);
        }
        scale[b] = peak * (1.0f / 127.0f);
        sum[b] = scale[b] * (float)v16i_hsum(total);
    }
}

#endif
