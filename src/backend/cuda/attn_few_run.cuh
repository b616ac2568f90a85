/* attn_few_run: the block of attn_few.cuh for 32 pairs and more, and for 8 of bf16: four warps do
 * everything, and two blocks are on a processor, so that one multiplies while the other has its
 * softmax. */
#ifndef RIPTIDE_BACKEND_CUDA_ATTN_FEW_RUN_CUH
#define RIPTIDE_BACKEND_CUDA_ATTN_FEW_RUN_CUH

#include "backend/cuda/attn_few.cuh"

/* Shared memory, in order, from a multiple of 1024 bytes: Q, weights, maxima and sums by warp, what
 * each pair sees last, then a ring of tiles, of K and of V in turns, each with its scales. */
template <kv_format F, int N> struct attn_few_shape {
    using sizes = attn_few_sizes<F, N>;
    static constexpr int THREADS = sizes::GROUP, BLOCKS = 2;
    static constexpr int SLOT = sizes::TILE + (F == KV_INT8 ? OPS_BLOCK * 4 : 0);
    static constexpr int P = sizes::QUERIES;
    static constexpr int MAX = P + sizes::SLAB;
    static constexpr int SUM = MAX + N * 16;
    static constexpr int LAST = SUM + N * 16;
    static constexpr int RING = LAST + N * 4;
    static constexpr int SLOTS = (sizes::PROCESSOR / BLOCKS - 2048 - RING) / SLOT;
    static constexpr int BYTES = RING + SLOTS * SLOT + 1024;
    static_assert(SLOTS >= 2, "K and V of a tile have room");
};

#if WGMMA_ON

/* Start half-tile j of the ring: K of tile j / 2, or its V. Every call closes a group of copies. */
template <kv_format F, int N, bool IS_V>
__device__ static inline void attn_few_fill(char *shared, const attn_params &p,
                                            const attn_few_task &t, int j)
{
    using S = attn_few_shape<F, N>;
    char *slot = shared + S::RING + static_cast<unsigned>(j) % S::SLOTS * S::SLOT;
    int64_t cell = attn_few_load<F, N, IS_V>(slot, p, t, j >> 1);
    if (F == KV_INT8 && j >> 1 < t.n_tiles && threadIdx.x < 16)
        copy_async_16(slot + S::sizes::TILE + threadIdx.x * 16,
                      (IS_V ? p.v_scale : p.k_scale) + cell + threadIdx.x * 4);
    copy_async_commit();
}

/* acc = acc alpha + V^T w^T of a tile, behind a barrier that says that the weights are there. */
template <kv_format F, int N>
__device__ static inline void attn_few_tile_sums(float (&acc)[4][N / 2],
                                                 const attn_few_pairs<N / 4> &pairs,
                                                 const char *weights, const char *v)
{
    constexpr int EB = attn_few_sizes<F, N>::EB;
    uint32_t a[2][4][4];
#pragma unroll
    for (int step = 0; step < 2; step++) attn_few_values<F, N>(a[step], v, step);
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int x = 0; x < N / 2; x++)
            acc[m][x] = __fmul_rn(acc[m][x], pairs.alpha[x / 4 * 2 + x % 2]);
    __syncthreads(); /* weights and sums are there */
    attn_few_sums<EB, N>(acc, a[0], a[1], weights, 0);
#pragma unroll
    for (int step = 0; step < 2; step++) attn_few_values<F, N>(a[step], v, 2 + step);
    attn_few_sums<EB, N>(acc, a[0], a[1], weights, 1);
}

template <kv_format F, int N>
__device__ static inline void attn_few_run(char *shared, const attn_params &p,
                                           const attn_few_task &t)
{
    using S = attn_few_shape<F, N>;
    constexpr int SLOTS = S::SLOTS, TILE = S::sizes::TILE;
#pragma unroll
    for (int j = 0; j < SLOTS - 1; j++) {
        if (j & 1)
            attn_few_fill<F, N, true>(shared, p, t, j);
        else
            attn_few_fill<F, N, false>(shared, p, t, j);
    }
    int *last = reinterpret_cast<int *>(shared + S::LAST);
    float *max = reinterpret_cast<float *>(shared + S::MAX);
    float *sum = reinterpret_cast<float *>(shared + S::SUM);
    int warp = threadIdx.x >> 5, n_whole = attn_few_whole(p, t);
    if (threadIdx.x < N) last[threadIdx.x] = attn_few_sees(p, t, threadIdx.x);
    attn_few_queries<S::sizes::EB, N>(shared, p, t);

    float s[N / 2], acc[4][N / 2];
    uint32_t w[N / 8][2], kept[8][4];
    attn_few_pairs<N / 4> pairs;
    attn_few_total total = {-INFINITY, 0.0f};
#pragma unroll
    for (int v = 0; v < N / 4; v++) pairs.max[v] = -INFINITY;
    attn_few_clear(acc);
    if (N == 8) {
        __syncthreads(); /* the queries are there for all */
        attn_few_keep(kept, shared);
    }

    for (int i = 0; i < t.n_tiles; i++) {
        copy_async_wait<SLOTS - 2>();
        __syncthreads(); /* K (and Q) is there for all; all are done with V of tile i - 1 */
        attn_few_fill<F, N, SLOTS % 2 == 0>(shared, p, t, 2 * i - 1 + SLOTS);
        const char *k = shared + S::RING + static_cast<unsigned>(2 * i) % SLOTS * S::SLOT;
        const char *v = shared + S::RING + static_cast<unsigned>(2 * i + 1) % SLOTS * S::SLOT;
        const float *k_scale = reinterpret_cast<const float *>(k + TILE);
        const float *v_scale = reinterpret_cast<const float *>(v + TILE);
        attn_few_scores<F, N>(s, shared, kept, k);
        if (i < n_whole)
            attn_few_mask<F, N, false>(s, k_scale, p.c, last, 0);
        else
            attn_few_mask<F, N, true>(s, k_scale, p.c, last, (t.tile + i) * OPS_BLOCK);
        attn_few_combine<true, N>(max + warp, s);
        copy_async_wait<SLOTS - 2>();
        __syncthreads(); /* maxima and V are there; all are done with K */
        attn_few_fill<F, N, SLOTS % 2 == 1>(shared, p, t, 2 * i + SLOTS);
        float f[2], alpha = 0.0f;
        attn_few_factors<F>(f, v_scale);
        if (i < n_whole)
            attn_few_weigh<F, N, false>(s, w, pairs, max, f);
        else
            attn_few_weigh<F, N, true>(s, w, pairs, max, f);
        attn_few_put_weights<N>(shared + S::P, w);
        if (threadIdx.x < N) alpha = attn_few_total_move(total, max + 4 * threadIdx.x);
        attn_few_combine<false, N>(sum + warp, s);
        attn_few_tile_sums<F, N>(acc, pairs, shared + S::P, v);
        if (threadIdx.x < N) attn_few_total_add(total, alpha, sum + 4 * threadIdx.x);
    }
    attn_few_store<N>(p, t, acc);
    if (threadIdx.x < N) attn_few_store_total(p, t, threadIdx.x, total);
}

#endif

/* attn_few_kernel: what a split attn_kernel does, for D 256, with the same bits.
 *
 * Grid     (tiles of N pairs from first_tile on, G, segments); block 128
 * Shared   attn_few_shape
 * Needs    as attn_kernel; KV_INT8 or KV_BF16
 * Moves    K and V of every visible position once for each N pairs
 * Chosen   by attn_pick() on sm_90
 * Why      late segments are the largest, so they start first; K and V are asked for before the
 *          queries */
template <kv_format F, int N>
__global__ void __launch_bounds__(128, attn_few_shape<F, N>::BLOCKS) attn_few_kernel(attn_params p)
{
#if WGMMA_ON
    extern __shared__ char raw[];
    launch_wait();
    launch_next();
    attn_few_task t = attn_few_open(p, N);
    if (t.n_tiles == 0) return;
    attn_few_run<F, N>(raw + (-shared_address(raw) & 1023), p, t);
#endif
}

#endif
