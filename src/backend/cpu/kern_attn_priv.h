/* kern_attn: one tile of up to 64 cached positions against some queries. Included by kernels_*.c
 * only.
 *
 * A score is a dot product over 16 lanes of D, each lane one ascending chain, then hsum: the same
 * whoever shares the tile. Values are gathered position by position, ascending. */
#ifndef RIPTIDE_BACKEND_CPU_KERN_ATTN_PRIV_H
#define RIPTIDE_BACKEND_CPU_KERN_ATTN_PRIV_H

#include "backend/cpu/cpu_kernels_priv.h"
#include "backend/cpu/v16_math_priv.h"

enum { ATTN_Q = 4, ATTN_K = 4 }; /* queries and positions whose sums are in registers */

V16_FN v16 attn_load(const void *base, int64_t at, kernel_kv kind)
{
    if (kind == KERNEL_KV_I8) return v16_load_i8((const int8_t *)base + at);
    if (kind == KERNEL_KV_BF16) return v16_load_bf16((const uint16_t *)base + at);
    return v16_load((const float *)base + at);
}

V16_FN int attn_row_bytes(int D, kernel_kv kind)
{
    return D * (kind == KERNEL_KV_I8 ? 1 : kind == KERNEL_KV_BF16 ? 2 : 4);
}

V16_FN void attn_prefetch(const char *at, int n_bytes)
{
    for (int i = 0; i < n_bytes; i += 64) __builtin_prefetch(at + i);
}

/* Scores of queries [i, i + Q) at positions [j, j + 4); past n_pos the last one is repeated. */
V16_FORM void attn_score_block(const attn_tile *t, int i, int Q, int j, kernel_kv kind)
{
    v16 s[ATTN_Q * ATTN_K];
    int64_t at[ATTN_K];
    for (int p = 0; p < ATTN_K; p++)
        at[p] = (int64_t)(j + p < t->n_pos ? j + p : t->n_pos - 1) * t->D;
    for (int n = 0; n < ATTN_Q * ATTN_K; n++) s[n] = v16_zero();
    for (int d = 0; d < t->D; d += 16) {
        v16 k[ATTN_K];
        for (int p = 0; p < ATTN_K; p++) k[p] = attn_load(t->k, at[p] + d, kind);
        for (int r = 0; r < Q; r++) {
            v16 q = v16_load(t->q[i + r] + d);
            for (int p = 0; p < ATTN_K; p++)
                s[r * ATTN_K + p] = v16_fma(q, k[p], s[r * ATTN_K + p]);
        }
    }
    v16 sums = v16_hsum16(s); /* lane 4 r + p */
    if (kind == KERNEL_KV_I8) sums = v16_mul(sums, v16_load_4times(t->k_scale + j));
    sums = v16_mul(sums, v16_set1(t->scale));
    for (int r = 0; r < Q; r++) v16_store_quarter(t->s + (i + r) * ATTN_TILE + j, sums, r);
}

V16_FORM void attn_scores(const attn_tile *t, kernel_kv kind)
{
    const int row_bytes = attn_row_bytes(t->D, kind);
    for (int j = 0; j < t->n_pos; j += ATTN_K) {
        int i = 0;
        attn_prefetch((const char *)t->v + j * row_bytes, ATTN_K * row_bytes);
        for (; i + 4 <= t->n_q; i += 4) attn_score_block(t, i, 4, j, kind);
        for (; i + 2 <= t->n_q; i += 2) attn_score_block(t, i, 2, j, kind);
        if (i < t->n_q) attn_score_block(t, i, 1, j, kind);
    }
}

static float attn_softmax(float *s, int low, int high, const float *v_scale, attn_run *run)
{
    const v16 nothing = v16_set1(-__builtin_inff());
    v16 x[4], most = nothing;
    for (int j = 0; j < 4; j++) {
        v16i lane = v16i_add(v16i_ramp(), v16i_set1(16 * j));
        x[j] = v16_select(v16i_gt(v16i_set1(high), lane), v16_load(s + 16 * j), nothing);
        x[j] = v16_select(v16i_gt(lane, v16i_set1(low - 1)), x[j], nothing);
        most = v16_max(x[j], most);
    }
    float peak = v16_hmax(most);
    float max = peak > run->max ? peak : run->max;
    if (max == -__builtin_inff()) { /* nothing seen so far */
        for (int j = 0; j < 4; j++) v16_store(s + 16 * j, v16_zero());
        return 1;
    }
    float before[16];
    v16_store(before, v16_exp(v16_set1(run->max - max)));
    for (int j = 0; j < 4; j++) x[j] = v16_exp(v16_sub(x[j], v16_set1(max)));
    float sum = v16_hsum(v16_add(v16_add(x[0], x[1]), v16_add(x[2], x[3])));
    for (int j = 0; j < 4; j++) {
        if (v_scale) {
            v16i lane = v16i_add(v16i_ramp(), v16i_set1(16 * j));
            v16 scale = v16_load(v_scale + 16 * j);
            /* past the end a scale may be anything */
            scale = v16_select(v16i_gt(v16i_set1(high), lane), scale, v16_zero());
            x[j] = v16_mul(x[j], scale);
        }
        v16_store(s + 16 * j, x[j]);
    }
    *run = (attn_run){max, __builtin_fmaf(run->sum, before[0], sum)};
    return before[0];
}

/* Queries [i, i + Q), columns [d, d + 16 W). */
V16_FORM void attn_value_block(const attn_tile *t, int i, int Q, int d, int W, const char *fetch,
                               kernel_kv kind)
{
    const int row_bytes = attn_row_bytes(t->D, kind), part_bytes = attn_row_bytes(16 * W, kind);
    v16 o[ATTN_Q][4];
    for (int r = 0; r < Q; r++)
        for (int w = 0; w < W; w++)
            o[r][w] = v16_mul(v16_load(t->acc + (int64_t)(i + r) * t->D + d + 16 * w),
                              v16_set1(t->correct[i + r]));
    for (int j = 0; j < t->n_pos; j++) {
        v16 v[4];
        if (fetch) attn_prefetch(fetch + (int64_t)j * row_bytes, part_bytes);
        for (int w = 0; w < W; w++) v[w] = attn_load(t->v, (int64_t)j * t->D + d + 16 * w, kind);
        for (int r = 0; r < Q; r++) {
            v16 p = v16_set1(t->s[(i + r) * ATTN_TILE + j]);
            for (int w = 0; w < W; w++) o[r][w] = v16_fma(p, v[w], o[r][w]);
        }
    }
    for (int r = 0; r < Q; r++)
        for (int w = 0; w < W; w++)
            v16_store(t->acc + (int64_t)(i + r) * t->D + d + 16 * w, o[r][w]);
}

/* The first queries to pass also fetch these columns of the next tile's keys. */
V16_FORM void attn_value_columns(const attn_tile *t, int d, int W, kernel_kv kind)
{
    const char *fetch = t->next_k ? (const char *)t->next_k + attn_row_bytes(d, kind) : NULL;
    int i = 0;
    for (; i + 4 <= t->n_q; i += 4, fetch = NULL) attn_value_block(t, i, 4, d, W, fetch, kind);
    for (; i + 2 <= t->n_q; i += 2, fetch = NULL) attn_value_block(t, i, 2, d, W, fetch, kind);
    if (i < t->n_q) attn_value_block(t, i, 1, d, W, fetch, kind);
}

V16_FORM void attn_values(const attn_tile *t, kernel_kv kind)
{
    int d = 0;
    for (; d + 64 <= t->D; d += 64) attn_value_columns(t, d, 4, kind);
    for (; d < t->D; d += 16) attn_value_columns(t, d, 1, kind);
}

static void attn_scores_i8(const attn_tile *t)
{
    attn_scores(t, KERNEL_KV_I8);
}

static void attn_scores_bf16(const attn_tile *t)
{
    attn_scores(t, KERNEL_KV_BF16);
}

static void attn_scores_f32(const attn_tile *t)
{
    attn_scores(t, KERNEL_KV_F32);
}

static void attn_values_i8(const attn_tile *t)
{
    attn_values(t, KERNEL_KV_I8);
}

static void attn_values_bf16(const attn_tile *t)
{
    attn_values(t, KERNEL_KV_BF16);
}

static void attn_values_f32(const attn_tile *t)
{
    attn_values(t, KERNEL_KV_F32);
}

/* quant.h: scale = max|x| / 127, q = round(x / scale). */
static float kv_store_i8(const float *x, int d, void *out)
{
    v16 most = v16_zero();
    for (int i = 0; i < d; i += 16) most = v16_max(v16_abs(v16_load_n(x + i, d - i)), most);
    float scale = v16_hmax(most) / 127.0f;
    const v16 top = v16_set1(127), bottom = v16_set1(-127);
    for (int i = 0; i < d; i += 16) {
        v16 v = v16_load_n(x + i, d - i);
        v = scale > 0 ? v16_div(v, v16_set1(scale)) : v16_zero();
        int8_t lanes[16];
        v16i_store_i8(lanes, v16i_round(v16_min(v16_max(v, bottom), top)));
        memcpy((int8_t *)out + i, lanes, (size_t)(d - i < 16 ? d - i : 16));
    }
    return scale;
}

static float kv_store_bf16(const float *x, int d, void *out)
{
    for (int i = 0; i < d; i += 16) {
        uint16_t lanes[16];
        v16_store_bf16(lanes, v16_load_n(x + i, d - i));
        memcpy((uint16_t *)out + i, lanes, (size_t)(d - i < 16 ? d - i : 16) * 2);
    }
    return 0;
}

static float kv_store_f32(const float *x, int d, void *out)
{
    memcpy(out, x, (size_t)d * sizeof *x);
    return 0;
}

#endif
