/* linear_block.cuh: the kernels for up to 8 rows of a weight by few, large blocks: all of x in
 * shared memory, the same number of bricks for every warp. Instantiated once a width in
 * linear_bits*.cu. */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_BLOCK_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_BLOCK_CUH

#include "backend/cuda/linear_stream.cuh"
#include "backend/cuda/tma.cuh"

enum {
    BLOCK_THREADS_MAX = 2 * PICK_BLOCK_OUTPUTS_MAX, /* a warp for 16 outputs */
    BLOCK_WARPS_MAX = BLOCK_THREADS_MAX / 32,
    BLOCK_COLUMNS = PICK_BLOCK_ROWS,
    BLOCK_BRICK_BYTES = stream_shape<1>::BRICK_BYTES, /* of x */
    BLOCK_MERGE_THREADS = 128, /* of blocks whose slices meet in memory: those of 64 outputs */
};

/* Shared bytes: x, what a deep block has of its weights, the sums of slices that meet in a cluster
 * (up's sums take the place of x). */
static inline int block_shared(int threads, int bricks, int brick_bytes, bool is_deep)
{
    return bricks * BLOCK_BRICK_BYTES + (is_deep ? threads / 32 * bricks * brick_bytes : 0) +
           (LINEAR_CLUSTER_MAX - 1) * 16 * threads;
}

/* Bricks that there is room for: as many for a short last slice as for the others, so that all find
 * the sums in the same place. */
__device__ static inline int block_room(const tile_part &p)
{
    return p.is_split ? p.slice_bricks : p.n_bricks;
}

/* What a warp of a block multiplies. */
struct block_place {
    int half; /* of a pair */
    int64_t block;
    bool is_on; /* false: outputs beyond the weight's; nothing is read for them */
    const uint8_t *bricks;
};

template <int BRICK>
__device__ static inline block_place block_place_init(const tile_part &p, const tile_job &job)
{
    int warp = threadIdx.x >> 5, n_along = blockDim.x >> 5;
    block_place at = {};
    if (p.bricks[1]) {
        n_along /= 2;
        at.half = warp >= n_along;
    }
    at.block = int64_t(job.group) * n_along + warp - at.half * n_along;
    at.is_on = at.block < (p.N + PICK_BRICK_N - 1) / PICK_BRICK_N;
    at.bricks = p.bricks[at.half] + job.rows.expert * p.expert_bytes +
                ((at.is_on ? at.block : 0) * p.n_bricks + job.first) * BRICK;
    return at;
}

/* The rows of x that are not there: zeros. */
__device__ static inline void block_clear_x(uint8_t *shared, int n_rows, int n)
{
    int piece = threadIdx.x & 7, turn = threadIdx.x >> 3, turns = blockDim.x >> 3;
    for (int row = n_rows; row < BLOCK_COLUMNS; row++) {
        uint8_t *to = shared + row * TILE_X_ROW_BYTES + piece * 16;
        for (int j = turn; j < n; j += turns) {
            *reinterpret_cast<uint4 *>(to + j * BLOCK_BRICK_BYTES) = make_uint4(0, 0, 0, 0);
        }
    }
}

/* The others, in stream_load_x's places: bricks first .. first + n - 1, and wait for them. */
__device__ static inline void block_load_x(uint8_t *shared, const tile_part &p, tile_rows rows,
                                           int first, int n)
{
    int piece = threadIdx.x & 7, turn = threadIdx.x >> 3, turns = blockDim.x >> 3;
    for (int row = 0; row < rows.count; row++) {
        int64_t x_row = rows.begin + row;
        if (p.x_row) x_row = p.x_row[x_row];
        const bf16 *from = p.x + x_row * p.K + first * PICK_BRICK_K + piece * 8;
        uint8_t *to = shared + row * TILE_X_ROW_BYTES + ((piece ^ (row & 7)) << 4);
        for (int j = turn; j < n; j += turns) {
            copy_async_16(to + j * BLOCK_BRICK_BYTES, from + j * PICK_BRICK_K, true);
        }
    }
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
}

/* From a job's sums to its outputs; `sums` is where slices may meet, and shared was read by all for
 * the last time at the next barrier. */
__device__ static inline void block_end(float (&total)[1][1][4], const tile_args &a,
                                        const tile_part &p, const tile_job &job,
                                        const block_place &at, uint8_t *shared, uint8_t *sums)
{
    if (!a.is_light) ahead_fetch(a.ahead);
    if (a.cluster && !p.is_split) {
        cluster_wait(); /* for nothing, but each phase needs both */
    } else if (a.cluster) {
        if (!stream_meet<1>(tile_flat(total), p, job.slice, reinterpret_cast<float4 *>(sums),
                            blockDim.x))
            return;
    } else if (p.is_split && p.slice_step == 0) {
        if (!tile_merge<BLOCK_MERGE_THREADS, 1>(tile_flat(total), a, p, job.tile, job.slice))
            return;
    }
    if (p.out == TILE_OUT_SWIGLU) {
        float up[1][4];
        stream_hand_up<1>(total[0], up, reinterpret_cast<float4 *>(shared), blockDim.x / 2);
        if (!at.half && at.is_on) tile_store<1>(total[0], up, p, at.block, 0, job.rows);
    } else if (at.is_on) {
        tile_store<1>(total[0], nullptr, p, at.block, 0, job.rows, job.slice * p.slice_step);
    }
}

/* linear_block_kernel: one slice of a tile of at most 8 rows, or its only one.
 *
 * Does     what linear_stream_kernel<BITS, 1, HAS_TWO> does, for x of whole bricks
 * Grid     as linear_tile_kernel, of tiles that cuda_pick_block chose: at most one block a
 *          processor; block: a warp for each 16 outputs of the tile
 * Shared   all of the slice's x; the sums of slices that meet in a cluster
 * Moves    each weight byte once, straight to the registers that multiply it
 * Numbers  linear_tile_kernel's, bit for bit
 * Why      Small blocks are placed as room becomes free, 1 to 6 on a processor, and everyone waits
 *          for those with 6. Here all processors have the same. With all of x in place nothing is
 *          between a warp's first brick and its last: no barrier, no copies. */
template <int BITS, bool HAS_TWO>
__global__ void __launch_bounds__(BLOCK_THREADS_MAX, 1)
    linear_block_kernel(const __grid_constant__ tile_args a)
{
    constexpr int BRICK = dequant_brick_bytes(BITS, HAS_TWO), AHEAD = stream_ahead(BITS, 1);
    extern __shared__ __align__(128) uint8_t shared[];
    launch_next();
    if (a.cluster) cluster_arrive();
    tile_job job;
    if (!tile_job_init<BLOCK_COLUMNS, false>(job, a)) { /* fills up a cluster */
        ahead_fetch(a.ahead);
        return;
    }
    const tile_part &p = a.part[job.part];
    const int n = job.end - job.first;
    const block_place at = block_place_init<BRICK>(p, job);
    stream_source<BITS> source = stream_source_init<BITS>(at.bricks);
    stream_brick<BITS, HAS_TWO> w[AHEAD];
    stream_begin(w, source, at.is_on ? n : 0);
    if (a.is_light) ahead_fetch(a.ahead);
    block_clear_x(shared, job.rows.count, n);
    launch_wait(); /* for x, and for the partial sums of the linear before */
    block_load_x(shared, p, job.rows, job.first, n);
    float sum[1][1][4] = {};
    const uint8_t *rows_at = shared;
    for (int left = at.is_on ? n : 0, turn = 0; left > 0; left -= turn) {
        turn = min(left, AHEAD);
        int behind = left - turn;
        if (turn == AHEAD && behind >= AHEAD) {
            stream_turn<AHEAD, true>(sum[0], w, source, rows_at);
        } else if (turn == AHEAD && behind == 0) {
            stream_turn<AHEAD, false>(sum[0], w, source, rows_at);
        } else {
            stream_some<AHEAD>(sum[0], w, source, rows_at, turn, left);
        }
        stream_source_advance<BITS>(source, turn * BRICK);
        rows_at += turn * BLOCK_BRICK_BYTES;
    }
    block_end(sum, a, p, job, at, shared, shared + block_room(p) * BLOCK_BRICK_BYTES);
}

#endif
