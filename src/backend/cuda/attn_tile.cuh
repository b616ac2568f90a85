/* attn_tile: 64 positions of K and V against a tile of queries, by tensor cores.
 *
 * What attn_priv.cuh and draft_attn.cu share. A tile of queries packs (row, head) pairs of one KV
 * head into the m dimension; a group of NW warps owns 16 MT of them. In scores the warps of a group
 * cut the 64 positions (64 / NW each), in sums the D columns (D / NW each), so every K and V value
 * is read from shared memory and converted once a group.
 *
 * A pair's numbers depend on its own query, its own visible range and the K and V rows alone:
 *   score   one mma chain over D from zero, then * (scale * log2 e) [* k_scale]
 *   weight  2^(score - max), rounded for the sums to bf16, or for int8 to f16 of 64 * v_scale * it
 *   sum     of f32 weights: two columns, four lanes, then the eight n-tiles pairwise
 *   acc     acc * 2^(old max - max), then one mma chain over the 64 positions
 * MT, NW and the place of the queries change none of them. A position outside the visible range
 * gets score -inf and weight +0, which changes no bit of max, sum or acc, so it does not matter
 * which other pairs share a tile.
 *
 * int8 codes are exact in f16 and cost half as much to make as in bf16 (a byte behind 0x64 is
 * 1024 + byte), so queries become f16 there too: exact for 6e-5 <= |q| < 65,504.
 *
 * K order inside an mma step is free as long as both operands agree. Here lane (r, c) = (lane / 4,
 * lane % 4) takes 16 consecutive bytes of a K row for 4 (int8) or 2 (bf16) steps, and 4 adjacent
 * positions of V for one step, so no transpose is needed. Column n of the lane's n-tile i is
 * d = first + NT n + i. */
#ifndef RIPTIDE_BACKEND_CUDA_ATTN_TILE_CUH
#define RIPTIDE_BACKEND_CUDA_ATTN_TILE_CUH

#include <cuda_fp16.h>

#include "backend/cuda/mma.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vec_load.cuh"

constexpr float ATTN_LOG2E = 1.4426950408889634f;
constexpr float ATTN_INT8_UNIT = 64.0f; /* keeps weight * v_scale inside f16's range */
constexpr int ATTN_N_TILES = OPS_BLOCK / 8;

/* Sizes for D columns of EB bytes each in shared memory (1 = int8, 2 = bf16) and NW warps. */
template <int D, int EB, int NW> struct attn_shape {
    static constexpr int ROW = D * EB;           /* bytes of a K or V row */
    static constexpr int CHUNKS = ROW / 16;      /* 16-byte pieces of it */
    static constexpr int COLUMNS = D / NW;       /* of a warp */
    static constexpr int NT = COLUMNS / 8;       /* n-tiles of them */
    static constexpr int NP = ATTN_N_TILES / NW; /* n-tiles of a warp's positions */
    static constexpr int TILE = OPS_BLOCK * ROW;
    /* A lane reads 32 (int8) or 16 (bf16) bytes of a Q row at a time; this stride puts the eight
     * lanes of a quarter warp on different banks. */
    static constexpr int Q_STRIDE = 2 * D + (EB == 1 ? 16 : 64);
    static constexpr int P_STRIDE = 2 * OPS_BLOCK + 32;
    static_assert(NW == 4 || NW == 8, "four or eight warps a group");
    static_assert(COLUMNS % 8 == 0 && D <= 256, "columns are cut in n8 tiles");
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

/* ---- int8 codes as f16 pairs -------------------------------------------------------------- */

/* f16 operands when EB is 1, else bf16. */
template <int EB>
__device__ static inline void attn_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    if constexpr (EB == 1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        mma_bf16(c, a, b0, b1);
    }
}

__device__ static inline uint32_t pack_f16(float lo, float hi)
{
    __half2 v = __floats2half2_rn(lo, hi);
    uint32_t u;
    memcpy(&u, &v, 4);
    return u;
}

/* Bytes AT and AT + 1 of x, codes with the sign bit flipped (0 .. 255), as an f16 pair:
 * (1024 + byte) - 1152 is exact. */
template <int AT> __device__ static inline uint32_t attn_code_pair(uint32_t x)
{
    uint32_t b = __byte_perm(x, 0x64646464u, AT == 0 ? 0x4140 : 0x4342), r;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(b), "r"(0x64806480u));
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
            uint32_t w = piece[h * 2 + i] ^ 0x80808080u;
            b[i][0] = attn_code_pair<0>(w);
            b[i][1] = attn_code_pair<2>(w);
        } else {
            b[i][0] = piece[2 * i];
            b[i][1] = piece[2 * i + 1];
        }
    }
}

/* A group's queries as A operands: read from shared memory whenever they are wanted, or kept in
 * registers (4 D / 16 of them for each m-tile, in every warp). */
template <int D, int EB, int MT, bool IN_REGS> struct attn_queries {
    const char *rows; /* the lane's row and piece of the first m-tile */
};
template <int D, int EB, int MT> struct attn_queries<D, EB, MT, true> {
    uint32_t a[MT][D / 16][4];
};

/* The two steps that half h of piece kk feeds, from shared memory. */
template <int D, int EB>
__device__ static inline void attn_q_read(uint32_t (*a)[4], const char *rows, int mt, int kk, int h)
{
    constexpr int STRIDE = attn_shape<D, EB, 4>::Q_STRIDE;
    const char *at = rows + mt * 16 * STRIDE + kk * 64 * (EB == 1 ? 2 : 1) + h * 16;
    uint4 lo = *reinterpret_cast<const uint4 *>(at);
    uint4 hi = *reinterpret_cast<const uint4 *>(at + 8 * STRIDE);
    a[0][0] = lo.x, a[0][1] = hi.x, a[0][2] = lo.y, a[0][3] = hi.y;
    a[1][0] = lo.z, a[1][1] = hi.z, a[1][2] = lo.w, a[1][3] = hi.w;
}

/* Make the operands from the group's rows in shared memory. With IN_REGS they must be there. */
template <int D, int EB, int MT, bool IN_REGS>
__device__ static inline void attn_q_open(attn_queries<D, EB, MT, IN_REGS> &q, const char *shared,
                                          int lane)
{
    constexpr int HALVES = EB == 1 ? 2 : 1;
    const char *rows = shared + (lane >> 2) * attn_shape<D, EB, 4>::Q_STRIDE +
                       (lane & 3) * 16 * HALVES;
    if constexpr (IN_REGS) {
#pragma unroll
        for (int mt = 0; mt < MT; mt++)
#pragma unroll
            for (int i = 0; i < D / 32; i++)
                attn_q_read<D, EB>(&q.a[mt][2 * i], rows, mt, i / HALVES, i % HALVES);
    } else {
        q.rows = rows;
    }
}

template <int D, int EB, int MT, bool IN_REGS>
__device__ static inline void attn_q_operand(uint32_t (*a)[4],
                                             const attn_queries<D, EB, MT, IN_REGS> &q, int mt,
                                             int kk, int h)
{
    if constexpr (IN_REGS) {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) a[i][e] = q.a[mt][(kk * (EB == 1 ? 2 : 1) + h) * 2 + i][e];
    } else {
        attn_q_read<D, EB>(a, q.rows, mt, kk, h);
    }
}

/* s[mt][nt] = q k^T for the warp's 8 NP positions of tile k. */
template <int D, int EB, int MT, int NW, bool IN_REGS>
__device__ static inline void attn_scores(float (&s)[MT][ATTN_N_TILES / NW][4],
                                          const attn_queries<D, EB, MT, IN_REGS> &q, const char *k,
                                          int warp, int lane)
{
    using shape = attn_shape<D, EB, NW>;
    constexpr int HALVES = EB == 1 ? 2 : 1, NP = shape::NP;
    int r = lane >> 2, c = lane & 3;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int nt = 0; nt < NP; nt++)
#pragma unroll
            for (int e = 0; e < 4; e++) s[mt][nt][e] = 0.0f;
#pragma unroll
    for (int kk = 0; kk < shape::CHUNKS / 4; kk++) {
        uint32_t piece[NP][4];
#pragma unroll
        for (int nt = 0; nt < NP; nt++) {
            int row = (warp * NP + nt) * 8 + r;
            uint4 v = *reinterpret_cast<const uint4 *>(k +
                                                       attn_k_at<shape::CHUNKS>(row, kk * 4 + c));
            piece[nt][0] = v.x, piece[nt][1] = v.y, piece[nt][2] = v.z, piece[nt][3] = v.w;
        }
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            uint32_t b[NP][2][2];
#pragma unroll
            for (int nt = 0; nt < NP; nt++) attn_k_operand<EB>(piece[nt], h, b[nt]);
#pragma unroll
            for (int mt = 0; mt < MT; mt++) {
                uint32_t a[2][4];
                attn_q_operand(a, q, mt, kk, h);
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int nt = 0; nt < NP; nt++)
                        attn_mma<EB>(s[mt][nt], a[i], b[nt][i][0], b[nt][i][1]);
            }
        }
    }
}

/* ---- softmax ------------------------------------------------------------------------------ */

/* A lane's pairs: row h * 8 + lane / 4 of m-tile mt. All lanes of the warps that hold a pair keep
 * the same max and sum. */
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

/* Where the warps of a group meet: each row's maxima by warp and sums by n-tile, 8 floats a row,
 * and the weights. */
struct attn_meet {
    float *max, *sum;
    char *p; /* 16-bit, [16 MT] rows of P_STRIDE bytes */
};
enum { ATTN_MEET_ROW = 8 * 4 }; /* bytes of a row's maxima, or sums */

/* Scale and mask the scores, and publish the warp's maxima. `scales` is NULL or k_scale [64]. */
template <int MT, int NW>
__device__ static inline void attn_mask(float (&s)[MT][ATTN_N_TILES / NW][4],
                                        const attn_pairs<MT> &p, float c, const float *scales,
                                        const attn_meet &meet, int warp, int lane)
{
    constexpr int NP = ATTN_N_TILES / NW;
    int r = lane >> 2, col = warp * NP * 8 + (lane & 3) * 2;
    float factor[NP][2];
#pragma unroll
    for (int nt = 0; nt < NP; nt++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            factor[nt][e] = scales ? __fmul_rn(scales[col + nt * 8 + e], c) : c;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float most = -INFINITY;
#pragma unroll
            for (int nt = 0; nt < NP; nt++)
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
            if ((lane & 3) == 0) meet.max[(mt * 16 + h * 8 + r) * 8 + warp] = most;
        }
}

/* The largest of a row's NW maxima. */
template <int NW> __device__ static inline float attn_row_max(const float *max)
{
    float4 a = *reinterpret_cast<const float4 *>(max);
    float m = fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w));
    if (NW == 4) return m;
    a = *reinterpret_cast<const float4 *>(max + 4);
    return fmaxf(m, fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w)));
}

/* Sum of the eight n-tiles' sums. */
__device__ static inline float attn_row_sum(const float *sum)
{
    float4 a = *reinterpret_cast<const float4 *>(sum);
    float4 b = *reinterpret_cast<const float4 *>(sum + 4);
    return __fadd_rn(__fadd_rn(__fadd_rn(a.x, a.y), __fadd_rn(a.z, a.w)),
                     __fadd_rn(__fadd_rn(b.x, b.y), __fadd_rn(b.z, b.w)));
}

/* Move to the new maxima, publish weights and their sums. alpha is what acc must be scaled by.
 * `scales` is NULL (bf16) or v_scale [64] (int8); a masked position's scale is not used. */
template <int MT, int NW, int P_STRIDE>
__device__ static inline void attn_weigh(float (&s)[MT][ATTN_N_TILES / NW][4], attn_pairs<MT> &p,
                                         float (&alpha)[MT][2], const float *scales,
                                         const attn_meet &meet, int warp, int lane)
{
    constexpr int NP = ATTN_N_TILES / NW;
    int r = lane >> 2, col = warp * NP * 8 + (lane & 3) * 2;
    float factor[NP][2];
#pragma unroll
    for (int nt = 0; nt < NP; nt++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            factor[nt][e] = scales ? __fmul_rn(scales[col + nt * 8 + e], ATTN_INT8_UNIT) : 1.0f;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int row = mt * 16 + h * 8 + r;
            float max = fmaxf(p.max[mt][h], attn_row_max<NW>(meet.max + row * 8));
            float base = max == -INFINITY ? 0.0f : max; /* nothing seen yet: -inf - 0, not NaN */
            alpha[mt][h] = attn_exp2(__fsub_rn(p.max[mt][h], base));
            p.max[mt][h] = max;
#pragma unroll
            for (int nt = 0; nt < NP; nt++) {
                float w0 = attn_exp2(__fsub_rn(s[mt][nt][h * 2], base));
                float w1 = attn_exp2(__fsub_rn(s[mt][nt][h * 2 + 1], base));
                float sum = __fadd_rn(w0, w1);
                uint32_t packed;
                if (scales) {
                    w0 = w0 > 0.0f ? __fmul_rn(w0, factor[nt][0]) : 0.0f;
                    w1 = w1 > 0.0f ? __fmul_rn(w1, factor[nt][1]) : 0.0f;
                    packed = pack_f16(w0, w1);
                } else {
                    packed = pack_bf16(w0, w1);
                }
                *reinterpret_cast<uint32_t *>(meet.p + row * P_STRIDE +
                                              (col + nt * 8) * 2) = packed;
                sum = __fadd_rn(sum, __shfl_xor_sync(WARP_ALL, sum, 1));
                sum = __fadd_rn(sum, __shfl_xor_sync(WARP_ALL, sum, 2));
                if ((lane & 3) == 0) meet.sum[row * 8 + warp * NP + nt] = sum;
            }
        }
}

/* ---- sums --------------------------------------------------------------------------------- */

/* The lane's NT columns of four adjacent V rows as raw words: v[j] is row first + j. */
template <int D, int EB, int NW>
__device__ static inline void attn_v_load(uint32_t (*v)[4], const char *tile, int first, int warp,
                                          int lane)
{
    using shape = attn_shape<D, EB, NW>;
    constexpr int BYTES = shape::NT * EB;
    int at = (warp * shape::COLUMNS + shape::NT * (lane >> 2)) * EB;
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
        if constexpr (EB == 1) {
#pragma unroll
            for (int w = 0; w < div_up(BYTES, 4); w++) v[j][w] ^= 0x80808080u;
        }
    }
}

/* Columns I and I + 1 (bf16: I alone) of rows x and y as pairs (x, y). */
template <int EB, int I>
__device__ static inline void attn_v_pairs(uint32_t *b, const uint32_t *x, const uint32_t *y)
{
    if constexpr (EB == 1) {
        constexpr uint32_t B = I & 3;
        uint32_t w = __byte_perm(x[I >> 2], y[I >> 2],
                                 B | (B + 4) << 4 | (B + 1) << 8 | (B + 5) << 12);
        b[0] = attn_code_pair<0>(w);
        b[1] = attn_code_pair<2>(w);
    } else {
        b[0] = __byte_perm(x[I >> 1], y[I >> 1], (I & 1) ? 0x7632 : 0x5410);
    }
}

/* Columns I and on of one step. */
template <int NT, int EB, int MT, int I>
__device__ static inline void attn_v_columns(float (&acc)[MT][NT][4], const uint32_t (*a)[4],
                                             const uint32_t (*v)[4])
{
    if constexpr (I < NT) {
        constexpr int N = EB == 1 ? 2 : 1;
        uint32_t b0[2], b1[2];
        attn_v_pairs<EB, I>(b0, v[0], v[1]);
        attn_v_pairs<EB, I>(b1, v[2], v[3]);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int mt = 0; mt < MT; mt++) attn_mma<EB>(acc[mt][I + n], a[mt], b0[n], b1[n]);
        attn_v_columns<NT, EB, MT, I + N>(acc, a, v);
    }
}

/* acc = acc alpha + P V for the warp's columns. */
template <int D, int EB, int MT, int NW>
__device__ static inline void attn_sums(float (&acc)[MT][D / NW / 8][4],
                                        const float (&alpha)[MT][2], const char *p, const char *v,
                                        int warp, int lane)
{
    using shape = attn_shape<D, EB, NW>;
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
        attn_v_load<D, EB, NW>(words, v, first, warp, lane);
#pragma unroll
        for (int mt = 0; mt < MT; mt++) {
            const char *at = p + (mt * 16 + r) * shape::P_STRIDE + first * 2;
            uint2 lo = *reinterpret_cast<const uint2 *>(at);
            uint2 hi = *reinterpret_cast<const uint2 *>(at + 8 * shape::P_STRIDE);
            a[mt][0] = lo.x, a[mt][1] = hi.x, a[mt][2] = lo.y, a[mt][3] = hi.y;
        }
        attn_v_columns<shape::NT, EB, MT, 0>(acc, a, words);
    }
}

/* One tile for the calling group: all threads of the block take part (it holds barriers). On
 * entry K and V lie in shared memory for all; the caller puts a barrier before the next tile. */
template <int D, int EB, int MT, int NW, bool IN_REGS>
__device__ static inline void attn_tile(float (&acc)[MT][D / NW / 8][4], attn_pairs<MT> &pairs,
                                        const attn_queries<D, EB, MT, IN_REGS> &q, const char *k,
                                        const char *v, float c, const float *k_scale,
                                        const float *v_scale, const attn_meet &meet, int warp,
                                        int lane)
{
    float s[MT][ATTN_N_TILES / NW][4], alpha[MT][2];
    attn_scores<D, EB, MT, NW>(s, q, k, warp, lane);
    attn_mask<MT, NW>(s, pairs, c, k_scale, meet, warp, lane);
    __syncthreads(); /* all maxima of a row are there */
    attn_weigh<MT, NW, attn_shape<D, EB, NW>::P_STRIDE>(s, pairs, alpha, v_scale, meet, warp, lane);
    __syncthreads(); /* all weights and sums are there */
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float sum = attn_row_sum(meet.sum + (mt * 16 + h * 8 + (lane >> 2)) * 8);
            pairs.sum[mt][h] = __fmaf_rn(pairs.sum[mt][h], alpha[mt][h], sum);
        }
    attn_sums<D, EB, MT, NW>(acc, alpha, meet.p, v, warp, lane);
}

/* ---- results ------------------------------------------------------------------------------ */

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
template <int MT, int NT> __device__ static inline void attn_clear(float (&acc)[MT][NT][4])
{
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int i = 0; i < NT; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[mt][i][e] = 0.0f;
}

/* The lane's 2 NT consecutive columns of one pair, in order: n = 2c of every n-tile, then 2c + 1.
 * They start at column warp * COLUMNS + 2 NT c. */
template <int MT, int NT>
__device__ static inline void attn_columns(float *x, const float (&acc)[MT][NT][4], int mt, int h)
{
#pragma unroll
    for (int i = 0; i < NT; i++) {
        x[i] = acc[mt][i][h * 2];
        x[NT + i] = acc[mt][i][h * 2 + 1];
    }
}

#endif
