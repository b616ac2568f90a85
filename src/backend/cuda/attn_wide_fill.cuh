/* attn_wide_fill: shared memory of attn_wide.cuh, and the warps that fill it with K and V.
 *
 * One wgmma k16 step must take the columns of D that one mma step of attn_tile.cuh takes, so four
 * adjacent columns (a quad) of K, and of Q, are placed by attn_wide_place. V's steps go over
 * positions and take them as they come. */
#ifndef RIPTIDE_BACKEND_CUDA_ATTN_WIDE_FILL_CUH
#define RIPTIDE_BACKEND_CUDA_ATTN_WIDE_FILL_CUH

#include "backend/cuda/attn_priv.cuh"
#include "backend/cuda/attn_wgmma.cuh"
#include "backend/cuda/tma.cuh"

/* A block's shared memory, in order, from a multiple of 1024 bytes: K, V, the second half of Q,
 * totals, factors of scores and weights for two tiles, barriers. 16-bit tiles are cut in slabs of
 * 64 columns: rows of 128 bytes, 16-byte pieces xor-ed with the row. */
struct attn_wide_shape {
    static constexpr int D = 256, PAIRS = 2 * ATTN_TILE_ROWS;
    static constexpr int COMPUTE = 256, FILL = 128, THREADS = COMPUTE + FILL;
    static constexpr int SLAB = OPS_BLOCK * 128, SLABS = D / 64, TILE = SLABS * SLAB;
    static constexpr int V = TILE;
    static constexpr int Q = V + TILE;
    static constexpr int TOTALS = Q + 2 * (SLABS / 2) * SLAB;
    static constexpr int FACTORS = TOTALS + COMPUTE * (D / 2) * 4;
    static constexpr int TILE_FACTORS = 2 * OPS_BLOCK; /* floats: of K, then of V */
    static constexpr int BARRIERS = FACTORS + 2 * TILE_FACTORS * 4;
    static constexpr int BYTES = BARRIERS + 64 + 1024;
    /* Registers of a thread: what 2 x 128 threads with many and 128 with few can share. */
    static constexpr int MANY = 224, FEW = 56;
};

#if WGMMA_ON

typedef struct {
    char *k, *v, *q;
    float4 *totals;
    float *factors;
    uint64_t *k_full, *k_empty, *v_full, *v_empty;
} attn_wide_shared;

__device__ static inline attn_wide_shared attn_wide_open(char *raw)
{
    using S = attn_wide_shape;
    char *at = raw + (-shared_address(raw) & 1023);
    uint64_t *barriers = reinterpret_cast<uint64_t *>(at + S::BARRIERS);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; i++)
            tma_barrier_init(&barriers[i],
                             i % 2 ? static_cast<int>(S::COMPUTE) : static_cast<int>(S::FILL));
        tma_barrier_fence();
    }
    __syncthreads(); /* barriers stand before anyone uses them */
    return {at,
            at + S::V,
            at + S::Q,
            reinterpret_cast<float4 *>(at + S::TOTALS),
            reinterpret_cast<float *>(at + S::FACTORS),
            &barriers[0],
            &barriers[1],
            &barriers[2],
            &barriers[3]};
}

/* ---- quads -------------------------------------------------------------------------------- */

/* Quad q (0..15) of a slab's 64 columns: it belongs to k16 step `step` and lane c there. */
typedef struct {
    int step, c;
} attn_wide_quad;

template <int EB> __device__ static inline constexpr attn_wide_quad attn_wide_quad_of(int q)
{
    if (EB == 1) return {q & 3, q >> 2};
    return {(q >> 3) * 2 + (q & 1), q >> 1 & 3};
}
/* The other way round. */
template <int EB> __device__ static inline constexpr int attn_wide_quad_at(int step, int c)
{
    return EB == 1 ? c * 4 + step : (step >> 1) * 8 + c * 2 + (step & 1);
}
/* Where a quad of row `row` lies in its slab. */
template <int EB> __device__ static inline int attn_wide_place(int row, int q)
{
    attn_wide_quad x = attn_wide_quad_of<EB>(q);
    return row * 128 + ((x.step * 32 + x.c * 8) ^ ((row & 7) << 4));
}

/* ---- filling ------------------------------------------------------------------------------ */

/* How the filling group's threads cut a tile in pieces of 16 bytes of the cache: LOADS a thread. K
 * leaves in quads, V in 16-byte pieces; rows are dealt out so that a store meets all banks. */
template <kv_format F> struct attn_wide_cut {
    static constexpr int EB = attn_shared_bytes<F>, ROW = attn_wide_shape::D * EB;
    static constexpr int LOADS = OPS_BLOCK * ROW / 16 / attn_wide_shape::FILL;
    static constexpr int BATCH = 8; /* loads under way: registers */
    /* Rows of a warp in them. */
    static constexpr int BATCH_ROWS = F == KV_INT8 ? 16 : 8;
    int k_row, k_column, v_row, v_column; /* of load 0: row, byte of it */
    uint32_t k, v;                        /* and where it goes in slab 0: shared addresses */
};

template <kv_format F>
__device__ static inline attn_wide_cut<F> attn_wide_cut_open(const attn_wide_shared &s)
{
    attn_wide_cut<F> x;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, c = lane & 3;
    x.k_row = warp * 16 + (lane >> 2 & 3) * 2 + (lane >> 4);
    x.k_column = c * 16;
    x.k = shared_address(s.k) + attn_wide_place<x.EB>(x.k_row, c * (16 / x.EB / 4));
    x.v_row = warp * 16 + (F == KV_INT8 ? lane >> 2 : lane >> 3);
    x.v_column = F == KV_INT8 ? x.k_column : (lane & 7) * 16;
    x.v = shared_address(s.v) + x.v_row * 128 + ((x.v_column * (2 / x.EB)) ^ ((x.v_row & 7) << 4));
    return x;
}

/* Load i of a thread: rows and bytes further than load 0 in the cache, and where its slab's rows
 * are. */
template <kv_format F> struct attn_wide_load {
    int row, byte, to;
};
template <kv_format F> __device__ static inline constexpr attn_wide_load<F> attn_wide_k_load(int i)
{
    if (F == KV_INT8) return {i / 4 * 8, i % 4 * 64, i / 4 * 1024 + i % 4 * attn_wide_shape::SLAB};
    return {i / 8 * 8, i % 8 * 64, i / 8 * 1024 + i % 8 / 2 * attn_wide_shape::SLAB};
}
template <kv_format F> __device__ static inline constexpr attn_wide_load<F> attn_wide_v_load(int i)
{
    if (F == KV_INT8) return attn_wide_k_load<F>(i);
    return {i / 4 * 4, i % 4 * 128, i / 4 * 512 + i % 4 * attn_wide_shape::SLAB};
}

/* Four codes as a quad of f16. */
__device__ static inline uint2 attn_wide_codes(uint32_t w)
{
    w ^= 0x80808080u;
    return make_uint2(attn_code_pair<0>(w), attn_code_pair<2>(w));
}

__device__ static inline void attn_wide_write(uint32_t shared, uint2 x)
{
    asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(shared), "r"(x.x), "r"(x.y) : "memory");
}
__device__ static inline void attn_wide_write(uint32_t shared, uint2 x, uint2 y)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(shared), "r"(x.x), "r"(x.y),
                 "r"(y.x), "r"(y.y)
                 : "memory");
}

/* Piece i of K. Its quads differ in the step alone: bits 32 and 64 of the place. */
template <kv_format F> __device__ static inline void attn_wide_store_k(uint32_t to, int i, uint4 x)
{
    uint32_t w[4] = {x.x, x.y, x.z, x.w};
    int further = attn_wide_k_load<F>(i).to;
    if constexpr (F == KV_INT8) {
#pragma unroll
        for (int j = 0; j < 4; j++)
            attn_wide_write((to ^ (j * 32)) + further, attn_wide_codes(w[j]));
    } else {
#pragma unroll
        for (int j = 0; j < 2; j++)
            attn_wide_write((to ^ (i % 2 * 64 + j * 32)) + further,
                            make_uint2(w[2 * j], w[2 * j + 1]));
    }
}

/* Piece i of V. */
template <kv_format F> __device__ static inline void attn_wide_store_v(uint32_t to, int i, uint4 x)
{
    int further = attn_wide_v_load<F>(i).to;
    if constexpr (F == KV_INT8) {
        attn_wide_write(to + further, attn_wide_codes(x.x), attn_wide_codes(x.y));
        attn_wide_write((to ^ 16) + further, attn_wide_codes(x.z), attn_wide_codes(x.w));
    } else {
        /* Four rows further the swizzle changes by 64. */
        attn_wide_write((to ^ (i / 4 % 2 * 64)) + further, make_uint2(x.x, x.y),
                        make_uint2(x.z, x.w));
    }
}

/* Ask for batch `batch` of K (or V) of the tile at `cell`. V behind position `last` is zeros where
 * it may be no number. */
template <kv_format F, bool IS_K>
__device__ static inline void attn_wide_fetch(uint4 (&x)[attn_wide_cut<F>::BATCH],
                                              const attn_wide_cut<F> &cut, const attn_params &p,
                                              int64_t cell, int batch, int last)
{
    constexpr int ROW = attn_wide_cut<F>::ROW;
    int row = (IS_K ? cut.k_row : cut.v_row) + batch * attn_wide_cut<F>::BATCH_ROWS;
    const uint8_t *at = (IS_K ? p.k + cut.k_column : p.v + cut.v_column) + (cell + row) * ROW;
#pragma unroll
    for (int i = 0; i < attn_wide_cut<F>::BATCH; i++) {
        attn_wide_load<F> l = IS_K ? attn_wide_k_load<F>(i) : attn_wide_v_load<F>(i);
        bool on = F == KV_INT8 || IS_K || row + l.row <= last;
        x[i] = on ? load_once(at + l.row * ROW + l.byte) : make_uint4(0, 0, 0, 0);
    }
}

/* One tile of K or V: its first batch is asked for before the room is free. A thread's `factor` of
 * the tile's goes along with K. */
template <kv_format F, bool IS_K>
__device__ static inline void attn_wide_bring(const attn_wide_cut<F> &cut, const attn_params &p,
                                              int64_t cell, int last, float *to, float factor,
                                              uint64_t *full, uint64_t *empty, int parity)
{
    constexpr int BATCH = attn_wide_cut<F>::BATCH;
    uint4 x[BATCH];
    attn_wide_fetch<F, IS_K>(x, cut, p, cell, 0, last);
    tma_wait(empty, parity);
    if (IS_K && F == KV_INT8) *to = factor;
#pragma unroll
    for (int batch = 0; batch < attn_wide_cut<F>::LOADS / BATCH; batch++) {
        if (batch > 0) attn_wide_fetch<F, IS_K>(x, cut, p, cell, batch, last);
        int more = batch * attn_wide_cut<F>::BATCH_ROWS * 128;
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (IS_K)
                attn_wide_store_k<F>(cut.k + more, i, x[i]);
            else
                attn_wide_store_v<F>(cut.v + more, i, x[i]);
        }
    }
    attn_wgmma_publish();
    tma_arrive(full);
}

/* The filling group: all tiles, K before V. A thread also makes one factor of a tile: of scores for
 * position i, or 0 behind the last, or of weights. */
template <kv_format F>
__device__ static inline void attn_wide_fill(const attn_wide_shared &s, const attn_params &p, int g,
                                             const int32_t *table, int last_pos)
{
    using S = attn_wide_shape;
    attn_wide_cut<F> cut = attn_wide_cut_open<F>(s);
    int i = threadIdx.x - S::COMPUTE, n_tiles = last_pos / OPS_BLOCK + 1;
    bool is_v = i >= OPS_BLOCK;
    const float *scale = (is_v ? p.v_scale : p.k_scale) + (i & (OPS_BLOCK - 1));
    int64_t block = table[0];
    for (int tile = 0; tile < n_tiles; tile++) {
        int64_t cell = (block * p.G + g) * OPS_BLOCK;
        int last = last_pos - tile * OPS_BLOCK, parity = (tile & 1) ^ 1;
        if (tile + 1 < n_tiles) block = table[tile + 1];
        float factor = 0.0f;
        if (F == KV_INT8 && (i & (OPS_BLOCK - 1)) <= last)
            factor = __fmul_rn(scale[cell], is_v ? ATTN_INT8_UNIT : p.c);
        float *to = s.factors + (tile & 1) * S::TILE_FACTORS + i;
        attn_wide_bring<F, true>(cut, p, cell, last, to, factor, s.k_full, s.k_empty, parity);
        attn_wide_bring<F, false>(cut, p, cell, last, to, factor, s.v_full, s.v_empty, parity);
    }
}

#endif
#endif
