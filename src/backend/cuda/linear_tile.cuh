/* linear_tile.cuh: the kernel of linear_tile_priv.h; instantiated once a width in linear_bits*.cu.
 */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_TILE_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_TILE_CUH

#include "backend/cuda/act.cuh"
#include "backend/cuda/dequant.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/linear_tile_priv.h"
#include "backend/cuda/mma.cuh"
#include "backend/cuda/vec_load.cuh"

enum {
    TILE_X_ROW_BYTES = PICK_BRICK_K * 2,
};

/* WN column warps, each NT * 8 rows of x wide; 4 warps along N, each with two 16-output blocks. */
template <int BITS, int NT, int WN> struct tile_shape {
    static constexpr int BLOCKS = PICK_GROUP_N / PICK_BRICK_N; /* 16-output blocks of a tile: 8 */
    static constexpr int COLUMNS = 8 * NT * WN, THREADS = 128 * WN;
    static constexpr int BRICK = dequant_brick_bytes(BITS, true); /* room for a brick */
    static constexpr int X_BYTES = COLUMNS * TILE_X_ROW_BYTES;
    static constexpr int STAGE = X_BYTES + BLOCKS * BRICK;
    /* Enough bytes under way to cover memory latency with a few blocks a processor. */
    static constexpr int STAGES = STAGE <= 8192 ? 6 : 4;
    static constexpr int SHARED = STAGE * STAGES;
    static constexpr int X_UNITS = (COLUMNS * 8 + THREADS - 1) / THREADS;
    static constexpr int W_UNITS = BLOCKS * BRICK / 16;
    static constexpr int W_TURNS = (W_UNITS + THREADS - 1) / THREADS;
};

/* What a thread copies for every brick: where its 16-byte pieces lie at brick 0. TILE_NOTHING
 * stands for zeros: a row that is not there, outputs beyond N. */
enum : uint32_t { TILE_NOTHING = 0xffffffffu };
template <class S> struct tile_loader {
    uint32_t x[S::X_UNITS]; /* elements behind p.x */
    uint32_t w[S::W_TURNS]; /* 16 bytes behind p.bricks of the piece's half */
};

/* Of a tile with BLOCKS 16-output blocks: which of the weight's is block b, and of which half. */
template <int BLOCKS> __device__ static inline int tile_half(const tile_part &p, int b)
{
    return p.bricks[1] && b >= BLOCKS / 2;
}
template <int BLOCKS>
__device__ static inline int64_t tile_block(const tile_part &p, int group, int b)
{
    if (!p.bricks[1]) return int64_t(group) * BLOCKS + b;
    return int64_t(group) * (BLOCKS / 2) + (b >= BLOCKS / 2 ? b - BLOCKS / 2 : b);
}

/* What a block does: a tile of a part, over bricks first .. end - 1. */
struct tile_job {
    tile_rows rows;
    int part, group, slice, first, end;
    int tile; /* number of the tile in its part */
};

/* The part that this block works for. */
__device__ static inline int tile_part_of(const tile_args &a)
{
    int part = 0;
    while (part + 1 < a.n_parts && static_cast<int>(blockIdx.x) >= a.part[part + 1].block_begin)
        part++;
    return part;
}

/* Of a grid of all parts' tiles, with slices where split; ROWS_FIRST: neighbours are tiles of rows,
 * else tiles along N. False when the block has no rows: tiles that experts did not need. */
template <int COLUMNS, bool ROWS_FIRST>
__device__ static inline bool tile_job_init(tile_job &j, const tile_args &a)
{
    j.part = tile_part_of(a);
    const tile_part &p = a.part[j.part];
    int block = blockIdx.x - p.block_begin;
    int n_along = p.n_groups * (p.is_split ? p.slices : 1);
    int row_tile = ROWS_FIRST ? block % p.row_tiles : block / n_along;
    block = ROWS_FIRST ? block / p.row_tiles : block % n_along;
    j.rows = {0, row_tile * COLUMNS, 0};
    if (p.tiles) {
        /* Past the first-level cache, which a launch that does not wait for its tiles may find
         * filled by an earlier one; both words at once, there is room behind the last tile. */
        const int *tile = reinterpret_cast<const int *>(p.tiles + row_tile);
        int n_tiles = __ldcg(p.n_tiles);
        j.rows = {__ldcg(tile), __ldcg(tile + 1), __ldcg(tile + 2)};
        if (row_tile >= n_tiles) return false;
    } else {
        j.rows.count = min(COLUMNS, p.T - j.rows.begin);
        if (j.rows.count <= 0) return false; /* fills up a cluster */
    }
    j.group = p.is_split ? block / p.slices : block;
    j.slice = p.is_split ? block % p.slices : 0;
    j.first = j.slice * p.slice_bricks;
    j.end = p.is_split ? min(p.n_bricks, j.first + p.slice_bricks) : p.n_bricks;
    j.tile = j.group + p.n_groups * row_tile;
    return true;
}

template <int BITS, class S>
__device__ static inline void tile_loader_init(tile_loader<S> &l, const tile_args &a,
                                               const tile_part &p, int group, tile_rows rows)
{
    int tid = threadIdx.x;
    int64_t n_blocks = (p.N + PICK_BRICK_N - 1) / PICK_BRICK_N;
#pragma unroll
    for (int j = 0; j < S::X_UNITS; j++) {
        int row = (tid + j * S::THREADS) >> 3;
        l.x[j] = TILE_NOTHING;
        if (row < rows.count) {
            int64_t from = rows.begin + row;
            if (p.x_row) from = p.x_row[from];
            l.x[j] = static_cast<uint32_t>(from * p.K + (tid & 7) * 8);
        }
    }
#pragma unroll
    for (int j = 0; j < S::W_TURNS; j++) {
        /* Units of a block are dealt out as if a brick filled its room. */
        int unit = tid + j * S::THREADS, b = unit / (S::BRICK / 16), piece = unit % (S::BRICK / 16);
        int64_t block = tile_block<S::BLOCKS>(p, group, b & (S::BLOCKS - 1));
        l.w[j] = TILE_NOTHING;
        if (unit < S::W_UNITS && block < n_blocks && piece * 16 < a.brick_bytes) {
            int64_t at = rows.expert * p.expert_bytes + block * p.n_bricks * a.brick_bytes;
            l.w[j] = static_cast<uint32_t>(at / 16 + piece);
        }
    }
}

/* 8 values of a row that may be unaligned or end inside the piece. */
__device__ static inline uint4 tile_load_odd(const bf16 *x, int n_left)
{
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t lo = 2 * i < n_left ? __bfloat16_as_ushort(x[2 * i]) : 0;
        uint32_t hi = 2 * i + 1 < n_left ? __bfloat16_as_ushort(x[2 * i + 1]) : 0;
        w[i] = lo | hi << 16;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

/* Start the copies of brick kb into `stage`: x (rows of 128 bytes, 16-byte pieces swizzled by the
 * row so that ldmatrix meets all banks), codes, scales. */
template <int BITS, class S>
__device__ static inline void tile_load(const tile_loader<S> &l, const tile_args &a,
                                        const tile_part &p, uint8_t *stage, int kb)
{
    int tid = threadIdx.x;
    int k = kb * PICK_BRICK_K + (tid & 7) * 8;
#pragma unroll
    for (int j = 0; j < S::X_UNITS; j++) {
        int row = (tid + j * S::THREADS) >> 3;
        if (S::COLUMNS * 8 < S::THREADS && row >= S::COLUMNS) break;
        uint8_t *to = stage + row * TILE_X_ROW_BYTES + (((tid & 7) ^ (row & 7)) << 4);
        bool on = l.x[j] != TILE_NOTHING && k < p.K;
        const bf16 *from = p.x + (on ? l.x[j] + int64_t(kb) * PICK_BRICK_K : 0);
        if (!p.is_x_odd) {
            copy_async_16(to, from, on);
        } else {
            int left = static_cast<int>(p.K) - k;
            *reinterpret_cast<uint4 *>(to) = tile_load_odd(from, on ? min(left, 8) : 0);
        }
    }
#pragma unroll
    for (int j = 0; j < S::W_TURNS; j++) {
        int unit = tid + j * S::THREADS;
        if (S::W_UNITS % S::THREADS && unit >= S::W_UNITS) break;
        bool on = l.w[j] != TILE_NOTHING;
        int64_t at = on ? l.w[j] + int64_t(kb) * (a.brick_bytes / 16) : 0;
        const uint8_t *base = p.bricks[tile_half<S::BLOCKS>(p, unit / (S::BRICK / 16))];
        copy_async_16(stage + S::X_BYTES + unit * 16, base + at * 16, on);
    }
}

/* acc += the brick in `stage`: per half brick two k16 steps, ascending. */
template <int BITS, int NT, int WN>
__device__ static inline void tile_step(float (&acc)[2][NT][4], const uint8_t *stage,
                                        bool has_two_groups)
{
    using S = tile_shape<BITS, NT, WN>;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, wn = warp & 3, wc = warp >> 2;
    const uint8_t *brick[2] = {stage + S::X_BYTES + wn * S::BRICK,
                               stage + S::X_BYTES + (4 + wn) * S::BRICK};
    lane_codes<BITS == DEQUANT_BF16 ? 4 : BITS> codes[2];
    lane_scales scales[2];
    if constexpr (BITS != DEQUANT_BF16) {
#pragma unroll
        for (int i = 0; i < 2; i++) codes[i] = dequant_load<BITS>(brick[i], lane);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t b[NT][4];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int row = (wc * NT + n) * 8 + (lane & 7), piece = h * 4 + (lane >> 3);
            load_matrix_x4(b[n], stage + row * TILE_X_ROW_BYTES + ((piece ^ (lane & 7)) << 4));
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if constexpr (BITS != DEQUANT_BF16) {
                if (h == 0 || has_two_groups) {
                    scales[i] = dequant_scales(*reinterpret_cast<const uint2 *>(
                        brick[i] + dequant_code_bytes(BITS) + h * DEQUANT_SCALE_BYTES +
                        (lane >> 2) * 8));
                }
            }
#pragma unroll
            for (int s = 0; s < 2; s++) {
                uint32_t frag[4];
                if constexpr (BITS == DEQUANT_BF16) {
                    load_words<4>(frag, brick[i] + (h * 2 + s) * 512 + lane * 16);
                } else {
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        frag[j] = dequant_pair<BITS>(codes[i], (h * 2 + s) * 4 + j,
                                                     scales[i].scale[j & 1], scales[i].bias[j & 1]);
                    }
                }
#pragma unroll
                for (int n = 0; n < NT; n++)
                    mma_bf16(acc[i][n], frag, b[n][2 * s], b[n][2 * s + 1]);
            }
        }
    }
}

/* Write the finished sums of one 16-output block, for the 8 NT columns from `column` on, `skip`
 * values behind their place. With `up` they are a gate's, and up's are its own. */
template <int NT>
__device__ static inline void tile_store(const float (&sum)[NT][4], const float (*up)[4],
                                         const tile_part &p, int64_t block, int column,
                                         tile_rows rows, int64_t skip = 0)
{
    int lane = threadIdx.x & 31;
    int64_t n = block * PICK_BRICK_N + (lane >> 2);
    column += (lane & 3) * 2;
    float times = p.times[0], up_times = p.times[1];
#pragma unroll
    for (int v = 0; v < NT * 2; v++) {
        int at = column + v / 2 * 8 + (v & 1);
        if (at >= rows.count) break; /* columns ascend */
        int64_t row = rows.begin + at;
        if (p.y_row) row = p.y_row[row];
        int64_t to = row * p.N + n + skip;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if (n + r * 8 >= p.N) continue;
            float s = sum[v / 2][r * 2 + (v & 1)] * times;
            if (up) s = act_silu(s) * (up[v / 2][r * 2 + (v & 1)] * up_times);
            if (p.out == LINEAR_F32) {
                static_cast<float *>(p.y)[to + r * 8] = s;
            } else if (p.out == LINEAR_ADD) {
                static_cast<float *>(p.y)[to + r * 8] += s;
            } else {
                static_cast<bf16 *>(p.y)[to + r * 8] = __float2bfloat16_rn(s);
            }
        }
    }
}

/* Both blocks of a warp: two blocks of outputs, or gate and up of the same. */
template <int NT>
__device__ static inline void tile_store_two(const float (&sum)[2][NT][4], const tile_part &p,
                                             int64_t block0, int64_t block1, int column,
                                             tile_rows rows)
{
    if (p.out == TILE_OUT_SWIGLU) {
        tile_store<NT>(sum[0], sum[1], p, block0, column, rows);
    } else {
        tile_store<NT>(sum[0], nullptr, p, block0, column, rows);
        tile_store<NT>(sum[1], nullptr, p, block1, column, rows);
    }
}

/* A barrier of the THREADS threads that compute: a block may have others. */
template <int THREADS> __device__ static inline void tile_sync()
{
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

/* A pair's up sums (the second half of the computing warps) to the warps of its gate (the first),
 * half threads of either, through shared memory that all have read for the last time. sync(): a
 * barrier of those threads. */
template <int NT, class Sync>
__device__ static inline void tile_hand_up(const float (&sum)[NT][4], float (&up)[NT][4],
                                           float4 *shared, int half, Sync sync)
{
    bool is_up = threadIdx.x >= half;
    int tid = is_up ? threadIdx.x - half : threadIdx.x;
    sync();
#pragma unroll
    for (int c = 0; c < NT; c++) {
        if (is_up) shared[c * half + tid] = make_float4(sum[c][0], sum[c][1], sum[c][2], sum[c][3]);
    }
    sync(); /* up's sums are there */
#pragma unroll
    for (int c = 0; c < NT; c++) {
        float4 v = shared[c * half + tid];
        up[c][0] = v.x, up[c][1] = v.y, up[c][2] = v.z, up[c][3] = v.w;
    }
}

/* Where a thread's sums of slice 0 of a split tile lie; four by four, THREADS fours apart. */
template <int THREADS, int FOURS>
__device__ static inline float *tile_partial(const tile_args &a, const tile_part &p, int tile)
{
    return a.partial + p.partial_begin + int64_t(tile) * p.slices * (THREADS * FOURS * 4) +
           threadIdx.x * 4;
}

template <int THREADS, int FOURS>
__device__ static inline void tile_leave(const float (&sum)[FOURS * 4], float *at, int slice)
{
    at += int64_t(slice) * (THREADS * FOURS * 4);
#pragma unroll
    for (int v = 0; v < FOURS; v++) {
        const float *s = &sum[v * 4];
        *reinterpret_cast<float4 *>(at + v * THREADS * 4) = make_float4(s[0], s[1], s[2], s[3]);
    }
}

/* Fours [from, from + N) of a thread, all slices added in order. */
template <int THREADS, int FOURS, int N>
__device__ static inline void tile_gather(float (&sum)[N * 4], const float *at, int from,
                                          int slices)
{
#pragma unroll
    for (int v = 0; v < N; v++) {
        const float *p = at + (from + v) * (THREADS * 4);
        float4 t = __ldcg(reinterpret_cast<const float4 *>(p));
#pragma unroll 4
        for (int s = 1; s < slices; s++) {
            float4 u = __ldcg(
                reinterpret_cast<const float4 *>(p + int64_t(s) * (THREADS * FOURS * 4)));
            t.x += u.x, t.y += u.y, t.z += u.z, t.w += u.w;
        }
        sum[v * 4] = t.x, sum[v * 4 + 1] = t.y, sum[v * 4 + 2] = t.z, sum[v * 4 + 3] = t.w;
    }
}

/* Split: leave this slice's sums in memory; the block that arrives last at the tile's counter adds
 * all slices in order. True for that block. */
template <int THREADS, int FOURS>
__device__ static inline bool tile_merge(float (&sum)[FOURS * 4], const tile_args &a,
                                         const tile_part &p, int tile, int slice)
{
    __shared__ int is_last;
    float *at = tile_partial<THREADS, FOURS>(a, p, tile);
    tile_leave<THREADS, FOURS>(sum, at, slice);
    __threadfence(); /* the sums are visible before the count says so */
    tile_sync<THREADS>();
    if (threadIdx.x == 0) {
        uint32_t *counter = a.counters + p.counter_begin + tile;
        is_last = atomicAdd(counter, 1u) == static_cast<uint32_t>(p.slices - 1);
        if (is_last) *counter = 0; /* all have counted: zero for the next op */
    }
    tile_sync<THREADS>();
    if (!is_last) return false;
    __threadfence();
    tile_gather<THREADS, FOURS, FOURS>(sum, at, 0, p.slices);
    return true;
}

/* total = s, or total + s for a slice that is not the first; s starts over. */
template <int N>
__device__ static inline void tile_add_slice(float (&total)[N], float (&s)[N], bool is_first)
{
#pragma unroll
    for (int v = 0; v < N; v++) {
        total[v] = is_first ? s[v] : total[v] + s[v];
        s[v] = 0.0f;
    }
}

/* Sums as the flat array that the two functions above take. */
template <int A, int B> __device__ static inline float (&tile_flat(float (&s)[A][B][4]))[A * B * 4]
{
    return reinterpret_cast<float(&)[A * B * 4]>(s);
}

/* linear_tile_kernel: one slice, or all slices, of one tile.
 *
 * Does     ops.h:linear_args, linear_swiglu_args and the experts of moe_ffn_args
 * Grid     tiles along N (x slices where split) x tiles of rows, of all parts; block 128 WN
 * Shared   STAGES bricks of 8 output blocks, their scales, and the same K of x
 * Needs    weights in bricks (dequant.cuh); rows of x in 16-byte pieces unless is_x_odd
 * Moves    each weight byte once per tile of rows, x once per 128 outputs
 * Numbers  bf16 x bf16 products, f32 sums in the order of linear_tile_priv.h
 * Chosen   cuda_pick_tile: many rows, where there is no wgmma
 * Why      The weight is A: a lane's 16-byte load then is a whole brick's share in registers, and
 *          8 rows of x cost no more than one. Every tile width runs the same chain per output. */
template <int BITS, int NT, int WN>
__global__ void __launch_bounds__(128 * WN) linear_tile_kernel(const __grid_constant__ tile_args a)
{
    using S = tile_shape<BITS, NT, WN>;
    extern __shared__ __align__(128) uint8_t shared[];
    launch_next();
    launch_wait();
    tile_job job;
    if (!tile_job_init<S::COLUMNS, false>(job, a)) return;
    const tile_part &p = a.part[job.part];
    const int first = job.first, end = job.end;

    tile_loader<S> loader;
    tile_loader_init<BITS, S>(loader, a, p, job.group, job.rows);
    float acc[2][NT][4] = {}, total[2][NT][4];
#pragma unroll
    for (int s = 0; s < S::STAGES - 1; s++) {
        if (first + s < end) tile_load<BITS, S>(loader, a, p, shared + s * S::STAGE, first + s);
        copy_async_commit();
    }
    int at = 0, left = p.slice_bricks;
    bool is_first = true;
    for (int kb = first; kb < end; kb++) {
        copy_async_wait<S::STAGES - 2>();
        __syncthreads(); /* brick kb has arrived for all; brick kb-1 has been read by all */
        int ahead = kb + S::STAGES - 1;
        if (ahead < end) {
            int to = at == 0 ? S::STAGES - 1 : at - 1;
            tile_load<BITS, S>(loader, a, p, shared + to * S::STAGE, ahead);
        }
        copy_async_commit();
        tile_step<BITS, NT, WN>(acc, shared + at * S::STAGE, a.has_two_groups);
        at = at + 1 == S::STAGES ? 0 : at + 1;
        if (--left == 0 || kb + 1 == end) {
            tile_add_slice(tile_flat(total), tile_flat(acc), is_first);
            left = p.slice_bricks;
            is_first = false;
        }
    }
    if (p.is_split) {
        if (!tile_merge<S::THREADS, 2 * NT>(tile_flat(total), a, p, job.tile, job.slice)) return;
    }
    int wn = threadIdx.x >> 5 & 3, wc = threadIdx.x >> 7;
    tile_store_two<NT>(total, p, tile_block<S::BLOCKS>(p, job.group, wn),
                       tile_block<S::BLOCKS>(p, job.group, 4 + wn), wc * NT * 8, job.rows);
}

#endif
