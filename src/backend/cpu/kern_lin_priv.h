/* kern_lin: tiles of x W^T over panels. Included by kernels_*.c only.
 *
 * int8:  y = sum over blocks of (scale * xs) * (codes . q) + bias * (xs * sum q), one fma each, in
 *        ascending order; the dot products are exact, so a tile's shape never shows in a result.
 * f32:   y = sum over k of w x, one chain of fma in ascending k. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_LIN_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_LIN_PRIV_H

#include "backend/cpu/cpu_kernels_priv.h"
#include "backend/cpu/v16_priv.h"

/* Rows and panels whose sums stay in registers, and rows of a tile in all. */
#if defined(__AVX512F__)
#define LIN_R 6
enum { LIN_P = 2, LIN_TILE_ROWS = 6 };
#elif defined(__AVX2__)
#define LIN_R 4
enum { LIN_P = 1, LIN_TILE_ROWS = 8 };
#else
#define LIN_R 2
enum { LIN_P = 1, LIN_TILE_ROWS = 8 };
#endif

enum { LIN_FLOAT_R = 4 }; /* rows of the same for f32 activations, with up to two panels */

V16_FN v16 lin_scales(const uint8_t *p, bool is_f32)
{
    return is_f32 ? v16_load((const float *)(const void *)p)
                  : v16_load_bf16((const uint16_t *)(const void *)p);
}

V16_FN v16i lin_quad(const int8_t *q)
{
    int32_t x;
    memcpy(&x, q, 4);
    return v16i_set1(x);
}

/* The exact dot products of runs [from, to) of a 4-bit block, on top of d. */
V16_FN void lin_runs4(const uint8_t *const *codes, const int8_t *const *q, int from, int to, int R,
                      v16_dots d[LIN_R][LIN_P])
{
    const v16i low = v16i_set1(0x0f0f0f0f);
    for (int c = from; c < to; c++) {
        v16i lo[LIN_P], hi[LIN_P];
        for (int p = 0; p < LIN_P; p++) {
            v16i w = v16i_load(codes[p] + 64 * c);
            lo[p] = v16i_and(w, low);
            hi[p] = v16i_and(v16i_shr(w, 4), low);
        }
        for (int r = 0; r < R; r++) {
            v16i x0 = lin_quad(q[r] + 8 * c), x1 = lin_quad(q[r] + 8 * c + 4);
            for (int p = 0; p < LIN_P; p++) d[r][p] = v16_dots_add(d[r][p], lo[p], x0);
            for (int p = 0; p < LIN_P; p++) d[r][p] = v16_dots_add(d[r][p], hi[p], x1);
        }
    }
}

V16_FN void lin_dots4(const uint8_t *const *codes, const int8_t *const *q, int group, int R,
                      v16i dot[LIN_R][LIN_P])
{
    for (int r = 0; r < R; r++)
        for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_set1(0);
#if V16_DOTS_ARE_WIDE
    lin_runs4(codes, q, 0, group / 8, R, dot);
#else
    for (int c = 0; c < group / 8; c += V16_DOTS_STEPS / 2) {
        v16_dots d[LIN_R][LIN_P];
        for (int r = 0; r < R; r++)
            for (int p = 0; p < LIN_P; p++) d[r][p] = v16_dots_zero();
        lin_runs4(codes, q, c, c + V16_DOTS_STEPS / 2, R, d);
        for (int r = 0; r < R; r++)
            for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_add(dot[r][p], v16_dots_sum(d[r][p]));
    }
#endif
}

V16_FN void lin_dots8(const uint8_t *const *codes, const int8_t *const *q, int group, int R,
                      v16i dot[LIN_R][LIN_P])
{
    for (int r = 0; r < R; r++)
        for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_set1(0);
    for (int c = 0; c < group / 4; c++) {
        v16i w[LIN_P];
        for (int p = 0; p < LIN_P; p++) w[p] = v16i_load(codes[p] + 64 * c);
        for (int r = 0; r < R; r++) {
            v16i x = lin_quad(q[r] + 4 * c);
            for (int p = 0; p < LIN_P; p++) dot[r][p] = v16i_dot4(dot[r][p], w[p], x);
        }
    }
}

/* Rows [r0, r0 + R) against the LIN_P panels of `panel`. R, bits and fetches are literals at the
 * call, and group too where speed matters. */
V16_FN void lin_int8(const lin_tile *t, const uint8_t *const *panel, int p0, int r0, int R,
                     int bits, int group, bool fetches)
{
    const bool is_f32 = t->format.has_f32_scales, has_zero = t->format.zero != 0;
    const int head = panel_head_bytes(t->format), biases = panel_scale_bytes(t->format);
    const v16 minus_zero = v16_set1(-(float)t->format.zero);
    const int64_t block = head + group * PANEL_N * bits / 8, n_blocks = t->K / group;
    const uint8_t *at[LIN_P], *codes[LIN_P], *next[LIN_P];
    const int8_t *q[LIN_R];
    v16 y[LIN_R][LIN_P];
    for (int p = 0; p < LIN_P; p++) {
        at[p] = panel[p];
        next[p] = fetches ? t->next[p0 + p < t->n_panels ? p0 + p : 0] : NULL;
    }
    for (int r = 0; r < R; r++) {
        q[r] = t->q[r0 + r];
        for (int p = 0; p < LIN_P; p++) y[r][p] = v16_zero();
    }
    for (int64_t b = 0; b < n_blocks; b++) {
        v16i dot[LIN_R][LIN_P];
        for (int p = 0; p < LIN_P; p++) codes[p] = at[p] + head;
        if (bits == 4)
            lin_dots4(codes, q, group, R, dot);
        else
            lin_dots8(codes, q, group, R, dot);
        for (int p = 0; p < LIN_P; p++) {
            v16 s = lin_scales(at[p], is_f32);
            v16 o = has_zero ? v16_mul(s, minus_zero) : lin_scales(at[p] + biases, is_f32);
            for (int r = 0; r < R; r++) {
                v16 f = v16_mul(s, v16_set1(t->scale[r0 + r][b]));
                y[r][p] = v16_fma(v16_of_i(dot[r][p]), f, y[r][p]);
                y[r][p] = v16_fma(o, v16_set1(t->sum[r0 + r][b]), y[r][p]);
            }
            at[p] += block;
        }
        for (int p = 0; fetches && p < LIN_P; p++) {
            for (int64_t i = 0; i < block; i += 64) __builtin_prefetch(next[p] + i, 0, 2);
            next[p] += block;
        }
        for (int r = 0; r < R; r++) q[r] += group;
    }
    for (int r = 0; r < R; r++)
        for (int p = 0; p < LIN_P && p0 + p < t->n_panels; p++)
            v16_store(t->out + ((r0 + r) * TILE_PANELS + p0 + p) * PANEL_N, y[r][p]);
}

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
V16_FN v16 lin_weight(const lin_block *b, panel_kind kind, int k)
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
V16_FN void lin_float_few(const lin_tile *t, int R, int P, panel_kind kind)
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
V16_FN void lin_float_rows(const lin_tile *t, int r0, int R, int P, int64_t k0, int n,
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

V16_FN void lin_float_tile(const lin_tile *t, int P, int64_t k0, int n,
                           float w[TILE_PANELS][64 * PANEL_N])
{
    int r = 0;
    for (; r + LIN_FLOAT_R <= t->n_rows; r += LIN_FLOAT_R)
        lin_float_rows(t, r, LIN_FLOAT_R, P, k0, n, w);
    for (; r < t->n_rows; r++) lin_float_rows(t, r, 1, P, k0, n, w);
}

/* Many rows: a block of each panel is decoded once for all of them. */
V16_FN void lin_float_many(const lin_tile *t, panel_kind kind)
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

V16_FN void lin_float(const lin_tile *t, panel_kind kind)
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

V16_FN void lin_int8_rows(const lin_tile *t, const uint8_t *const *panel, int p, int bits,
                          int group, bool fetches)
{
    (void)fetches; /* tiles of one or two rows are short: they don't */
    for (int r = 0; r < t->n_rows;) {
        int n = t->n_rows - r < LIN_R ? t->n_rows - r : LIN_R;
        switch (n) {
        case 1: lin_int8(t, panel, p, r, 1, bits, group, false); break;
        case 2: lin_int8(t, panel, p, r, 2, bits, group, false); break;
#if LIN_R >= 4
        case 3: lin_int8(t, panel, p, r, 3, bits, group, fetches); break;
        case 4: lin_int8(t, panel, p, r, 4, bits, group, fetches); break;
#endif
#if LIN_R >= 6
        case 5: lin_int8(t, panel, p, r, 5, bits, group, fetches); break;
        case 6: lin_int8(t, panel, p, r, 6, bits, group, fetches); break;
#endif
        }
        r += n;
    }
}

V16_FN void lin_int8_tile(const lin_tile *t, int bits)
{
    for (int p = 0; p < t->n_panels; p += LIN_P) {
        const uint8_t *panel[LIN_P]; /* a panel that is missing at the end is done twice */
        for (int i = 0; i < LIN_P; i++)
            panel[i] = t->panel[p + i < t->n_panels ? p + i : t->n_panels - 1];
        if (bits == 4 && t->format.group == 64 && t->next[0])
            lin_int8_rows(t, panel, p, bits, 64, true);
        else if (t->format.group == 64)
            lin_int8_rows(t, panel, p, bits, 64, false);
        else if (bits == 8 && t->format.group == 16)
            lin_int8_rows(t, panel, p, bits, 16, false);
        else
            lin_int8_rows(t, panel, p, bits, 32, false);
    }
}

static void lin_q4(const lin_tile *t)
{
    lin_int8_tile(t, 4);
}

static void lin_q8(const lin_tile *t)
{
    lin_int8_tile(t, 8);
}

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
