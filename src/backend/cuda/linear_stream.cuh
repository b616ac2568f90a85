/* linear_stream.cuh: the kernel for few rows, where reading the weights is all the time there is.
 * Instantiated once a width in linear_bits*.cu. */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_STREAM_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_STREAM_CUH

#include "backend/cuda/cluster.cuh"
#include "backend/cuda/linear_tile.cuh"
#include "backend/cuda/weight_ahead.cuh"

/* Bricks of weights that a lane has under way; divides a slice (cuda_pick_split) and X_BRICKS. A
 * warp waits about a microsecond for memory, so its speed is this number; of more rows the sums
 * take the registers of the others. */
__host__ __device__ constexpr int stream_ahead(int bits, int nt)
{
    if (bits == DEQUANT_BF16 || nt == 4) return 2;
    if (nt == 1) return bits <= 4 ? 8 : 4;
    return bits == 8 ? 2 : 4;
}

template <int NT> struct stream_shape {
    static constexpr int BLOCKS = 4; /* 16-output blocks of a tile, one a warp */
    static constexpr int COLUMNS = 8 * NT, THREADS = 128;
    static constexpr int PER_PROCESSOR = 5;          /* blocks; for registers */
    static constexpr int X_BRICKS = NT <= 2 ? 8 : 4; /* of x in one of the two shared buffers */
    static constexpr int BRICK_BYTES = COLUMNS * TILE_X_ROW_BYTES;
    static constexpr int CHUNK_BYTES = X_BRICKS * BRICK_BYTES;
    static constexpr int SHARED = 2 * CHUNK_BYTES;
    /* Room for the sums of slices that meet in a cluster. */
    static constexpr int SUMS_BYTES = (LINEAR_CLUSTER_MAX - 1) * 16 * NT * THREADS;
    static constexpr int SUMS = COLUMNS > LINEAR_CLUSTER_COLUMNS ? 0 : SUMS_BYTES;
    static constexpr int ROWS = THREADS / 8; /* that one turn fills */
    static constexpr int X_ROWS = COLUMNS > ROWS ? COLUMNS / ROWS
                                                 : 1; /* of x that a thread copies */
    static constexpr int X_STEP = ROWS > COLUMNS ? ROWS / COLUMNS
                                                 : 1; /* bricks that one turn fills */
    static constexpr int X_TURNS = X_BRICKS / X_STEP;
};

/* A lane's share of a brick. */
template <int BITS, bool HAS_TWO> struct stream_brick {
    lane_codes<BITS> codes;
    uint2 scale[HAS_TWO ? 2 : 1];
};
template <bool HAS_TWO> struct stream_brick<DEQUANT_BF16, HAS_TWO> {
    uint4 fragment[4];
};

/* The share of a brick that lies in shared memory. */
template <int BITS, bool HAS_TWO>
__device__ static inline stream_brick<BITS, HAS_TWO> stream_read(const uint8_t *brick)
{
    int lane = threadIdx.x & 31;
    stream_brick<BITS, HAS_TWO> b;
    b.codes = dequant_load<BITS>(brick, lane);
#pragma unroll
    for (int h = 0; h < (HAS_TWO ? 2 : 1); h++) {
        b.scale[h] = *reinterpret_cast<const uint2 *>(brick + dequant_code_bytes(BITS) +
                                                      h * DEQUANT_SCALE_BYTES + (lane >> 2) * 8);
    }
    return b;
}

/* Where a lane's share of a block's next brick lies. Bricks are whole numbers of bytes apart that
 * the compiler knows, so that the loads of a chunk need no arithmetic. */
template <int BITS> struct stream_source {
    const uint8_t *main, *ext, *scale;
};

template <int WORDS> __device__ static inline void stream_words(uint32_t *w, const uint8_t *p)
{
    if constexpr (WORDS == 4) {
        uint4 v = load_once(p);
        w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
    } else if constexpr (WORDS == 2) {
        asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
                     : "=r"(w[0]), "=r"(w[1])
                     : "l"(p));
    } else {
        asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(w[0]) : "l"(p));
    }
}

template <int BITS>
__device__ static inline stream_source<BITS> stream_source_init(const uint8_t *brick)
{
    int lane = threadIdx.x & 31;
    if constexpr (BITS == DEQUANT_BF16) {
        return {brick + lane * 16, nullptr, nullptr};
    } else {
        constexpr int MAIN = lane_codes<BITS>::MAIN, EXT = lane_codes<BITS>::EXT;
        return {brick + lane * 4 * MAIN, brick + 128 * MAIN + lane * 4 * EXT,
                brick + dequant_code_bytes(BITS) + (lane >> 2) * 8};
    }
}

template <int BITS>
__device__ static inline void stream_source_advance(stream_source<BITS> &s, int n_bytes)
{
    s.main += n_bytes;
    s.ext += n_bytes;
    s.scale += n_bytes;
}

/* The brick `ahead` bricks behind s. */
template <int BITS, bool HAS_TWO>
__device__ static inline void stream_load(stream_brick<BITS, HAS_TWO> &b,
                                          const stream_source<BITS> &s, int ahead)
{
    int at = ahead * dequant_brick_bytes(BITS, HAS_TWO);
    if constexpr (BITS == DEQUANT_BF16) {
#pragma unroll
        for (int f = 0; f < 4; f++) b.fragment[f] = load_once(s.main + at + f * 512);
    } else {
        constexpr int EXT = lane_codes<BITS>::EXT;
        stream_words<lane_codes<BITS>::MAIN>(b.codes.main, s.main + at);
        if constexpr (EXT > 0) stream_words<EXT>(b.codes.ext, s.ext + at);
#pragma unroll
        for (int h = 0; h < (HAS_TWO ? 2 : 1); h++) {
            uint32_t v[2];
            stream_words<2>(v, s.scale + at + h * DEQUANT_SCALE_BYTES);
            b.scale[h] = make_uint2(v[0], v[1]);
        }
    }
}

/* acc += brick x x: the chain of tile_step. */
template <int BITS, int NT, bool HAS_TWO>
__device__ static inline void stream_step(float (&acc)[NT][4], const stream_brick<BITS, HAS_TWO> &w,
                                          const uint32_t (&b)[2][NT][4])
{
    lane_scales scales;
#pragma unroll
    for (int f = 0; f < 4; f++) {
        uint32_t frag[4];
        if constexpr (BITS == DEQUANT_BF16) {
            uint4 v = w.fragment[f];
            frag[0] = v.x, frag[1] = v.y, frag[2] = v.z, frag[3] = v.w;
        } else {
            if (f == 0) scales = dequant_scales(w.scale[0]);
            if constexpr (HAS_TWO) {
                if (f == 2) scales = dequant_scales(w.scale[1]);
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                frag[j] = dequant_pair<BITS>(w.codes, f * 4 + j, scales.scale[j & 1],
                                             scales.bias[j & 1]);
            }
        }
#pragma unroll
        for (int n = 0; n < NT; n++) {
            mma_bf16(acc[n], frag, b[f / 2][n][f % 2 * 2], b[f / 2][n][f % 2 * 2 + 1]);
        }
    }
}

/* A lane's B fragments of the brick of x at `at`. */
template <int NT>
__device__ static inline void stream_load_b(uint32_t (&b)[2][NT][4], const uint8_t *at)
{
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int v = 0; v < 2 * NT; v++) {
        int row = v % NT * 8 + (lane & 7), piece = v / NT * 4 + (lane >> 3);
        load_matrix_x4(b[v / NT][v % NT],
                       at + row * TILE_X_ROW_BYTES + ((piece ^ (lane & 7)) << 4));
    }
}

/* What a thread copies of x: one 16-byte piece of X_ROWS rows, of every X_STEP-th brick. */
template <int NT> struct stream_x {
    const bf16 *from[stream_shape<NT>::X_ROWS]; /* its pieces of the chunk's first brick; NULL: no
                                                   such row, zeros that stay */
    int k;                                      /* of them */
    int brick;                                  /* its first brick in a chunk */
    int to; /* byte of the first row's piece in a chunk's buffer */
};

template <int NT>
__device__ static inline stream_x<NT> stream_x_init(const tile_part &p, tile_rows rows, int first,
                                                    uint8_t *shared)
{
    using S = stream_shape<NT>;
    int piece = threadIdx.x & 7, turn = threadIdx.x >> 3, first_row = turn % S::COLUMNS;
    stream_x<NT> x = {};
    x.brick = turn / S::COLUMNS;
    x.k = (first + x.brick) * PICK_BRICK_K + piece * 8;
    x.to = x.brick * S::BRICK_BYTES + first_row * TILE_X_ROW_BYTES +
           ((piece ^ (first_row & 7)) << 4);
#pragma unroll
    for (int r = 0; r < S::X_ROWS; r++) {
        int row = first_row + r * S::ROWS;
        if (row < rows.count) {
            int64_t from = rows.begin + row;
            if (p.x_row) from = p.x_row[from];
            x.from[r] = p.x + from * p.K + x.k;
            continue;
        }
        for (int j = 0; j < 2 * S::X_TURNS; j++) {
            *reinterpret_cast<uint4 *>(shared + x.to + r * S::ROWS * TILE_X_ROW_BYTES +
                                       j * S::X_STEP * S::BRICK_BYTES) = make_uint4(0, 0, 0, 0);
        }
    }
    return x;
}

/* Start the copy of a chunk; n_left bricks are left of the job. */
template <int NT>
__device__ static inline void stream_load_x(const stream_x<NT> &x, const tile_part &p, uint8_t *to,
                                            int n_left)
{
    using S = stream_shape<NT>;
#pragma unroll
    for (int r = 0; r < S::X_ROWS; r++) {
        if (!x.from[r]) continue;
#pragma unroll
        for (int j = 0; j < S::X_TURNS; j++) {
            if (x.brick + j * S::X_STEP >= n_left) break;
            int left = static_cast<int>(p.K) - (x.k + j * S::X_STEP * PICK_BRICK_K);
            const bf16 *from = x.from[r] + j * S::X_STEP * PICK_BRICK_K;
            uint8_t *at = to + x.to + r * S::ROWS * TILE_X_ROW_BYTES +
                          j * S::X_STEP * S::BRICK_BYTES;
            if (!p.is_x_odd) {
                copy_async_16(at, left > 0 ? from : p.x, left > 0);
            } else {
                *reinterpret_cast<uint4 *>(at) = tile_load_odd(from, min(left, 8));
            }
        }
    }
}

/* The next chunk is n bricks further. */
template <int NT> __device__ static inline void stream_x_advance(stream_x<NT> &x, int n)
{
#pragma unroll
    for (int r = 0; r < stream_shape<NT>::X_ROWS; r++) {
        if (x.from[r]) x.from[r] += n * PICK_BRICK_K;
    }
    x.k += n * PICK_BRICK_K;
}

/* tile_merge within a cluster: slices meet in the shared memory of the block that has the tile's
 * first, at `sums`, which nobody has used before. */
template <int NT>
__device__ static inline bool stream_meet(float (&sum)[NT * 4], const tile_part &p, int slice,
                                          float4 *sums, int threads)
{
    cluster_wait(); /* all blocks have begun */
    if (slice > 0) {
        int first = cluster_rank() - slice;
        float4 *at = sums + (slice - 1) * threads * NT + threadIdx.x;
#pragma unroll
        for (int c = 0; c < NT; c++) {
            const float *v = &sum[c * 4];
            cluster_send_four(at + c * threads, first, make_float4(v[0], v[1], v[2], v[3]));
        }
    }
    cluster_arrive();
    cluster_wait(); /* the sums of all are there */
    if (slice > 0) return false;
    for (int s = 1; s < p.slices; s++) {
        const float4 *at = sums + (s - 1) * threads * NT + threadIdx.x;
#pragma unroll
        for (int c = 0; c < NT; c++) {
            float4 v = at[c * threads];
            float *t = &sum[c * 4];
            t[0] += v.x, t[1] += v.y, t[2] += v.z, t[3] += v.w;
        }
    }
    return true;
}

/* linear_stream_kernel: one slice, or all slices, of a tile of at most 32 rows.
 *
 * Does     what linear_tile_kernel does, for 8 NT rows
 * Grid     as linear_tile_kernel; block 128: a warp owns one 16-output block
 * Shared   two chunks of x, X_BRICKS bricks each; the sums of slices that meet in a cluster
 * Moves    each weight byte once, straight to the registers that multiply it
 * Numbers  linear_tile_kernel's, bit for bit
 * Why      The warps share nothing but x, so there is a barrier every X_BRICKS bricks only; each
 * lane keeps stream_ahead bricks under way. One block a warp and four warps a block, so that there
 * is much to schedule and little that waits for its last part. */
template <int BITS, int NT, bool HAS_TWO>
__global__ void __launch_bounds__(128, stream_shape<NT>::PER_PROCESSOR)
    linear_stream_kernel(const __grid_constant__ tile_args a)
{
    using S = stream_shape<NT>;
    constexpr int BRICK = dequant_brick_bytes(BITS, HAS_TWO), AHEAD = stream_ahead(BITS, NT);
    extern __shared__ __align__(128) uint8_t shared[];
    /* Before the next launch may begin, if it relies on that (knows_tiles). */
    if (a.has_experts && !a.knows_tiles && a.part[tile_part_of(a)].tiles) launch_wait();
    launch_next();
    if (a.cluster) cluster_arrive();
    tile_job job;
    if (!tile_job_init<S::COLUMNS, false>(job, a)) {
        ahead_fetch(a.ahead);
        return;
    }
    const tile_part &p = a.part[job.part];
    const tile_rows rows = job.rows;
    const int first = job.first, end = job.end;
    int warp = threadIdx.x >> 5;
    /* Outputs beyond N read the last block, and are not stored. */
    int64_t block = tile_block<S::BLOCKS>(p, job.group, warp);
    int64_t from = min(block, (p.N + PICK_BRICK_N - 1) / PICK_BRICK_N - 1) * p.n_bricks + first;
    stream_source<BITS> source = stream_source_init<BITS>(
        p.bricks[tile_half<S::BLOCKS>(p, warp)] + rows.expert * p.expert_bytes + from * BRICK);
    stream_brick<BITS, HAS_TWO> w[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        if (first + j < end) stream_load<BITS, HAS_TWO>(w[j], source, j);
    }
    if (a.is_light) ahead_fetch(a.ahead);
    launch_wait(); /* for x, and for the partial sums of the linear before */
    stream_x<NT> x = stream_x_init<NT>(p, rows, first, shared);
    stream_load_x<NT>(x, p, shared, end - first);
    copy_async_commit();
    float acc[1][NT][4] = {}, total[1][NT][4];
    int left = p.slice_bricks, n = 0;
    bool is_first = true, is_odd = false;
    for (int chunk = first; chunk < end; chunk += n) {
        n = min(min(+S::X_BRICKS, left), end - chunk);
        const uint8_t *rows_at = shared + is_odd * S::CHUNK_BYTES;
        is_odd = !is_odd;
        copy_async_wait<0>();
        tile_sync<S::THREADS>(); /* this chunk has arrived; the one before has been read by all */
        stream_x_advance<NT>(x, n);
        stream_load_x<NT>(x, p, shared + is_odd * S::CHUNK_BYTES, end - chunk - n);
        copy_async_commit();
#pragma unroll
        for (int j = 0; j < S::X_BRICKS; j++) {
            if (j >= n) break;
            uint32_t b[2][NT][4];
            stream_load_b<NT>(b, rows_at + j * S::BRICK_BYTES);
            stream_step<BITS, NT, HAS_TWO>(acc[0], w[j % AHEAD], b);
            if (chunk + j + AHEAD < end) {
                stream_load<BITS, HAS_TWO>(w[j % AHEAD], source, j + AHEAD);
            }
        }
        stream_source_advance<BITS>(source, n * BRICK);
        left -= n;
        if (left == 0 || chunk + n == end) { /* slices are whole turns of w, but for the last */
            tile_add_slice(tile_flat(total), tile_flat(acc), is_first);
            left = p.slice_bricks;
            is_first = false;
        }
    }
    if (!a.is_light) ahead_fetch(a.ahead);
    if (a.cluster && !p.is_split) {
        cluster_wait(); /* for nothing, but each phase needs both */
    } else if (a.cluster) {
        float4 *sums = reinterpret_cast<float4 *>(shared + S::SHARED);
        if (!stream_meet<NT>(tile_flat(total), p, job.slice, sums, S::THREADS)) return;
    } else if (p.is_split && p.slice_step == 0) {
        if (!tile_merge<S::THREADS, NT>(tile_flat(total), a, p, job.tile, job.slice)) return;
    }
    if (p.out == TILE_OUT_SWIGLU) {
        float up[NT][4];
        tile_hand_up<NT>(total[0], up, reinterpret_cast<float4 *>(shared), S::THREADS / 2,
                         [] { __syncthreads(); });
        if (warp < S::BLOCKS / 2) tile_store<NT>(total[0], up, p, block, 0, rows);
    } else {
        tile_store<NT>(total[0], nullptr, p, block, 0, rows, job.slice * p.slice_step);
    }
}

#endif
