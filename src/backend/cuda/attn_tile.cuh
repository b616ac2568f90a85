/* attn_tile: 64 positions of K and V against a tile of queries, by tensor cores.
 *
 * What attn.cu and draft_attn.cu share. A tile of queries packs (row, head) pairs of one KV head
 * into the m dimension, 16 MT a group of four warps; a block has MG such groups. In scores the
 * four warps of a group cut the 64 positions (16 each), in sums the D columns (D / 4 each), so
 * every K and V value is read from shared memory and converted once a group.
 *
 * A pair's numbers depend on its own query, its own visible range and the K and V rows alone:
 *   score   one mma chain over D from zero, then * (scale * log2 e) [* k_scale]
 *   weight  2^(score - max), rounded to bf16 for the sums [after * v_scale]
 *   sum     of f32 weights: two columns, two n-tiles, four lanes, four warps, in that order
 *   acc     acc * 2^(old max - max), then one mma chain over the 64 positions
 * A position outside the visible range gets score -inf and weight +0, which changes no bit of
 * max, sum or acc, so it does not matter which other pairs share a tile.
 *
 * K order inside an mma step is free as long as both operands agree. Here lane (r, c) = (lane / 4,
 * lane % 4) takes 16 consecutive bytes of a K row for 4 (int8) or 2 (bf16) steps, and 4 adjacent
 * positions of V for one step, so no transpose is needed. Column n of the lane's n-tile i is
 * d = first + NT n + i. */
#ifndef RIPTIDE_BACKEND_CUDA_ATTN_TILE_CUH
#define RIPTIDE_BACKEND_CUDA_ATTN_TILE_CUH

#include "backend/cuda/mma.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vec_load.cuh"

constexpr float ATTN_LOG2E = 1.4426950408889634f;

/* Sizes for D columns of EB bytes each in shared memory (1 = int8, 2 = bf16). */
template <int D, int EB> struct attn_shape {
    static constexpr int ROW = D * EB;      /* bytes of a K or V row */
    static constexpr int CHUNKS = ROW / 16; /* 16-byte pieces of it */
    static constexpr int NT = D / 32;       /* n-tiles of a warp's D / 4 columns */
    static constexpr int TILE = OPS_BLOCK * ROW;
    /* A lane reads 32 (int8) or 16 (bf16) bytes of a Q row at a time; this stride puts the eight
     * lanes of a quarter warp on different banks. */
    static constexpr int Q_STRIDE = 2 * D + (EB == 1 ? 16 : 64);
    static constexpr int P_STRIDE = 2 * OPS_BLOCK + 32;
    static_assert(D % 32 == 0 && D <= 256, "columns are cut in quarters of n8 tiles");
    static_assert(CHUNKS % 4 == 0, "scores read four pieces of a row at a time");
};

/* Where piece `chunk` of row `row` lies in a K or V tile. Rows of a multiple of 128 bytes would
 * share banks among those that one access touches, but for the xor. */
template <int CHUNKS> __device__ static inline int attn_k_at(int row, int chunk)
{
    if (CHUNKS % 8 == 0) chunk ^= (row & 1) << 2;
    return (row * CHUNKS + chunk) * 16;
}
template <int CHUNKS> __device__ static inline int attn_v_at(int row, int chunk)
{
    if (CHUNKS % 8 == 0) chunk ^= (row >> 2 & 3) << 1;
    return (row * CHUNKS + chunk) * 16;
}

/* 2^x; exactly 0 at -inf and 1 at 0. */
__device__ static inline float attn_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The factors that bring (old, part) to a common maximum: how segments are merged.
 *   max' = max(max, m);  alpha = 2^(max - max');  beta = 2^(m - max')
 *   sum' = sum alpha + l beta;  acc' = acc alpha + a beta */
typedef struct {
    float max, alpha, beta;
} attn_merge;

__device__ static inline attn_merge attn_merge_of(float max, float m)
{
    attn_merge r;
    r.max = fmaxf(max, m);
    r.alpha = attn_exp2(__fsub_rn(max, r.max));
    r.beta = attn_exp2(__fsub_rn(m, r.max));
    return r;
}
__device__ static inline float attn_merge_add(float old, float part, float alpha, float beta)
{
    return __fmaf_rn(part, beta, __fmul_rn(old, alpha));
}

/* acc / sum, times sigmoid(gate); the +0 makes -0 and +0 one value. */
__device__ static inline float attn_finish(float acc, float inv_sum)
{
    return __fadd_rn(__fmul_rn(acc, inv_sum), 0.0f);
}
__device__ static inline float attn_finish_gated(float acc, float inv_sum, float gate)
{
    float e = attn_exp2(__fmul_rn(gate, -ATTN_LOG2E));
    float sigmoid = __frcp_rn(__fadd_rn(1.0f, e));
    return __fadd_rn(__fmul_rn(__fmul_rn(acc, inv_sum), sigmoid), 0.0f);
}

/* Signed bytes at byte B of words x and y as a bf16 pair. With the low seven bits v and the sign
 * bit s: (128 + v) - (128 + 128 s), both exact in bf16. */
template <uint32_t SELECT> __device__ static inline uint32_t attn_i8_pair(uint32_t x, uint32_t y)
{
    uint32_t b = __byte_perm(x, y, SELECT);
    uint32_t plus = (b & 0x007f007fu) | 0x43004300u, minus = (b & 0x00800080u) | 0xc300c300u;
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(plus), "r"(0x3f803f80u), "r"(minus));
    return r;
}

/* ---- scores ------------------------------------------------------------------------------- */

/* B operands of the steps that half h of a 16-byte K piece feeds: b[step][0..1]. */
template <int EB>
__device__ static inline void attn_k_operand(const uint32_t *piece, int h, uint32_t (*b)[2])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (EB == 1) {
            uint32_t w = piece[h * 2 + i];
            b[i][0] = attn_i8_pair<0x1100>(w, w);
            b[i][1] = attn_i8_pair<0x3322>(w, w);
        } else {
            b[i][0] = piece[2 * i];
            b[i][1] = piece[2 * i + 1];
        }
    }
}

/* s[mt][nt] = q k^T for the warp's 16 positions. q: the group's first row; k: the tile. */
template <int D, int EB, int MT>
__device__ static inline void attn_scores(float (&s)[MT][2][4], const char *q, const char *k,
                                          int warp, int lane)
{
    using shape = attn_shape<D, EB>;
    constexpr int HALVES = EB == 1 ? 2 : 1;
    int r = lane >> 2, c = lane & 3;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int nt = 0; nt < 2; nt++)
#pragma unroll
            for (int e = 0; e < 4; e++) s[mt][nt][e] = 0.0f;
    const char *q_lane = q + r * shape::Q_STRIDE + c * 16 * HALVES;
#pragma unroll
    for (int kk = 0; kk < shape::CHUNKS / 4; kk++) {
        uint32_t piece[2][4];
#pragma unroll
        for (int nt = 0; nt < 2; nt++) {
            int row = warp * 16 + nt * 8 + r;
            uint4 v = *reinterpret_cast<const uint4 *>(
                k + attn_k_at<shape::CHUNKS>(row, kk * 4 + c));
            piece[nt][0] = v.x, piece[nt][1] = v.y, piece[nt][2] = v.z, piece[nt][3] = v.w;
        }
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            uint32_t b[2][2][2];
#pragma unroll
            for (int nt = 0; nt < 2; nt++) attn_k_operand<EB>(piece[nt], h, b[nt]);
#pragma unroll
            for (int mt = 0; mt < MT; mt++) {
                const char *at = q_lane + mt * 16 * shape::Q_STRIDE + kk * 64 * HALVES + h * 16;
                uint4 lo = *reinterpret_cast<const uint4 *>(at);
                uint4 hi = *reinterpret_cast<const uint4 *>(at + 8 * shape::Q_STRIDE);
                uint32_t a[2][4] = {{lo.x, hi.x, lo.y, hi.y}, {lo.z, hi.z, lo.w, hi.w}};
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int nt = 0; nt < 2; nt++)
                        mma_bf16(s[mt][nt], a[i], b[nt][i][0], b[nt][i][1]);
            }
        }
    }
}

/* ---- softmax ------------------------------------------------------------------------------ */

/* A lane's pairs: row h * 8 + lane / 4 of m-tile mt. All lanes of the four warps that hold a pair
 * keep the same max and sum. */
template <int MT> struct attn_pairs {
    float max[MT][2], sum[MT][2];
    int first[MT][2], last[MT][2]; /* visible columns of the tile in hand; last < first: none */
};

template <int MT> __device__ static inline void attn_pairs_reset(attn_pairs<MT> &p)
{
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            p.max[mt][h] = -INFINITY;
            p.sum[mt][h] = 0.0f;
        }
}

/* Where the warps of a group meet: row maxima and sums by warp, and the weights. */
struct attn_meet {
    float4 *max, *sum; /* [16 MT] of the group, a float a warp */
    char *p;           /* bf16 [16 MT] rows of P_STRIDE bytes */
};

/* Scale and mask the scores, and publish the warp's maxima. `scales` is NULL or k_scale [64]. */
template <int MT>
__device__ static inline void attn_mask(float (&s)[MT][2][4], const attn_pairs<MT> &p, float c,
                                        const float *scales, const attn_meet &meet, int warp,
                                        int lane)
{
    int r = lane >> 2, col = warp * 16 + (lane & 3) * 2;
    float factor[2][2];
#pragma unroll
    for (int nt = 0; nt < 2; nt++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            factor[nt][e] = scales ? __fmul_rn(scales[col + nt * 8 + e], c) : c;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float most = -INFINITY;
#pragma unroll
            for (int nt = 0; nt < 2; nt++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    int n = col + nt * 8 + e;
                    float x = __fmul_rn(s[mt][nt][h * 2 + e], factor[nt][e]);
                    x = n >= p.first[mt][h] && n <= p.last[mt][h] ? x : -INFINITY;
                    s[mt][nt][h * 2 + e] = x;
                    most = fmaxf(most, x);
                }
            most = fmaxf(most, __shfl_xor_sync(WARP_ALL, most, 1));
            most = fmaxf(most, __shfl_xor_sync(WARP_ALL, most, 2));
            if ((lane & 3) == 0)
                reinterpret_cast<float *>(meet.max + mt * 16 + h * 8 + r)[warp] = most;
        }
}

/* Move to the new maxima, publish weights and their sums. alpha is what acc must be scaled by.
 * `scales` is NULL or v_scale [64]; a masked position's scale is not used. */
template <int MT, int P_STRIDE>
__device__ static inline void attn_weigh(float (&s)[MT][2][4], attn_pairs<MT> &p,
                                         float (&alpha)[MT][2], const float *scales,
                                         const attn_meet &meet, int warp, int lane)
{
    int r = lane >> 2, col = warp * 16 + (lane & 3) * 2;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int row = mt * 16 + h * 8 + r;
            float4 m = meet.max[row];
            float max = fmaxf(p.max[mt][h], fmaxf(fmaxf(m.x, m.y), fmaxf(m.z, m.w)));
            float base = max == -INFINITY ? 0.0f : max; /* nothing seen yet: -inf - 0, not NaN */
            alpha[mt][h] = attn_exp2(__fsub_rn(p.max[mt][h], base));
            p.max[mt][h] = max;
            float part[2];
#pragma unroll
            for (int nt = 0; nt < 2; nt++) {
                float w0 = attn_exp2(__fsub_rn(s[mt][nt][h * 2], base));
                float w1 = attn_exp2(__fsub_rn(s[mt][nt][h * 2 + 1], base));
                part[nt] = __fadd_rn(w0, w1);
                if (scales) {
                    w0 = w0 > 0.0f ? __fmul_rn(w0, scales[col + nt * 8]) : 0.0f;
                    w1 = w1 > 0.0f ? __fmul_rn(w1, scales[col + nt * 8 + 1]) : 0.0f;
                }
                *reinterpret_cast<uint32_t *>(meet.p + row * P_STRIDE + (col + nt * 8) * 2) =
                    pack_bf16(w0, w1);
            }
            float sum = __fadd_rn(part[0], part[1]);
            sum = __fadd_rn(sum, __shfl_xor_sync(WARP_ALL, sum, 1));
            sum = __fadd_rn(sum, __shfl_xor_sync(WARP_ALL, sum, 2));
            if ((lane & 3) == 0) reinterpret_cast<float *>(meet.sum + row)[warp] = sum;
        }
}

/* ---- sums --------------------------------------------------------------------------------- */

/* The lane's NT columns of four adjacent V rows as raw words: v[j] is row first + j. */
template <int D, int EB>
__device__ static inline void attn_v_load(uint32_t (*v)[4], const char *tile, int first, int warp,
                                          int lane)
{
    using shape = attn_shape<D, EB>;
    constexpr int BYTES = shape::NT * EB;
    int at = (warp * (D / 4) + shape::NT * (lane >> 2)) * EB;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const char *row = tile + attn_v_at<shape::CHUNKS>(first + j, at >> 4) + (at & 15);
        if constexpr (BYTES == 16) {
            uint4 x = *reinterpret_cast<const uint4 *>(row);
            v[j][0] = x.x, v[j][1] = x.y, v[j][2] = x.z, v[j][3] = x.w;
        } else if constexpr (BYTES == 8) {
            uint2 x = *reinterpret_cast<const uint2 *>(row);
            v[j][0] = x.x, v[j][1] = x.y;
        } else if constexpr (BYTES == 4) {
            v[j][0] = *reinterpret_cast<const uint32_t *>(row);
        } else { /* one column, or an odd number of them that may lie in two pieces */
            static_assert(EB == 2 || BYTES == 2, "int8 heads have an even number of columns");
            v[j][0] = *reinterpret_cast<const uint16_t *>(row);
#pragma unroll
            for (int i = 1; i < BYTES / 2; i++) {
                int b = at + 2 * i;
                uint32_t x = *reinterpret_cast<const uint16_t *>(
                    tile + attn_v_at<shape::CHUNKS>(first + j, b >> 4) + (b & 15));
                v[j][i / 2] = i & 1 ? v[j][i / 2] | x << 16 : x;
            }
        }
    }
}

/* Column i of rows x and y as a bf16 pair. */
template <int EB, int I> __device__ static inline uint32_t attn_v_pair(const uint32_t *x,
                                                                       const uint32_t *y)
{
    if constexpr (EB == 1) {
        constexpr uint32_t B = I & 3;
        constexpr uint32_t SELECT = B | B << 4 | (B + 4) << 8 | (B + 4) << 12;
        return attn_i8_pair<SELECT>(x[I >> 2], y[I >> 2]);
    } else {
        return __byte_perm(x[I >> 1], y[I >> 1], (I & 1) ? 0x7632 : 0x5410);
    }
}

template <int D, int EB, int MT, int I>
__device__ static inline void attn_v_columns(float (&acc)[MT][D / 32][4], const uint32_t (*a)[4],
                                             const uint32_t (*v)[4])
{
    if constexpr (I < D / 32) {
        uint32_t b0 = attn_v_pair<EB, I>(v[0], v[1]), b1 = attn_v_pair<EB, I>(v[2], v[3]);
#pragma unroll
        for (int mt = 0; mt < MT; mt++) mma_bf16(acc[mt][I], a[mt], b0, b1);
        attn_v_columns<D, EB, MT, I + 1>(acc, a, v);
    }
}

/* acc = acc alpha + P V for the warp's D / 4 columns. */
template <int D, int EB, int MT>
__device__ static inline void attn_sums(float (&acc)[MT][D / 32][4], const float (&alpha)[MT][2],
                                        const char *p, const char *v, int warp, int lane)
{
    using shape = attn_shape<D, EB>;
    int r = lane >> 2, c = lane & 3;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int i = 0; i < shape::NT; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[mt][i][e] = __fmul_rn(acc[mt][i][e], alpha[mt][e >> 1]);
#pragma unroll
    for (int step = 0; step < OPS_BLOCK / 16; step++) {
        int first = step * 16 + c * 4; /* positions first..first+3 are k = 2c, 2c+1, 2c+8, 2c+9 */
        uint32_t words[4][4], a[MT][4];
        attn_v_load<D, EB>(words, v, first, warp, lane);
#pragma unroll
        for (int mt = 0; mt < MT; mt++) {
            const char *at = p + (mt * 16 + r) * shape::P_STRIDE + first * 2;
            uint2 lo = *reinterpret_cast<const uint2 *>(at);
            uint2 hi = *reinterpret_cast<const uint2 *>(at + 8 * shape::P_STRIDE);
            a[mt][0] = lo.x, a[mt][1] = hi.x, a[mt][2] = lo.y, a[mt][3] = hi.y;
        }
        attn_v_columns<D, EB, MT, 0>(acc, a, words);
    }
}

/* One tile for the calling group: all threads of the block take part (it holds barriers). On
 * entry K and V lie in shared memory for all; the caller puts a barrier before the next tile. */
template <int D, int EB, int MT>
__device__ static inline void attn_tile(float (&acc)[MT][D / 32][4], attn_pairs<MT> &pairs,
                                        const char *q, const char *k, const char *v, float c,
                                        const float *k_scale, const float *v_scale,
                                        const attn_meet &meet, int warp, int lane)
{
    float s[MT][2][4], alpha[MT][2];
    attn_scores<D, EB, MT>(s, q, k, warp, lane);
    attn_mask<MT>(s, pairs, c, k_scale, meet, warp, lane);
    __syncthreads(); /* all maxima of a row are there */
    attn_weigh<MT, attn_shape<D, EB>::P_STRIDE>(s, pairs, alpha, v_scale, meet, warp, lane);
    __syncthreads(); /* all weights and sums are there */
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float4 t = meet.sum[mt * 16 + h * 8 + (lane >> 2)];
            float sum = __fadd_rn(__fadd_rn(__fadd_rn(t.x, t.y), t.z), t.w);
            pairs.sum[mt][h] = __fmaf_rn(pairs.sum[mt][h], alpha[mt][h], sum);
        }
    attn_sums<D, EB, MT>(acc, alpha, meet.p, v, warp, lane);
}

/* Store N consecutive floats; `to` is aligned as far as N goes. */
template <int N> __device__ static inline void attn_store_floats(float *to, const float *x)
{
    if constexpr (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4)
            *reinterpret_cast<float4 *>(to + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 2)
            *reinterpret_cast<float2 *>(to + i) = make_float2(x[i], x[i + 1]);
    }
}

/* Zero a warp's sums. */
template <int D, int MT> __device__ static inline void attn_clear(float (&acc)[MT][D / 32][4])
{
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int i = 0; i < D / 32; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[mt][i][e] = 0.0f;
}

/* The lane's 2 NT consecutive columns of one pair, in order: n = 2c of every n-tile, then 2c + 1.
 * They start at column warp * D / 4 + 2 NT c. */
template <int D, int MT>
__device__ static inline void attn_columns(float *x, const float (&acc)[MT][D / 32][4], int mt,
                                           int h)
{
#pragma unroll
    for (int i = 0; i < D / 32; i++) {
        x[i] = acc[mt][i][h * 2];
        x[D / 32 + i] = acc[mt][i][h * 2 + 1];
    }
}

#endif
