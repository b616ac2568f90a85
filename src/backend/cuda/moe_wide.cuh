/* moe_wide.cuh: the kernel of moe_wide_priv.h. */
#ifndef RIPTIDE_BACKEND_CUDA_MOE_WIDE_CUH
#define RIPTIDE_BACKEND_CUDA_MOE_WIDE_CUH

#include "backend/cuda/act.cuh"
#include "backend/cuda/dequant.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/moe_wide_priv.h"
#include "backend/cuda/tma.cuh"
#include "backend/cuda/wgmma.cuh"

/* Where rows come from and go to, and 2^k of each weight (dequant.cuh). */
typedef struct {
    const bf16 *x;
    void *y; /* bf16, or f32 */
    float times[2];
} moe_wide_rows;

/* What a launch is for. Two weights: outputs are gate's and up's, half each of a tile. */
typedef struct {
    moe_wide_tiles t;
    moe_wide_rows experts; /* y bf16 by sorted row; f32 by use */
    const int *x_row;      /* of a sorted row; NULL: itself */
    const int *y_row;      /* use of a sorted row, for f32 */
    moe_wide_rows shared;  /* of the shared expert, whose rows are the call's */
    int shared_T, shared_tiles, shared_columns; /* its rows, cut into tiles before the experts' */
    int slice_stages; /* of its slices, when they are several (dense weights'); else 0 */
    int64_t N, K;
    int n_blocks; /* of 16 outputs, an expert */
    int n_groups; /* tiles along N */
} moe_wide_args;
enum { MOE_WIDE_SHARED = -1 /* in place of an expert's number */ };

/* Over bricks: rows of 16 outputs' bricks, boxes of two; the second with two weights. */
typedef struct {
    CUtensorMap experts[2], shared[2];
} moe_wide_maps;

/* Two warp groups that compute, each two m64 blocks, and one that copies. A stage is two bricks of
 * K: half as many copies and barriers as with one. */
struct moe_wide_shape {
    static constexpr int COMPUTE = 256, COPY = 128, THREADS = COMPUTE + COPY;
    static constexpr int NT = MOE_WIDE_ROWS / 8, SUMS = NT * 4;
    static constexpr int BLOCKS = 16, STAGE_BRICKS = 2, STAGE_K = STAGE_BRICKS * PICK_BRICK_K;
    static constexpr int BRICK = dequant_brick_bytes(4, false), BRICKS = STAGE_BRICKS * BRICK;
    static constexpr int X_HALF = MOE_WIDE_ROWS * 128, X_BYTES = STAGE_BRICKS * X_HALF;
    static constexpr int W_BYTES = BLOCKS * BRICKS;
    static constexpr int STAGE = X_BYTES + W_BYTES, STAGES = 5;
    static_assert(STAGE % 1024 == 0 && X_HALF % 1024 == 0, "the swizzle counts rows from 1024");
    /* A warp's own, to turn outputs in: 8 rows of 32 f32 and what keeps banks apart, or twice 16
     * rows of 16 bf16. */
    static constexpr int TURN_ROW = 36, TURN = 8 * TURN_ROW * 4;
    static constexpr int COPY_ROWS = MOE_WIDE_ROWS * 8 / COPY; /* rows of x of a copying thread */
    static constexpr int SHARED = STAGES * STAGE + COMPUTE / 32 * TURN + 1024 + 256;
};

#if WGMMA_ON

/* full: a stage has come; empty: all who compute are done. tile: of a stage, {expert, first sorted
 * row, rows, tile along N}; rows 0: there are no more. */
struct moe_wide_shared {
    uint8_t *stages, *turn;
    uint64_t *full, *empty;
    int4 *tile;
    int *next; /* [2] of the copying threads: the tile behind this one, in turns */
};
typedef struct {
    int stage, parity;
} moe_wide_at;

__device__ static inline void moe_wide_step(moe_wide_at &at)
{
    if (++at.stage == moe_wide_shape::STAGES) at.stage = 0, at.parity ^= 1;
}

__device__ static inline moe_wide_shared moe_wide_init(uint8_t *raw)
{
    using S = moe_wide_shape;
    moe_wide_shared s;
    s.stages = raw + (-shared_address(raw) & 1023);
    s.turn = s.stages + S::STAGES * S::STAGE;
    s.tile = reinterpret_cast<int4 *>(s.turn + S::COMPUTE / 32 * S::TURN);
    s.full = reinterpret_cast<uint64_t *>(s.tile + S::STAGES);
    s.empty = s.full + S::STAGES;
    s.next = reinterpret_cast<int *>(s.empty + S::STAGES);
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            tma_barrier_init(&s.full[i], S::COPY + 1);
            tma_barrier_init(&s.empty[i], S::COMPUTE);
        }
        tma_barrier_fence();
    }
    __syncthreads(); /* barriers stand before anyone uses them */
    return s;
}

/* Rows of x that this thread copied are there for the tensor cores. */
template <int PENDING>
__device__ static inline void moe_wide_give(const moe_wide_shared &s, int stage)
{
    copy_async_wait<PENDING>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    tma_arrive(&s.full[stage]);
}

/* Tile `index` of rows: the shared expert's come first, as they are the largest. */
__device__ static inline tile_rows moe_wide_tile(const moe_wide_args &a, int index)
{
    if (index >= a.shared_tiles) return a.t.tiles[index - a.shared_tiles];
    int begin = index * a.shared_columns;
    return tile_rows{MOE_WIDE_SHARED, begin, min(a.shared_columns, a.shared_T - begin)};
}

/* The copying warp group. A thread brings one 16-byte piece of each brick's K of every 16th row, as
 * rows of x lie anywhere; the first thread asks for the bricks. */
template <bool IS_PAIR>
__device__ static inline void moe_wide_copy(const moe_wide_shared &s, const moe_wide_args &a,
                                            const moe_wide_maps &maps)
{
    using S = moe_wide_shape;
    constexpr int WEIGHT_BLOCKS = IS_PAIR ? S::BLOCKS / 2 : S::BLOCKS;
    const int thread = threadIdx.x - S::COMPUTE, row0 = thread >> 3, piece = thread & 7;
    const int to_x = row0 * 128 + ((piece ^ (row0 & 7)) << 4);
    const int n_stages = static_cast<int>(a.K / S::STAGE_K);
    const int n_all = (a.shared_tiles + *a.t.n_tiles) * a.n_groups;
    const uint32_t row_pieces = static_cast<uint32_t>(a.K / 8);
    moe_wide_at at = {0, 1}; /* a fresh barrier counts as being past phase 1 */
    int coming = -1, turn = 0;
    for (int t = blockIdx.x; t < n_all; turn ^= 1) {
        int next = 0;
        if (thread == 0) next = gridDim.x + static_cast<int>(atomicAdd(a.t.next, 1u));
        const int group = t % a.n_groups;
        const tile_rows rows = moe_wide_tile(a, t / a.n_groups);
        const bool is_shared = rows.expert == MOE_WIDE_SHARED;
        uint32_t from[S::COPY_ROWS]; /* 16 bytes behind x */
#pragma unroll
        for (int j = 0; j < S::COPY_ROWS; j++) {
            int row = rows.begin + row0 + 16 * j;
            if (row0 + 16 * j < rows.count && a.x_row && !is_shared) row = a.x_row[row];
            from[j] = static_cast<uint32_t>(row) * row_pieces + piece;
        }
        const int block = (is_shared ? 0 : rows.expert * a.n_blocks) + group * WEIGHT_BLOCKS;
        const char *x = reinterpret_cast<const char *>(is_shared ? a.shared.x : a.experts.x);
        const CUtensorMap *map = is_shared ? maps.shared : maps.experts;
        for (int n = 0; n < n_stages; n++) {
            uint8_t *to = s.stages + at.stage * S::STAGE;
            tma_wait(&s.empty[at.stage], at.parity);
            if (thread == 0) {
                uint64_t *full = &s.full[at.stage];
                s.tile[at.stage] = make_int4(rows.expert, rows.begin, rows.count, group);
                tma_arrive_expect(full, S::W_BYTES);
                tma_copy_box(to + S::X_BYTES, map, n * (S::BRICKS / 8), block, full);
                if (IS_PAIR) {
                    tma_copy_box(to + S::X_BYTES + S::W_BYTES / 2, map + 1, n * (S::BRICKS / 8),
                                 block, full);
                }
            }
#pragma unroll
            for (int h = 0; h < S::STAGE_BRICKS; h++)
#pragma unroll
                for (int j = 0; j < S::COPY_ROWS; j++) {
                    if (row0 + 16 * j >= rows.count) break;
                    copy_async_16(to + h * S::X_HALF + j * 2048 + to_x,
                                  x + uint64_t(from[j]) * 16 + h * 128, true);
                }
            x += S::STAGE_BRICKS * 128;
            copy_async_commit();
            if (coming >= 0) moe_wide_give<1>(s, coming);
            coming = at.stage;
            moe_wide_step(at);
        }
        if (thread == 0) s.next[turn] = next;
        asm volatile("bar.sync 1, %0;" ::"n"(S::COPY) : "memory");
        t = s.next[turn];
    }
    if (coming >= 0) moe_wide_give<0>(s, coming);
    tma_wait(&s.empty[at.stage], at.parity);
    if (thread == 0) {
        s.tile[at.stage] = make_int4(0, 0, 0, 0);
        tma_arrive(&s.full[at.stage]);
    }
    tma_arrive(&s.full[at.stage]);
}

/* The A fragments of one 16-output block of a brick (wide_dequant), from what was loaded. */
__device__ static inline void moe_wide_widen(uint32_t (&frag)[16], const lane_codes<4> &codes,
                                             uint2 scale_words)
{
    lane_scales scales = dequant_scales(scale_words);
#pragma unroll
    for (int p = 0; p < 16; p++)
        frag[p] = dequant_pair<4>(codes, p, scales.scale[p & 1], scales.bias[p & 1]);
}

/* acc's first 8 NT columns += one 16-output block's brick times rows of x. */
template <int NT>
__device__ static inline void moe_wide_brick(float (&acc)[moe_wide_shape::SUMS],
                                             const uint32_t (&frag)[16], uint64_t rows)
{
    float(&c)[NT * 4] = reinterpret_cast<float(&)[NT * 4]>(acc);
    wgmma_hold(c);
    wgmma_fence();
#pragma unroll
    for (int f = 0; f < 4; f++) wgmma_step(c, &frag[f * 4], rows + f * 2, true);
    wgmma_commit();
}

/* A slice is over: the sums of those before, in the columns that no slice uses, grow by its chain.
 * The last one's go back to the first columns. */
__device__ static inline void moe_wide_fold(float (&acc)[2][moe_wide_shape::SUMS], bool is_first,
                                            bool is_last)
{
    constexpr int HALF = moe_wide_shape::SUMS / 2;
    wgmma_wait<0>();
    wgmma_hold(acc[0]);
    wgmma_hold(acc[1]);
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int v = 0; v < HALF; v++) {
            float sum = is_first ? acc[i][v] : acc[i][HALF + v] + acc[i][v];
            acc[i][HALF + v] = sum;
            acc[i][v] = is_last ? sum : 0.0f;
        }
}

/* A computing warp: all K of a tile of `count` rows. The width is chosen at each brick: a loop for
 * each width makes the assembler run all wgmma one by one (C7512). */
template <bool IS_PAIR>
__device__ static inline void moe_wide_products(float (&acc)[2][moe_wide_shape::SUMS],
                                                const moe_wide_shared &s, moe_wide_at &at,
                                                int n_stages, int count, int slice_stages)
{
    using S = moe_wide_shape;
    uint32_t frag[2][16] = {};
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    /* A warp's blocks: the same of gate and up, or two that follow one another. */
    int first = IS_PAIR ? warp : 2 * warp, second = IS_PAIR ? S::BLOCKS / 2 + warp : first + 1;
    int before = 0;
    for (int n = 0; n < n_stages; n++) {
        const uint8_t *stage = s.stages + at.stage * S::STAGE;
        const uint8_t *w = stage + S::X_BYTES;
        tma_wait(&s.full[at.stage], at.parity);
#pragma unroll
        for (int h = 0; h < S::STAGE_BRICKS; h++) {
            uint64_t rows = wgmma_rows(stage + h * S::X_HALF);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint8_t *brick = w + (i ? second : first) * S::BRICKS + h * S::BRICK;
                lane_codes<4> codes = dequant_load<4>(brick, lane);
                uint2 scales = *reinterpret_cast<const uint2 *>(brick + dequant_code_bytes(4) +
                                                                (lane >> 2) * 8);
                wgmma_wait<1>(); /* the products that read frag[i] last are done */
                /* All of the stage before are done: it may be filled anew (linear_wide.cuh). */
                if (h == 0 && i == 1 && n > 0) tma_arrive(&s.empty[before]);
                wgmma_hold(frag[i]);
                moe_wide_widen(frag[i], codes, scales);
                if (count > 72) {
                    if (count > 80) {
                        moe_wide_brick<12>(acc[i], frag[i], rows);
                    } else {
                        moe_wide_brick<10>(acc[i], frag[i], rows);
                    }
                } else if (count > 48) {
                    if (count > 64) {
                        moe_wide_brick<9>(acc[i], frag[i], rows);
                    } else {
                        moe_wide_brick<8>(acc[i], frag[i], rows);
                    }
                } else if (count > 32) {
                    moe_wide_brick<6>(acc[i], frag[i], rows);
                } else {
                    moe_wide_brick<4>(acc[i], frag[i], rows);
                }
            }
        }
        before = at.stage;
        moe_wide_step(at);
        if (slice_stages > 0 && (n + 1 == n_stages || (n + 1) % slice_stages == 0))
            moe_wide_fold(acc, n < slice_stages, n + 1 == n_stages);
    }
    wgmma_wait<0>();
    wgmma_hold(acc[0]);
    wgmma_hold(acc[1]);
    wgmma_hold(frag[0]);
    wgmma_hold(frag[1]);
    tma_arrive(&s.empty[before]);
}

/* act of a warp's 16 outputs, 16 rows at a time through its own shared memory (wide_leave). */
__device__ static inline void moe_wide_leave_act(const float (&gate)[moe_wide_shape::NT][4],
                                                 const float (&up)[moe_wide_shape::NT][4],
                                                 const moe_wide_rows &rows, int64_t N,
                                                 int64_t block, int begin, int count, uint8_t *own)
{
    int lane = threadIdx.x & 31, row = lane >> 1, half = lane & 1;
    int store = ((lane >> 4) * 8 + (lane & 7)) * 32, store_half = lane >> 3 & 1;
    const float times = rows.times[0], up_times = rows.times[1];
    bf16 *y = static_cast<bf16 *>(rows.y) + (begin + row) * N + block * PICK_BRICK_N + half * 8;
    /* Halves of a row take turns so that 8 rows meet all banks. */
    store += (store_half ^ (lane >> 2 & 1)) << 4;
    int load = row * 32 + ((half ^ (row >> 2 & 1)) << 4);
#pragma unroll
    for (int n = 0; n < moe_wide_shape::NT; n += 2) {
        if (n * 8 >= count) break;
        uint8_t *to = own + (n & 2) * 256;
        uint32_t m[4]; /* rows 8 n .., outputs 0 to 7 and 8 to 15; rows 8 (n + 1) .. */
#pragma unroll
        for (int q = 0; q < 4; q++) {
            float v[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                int at = (q & 1) * 2 + c;
                v[c] = gate[n + q / 2][at] * times;
                v[c] = act_silu(v[c]) * (up[n + q / 2][at] * up_times);
            }
            m[q] = pack_bf16(v[0], v[1]);
        }
        store_matrix_x4_trans(to + store, m);
        __syncwarp();
        if (n * 8 + row < count) {
            *reinterpret_cast<uint4 *>(y + n * 8 * N) = *reinterpret_cast<uint4 *>(to + load);
        }
    }
    __syncwarp(); /* read before the next tile's are written */
}

/* Products of a warp's 32 outputs, 8 rows at a time through its own shared memory: whole lines of
 * y. use: of row lane, lane + 32, ... */
__device__ static inline void moe_wide_leave_products(const float (&sum)[2][moe_wide_shape::NT][4],
                                                      const moe_wide_rows &rows, int64_t N,
                                                      int64_t block, int count,
                                                      const int (&use)[MOE_WIDE_ROWS / 32],
                                                      uint8_t *turn)
{
    constexpr int ROW = moe_wide_shape::TURN_ROW;
    float *own = reinterpret_cast<float *>(turn);
    int lane = threadIdx.x & 31, row = lane >> 3;
    float *store = own + (lane & 3) * 2 * ROW + (lane >> 2);
    const float *load = own + row * ROW + (lane & 7) * 4;
    const float times = rows.times[0];
    float *y = static_cast<float *>(rows.y) + block * PICK_BRICK_N + (lane & 7) * 4;
#pragma unroll
    for (int n = 0; n < moe_wide_shape::NT; n++) {
        if (n * 8 >= count) break;
        __syncwarp(); /* what was there has been read */
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                store[(q & 1) * ROW + i * 16 + (q >> 1) * 8] = sum[i][n][q] * times;
        __syncwarp();
#pragma unroll
        for (int r = 0; r < 8; r += 4) {
            int to = __shfl_sync(0xffffffffu, use[n / 4], n % 4 * 8 + r + row);
            float4 v = *reinterpret_cast<const float4 *>(load + r * ROW);
            if (n * 8 + r + row < count) *reinterpret_cast<float4 *>(y + to * N) = v;
        }
    }
}

template <bool IS_PAIR>
__device__ static inline void moe_wide_compute(const moe_wide_shared &s, const moe_wide_args &a)
{
    using S = moe_wide_shape;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int n_stages = static_cast<int>(a.K / S::STAGE_K);
    uint8_t *own = s.turn + warp * S::TURN;
    moe_wide_at at = {0, 0};
    for (;;) {
        tma_wait(&s.full[at.stage], at.parity);
        const int4 tile = s.tile[at.stage];
        const int begin = tile.y, count = tile.z, group = tile.w;
        if (count == 0) break;
        const bool is_shared = tile.x == MOE_WIDE_SHARED;
        int use[MOE_WIDE_ROWS / 32];
        if (!IS_PAIR) {
#pragma unroll
            for (int j = 0; j < MOE_WIDE_ROWS / 32; j++) {
                use[j] = begin + lane + 32 * j;
                if (!is_shared) use[j] = lane + 32 * j < count ? a.y_row[use[j]] : 0;
            }
        }
        float acc[2][S::SUMS] = {}; /* chains start from zero */
        moe_wide_products<IS_PAIR>(acc, s, at, n_stages, count,
                                   IS_PAIR && is_shared ? a.slice_stages : 0);
        const moe_wide_rows &rows = is_shared ? a.shared : a.experts;
        float(&sum)[2][S::NT][4] = reinterpret_cast<float(&)[2][S::NT][4]>(acc);
        if (IS_PAIR) {
            moe_wide_leave_act(sum[0], sum[1], rows, a.N, group * (S::BLOCKS / 2) + warp, begin,
                               count, own);
        } else if ((group * S::BLOCKS + 2 * warp) * PICK_BRICK_N < a.N) {
            moe_wide_leave_products(sum, rows, a.N, group * S::BLOCKS + 2 * warp, count, use, own);
        }
    }
}
#endif

/* moe_wide_kernel: all tiles of the experts, 256 outputs (half of them up's with IS_PAIR) each.
 *
 * Does     gate, up and act of moe_ffn_args' experts with IS_PAIR; else down's products; and the
 *          shared expert's, as tiles of rows like any other
 * Grid     a block a processor; block 384: warps 0 to 7 compute, 8 to 11 copy
 * Shared   stages of two bricks of 16 output blocks and of the rows of x
 * Needs    see moe_wide_can, moe_wide_can_share; a shared tile whose weight has several slices
 *          fills half the columns at most, as their sums take the others
 * Moves    each weight byte once per tile of rows; rows of x once per 256 outputs
 * Numbers  linear_tile_kernel's, bit for bit
 * Why      A tile's products take as long as filling a pipeline and storing what comes of them:
 *          blocks stay, the next tile's bricks come while the outputs of the last leave. The
 *          wgmma is as wide as a tile's rows need, and rows are read where they lie. */
template <bool IS_PAIR>
__global__ void __launch_bounds__(moe_wide_shape::THREADS, 1)
    moe_wide_kernel(const __grid_constant__ moe_wide_args a,
                    const __grid_constant__ moe_wide_maps maps)
{
#if WGMMA_ON
    extern __shared__ uint8_t shared_raw[];
    launch_next();
    moe_wide_shared s = moe_wide_init(shared_raw);
    launch_wait();
    if (threadIdx.x >= moe_wide_shape::COMPUTE) {
        wgmma_fewer_registers<40>();
        moe_wide_copy<IS_PAIR>(s, a, maps);
    } else {
        wgmma_more_registers<232>();
        moe_wide_compute<IS_PAIR>(s, a);
    }
#endif
}

#endif
