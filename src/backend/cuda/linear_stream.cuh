/* linear_stream.cuh: the kernel for few rows, where reading the weights is all the time there is.
 * Instantiated once a width in linear_bits*.cu. */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_STREAM_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_STREAM_CUH

#include "backend/cuda/linear_tile.cuh"

enum {
    STREAM_X_BRICKS = 8, /* bricks of x in one of the two shared buffers */
};

/* Bricks of weights that a lane has under way; divides a slice (cuda_pick_split). */
__host__ __device__ constexpr int stream_ahead(int bits)
{
    return bits >= 8 ? 2 : 4;
}

template <int NT> struct stream_shape {
    static constexpr int BLOCKS = PICK_GROUP_N / PICK_BRICK_N;
    static constexpr int COLUMNS = 8 * NT, THREADS = 256;
    static constexpr int BRICK_BYTES = COLUMNS * TILE_X_ROW_BYTES;
    static constexpr int CHUNK_BYTES = STREAM_X_BRICKS * BRICK_BYTES;
    static constexpr int SHARED = 2 * CHUNK_BYTES;
};

/* A lane's share of a brick. */
template <int BITS, bool HAS_TWO> struct stream_brick {
    lane_codes<BITS> codes;
    uint2 scale[HAS_TWO ? 2 : 1];
};
template <bool HAS_TWO> struct stream_brick<DEQUANT_BF16, HAS_TWO> {
    uint4 fragment[4];
};

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

/* Start the copy of up to STREAM_X_BRICKS bricks of x from brick kb on. */
template <int NT>
__device__ static inline void stream_load_x(uint8_t *to, const tile_args &a, tile_rows rows, int kb,
                                            int end)
{
    using S = stream_shape<NT>;
#pragma unroll
    for (int u = threadIdx.x; u < S::CHUNK_BYTES / 16; u += S::THREADS) {
        int piece = u & 7, row = (u >> 3) % S::COLUMNS, brick = (u >> 3) / S::COLUMNS;
        if (kb + brick >= end) break;
        int64_t k = int64_t(kb + brick) * PICK_BRICK_K + piece * 8;
        bool on = row < rows.count && k < a.K;
        int64_t from_row = rows.begin + row;
        if (on && a.x_row) from_row = a.x_row[from_row];
        const bf16 *from = on ? a.x + from_row * a.ldx + k : a.x;
        uint8_t *at = to + brick * S::BRICK_BYTES + row * TILE_X_ROW_BYTES +
                      ((piece ^ (row & 7)) << 4);
        if (!a.is_x_odd) {
            copy_async_16(at, from, on);
        } else {
            int64_t left = a.K - k;
            *reinterpret_cast<uint4 *>(at) = tile_load_odd(
                from, on ? static_cast<int>(left < 8 ? left : 8) : 0);
        }
    }
}

/* A pair's up sums (warps 4 to 7) to the warps of its gate (0 to 3), through shared memory that
 * all have read for the last time. */
template <int NT>
__device__ static inline void stream_hand_up(float (&sum)[NT][4], float (&up)[NT][4],
                                             float4 *shared)
{
    int tid = threadIdx.x & 127;
    bool is_up = threadIdx.x >= 128;
    tile_sync<256>();
#pragma unroll
    for (int c = 0; c < NT; c++) {
        if (is_up) shared[c * 128 + tid] = make_float4(sum[c][0], sum[c][1], sum[c][2], sum[c][3]);
    }
    tile_sync<256>(); /* up's sums are there */
#pragma unroll
    for (int c = 0; c < NT; c++) {
        float4 v = shared[c * 128 + tid];
        up[c][0] = v.x, up[c][1] = v.y, up[c][2] = v.z, up[c][3] = v.w;
    }
}

/* linear_stream_kernel: one slice, or all slices, of a tile of at most 16 rows.
 *
 * Does     what linear_tile_kernel does, for 8 NT rows
 * Grid     as linear_tile_kernel; block 256: a warp owns one 16-output block
 * Shared   two chunks of x, 8 bricks each
 * Moves    each weight byte once, straight to the registers that multiply it
 * Numbers  linear_tile_kernel's, bit for bit
 * Why      The warps share nothing but x, so there is a barrier every 8 bricks only; each lane
 *          keeps stream_ahead bricks under way. One block a warp, so that there are many warps:
 *          their number hides what each waits for. */
template <int BITS, int NT, bool HAS_TWO>
__global__ void __launch_bounds__(256, 3) linear_stream_kernel(const __grid_constant__ tile_args a)
{
    using S = stream_shape<NT>;
    constexpr int BRICK = dequant_brick_bytes(BITS, HAS_TWO), AHEAD = stream_ahead(BITS);
    extern __shared__ __align__(128) uint8_t shared[];
    tile_job job;
    if (!tile_job_init<S::COLUMNS>(job, a, blockIdx.x, blockIdx.y)) return;
    const tile_part &p = a.part[job.part];
    const tile_rows rows = job.rows;
    const int first = job.first, end = job.end;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    /* Outputs beyond N read the last block, and are not stored. */
    int64_t block = tile_block<S::BLOCKS>(p, job.group, warp);
    int64_t from = min(block, (p.N + PICK_BRICK_N - 1) / PICK_BRICK_N - 1) * a.n_bricks + first;
    stream_source<BITS> source = stream_source_init<BITS>(
        p.bricks[tile_half<S::BLOCKS>(p, warp)] + rows.expert * p.expert_bytes + from * BRICK);
    stream_brick<BITS, HAS_TWO> w[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
        if (first + j < end) stream_load<BITS, HAS_TWO>(w[j], source, j);
    }
    stream_load_x<NT>(shared, a, rows, first, end);
    copy_async_commit();
    float acc[1][NT][4] = {}, total[1][NT][4];
    int left = p.slice_bricks, n = 0;
    bool is_first = true, is_odd = false;
    for (int chunk = first; chunk < end; chunk += n) {
        n = min(min(static_cast<int>(STREAM_X_BRICKS), left), end - chunk);
        const uint8_t *x = shared + is_odd * S::CHUNK_BYTES;
        is_odd = !is_odd;
        copy_async_wait<0>();
        tile_sync<S::THREADS>(); /* this chunk has arrived; the one before has been read by all */
        stream_load_x<NT>(shared + is_odd * S::CHUNK_BYTES, a, rows, chunk + n, end);
        copy_async_commit();
#pragma unroll
        for (int j = 0; j < STREAM_X_BRICKS; j++) {
            if (j >= n) break;
            uint32_t b[2][NT][4];
#pragma unroll
            for (int v = 0; v < 2 * NT; v++) {
                int row = v % NT * 8 + (lane & 7), piece = v / NT * 4 + (lane >> 3);
                load_matrix_x4(b[v / NT][v % NT], x + j * S::BRICK_BYTES + row * TILE_X_ROW_BYTES +
                                                      ((piece ^ (lane & 7)) << 4));
            }
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
    if (p.is_split) {
        int tile = job.group + p.n_groups * blockIdx.y;
        if (!tile_merge<S::THREADS, NT>(tile_flat(total), a, p, tile, job.slice)) return;
    }
    if (p.out == TILE_OUT_SWIGLU) {
        float up[NT][4];
        stream_hand_up<NT>(total[0], up, reinterpret_cast<float4 *>(shared));
        if (warp < 4) tile_store<NT>(total[0], up, a, p, block, 0, rows);
    } else {
        tile_store<NT>(total[0], nullptr, a, p, block, 0, rows);
    }
}

#endif
