/* attn_pair: the block of attn_few.cuh for 8 and 16 pairs: one group of four warps makes the
 * weights of a tile while another adds up the values of the tile before. A tile's time is that of
 * its longest chain of instructions, and two groups make two chains of it. */
#ifndef RIPTIDE_BACKEND_CUDA_ATTN_PAIR_CUH
#define RIPTIDE_BACKEND_CUDA_ATTN_PAIR_CUH

#include "backend/cuda/attn_few.cuh"
#include "backend/cuda/tma.cuh"

/* Shared memory, in order, from a multiple of 1024 bytes: Q, two tiles' weights, maxima and sums
 * by warp, and alphas, what each pair sees last, the barriers between the groups, then SLOTS
 * tiles of K (with the scales of K and V) and as many of V. */
template <kv_format F, int N> struct attn_pair_shape {
    using sizes = attn_few_sizes<F, N>;
    static constexpr int THREADS = 2 * sizes::GROUP, BLOCKS = F == KV_INT8 ? 2 : 1;
    static constexpr int K_SLOT = sizes::TILE + (F == KV_INT8 ? 2 * OPS_BLOCK * 4 : 0);
    static constexpr int P = sizes::QUERIES;
    static constexpr int MAX = P + 2 * sizes::SLAB;
    static constexpr int SUM = MAX + 2 * N * 16;
    static constexpr int ALPHA = SUM + 2 * N * 16;
    static constexpr int LAST = ALPHA + 2 * N * 4;
    static constexpr int FULL = LAST + N * 4;
    static constexpr int EMPTY = FULL + 16;
    static constexpr int K = EMPTY + 16;
    static constexpr int SLOTS = (sizes::PROCESSOR / BLOCKS - 2048 - K) / (K_SLOT + sizes::TILE);
    static constexpr int V = K + SLOTS * K_SLOT;
    static constexpr int BYTES = V + SLOTS * sizes::TILE + 1024;
    static_assert(SLOTS >= 2, "two tiles have room");
};

#if WGMMA_ON

/* Barriers of the two groups, and where they meet: full[i % 2] says that weights and alphas of tile
 * i are written, empty[i % 2] that they are read. Every thread that writes or reads arrives. */
enum { ATTN_PAIR_KEYS = 1, ATTN_PAIR_VALUES };

__device__ static inline void attn_pair_sync(int group)
{
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
}

template <kv_format F, int N> __device__ static inline void attn_pair_init(char *shared)
{
    using S = attn_pair_shape<F, N>;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            tma_barrier_init(reinterpret_cast<uint64_t *>(shared + S::FULL) + i, S::sizes::GROUP);
            tma_barrier_init(reinterpret_cast<uint64_t *>(shared + S::EMPTY) + i, S::sizes::GROUP);
        }
        tma_barrier_fence();
    }
    __syncthreads(); /* barriers stand before anyone uses them */
}

/* What a thread of the first group has at hand. */
template <kv_format F, int N> struct attn_pair_keys_state {
    char *shared;
    int n_whole, begin;   /* whole tiles, and where the first begins */
    float c;              /* attn_params' */
    uint32_t kept[8][4];  /* the queries of 8 pairs */
    float s[N / 2], f[2]; /* scores of the tile in hand, and V's factors of its weights */
    attn_few_pairs<N / 4> pairs;
    attn_few_total total;
    float alpha; /* of the total, of the tile whose sums are still to be added */
};

/* Scores of tile i. */
template <kv_format F, int N>
__device__ static inline void attn_pair_scores(float (&s)[N / 2],
                                               const attn_pair_keys_state<F, N> &x, int i)
{
    using S = attn_pair_shape<F, N>;
    attn_few_scores<F, N>(s, x.shared, x.kept,
                          x.shared + S::K + static_cast<unsigned>(i) % S::SLOTS * S::K_SLOT);
}

/* Scores of tile i become those in hand: its maxima to shared memory. */
template <kv_format F, int N, bool MASKS>
__device__ static inline void attn_pair_take(attn_pair_keys_state<F, N> &x, float (&s)[N / 2],
                                             int i)
{
    using S = attn_pair_shape<F, N>;
    const float *scales = reinterpret_cast<const float *>(
        x.shared + S::K + static_cast<unsigned>(i) % S::SLOTS * S::K_SLOT + S::sizes::TILE);
    float *max = reinterpret_cast<float *>(x.shared + S::MAX) + (i & 1) * N * 4;
    attn_few_mask<F, N, MASKS>(s, scales, x.c, reinterpret_cast<int *>(x.shared + S::LAST),
                               x.begin + i * OPS_BLOCK);
    attn_few_factors<F>(x.f, scales + OPS_BLOCK);
    attn_few_combine<true, N>(max + (threadIdx.x >> 5), s);
#pragma unroll
    for (int k = 0; k < N / 2; k++) x.s[k] = s[k];
}

/* Weights of tile i, in hand, for the second group; their sums to shared memory. */
template <kv_format F, int N, bool MASKS>
__device__ static inline void attn_pair_weigh(attn_pair_keys_state<F, N> &x, int i)
{
    using S = attn_pair_shape<F, N>;
    uint64_t *full = reinterpret_cast<uint64_t *>(x.shared + S::FULL);
    uint64_t *empty = reinterpret_cast<uint64_t *>(x.shared + S::EMPTY);
    float *alphas = reinterpret_cast<float *>(x.shared + S::ALPHA) + (i & 1) * N;
    const float *max = reinterpret_cast<const float *>(x.shared + S::MAX) + (i & 1) * N * 4;
    float *sum = reinterpret_cast<float *>(x.shared + S::SUM);
    uint32_t w[N / 8][2];
    attn_few_weigh<F, N, MASKS>(x.s, w, x.pairs, max, x.f);
    if (i >= 2) tma_wait(&empty[i & 1], (i >> 1 & 1) ^ 1); /* tile i - 2 is read */
    attn_few_put_weights<N>(x.shared + S::P + (i & 1) * S::sizes::SLAB, w);
    if (threadIdx.x < 4)
#pragma unroll
        for (int v = 0; v < N / 4; v++)
            alphas[8 * (v >> 1) + 2 * threadIdx.x + (v & 1)] = x.pairs.alpha[v];
    tma_arrive(&full[i & 1]);
    attn_few_combine<false, N>(sum + (i & 1) * N * 4 + (threadIdx.x >> 5), x.s);
    if (threadIdx.x >= N) return;
    if (i > 0) attn_few_total_add(x.total, x.alpha, sum + (~i & 1) * N * 4 + 4 * threadIdx.x);
    x.alpha = attn_few_total_move(x.total, max + 4 * threadIdx.x);
}

/* The first group: scores, weights, and what part_ms says. Scores of the next tile are multiplied
 * beside the softmax of the one in hand: one barrier a tile, and the chain of mma is not waited
 * for. */
template <kv_format F, int N>
__device__ static inline void attn_pair_keys(char *shared, const attn_params &p,
                                             const attn_few_task &t)
{
    using S = attn_pair_shape<F, N>;
    constexpr int SLOTS = S::SLOTS, TILE = S::sizes::TILE;
    auto fill = [&](int i) {
        char *slot = shared + S::K + static_cast<unsigned>(i) % SLOTS * S::K_SLOT;
        int64_t cell = attn_few_load<F, N, false>(slot, p, t, i);
        if (F == KV_INT8 && i < t.n_tiles && threadIdx.x < 32) {
            const float *scale = threadIdx.x < 16 ? p.k_scale : p.v_scale;
            copy_async_16(slot + TILE + threadIdx.x * 16, scale + cell + (threadIdx.x & 15) * 4);
        }
        copy_async_commit();
    };
#pragma unroll
    for (int i = 0; i < SLOTS; i++) fill(i);
    int *last = reinterpret_cast<int *>(shared + S::LAST);
    if (threadIdx.x < N) last[threadIdx.x] = attn_few_sees(p, t, threadIdx.x);
    attn_few_queries<S::sizes::EB, N>(shared, p, t);

    attn_pair_keys_state<F, N> x;
    x.shared = shared;
    x.n_whole = attn_few_whole(p, t);
    x.begin = t.tile * OPS_BLOCK;
    x.c = p.c;
    x.total = {-INFINITY, 0.0f};
    x.alpha = 0.0f;
#pragma unroll
    for (int v = 0; v < N / 4; v++) x.pairs.max[v] = -INFINITY;
    float s[N / 2];
    copy_async_wait<SLOTS - 1>();
    attn_pair_sync(ATTN_PAIR_KEYS); /* the queries and K of the first tile are there */
    if (N == 8) attn_few_keep(x.kept, shared);
    attn_pair_scores<F, N>(s, x, 0);
    if (x.n_whole > 0)
        attn_pair_take<F, N, false>(x, s, 0);
    else
        attn_pair_take<F, N, true>(x, s, 0);
    for (int i = 0; i + 1 < t.n_tiles; i++) {
        copy_async_wait<SLOTS - 2>();
        /* Maxima of tile i and K of the next are there, and tile i's slot is read by all. */
        attn_pair_sync(ATTN_PAIR_KEYS);
        fill(i + SLOTS);
        if (i + 1 < x.n_whole) {
            attn_pair_scores<F, N>(s, x, i + 1);
            attn_pair_weigh<F, N, false>(x, i);
            attn_pair_take<F, N, false>(x, s, i + 1);
        } else {
            attn_pair_scores<F, N>(s, x, i + 1);
            if (i < x.n_whole)
                attn_pair_weigh<F, N, false>(x, i);
            else
                attn_pair_weigh<F, N, true>(x, i);
            attn_pair_take<F, N, true>(x, s, i + 1);
        }
    }
    int i = t.n_tiles - 1;
    attn_pair_sync(ATTN_PAIR_KEYS); /* the last maxima are there */
    if (i < x.n_whole)
        attn_pair_weigh<F, N, false>(x, i);
    else
        attn_pair_weigh<F, N, true>(x, i);
    attn_pair_sync(ATTN_PAIR_KEYS); /* the last sums are there */
    if (threadIdx.x >= N) return;
    const float *sum = reinterpret_cast<const float *>(shared + S::SUM) + (i & 1) * N * 4;
    attn_few_total_add(x.total, x.alpha, sum + 4 * threadIdx.x);
    attn_few_store_total(p, t, threadIdx.x, x.total);
}

/* The second group: the sums of values. */
template <kv_format F, int N>
__device__ static inline void attn_pair_values(char *shared, const attn_params &p,
                                               const attn_few_task &t)
{
    using S = attn_pair_shape<F, N>;
    constexpr int EB = S::sizes::EB, SLOTS = S::SLOTS, TILE = S::sizes::TILE;
    auto fill = [&](int i) {
        attn_few_load<F, N, true>(shared + S::V + static_cast<unsigned>(i) % SLOTS * TILE, p, t, i);
        copy_async_commit();
    };
#pragma unroll
    for (int i = 0; i < SLOTS - 1; i++) fill(i);
    const float *alphas = reinterpret_cast<const float *>(shared + S::ALPHA);
    uint64_t *full = reinterpret_cast<uint64_t *>(shared + S::FULL);
    uint64_t *empty = reinterpret_cast<uint64_t *>(shared + S::EMPTY);
    float acc[4][N / 2];
    attn_few_clear(acc);
    for (int i = 0; i < t.n_tiles; i++) {
        copy_async_wait<SLOTS - 2>();
        attn_pair_sync(ATTN_PAIR_VALUES); /* V is there; all are done with the tile before */
        fill(i + SLOTS - 1);
        const char *v = shared + S::V + static_cast<unsigned>(i) % SLOTS * TILE;
        const char *weights = shared + S::P + (i & 1) * S::sizes::SLAB;
        uint32_t a[4][4][4];
#pragma unroll
        for (int step = 0; step < 4; step++) attn_few_values<F, N>(a[step], v, step);
        tma_wait(&full[i & 1], i >> 1 & 1); /* weights and alphas are there */
#pragma unroll
        for (int x = 0; x < N / 4; x++) {
            float alpha = alphas[(i & 1) * N + 8 * (x >> 1) + 2 * (threadIdx.x & 3) + (x & 1)];
#pragma unroll
            for (int m = 0; m < 4; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float &y = acc[m][x / 2 * 4 + h * 2 + x % 2];
                    y = __fmul_rn(y, alpha);
                }
        }
        attn_few_sums<EB, N>(acc, a[0], a[1], weights, 0);
        attn_few_sums<EB, N>(acc, a[2], a[3], weights, 1);
        tma_arrive(&empty[i & 1]);
    }
    attn_few_store<N>(p, t, acc);
}

#endif

/* attn_pair_kernel: attn_few_kernel by two groups of warps; see there. Block 256. */
template <kv_format F, int N>
__global__ void __launch_bounds__(256, attn_pair_shape<F, N>::BLOCKS)
    attn_pair_kernel(attn_params p)
{
#if WGMMA_ON
    extern __shared__ char raw[];
    char *shared = raw + (-shared_address(raw) & 1023);
    attn_pair_init<F, N>(shared);
    launch_wait();
    launch_next();
    attn_few_task t = attn_few_open(p, N);
    if (t.n_tiles == 0) return;
    if (threadIdx.x < 128)
        attn_pair_keys<F, N>(shared, p, t);
    else
        attn_pair_values<F, N>(shared, p, t);
#endif
}

#endif
