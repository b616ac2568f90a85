/* moe_sort: uses by expert, in order within an expert, and the tiles that they are cut into. */
#ifndef RIPTIDE_BACKEND_CUDA_MOE_SORT_CUH
#define RIPTIDE_BACKEND_CUDA_MOE_SORT_CUH

#include "backend/cuda/linear_tile_priv.h"
#include "backend/cuda/reduce.cuh"

enum {
    MOE_FEW = 512,  /* uses up to which one block is quicker than many */
    MOE_RUNS = 64,  /* blocks that sort more, at most */
    MOE_COUNTS = 3, /* words from n_tiles on: it, and what moe_wide's two launches gave out */
};

/* Where the sorted uses go (moe_ffn.cu). */
typedef struct {
    int *use_row, *use;
    tile_rows *tiles;
    int *n_tiles;
    int columns; /* rows of a tile */
} moe_sorted;

/* Whether moe_sort_warp serves: up to 32 uses, of which no expert has more than a tile, as a row
 * has an expert once. */
__device__ static inline bool moe_sort_is_short(const moe_sorted &to, int n_uses, int K)
{
    return n_uses <= 32 && n_uses <= to.columns * K;
}
/* moe_sort_few by a warp, a lane a use. */
__device__ static inline void moe_sort_warp(const moe_sorted &to, const int *expert, int n_uses,
                                            int K)
{
    int u = threadIdx.x & 31, e = u < n_uses ? expert[u] : INT32_MAX, place = 0, tile = 0;
    uint32_t same = __match_any_sync(WARP_ALL, e);
    bool is_first = u < n_uses && __ffs(same) - 1 == u;
    uint32_t firsts = __ballot_sync(WARP_ALL, is_first);
#pragma unroll 8
    for (int j = 0; j < n_uses; j++) {
        int other = __shfl_sync(WARP_ALL, e, j);
        place += other < e || (other == e && j < u);
        tile += other < e && firsts >> j & 1;
    }
    if (u == 0) *to.n_tiles = __popc(firsts);
    if (u >= n_uses) return;
    to.use_row[place] = u / K;
    to.use[place] = u;
    if (is_first) to.tiles[tile] = tile_rows{e, place, __popc(same)};
}

/* Uses of `expert` (shared memory, written by all before) by a block in which thread e owns expert
 * e; `sums` holds an int a warp. Two walks over a handful of ids need no counting by warps. */
__device__ static inline void moe_sort_few(const moe_sorted &to, const int *expert, int n_uses,
                                           int X, int K, int *sums)
{
    int e = threadIdx.x, lane = e & 31, warp = e >> 5, columns = to.columns;
    if (moe_sort_is_short(to, n_uses, K)) {
        if (warp == 0) moe_sort_warp(to, expert, n_uses, K);
        return;
    }
    int count = 0;
    for (int u = 0; u < n_uses; u++) count += expert[u] == e;
    /* Places and tiles before this expert: running sums of both in one word. */
    int mine = count | ((count + columns - 1) / columns) << 16, sum = mine;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        int v = __shfl_up_sync(WARP_ALL, sum, d);
        if (lane >= d) sum += v;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads(); /* sums of all warps */
    for (int w = 0; w < warp; w++) sum += sums[w];
    if (e == X - 1) *to.n_tiles = sum >> 16;
    sum -= mine;
    if (e >= X || count == 0) return;
    int place = sum & 0xffff;
    for (int at = 0, t = sum >> 16; at < count; at += columns, t++)
        to.tiles[t] = tile_rows{e, place + at, min(columns, count - at)};
    for (int u = 0; u < n_uses; u++) {
        if (expert[u] != e) continue;
        to.use_row[place] = u / K;
        to.use[place++] = u;
    }
}

#endif
