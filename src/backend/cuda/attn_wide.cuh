/* attn_wide: attention of prompts on Hopper: attn_kernel's bits, made by wgmma.
 *
 * A block owns 128 (row, head) pairs of one KV head: two warp groups, 64 pairs each, hold the sums
 * of the segment in hand, and a third brings K and V. The third writes them as 16-bit operands:
 * int8 codes become f16 on their way, once for all 128 pairs. The totals over segments lie in
 * shared memory; each thread reads and writes its own at the end of a segment.
 *
 * The numbers are attn_tile.cuh's: a wgmma step takes what an mma step there takes, and softmax has
 * attn_mask's and attn_weigh's operations on the registers that a lane of mma.sync would hold. */
#ifndef RIPTIDE_BACKEND_CUDA_ATTN_WIDE_CUH
#define RIPTIDE_BACKEND_CUDA_ATTN_WIDE_CUH

#include "backend/cuda/attn_wide_fill.cuh"

#if WGMMA_ON

/* A thread's two pairs: rows lane / 4 and that + 8 of its warp's sixteen. */
typedef struct {
    float max[2], sum[2];
} attn_wide_pairs;

template <int EB> __device__ static inline uint32_t attn_wide_operand(uint32_t two)
{
    return EB == 1 ? pack_f16(bf16_low(two), bf16_high(two)) : two;
}

/* The row of q of pair `pair`, NULL behind the lane's last. */
__device__ static inline const bf16 *attn_wide_query(const attn_params &p, const attn_place &at,
                                                     int g, int R, int pair)
{
    if (pair >= at.n * R) return nullptr;
    return p.q + (static_cast<int64_t>(at.first + pair / R) * p.H + g * R + pair % R) *
                     attn_wide_shape::D;
}

/* Queries: columns 0 to 127 as A operands of a thread, the others into the group's slabs. */
template <int EB>
__device__ static inline void attn_wide_queries(uint32_t (&a)[8][4], char *slabs,
                                                const attn_params &p, const attn_place &at, int g,
                                                int R, int first)
{
    using S = attn_wide_shape;
    int lane = threadIdx.x & 31, thread = threadIdx.x & 127, c = lane & 3;
    int row = (thread >> 5) * 16 + (lane >> 2);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const bf16 *q = attn_wide_query(p, at, g, R, at.pair + first + row + h * 8);
#pragma unroll
        for (int step = 0; step < 8; step++)
#pragma unroll
            for (int k = 0; k < 2; k++) { /* k = 2c, then 2c + 8 */
                int quad = attn_wide_quad_at<EB>(step & 3, (c >> 1) + 2 * k);
                uint32_t two = 0;
                if (q)
                    two = *reinterpret_cast<const uint32_t *>(q + (step >> 2) * 64 + quad * 4 +
                                                              (c & 1) * 2);
                a[step][k * 2 + h] = attn_wide_operand<EB>(two);
            }
    }
    for (int i = thread; i < ATTN_TILE_ROWS * 32; i += 128) {
        int r = i >> 5, quad = i & 31; /* of the second 128 columns */
        const bf16 *q = attn_wide_query(p, at, g, R, at.pair + first + r);
        uint2 two = make_uint2(0, 0);
        if (q) two = *reinterpret_cast<const uint2 *>(q + 128 + quad * 4);
        *reinterpret_cast<uint2 *>(slabs + (quad >> 4) * S::SLAB +
                                   attn_wide_place<EB>(r, quad & 15)) =
            make_uint2(attn_wide_operand<EB>(two.x), attn_wide_operand<EB>(two.y));
    }
}

/* A matrix in shared memory `units` of 16 bytes further: the address alone changes. */
__device__ static inline uint64_t attn_wide_further(uint64_t matrix, int units)
{
    uint32_t low = static_cast<uint32_t>(matrix) + units;
    return (matrix >> 32 << 32) | low;
}

/* Start s = q k^T: one chain over D from zero. */
template <int EB>
__device__ static inline void attn_wide_scores(float (&s)[32], const uint32_t (&a)[8][4],
                                               uint64_t q, uint64_t k)
{
    constexpr int SLAB = attn_wide_shape::SLAB >> 4;
    wgmma_hold(s);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 8; step++)
        attn_wgmma_scores<EB>(s, a[step], attn_wide_further(k, step / 4 * SLAB + step % 4 * 2),
                              step > 0);
#pragma unroll
    for (int step = 0; step < 8; step++)
        attn_wgmma_scores<EB>(s, attn_wide_further(q, step / 4 * SLAB + step % 4 * 2),
                              attn_wide_further(k, (2 + step / 4) * SLAB + step % 4 * 2), true);
    wgmma_commit();
}

/* A lane's factors of the tile's positions: columns 2c and 2c + 1 of each n-tile. */
template <bool IS_INT8>
__device__ static inline void attn_wide_factors(float2 (&f)[ATTN_N_TILES], const float *factors,
                                                float all)
{
#pragma unroll
    for (int nt = 0; nt < ATTN_N_TILES; nt++)
        f[nt] = IS_INT8
                    ? *reinterpret_cast<const float2 *>(factors + nt * 8 + (threadIdx.x & 3) * 2)
                    : make_float2(all, all);
}

/* Scale the scores, hide positions behind a pair's own (last: its column), find the maxima. */
template <bool MASKS>
__device__ static inline void attn_wide_mask(float (&s)[32], float (&most)[2],
                                             const float2 (&f)[ATTN_N_TILES], const int (&last)[2])
{
    int column = (threadIdx.x & 3) * 2;
    float chain[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
#pragma unroll
    for (int nt = 0; nt < ATTN_N_TILES; nt++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float x = __fmul_rn(s[nt * 4 + e], e & 1 ? f[nt].y : f[nt].x);
            if (MASKS && nt * 8 + column + (e & 1) > last[e >> 1]) x = -INFINITY;
            s[nt * 4 + e] = x;
            chain[e] = fmaxf(chain[e], x);
        }
#pragma unroll
    for (int h = 0; h < 2; h++) most[h] = fmaxf(chain[2 * h], chain[2 * h + 1]);
#pragma unroll
    for (int step = 1; step < 4; step <<= 1)
#pragma unroll
        for (int h = 0; h < 2; h++)
            most[h] = fmaxf(most[h], __shfl_xor_sync(WARP_ALL, most[h], step));
}

/* attn_row_sum of eight n-tiles' sums over four lanes, in that order. With every exchange a lane
 * keeps half of the n-tiles. */
__device__ static inline float attn_wide_row_sum(const float (&sum)[ATTN_N_TILES])
{
    bool odd = threadIdx.x & 1, two = threadIdx.x & 2;
    float x[4], y[2];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float gives = odd ? sum[i] : sum[i + 4];
        x[i] = __fadd_rn(odd ? sum[i + 4] : sum[i], __shfl_xor_sync(WARP_ALL, gives, 1));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float gives = two ? x[i] : x[i + 2];
        y[i] = __fadd_rn(two ? x[i + 2] : x[i], __shfl_xor_sync(WARP_ALL, gives, 2));
    }
    float all = __fadd_rn(y[0], y[1]);
    all = __fadd_rn(all, __shfl_xor_sync(WARP_ALL, all, 2));
    return __fadd_rn(all, __shfl_xor_sync(WARP_ALL, all, 1));
}

/* Move to the new maxima: weights as A operands, their sums by n-tile, and alpha. */
template <bool IS_INT8>
__device__ static inline void attn_wide_weigh(uint32_t (&w)[4][4], float (&sum)[2][ATTN_N_TILES],
                                              float (&alpha)[2], float (&max)[2],
                                              const float (&s)[32], const float (&most)[2],
                                              const float2 (&f)[ATTN_N_TILES])
{
    float base[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float now = fmaxf(max[h], most[h]);
        base[h] = now == -INFINITY ? 0.0f : now; /* nothing seen yet: -inf - 0, not NaN */
        alpha[h] = attn_exp2(__fsub_rn(max[h], base[h]));
        max[h] = now;
    }
#pragma unroll
    for (int nt = 0; nt < ATTN_N_TILES; nt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float w0 = attn_exp2(__fsub_rn(s[nt * 4 + h * 2], base[h]));
            float w1 = attn_exp2(__fsub_rn(s[nt * 4 + h * 2 + 1], base[h]));
            sum[h][nt] = __fadd_rn(w0, w1);
            uint32_t &to = w[nt / 2][nt % 2 * 2 + h];
            to = IS_INT8 ? pack_f16(__fmul_rn(w0, f[nt].x), __fmul_rn(w1, f[nt].y))
                         : pack_bf16(w0, w1);
        }
}

/* Start acc = acc alpha + w v, or from zero. */
template <int EB>
__device__ static inline void attn_wide_sums(float (&acc)[128], const float (&alpha)[2],
                                             uint32_t (&w)[4][4], uint64_t v, bool adds)
{
#pragma unroll
    for (int i = 0; i < 128; i++) acc[i] = __fmul_rn(acc[i], alpha[i >> 1 & 1]);
    wgmma_hold(acc);
#pragma unroll
    for (int step = 0; step < 4; step++) wgmma_hold(w[step]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; step++)
        attn_wgmma_sums<EB>(acc, w[step], attn_wide_further(v, step * (2048 >> 4)),
                            adds || step > 0);
    wgmma_commit();
}

/* The totals' maxima and sums of a thread's two pairs, of which each of its four lanes keeps one:
 * registers are short. */
__device__ static inline attn_wide_pairs attn_wide_gather(float kept)
{
    attn_wide_pairs t;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        t.max[h] = __shfl_sync(WARP_ALL, kept, h, 4);
        t.sum[h] = __shfl_sync(WARP_ALL, kept, 2 + h, 4);
    }
    return t;
}
__device__ static inline float attn_wide_keep(const attn_wide_pairs &t)
{
    int c = threadIdx.x & 3;
    float a = c & 1 ? t.max[1] : t.max[0], b = c & 1 ? t.sum[1] : t.sum[0];
    return c & 2 ? b : a;
}

/* Merge the segment in hand into the totals. */
__device__ static inline void attn_wide_fold(float4 *totals, float &kept, const float (&acc)[128],
                                             const attn_wide_pairs &p, bool is_first)
{
    attn_wide_pairs t = attn_wide_gather(kept);
    attn_merge m[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        m[h] = attn_merge_of(t.max[h], p.max[h]);
        t.max[h] = m[h].max;
        t.sum[h] = attn_merge_add(t.sum[h], p.sum[h], m[h].alpha, m[h].beta);
    }
    kept = attn_wide_keep(t);
    totals += threadIdx.x;
#pragma unroll
    for (int from = 0; from < 32; from += 8) { /* eight loads under way */
        float4 x[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            x[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (!is_first) x[i] = totals[(from + i) * attn_wide_shape::COMPUTE];
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float *a = &acc[4 * (from + i)];
            x[i].x = attn_merge_add(x[i].x, a[0], m[0].alpha, m[0].beta);
            x[i].y = attn_merge_add(x[i].y, a[1], m[0].alpha, m[0].beta);
            x[i].z = attn_merge_add(x[i].z, a[2], m[1].alpha, m[1].beta);
            x[i].w = attn_merge_add(x[i].w, a[3], m[1].alpha, m[1].beta);
            totals[(from + i) * attn_wide_shape::COMPUTE] = x[i];
        }
    }
}

/* Finished rows, from a thread's own totals. */
__device__ static inline void attn_wide_store(const attn_params &p, const attn_place &at, int g,
                                              int R, int pair, const float4 *totals,
                                              const attn_wide_pairs &t)
{
    constexpr int D = attn_wide_shape::D;
    int column = (threadIdx.x & 3) * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int own = pair + h * 8;
        if (own >= at.n * R) continue;
        int64_t head = static_cast<int64_t>(at.first + own / R) * p.H + g * R + own % R;
        float inv = __fmul_rn(__frcp_rn(t.sum[h]), p.unit);
        const bf16 *gate = p.qg + head * 2 * D + D + column;
        bf16 *to = p.out + head * D + column;
#pragma unroll 8
        for (int i = 0; i < D / 8; i++) {
            float2 x = reinterpret_cast<const float2 *>(totals + i * attn_wide_shape::COMPUTE +
                                                        threadIdx.x)[h];
            uint32_t two;
            if (p.has_gate) {
                uint32_t w = *reinterpret_cast<const uint32_t *>(gate + i * 8);
                two = pack_bf16(attn_finish_gated(x.x, inv, bf16_low(w)),
                                attn_finish_gated(x.y, inv, bf16_high(w)));
            } else {
                two = pack_bf16(attn_finish(x.x, inv), attn_finish(x.y, inv));
            }
            *reinterpret_cast<uint32_t *>(to + i * 8) = two;
        }
    }
}

template <int BARRIER, int THREADS> __device__ static inline void attn_wide_sync()
{
    asm volatile("bar.sync %0, %1;" ::"n"(BARRIER), "n"(THREADS) : "memory");
}

/* A computing group: its 64 pairs over all tiles. Group 1 starts its scores when group 0 has its
 * own, so that one has products while the other has its softmax: both would else wait for the same
 * tile of K, and then for each other. */
template <kv_format F>
__device__ static inline void attn_wide_compute(const attn_wide_shared &s, const attn_params &p,
                                                const attn_place &at, int g, int R, int n_tiles)
{
    using S = attn_wide_shape;
    constexpr int EB = attn_shared_bytes<F>;
    constexpr bool IS_INT8 = F == KV_INT8;
    int group = __shfl_sync(WARP_ALL, threadIdx.x >> 7, 0), first = group * ATTN_TILE_ROWS;
    int pair = at.pair + first + (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7);
    char *slabs = s.q + group * (S::SLABS / 2) * S::SLAB;
    uint32_t queries[8][4], w[4][4];
    attn_wide_queries<EB>(queries, slabs, p, at, g, R, first);
    attn_wgmma_publish();
    if (group == 0)
        attn_wide_sync<1, 128>(); /* the group's queries are there */
    else
        attn_wide_sync<2, 128>();
    uint64_t q = wgmma_rows(slabs), k = wgmma_rows(s.k), v = attn_wgmma_columns(s.v, S::SLAB);

    int last[2]; /* what each pair sees last */
#pragma unroll
    for (int h = 0; h < 2; h++)
        last[h] = pair + h * 8 < at.n * R ? p.row_pos[at.first + (pair + h * 8) / R] : -1;
    /* Tiles that all pairs of the group see whole. */
    int n_whole = at.pair + first + ATTN_TILE_ROWS <= at.n * R
                      ? (p.row_pos[at.first + (at.pair + first) / R] + 1) / OPS_BLOCK
                      : 0;
    float acc[128], x[32], sum[2][ATTN_N_TILES], alpha[2], most[2];
    float2 f[ATTN_N_TILES];
    attn_wide_pairs pairs = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    float kept = attn_wide_keep(pairs);
#pragma unroll
    for (int i = 0; i < 128; i++) acc[i] = 0.0f;
    for (int tile = 0; tile < n_tiles; tile++) {
        const float *factors = s.factors + (tile & 1) * S::TILE_FACTORS;
        tma_wait(s.k_full, tile & 1);
        if (group == 1) attn_wide_sync<3, 256>(); /* group 0 has its scores */
        attn_wide_scores<EB>(x, queries, q, k);
        attn_wide_factors<IS_INT8>(f, factors, p.c);
        wgmma_wait<0>();
        wgmma_hold(x);
        if (group == 0) asm volatile("bar.arrive 3, 256;" ::: "memory");
        tma_arrive(s.k_empty);
        if (tile < n_whole) {
            attn_wide_mask<false>(x, most, f, last);
        } else {
            int columns[2] = {last[0] - tile * OPS_BLOCK, last[1] - tile * OPS_BLOCK};
            attn_wide_mask<true>(x, most, f, columns);
        }
        attn_wide_factors<IS_INT8>(f, factors + OPS_BLOCK, 1.0f);
        attn_wide_weigh<IS_INT8>(w, sum, alpha, pairs.max, x, most, f);
        tma_wait(s.v_full, tile & 1);
        attn_wide_sums<EB>(acc, alpha, w, v, !attn_segment_is_begin(tile * OPS_BLOCK));
        /* Beside the products. */
#pragma unroll
        for (int h = 0; h < 2; h++)
            pairs.sum[h] = __fmaf_rn(pairs.sum[h], alpha[h], attn_wide_row_sum(sum[h]));
        wgmma_wait<0>();
        wgmma_hold(acc);
#pragma unroll
        for (int step = 0; step < 4; step++) wgmma_hold(w[step]);
        tma_arrive(s.v_empty);
        if (attn_segment_is_begin((tile + 1) * OPS_BLOCK) || tile + 1 == n_tiles) {
            attn_wide_fold(s.totals, kept, acc, pairs, tile * OPS_BLOCK < attn_segment_begin(1));
            pairs = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
        }
    }
    attn_wide_store(p, at, g, R, pair, s.totals, attn_wide_gather(kept));
}

#endif

/* attn_wide_kernel: what the folded attn_kernel does, for D 256, with the same bits.
 *
 * Grid     (G, tiles of 128 pairs); block 384: two groups compute, one fills
 * Shared   attn_wide_shape
 * Needs    as attn_kernel; KV_INT8 or KV_BF16
 * Moves    K and V of every visible position once for each 128 pairs
 * Chosen   by attn_pick() on sm_90
 * Why      Operands in shared memory must be 16 bits wide for wgmma, and there is no room for two
 *          tiles: while one is used as K the other is filled as V. Half of the queries live in
 *          registers: it is shared memory whose room and rate run out first. The largest tiles
 *          start first. */
template <kv_format F>
__global__ void __launch_bounds__(attn_wide_shape::THREADS, 1) attn_wide_kernel(attn_params p)
{
#if WGMMA_ON
    using S = attn_wide_shape;
    launch_join();
    extern __shared__ char shared[];
    int g = blockIdx.x, R = p.H / p.G;
    attn_place at = attn_find(p.lane_row, p.L, R, S::PAIRS, gridDim.y - 1 - blockIdx.y);
    if (at.lane < 0) return;
    int last_pos = attn_last_pos(p, at, R, S::PAIRS);
    attn_wide_shared s = attn_wide_open(shared);
    if (threadIdx.x >= S::COMPUTE) {
        wgmma_fewer_registers<S::FEW>();
        attn_wide_fill<F>(s, p, g,
                          p.table + static_cast<int64_t>(p.lane_slot[at.lane]) * p.table_stride,
                          last_pos);
    } else {
        wgmma_more_registers<S::MANY>();
        attn_wide_compute<F>(s, p, at, g, R, last_pos / OPS_BLOCK + 1);
    }
#endif
}

#endif
