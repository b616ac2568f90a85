/* attn_few: attention of few rows on Hopper, and of some hundred behind a long history: a split
 * attn_kernel's bits with K and V as the A operands of mma.
 *
 * Codes are widened once a block, on their way from shared memory to registers, and m is never
 * empty however few queries there are. Queries and weights are B: N = 8 to 64 (row, head) pairs of
 * one KV head, of four warps:
 *   scores  S^T [64 positions, N]  = K [64, D] q^T     warp w has 16 positions
 *   sums    O^T [D, N]            += V^T [D, 64] w^T   warp w has columns 64 w to 64 w + 63
 * Here is what one tile takes. attn_few_run.cuh is the block for 32 pairs and more, and for 8 of
 * bf16; attn_pair.cuh that for the others of 8 and 16.
 *
 * The numbers are attn_tile.cuh's: a step of mma takes what one takes there. Row (h, r) of a warp's
 * sixteen (r = lane / 4, + 8 h) is position 4 (r / 2) + 2 h + r % 2, so that weights, stored in
 * rows' order, meet V as attn_v_load has it: k = 2c, 2c + 1, 2c + 8, 2c + 9 are positions 4c to
 * 4c + 3. Row (h, r) of m-tile i of V^T is column 8 r + 2 i + h of the warp's 64. */
#ifndef RIPTIDE_BACKEND_CUDA_ATTN_FEW_CUH
#define RIPTIDE_BACKEND_CUDA_ATTN_FEW_CUH

#include "backend/cuda/attn_wide_fill.cuh"

/* Sizes of format F and N pairs. Queries and weights lie in slabs of 64 columns or positions: rows
 * of 128 bytes, 16-byte pieces xor-ed with the row, on 1024 bytes. */
template <kv_format F, int N> struct attn_few_sizes {
    static constexpr int D = 256, GROUP = 128, EB = attn_shared_bytes<F>;
    static constexpr int CHUNKS = D * EB / 16, TILE = OPS_BLOCK * D * EB;
    static constexpr int SLAB = N * 128, QUERIES = D / 64 * SLAB;
    static constexpr int PROCESSOR = 228 * 1024; /* shared memory; each block costs 1 KB of it */
};

#if WGMMA_ON

/* ---- what a block does ---------------------------------------------------------------------- */

typedef struct {
    attn_place at;
    int g, segment;
    int tile, n_tiles; /* of the cache: the segment's, as far as they are seen. 0: nothing to do */
    int last_pos;      /* that any pair sees */
    int block;         /* lane i: of tile i. A segment has at most 16 */
} attn_few_task;

/* The lane's row of pair `pair`. */
__device__ static inline int attn_few_row_of(const attn_params &p, int pair)
{
    return p.R == 1 ? pair : static_cast<int>(__umulhi(pair, p.over_R));
}

/* Grid (tiles of N pairs from first_tile on, G, segments), the last segment first. */
__device__ static inline attn_few_task attn_few_open(const attn_params &p, int N)
{
    attn_few_task t;
    int lane = threadIdx.x & 31;
    t.g = blockIdx.y;
    t.segment = p.n_segments - 1 - static_cast<int>(blockIdx.z);
    t.tile = attn_segment_begin(t.segment) / OPS_BLOCK;
    t.n_tiles = t.block = 0;
    int slots = lane < p.L ? p.lane_slot[lane] : 0; /* asked for before it is known whose */
    t.at = attn_find(p.lane_row, p.L, p.R, N, p.first_tile + blockIdx.x);
    if (t.at.lane < 0) return t;
    int64_t slot = __shfl_sync(WARP_ALL, slots, t.at.lane & 31);
    if (t.at.lane >= 32) slot = p.lane_slot[t.at.lane];
    if (lane < 16 && t.tile + lane < p.table_stride)
        t.block = p.table[slot * p.table_stride + t.tile + lane];
    int last = min(t.at.pair + N, t.at.n * p.R) - 1;
    t.last_pos = p.row_pos[t.at.first + attn_few_row_of(p, last)];
    if (t.tile * OPS_BLOCK <= t.last_pos)
        t.n_tiles = (min(t.last_pos, attn_segment_begin(t.segment + 1) - 1) >> 6) + 1 - t.tile;
    return t;
}

/* Pair n of the block among the lane's, -1 for none. */
__device__ static inline int attn_few_pair(const attn_params &p, const attn_few_task &t, int n)
{
    int pair = t.at.pair + n;
    return pair < t.at.n * p.R ? pair : -1;
}

/* (row, head) of a pair among [T, H]. */
__device__ static inline int attn_few_head(const attn_params &p, const attn_few_task &t, int pair)
{
    int row = attn_few_row_of(p, pair);
    return (t.at.first + row) * p.H + t.g * p.R + pair - row * p.R;
}

/* What pair n sees last, -1 for none. */
__device__ static inline int attn_few_sees(const attn_params &p, const attn_few_task &t, int n)
{
    int pair = attn_few_pair(p, t, n);
    return pair < 0 ? -1 : p.row_pos[t.at.first + attn_few_row_of(p, pair)];
}

/* So many tiles are whole for every pair. */
__device__ static inline int attn_few_whole(const attn_params &p, const attn_few_task &t)
{
    return ((p.row_pos[t.at.first + attn_few_row_of(p, t.at.pair)] + 1) >> 6) - t.tile;
}

/* ---- filling ------------------------------------------------------------------------------ */

/* Start copying the K or V of tile i; positions behind the last become zeros. All lanes of a group
 * take part. A thread has one column of 16 bytes, its rows are ROWS apart: of the places in
 * attn_k_at and attn_v_at the xor alone changes. Returns the tile's first cell. */
template <kv_format F, int N, bool IS_V>
__device__ static inline int64_t attn_few_load(char *slot, const attn_params &p,
                                               const attn_few_task &t, int i)
{
    using S = attn_few_sizes<F, N>;
    constexpr unsigned CHUNKS = S::CHUNKS, ROWS = S::GROUP / CHUNKS, EACH = OPS_BLOCK / ROWS;
    unsigned thread = threadIdx.x & 127, row = thread / CHUNKS, chunk = thread % CHUNKS;
    int64_t block = __shfl_sync(WARP_ALL, t.block, i & 31);
    int64_t cell = (block * p.G + t.g) * OPS_BLOCK;
    if (i >= t.n_tiles) return cell;
    int last = t.last_pos - (t.tile + i) * OPS_BLOCK;
    const uint8_t *from = (IS_V ? p.v : p.k) + (cell * CHUNKS + thread) * 16;
    char *to = slot + row * CHUNKS * 16;
#pragma unroll
    for (unsigned k = 0; k < EACH; k++) {
        unsigned x = IS_V ? ((row + k * ROWS) >> 2 & 3) << 1 : (row & 1) << 2;
        const uint8_t *piece = from + k * S::GROUP * 16;
        char *at = to + k * S::GROUP * 16 + (chunk ^ x) * 16;
        if (last >= OPS_BLOCK - 1)
            copy_async_16(at, piece);
        else
            copy_async_16(at, piece, static_cast<int>(row + k * ROWS) <= last);
    }
    return cell;
}

/* The block's queries into their slabs, zeros for no pair. A warp has a pair at a time. */
template <int EB, int N>
__device__ static inline void attn_few_queries(char *slabs, const attn_params &p,
                                               const attn_few_task &t)
{
    constexpr int D = attn_wide_shape::D, AHEAD = N / 4 < 8 ? N / 4 : 8;
    unsigned piece = threadIdx.x & 31, warp = threadIdx.x >> 5;
    char *to = slabs + (piece >> 3) * (N * 128);
#pragma unroll
    for (int from = 0; from < N / 4; from += AHEAD) {
        uint4 v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int pair = attn_few_pair(p, t, (from + i) * 4 + warp);
            v[i] = make_uint4(0, 0, 0, 0);
            if (from + i < N / 4 && pair >= 0) {
                int64_t head = attn_few_head(p, t, pair);
                v[i] = *reinterpret_cast<const uint4 *>(p.q + head * D + piece * 8);
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (from + i >= N / 4) break;
            unsigned n = (from + i) * 4 + warp;
            uint4 x = EB == 1 ? attn_to_f16(v[i]) : v[i];
            uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int k = 0; k < 2; k++) {
                attn_wide_quad q = attn_wide_quad_of<EB>((2 * piece + k) & 15);
#pragma unroll
                for (int half = 0; half < 2; half++)
                    *reinterpret_cast<uint32_t *>(
                        to + n * 128 + q.c * 4 +
                        ((q.step * 32 + half * 16) ^ ((n & 7) << 4))) = w[2 * k + half];
            }
        }
    }
}

/* ---- one tile ----------------------------------------------------------------------------- */

/* Row 0 of a lane among the tile's positions; row 1 is two further. */
__device__ static inline int attn_few_row()
{
    int r = threadIdx.x >> 2 & 7;
    return (threadIdx.x >> 5) * 16 + (r >> 1) * 4 + (r & 1);
}

/* K as A operands of steps 4 i to 4 i + 3. */
template <kv_format F, int N>
__device__ static inline void attn_few_keys(uint32_t (&a)[4][4], const char *k, int i)
{
    using S = attn_few_sizes<F, N>;
    constexpr int EB = S::EB, HALVES = EB == 1 ? 2 : 1, PIECES = 2 / HALVES;
    int row = attn_few_row(), c = threadIdx.x & 3;
#pragma unroll
    for (int part = 0; part < PIECES; part++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint4 v = *reinterpret_cast<const uint4 *>(
                k + attn_k_at<S::CHUNKS>(row + 2 * h, (i * PIECES + part) * 4 + c));
            uint32_t piece[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int half = 0; half < HALVES; half++) {
                uint32_t b[2][2];
                attn_k_operand<EB>(piece, half, b);
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    a[(part + half) * 2 + j][h] = b[j][0];
                    a[(part + half) * 2 + j][2 + h] = b[j][1];
                }
            }
        }
}

/* Four 8 x 8 matrices at a shared address, as load_matrix_x4. */
__device__ static inline void attn_few_take(uint32_t (&r)[4], uint32_t shared, int further)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared + further)
                 : "memory");
}

/* A lane's place for attn_few_take in rows of 128 bytes: of two steps the two halves, steps 0 and
 * 1; steps 2 and 3 are at ^ 64. Slabs and n-tiles are on 1024 bytes. */
__device__ static inline int attn_few_corner()
{
    int lane = threadIdx.x & 31;
    return (lane & 7) * 128 + ((lane >> 3) * 16 ^ (lane & 7) << 4);
}

/* The queries of one n-tile as B operands, for good. */
__device__ static inline void attn_few_keep(uint32_t (&b)[8][4], const char *q)
{
    uint32_t even = shared_address(q) + attn_few_corner(), odd = even ^ 64;
#pragma unroll
    for (int i = 0; i < 8; i++) attn_few_take(b[i], i % 2 ? odd : even, i / 2 * 1024);
}

/* S^T of tile k, one chain over D from zero. The queries' slabs are at q; of 8 pairs they are kept.
 */
template <kv_format F, int N>
__device__ static inline void attn_few_scores(float (&s)[N / 2], const char *q,
                                              const uint32_t (&kept)[8][4], const char *k)
{
    using S = attn_few_sizes<F, N>;
    uint32_t even = shared_address(q) + attn_few_corner(), odd = even ^ 64;
#pragma unroll
    for (int i = 0; i < N / 2; i++) s[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < S::D / 64; i++) {
        uint32_t a[4][4];
        attn_few_keys<F, N>(a, k, i);
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int nt = 0; nt < N / 8; nt++) {
                uint32_t b[4];
                if (N == 8) {
#pragma unroll
                    for (int e = 0; e < 4; e++) b[e] = kept[2 * i + j][e];
                } else {
                    attn_few_take(b, j ? odd : even, i * S::SLAB + nt * 1024);
                }
                attn_mma<S::EB>(s + nt * 4, a[2 * j], b[0], b[1]);
                attn_mma<S::EB>(s + nt * 4, a[2 * j + 1], b[2], b[3]);
            }
    }
}

/* Steps 2 `pair` and 2 `pair` + 1 of the sums. */
template <int EB, int N>
__device__ static inline void attn_few_sums(float (&acc)[4][N / 2], const uint32_t (&a0)[4][4],
                                            const uint32_t (&a1)[4][4], const char *weights,
                                            int pair)
{
    uint32_t corner = (shared_address(weights) + attn_few_corner()) ^ (pair * 64);
#pragma unroll
    for (int nt = 0; nt < N / 8; nt++) {
        uint32_t b[4];
        attn_few_take(b, corner, nt * 1024);
#pragma unroll
        for (int m = 0; m < 4; m++) attn_mma<EB>(acc[m] + nt * 4, a0[m], b[0], b[1]);
#pragma unroll
        for (int m = 0; m < 4; m++) attn_mma<EB>(acc[m] + nt * 4, a1[m], b[2], b[3]);
    }
}

template <bool IS_MAX> __device__ static inline float attn_few_op(float x, float y)
{
    return IS_MAX ? fmaxf(x, y) : __fadd_rn(x, y);
}

/* One exchange with lane ^ BIT: V values become V / 2 where V is even, of which this lane has the
 * half that its bit says; else all are combined in place. */
template <bool IS_MAX, int V, int BIT>
__device__ static inline void attn_few_exchange(float (&x)[V % 2 ? V : V / 2], const float (&v)[V])
{
    bool has_bit = threadIdx.x & BIT;
#pragma unroll
    for (int i = 0; i < (V % 2 ? V : V / 2); i++) {
        float keeps = v[i], gives = v[i];
        if (V % 2 == 0) {
            keeps = has_bit ? v[V / 2 + i] : v[i];
            gives = has_bit ? v[i] : v[V / 2 + i];
        }
        x[i] = attn_few_op<IS_MAX>(keeps, __shfl_xor_sync(WARP_ALL, gives, BIT));
    }
}

/* Combine a lane's values over the eight lanes of its pairs and two rows; value v of a lane is of
 * pair 8 (v / 2) + 2 c + v % 2. Result of pair n to to[4 n]. For sums in the order of positions. */
template <bool IS_MAX, int N>
__device__ static inline void attn_few_combine(float *to, const float (&s)[N / 2])
{
    constexpr int V = N / 4;
    float row0[V], row1[V];
#pragma unroll
    for (int i = 0; i < V; i++) {
        row0[i] = s[i / 2 * 4 + i % 2];
        row1[i] = s[i / 2 * 4 + 2 + i % 2];
    }
    constexpr int A = V / 2, B = A % 2 ? A : A / 2, C = B % 2 ? B : B / 2;
    int lane = threadIdx.x & 31;
    float a[A], b[B], x[C];
    if (IS_MAX) {
        float both[V];
#pragma unroll
        for (int i = 0; i < V; i++) both[i] = fmaxf(row0[i], row1[i]);
        attn_few_exchange<true, V, 4>(a, both);
    } else {
        float other[A];
        attn_few_exchange<false, V, 4>(a, row0);
        attn_few_exchange<false, V, 4>(other, row1);
#pragma unroll
        for (int i = 0; i < A; i++) a[i] = __fadd_rn(a[i], other[i]);
    }
    attn_few_exchange<IS_MAX, A, 8>(b, a);
    attn_few_exchange<IS_MAX, B, 16>(x, b);
    int first = (lane & 4 ? A : 0) + (A % 2 == 0 && lane & 8 ? B : 0) +
                (B % 2 == 0 && lane & 16 ? C : 0);
    if ((A % 2 && lane & 8) || (B % 2 && lane & 16)) return;
#pragma unroll
    for (int i = 0; i < C; i++) {
        int v = first + i;
        to[4 * (8 * (v >> 1) + 2 * (lane & 3) + (v & 1))] = x[i];
    }
}

/* Four (two where N is 8) 8 x 8 matrices to shared memory, turned: rows of pairs. */
__device__ static inline void attn_few_put(uint32_t to, const uint32_t (&w)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to),
                 "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
}
__device__ static inline void attn_few_put(uint32_t to, const uint32_t (&w)[2])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(to),
                 "r"(w[0]), "r"(w[1])
                 : "memory");
}

/* Weights of the warp's 16 positions: w[nt][h], pairs 2c and 2c + 1 of n-tile nt. */
template <int N>
__device__ static inline void attn_few_put_weights(char *weights, const uint32_t (&w)[N / 8][2])
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, h = lane >> 3 & 1;
    uint32_t to = shared_address(weights) + (lane & 7) * 128 +
                  ((warp * 32 + h * 16) ^ ((lane & 7) << 4));
#pragma unroll
    for (int i = 0; i + 1 < N / 8; i += 2)
        attn_few_put(to + (i + (lane >> 4)) * 1024, {w[i][0], w[i][1], w[i + 1][0], w[i + 1][1]});
    if (N / 8 % 2) attn_few_put(to + (N / 8 - 1) * 1024, w[N / 8 - 1]);
}

/* Columns I and I + 1 of four positions as the A operand of their m-tile. */
template <int EB, int I>
__device__ static inline void attn_few_value_tile(uint32_t (&a)[4], const uint32_t (&words)[4][4])
{
    uint32_t x[2], y[2];
    attn_v_pairs<EB, I>(x, words[0], words[1]);
    attn_v_pairs<EB, I>(y, words[2], words[3]);
    if constexpr (EB == 2) {
        attn_v_pairs<EB, I + 1>(x + 1, words[0], words[1]);
        attn_v_pairs<EB, I + 1>(y + 1, words[2], words[3]);
    }
    a[0] = x[0], a[1] = x[1], a[2] = y[0], a[3] = y[1];
}

/* V^T of step `step` as A operands of its four m-tiles. */
template <kv_format F, int N>
__device__ static inline void attn_few_values(uint32_t (&a)[4][4], const char *v, int step)
{
    constexpr int EB = attn_few_sizes<F, N>::EB;
    int lane = threadIdx.x & 31;
    uint32_t words[4][4];
    attn_v_load<256, EB, 4>(words, v, step * 16 + (lane & 3) * 4, threadIdx.x >> 5 & 3, lane);
    attn_few_value_tile<EB, 0>(a[0], words);
    attn_few_value_tile<EB, 2>(a[1], words);
    attn_few_value_tile<EB, 4>(a[2], words);
    attn_few_value_tile<EB, 6>(a[3], words);
}

/* Zero a warp's sums. */
template <int V> __device__ static inline void attn_few_clear(float (&acc)[4][V])
{
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int i = 0; i < V; i++) acc[m][i] = 0.0f;
}

/* A lane's pairs, by v of attn_few_combine: max, and alpha of the tile in hand. */
template <int V> struct attn_few_pairs {
    float max[V], alpha[V];
};

/* Scale S^T; hide what each pair does not see: positions behind last[pair] - begin. */
template <kv_format F, int N, bool MASKS>
__device__ static inline void attn_few_mask(float (&s)[N / 2], const float *scales, float c,
                                            const int *last, int begin)
{
    int lane = threadIdx.x & 31, row = attn_few_row();
    float f[2];
#pragma unroll
    for (int h = 0; h < 2; h++) f[h] = F == KV_INT8 ? __fmul_rn(scales[row + 2 * h], c) : c;
#pragma unroll
    for (int nt = 0; nt < N / 8; nt++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int sees = MASKS ? last[nt * 8 + (lane & 3) * 2 + e] - begin : 0;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float &x = s[nt * 4 + h * 2 + e];
                x = __fmul_rn(x, f[h]);
                if (MASKS && row + 2 * h > sees) x = -INFINITY;
            }
        }
}

/* What the weights of a lane's two rows are multiplied by, from V's scales. */
template <kv_format F>
__device__ static inline void attn_few_factors(float (&f)[2], const float *scales)
{
    int row = attn_few_row();
#pragma unroll
    for (int h = 0; h < 2; h++)
        f[h] = F == KV_INT8 ? __fmul_rn(scales[row + 2 * h], ATTN_INT8_UNIT) : 1.0f;
}

/* Move to the new maxima; weights in s, and as 16-bit operands, times f, in w. */
template <kv_format F, int N, bool MASKS>
__device__ static inline void attn_few_weigh(float (&s)[N / 2], uint32_t (&w)[N / 8][2],
                                             attn_few_pairs<N / 4> &pairs, const float *max,
                                             const float (&f)[2])
{
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int nt = 0; nt < N / 8; nt++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int v = nt * 2 + e;
            float now = fmaxf(pairs.max[v],
                              attn_row_max<4>(max + 4 * (nt * 8 + (lane & 3) * 2 + e)));
            float base = now == -INFINITY ? 0.0f : now; /* nothing seen yet: -inf - 0, not NaN */
            pairs.alpha[v] = attn_exp2(__fsub_rn(pairs.max[v], base));
            pairs.max[v] = now;
#pragma unroll
            for (int h = 0; h < 2; h++)
                s[nt * 4 + h * 2 + e] = attn_exp2(__fsub_rn(s[nt * 4 + h * 2 + e], base));
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float w0 = s[nt * 4 + h * 2], w1 = s[nt * 4 + h * 2 + 1];
            if (F == KV_INT8) { /* a scale that a pair does not see may be no number */
                w0 = !MASKS || w0 > 0.0f ? __fmul_rn(w0, f[h]) : 0.0f;
                w1 = !MASKS || w1 > 0.0f ? __fmul_rn(w1, f[h]) : 0.0f;
            }
            w[nt][h] = F == KV_INT8 ? pack_f16(w0, w1) : pack_bf16(w0, w1);
        }
    }
}

/* What one thread keeps of a pair. */
typedef struct {
    float max, sum;
} attn_few_total;

/* Move to a tile's maxima; returns alpha. */
__device__ static inline float attn_few_total_move(attn_few_total &t, const float *max)
{
    float now = fmaxf(t.max, attn_row_max<4>(max));
    float alpha = attn_exp2(__fsub_rn(t.max, now == -INFINITY ? 0.0f : now));
    t.max = now;
    return alpha;
}

/* Add what a tile's warps have summed up. */
__device__ static inline void attn_few_total_add(attn_few_total &t, float alpha, const float *sum)
{
    float4 x = *reinterpret_cast<const float4 *>(sum);
    float all = __fadd_rn(__fadd_rn(x.x, x.y), __fadd_rn(x.z, x.w));
    t.sum = __fmaf_rn(t.sum, alpha, all);
}

/* ---- results ------------------------------------------------------------------------------ */

/* Partial results of the block's segment. */
template <int N>
__device__ static inline void attn_few_store(const attn_params &p, const attn_few_task &t,
                                             const float (&acc)[4][N / 2])
{
    int lane = threadIdx.x & 31, column = (threadIdx.x >> 5 & 3) * 64 + (lane >> 2) * 8;
#pragma unroll
    for (int nt = 0; nt < N / 8; nt++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int pair = attn_few_pair(p, t, nt * 8 + (lane & 3) * 2 + e), from = nt * 4 + e;
            if (pair < 0) continue;
            int64_t cell = static_cast<int64_t>(attn_few_head(p, t, pair)) * p.n_segments +
                           t.segment;
            float *to = p.part + cell * attn_wide_shape::D + column;
            *reinterpret_cast<float4 *>(to) = make_float4(acc[0][from], acc[0][from + 2],
                                                          acc[1][from], acc[1][from + 2]);
            *reinterpret_cast<float4 *>(to + 4) = make_float4(acc[2][from], acc[2][from + 2],
                                                              acc[3][from], acc[3][from + 2]);
        }
}

/* The maximum and sum of pair n. */
__device__ static inline void attn_few_store_total(const attn_params &p, const attn_few_task &t,
                                                   int n, const attn_few_total &total)
{
    int pair = attn_few_pair(p, t, n);
    if (pair < 0) return;
    int64_t cell = static_cast<int64_t>(attn_few_head(p, t, pair)) * p.n_segments + t.segment;
    p.part_ms[cell] = make_float2(total.max, total.sum);
}

#endif
#endif
