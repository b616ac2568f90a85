/* linear_deep.cuh: the kernel for one row (it could do 8) of slices so short that all of a block's
 * weights fit its shared memory. Instantiated once a width in linear_bits*.cu. */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_DEEP_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_DEEP_CUH

#include "backend/cuda/linear_stream.cuh"
#include "backend/cuda/tma.cuh"

enum {
    DEEP_WARPS_MAX = PICK_DEEP_OUTPUTS_MAX / PICK_BRICK_N,
    DEEP_THREADS_MAX = 32 * DEEP_WARPS_MAX,
    DEEP_COLUMNS = PICK_DEEP_COLUMNS,
    DEEP_BRICK_BYTES = stream_shape<1>::BRICK_BYTES, /* of x */
    DEEP_MERGE_THREADS = 128, /* of blocks whose slices meet in memory: those of 64 outputs */
    /* Bricks that arrive, and are waited for, together. */
    DEEP_PIECE = 8,
    DEEP_PIECES = PICK_DEEP_BRICKS_MAX / DEEP_PIECE,
};

/* Shared bytes: x, the weights, the sums of slices that meet in a cluster
 * (up's sums take the place of x). */
static inline int deep_shared(int threads, int bricks, int brick_bytes)
{
    return bricks * (DEEP_BRICK_BYTES + threads / 32 * brick_bytes) +
           (LINEAR_CLUSTER_MAX - 1) * 16 * threads;
}

/* Bricks that there is room for: as many for a short last slice as for the others, so that all find
 * the sums in the same place. */
__device__ static inline int deep_room(const tile_part &p)
{
    return p.is_split ? p.slice_bricks : p.n_bricks;
}

/* What a warp of a block multiplies. */
struct deep_place {
    int half; /* of a pair */
    int64_t block;
    bool is_on; /* false: outputs beyond the weight's; nothing is read for them */
    const uint8_t *bricks;
};

template <int BRICK>
__device__ static inline deep_place deep_place_init(const tile_part &p, const tile_job &job)
{
    int warp = threadIdx.x >> 5, n_along = blockDim.x >> 5;
    deep_place at = {};
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
__device__ static inline void deep_clear_x(uint8_t *shared, int n_rows, int n)
{
    int piece = threadIdx.x & 7, turn = threadIdx.x >> 3, turns = blockDim.x >> 3;
    for (int row = n_rows; row < DEEP_COLUMNS; row++) {
        uint8_t *to = shared + row * TILE_X_ROW_BYTES + piece * 16;
        for (int j = turn; j < n; j += turns) {
            *reinterpret_cast<uint4 *>(to + j * DEEP_BRICK_BYTES) = make_uint4(0, 0, 0, 0);
        }
    }
}

/* The others, in stream_load_x's places: bricks first .. first + n - 1, and wait for them. */
__device__ static inline void deep_load_x(uint8_t *shared, const tile_part &p, tile_rows rows,
                                          int first, int n)
{
    int piece = threadIdx.x & 7, turn = threadIdx.x >> 3, turns = blockDim.x >> 3;
    for (int row = 0; row < rows.count; row++) {
        int64_t x_row = rows.begin + row;
        if (p.x_row) x_row = p.x_row[x_row];
        const bf16 *from = p.x + x_row * p.K + first * PICK_BRICK_K + piece * 8;
        uint8_t *to = shared + row * TILE_X_ROW_BYTES + ((piece ^ (row & 7)) << 4);
        for (int j = turn; j < n; j += turns) {
            copy_async_16(to + j * DEEP_BRICK_BYTES, from + j * PICK_BRICK_K, true);
        }
    }
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
}

/* From a job's sums to its outputs; `sums` is where slices may meet, and shared was read by all for
 * the last time at the next barrier. */
__device__ static inline void deep_end(float (&total)[1][1][4], const tile_args &a,
                                       const tile_part &p, const tile_job &job,
                                       const deep_place &at, uint8_t *shared, uint8_t *sums)
{
    if (!a.is_light) ahead_fetch(a.ahead);
    if (a.cluster && !p.is_split) {
        cluster_wait(); /* for nothing, but each phase needs both */
    } else if (a.cluster) {
        if (!stream_meet<1>(tile_flat(total), p, job.slice, reinterpret_cast<float4 *>(sums),
                            blockDim.x))
            return;
    } else if (p.is_split && p.slice_step == 0) {
        if (!tile_merge<DEEP_MERGE_THREADS, 1>(tile_flat(total), a, p, job.tile, job.slice)) return;
    }
    if (p.out == TILE_OUT_SWIGLU) {
        float up[1][4];
        tile_hand_up<1>(total[0], up, reinterpret_cast<float4 *>(shared), blockDim.x / 2,
                        [] { __syncthreads(); });
        if (!at.half && at.is_on) tile_store<1>(total[0], up, p, at.block, 0, job.rows);
    } else if (at.is_on) {
        tile_store<1>(total[0], nullptr, p, at.block, 0, job.rows, job.slice * p.slice_step);
    }
}

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
    d.w = stream_read<BITS, HAS_TWO>(brick);
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
        deep_load(next, w + at * BRICK, rows_at + at * DEEP_BRICK_BYTES);
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
 * Chosen   cuda_pick_deep
 * Why      A short slice is over after one or two turns of what registers can hold, so it is
 *          latency: here memory is asked once, if possible before x is there, and the loop is short
 *          enough that its instructions are, too. */
template <int BITS, bool HAS_TWO>
__global__ void __launch_bounds__(DEEP_THREADS_MAX, 1)
    linear_deep_kernel(const __grid_constant__ tile_args a)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int BRICK = dequant_brick_bytes(BITS, HAS_TWO);
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint64_t full[DEEP_WARPS_MAX][DEEP_PIECES];
    /* Before the next launch may begin, if it relies on that (knows_tiles). */
    if (a.has_experts && !a.knows_tiles && a.part[tile_part_of(a)].tiles) launch_wait();
    launch_next();
    if (a.cluster) cluster_arrive();
    tile_job job;
    if (!tile_job_init<DEEP_COLUMNS, false>(job, a)) {
        ahead_fetch(a.ahead);
        return;
    }
    const tile_part &p = a.part[job.part];
    const int n = job.end - job.first, room = deep_room(p), warp = threadIdx.x >> 5;
    const deep_place at = deep_place_init<BRICK>(p, job);
    uint8_t *w = shared + room * (DEEP_BRICK_BYTES + warp * BRICK);
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
    deep_clear_x(shared, job.rows.count, n);
    launch_wait(); /* for x, and for the partial sums of the linear before */
    deep_load_x(shared, p, job.rows, job.first, n); /* its barrier shows all warps theirs, too */
    float sum[1][1][4] = {};
    if (at.is_on) deep_multiply<BITS, HAS_TWO>(sum[0], w, shared, n, full[warp]);
    uint8_t *sums = shared + room * (DEEP_BRICK_BYTES + (blockDim.x >> 5) * BRICK);
    deep_end(sum, a, p, job, at, shared, sums);
#else
    (void)a;
#endif
}

#endif
