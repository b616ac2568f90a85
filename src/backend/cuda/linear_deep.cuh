/* linear_deep.cuh: the kernel for up to 8 rows of slices so short that all of a block's weights fit
 * its shared memory. Instantiated once a width in linear_bits*.cu. */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_DEEP_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_DEEP_CUH

#include "backend/cuda/linear_block.cuh"

/* Bricks that arrive, and are waited for, together. */
enum { DEEP_PIECE = 8, DEEP_PIECES = PICK_DEEP_BRICKS_MAX / DEEP_PIECE };

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* A lane's share of a brick in shared memory, and of the same K of x. */
template <int BITS, bool HAS_TWO> struct deep_brick {
    stream_brick<BITS, HAS_TWO> w;
    uint32_t b[2][1][4];
};
template <int BITS, bool HAS_TWO>
__device__ static inline void deep_load(deep_brick<BITS, HAS_TWO> &d, const uint8_t *brick,
                                        const uint8_t *rows_at)
{
    int lane = threadIdx.x & 31;
    d.w.codes = dequant_load<BITS>(brick, lane);
#pragma unroll
    for (int h = 0; h < (HAS_TWO ? 2 : 1); h++) {
        d.w.scale[h] = *reinterpret_cast<const uint2 *>(brick + dequant_code_bytes(BITS) +
                                                        h * DEQUANT_SCALE_BYTES + (lane >> 2) * 8);
    }
    stream_load_b<1>(d.b, rows_at);
}

/* acc += n bricks at w times those of x at rows_at; piece i of w is there when full[i] says so. */
template <int BITS, bool HAS_TWO>
__device__ static inline void deep_multiply(float (&acc)[1][4], const uint8_t *w,
                                            const uint8_t *rows_at, int n, uint64_t *full)
{
    constexpr int BRICK = dequant_brick_bytes(BITS, HAS_TWO);
    deep_brick<BITS, HAS_TWO> d, next;
    tma_wait(full, 0);
    deep_load(next, w, rows_at);
#pragma unroll 2
    for (int j = 1; j <= n; j++) {
        d = next;
        if (j % DEEP_PIECE == 0 && j < n) tma_wait(full + j / DEEP_PIECE, 0);
        int at = min(j, n - 1); /* the last again: what comes of it is not used */
        deep_load(next, w + at * BRICK, rows_at + at * BLOCK_BRICK_BYTES);
        stream_step<BITS, 1, HAS_TWO>(acc, d.w, d.b);
    }
}

#endif

/* linear_deep_kernel: one slice of a tile of at most 8 rows, or its only one.
 *
 * Does     what linear_stream_kernel<BITS, 1, HAS_TWO> does, for x of whole bricks and slices of up
 *          to PICK_DEEP_BRICKS_MAX of them
 * Grid     as linear_tile_kernel; block: a warp for each 16 outputs of the tile
 * Shared   x and weights of the slice; the sums of slices that meet in a cluster
 * Moves    each weight byte once, by bulk copies that are all asked for at once
 * Numbers  linear_tile_kernel's, bit for bit
 * Why      A short slice is over after one or two turns of what registers can hold, so it is
 *          latency: here memory is asked once, if possible before x is there, and the loop is short
 *          enough that its instructions are, too. */
template <int BITS, bool HAS_TWO>
__global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    linear_deep_kernel(const __grid_constant__ tile_args a)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int BRICK = dequant_brick_bytes(BITS, HAS_TWO);
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint64_t full[BLOCK_WARPS_MAX][DEEP_PIECES];
    /* Before the next launch may begin, if it relies on that (knows_tiles). */
    if (a.has_experts && !a.knows_tiles && a.part[tile_part_of(a)].tiles) launch_wait();
    launch_next();
    if (a.cluster) cluster_arrive();
    tile_job job;
    if (!tile_job_init<BLOCK_COLUMNS, false>(job, a)) {
        ahead_fetch(a.ahead);
        return;
    }
    const tile_part &p = a.part[job.part];
    const int n = job.end - job.first, room = block_room(p), warp = threadIdx.x >> 5;
    const block_place at = block_place_init<BRICK>(p, job);
    uint8_t *w = shared + room * (BLOCK_BRICK_BYTES + warp * BRICK);
    if ((threadIdx.x & 31) == 0 && at.is_on) {
        for (int i = 0; i * DEEP_PIECE < n; i++) tma_barrier_init(&full[warp][i], 1);
        tma_barrier_fence();
        for (int i = 0; i * DEEP_PIECE < n; i++) {
            int from = i * DEEP_PIECE * BRICK, bytes = min(DEEP_PIECE, n - i * DEEP_PIECE) * BRICK;
            tma_arrive_expect(&full[warp][i], bytes);
            tma_copy(w + from, at.bricks + from, bytes, &full[warp][i]);
        }
    }
    if (a.is_light) ahead_fetch(a.ahead);
    block_clear_x(shared, job.rows.count, n);
    launch_wait(); /* for x, and for the partial sums of the linear before */
    block_load_x(shared, p, job.rows, job.first, n); /* its barrier shows all warps theirs, too */
    float sum[1][1][4] = {};
    if (at.is_on) deep_multiply<BITS, HAS_TWO>(sum[0], w, shared, n, full[warp]);
    uint8_t *sums = shared + room * (BLOCK_BRICK_BYTES + (blockDim.x >> 5) * BRICK);
    block_end(sum, a, p, job, at, shared, sums);
#else
    (void)a;
#endif
}

#endif
