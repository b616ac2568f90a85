/* linear_tile.cuh: the kernel of linear_tile_priv.h; instantiated once a width in linear_bits*.cu. */
#ifndef RIPTIDE_BACKEND_CUDA_LINEAR_TILE_CUH
#define RIPTIDE_BACKEND_CUDA_LINEAR_TILE_CUH

#include "backend/cuda/act.cuh"
#include "backend/cuda/dequant.cuh"
#include "backend/cuda/linear_tile_priv.h"
#include "backend/cuda/mma.cuh"
#include "backend/cuda/vec_load.cuh"

enum {
    TILE_BLOCKS = PICK_GROUP_N / PICK_BRICK_N, /* 16-output blocks of a tile: 8 */
    TILE_SCALE_STRIDE = 2 * DEQUANT_SCALE_BYTES, /* of a block in a stage: two groups of 32 */
    TILE_X_ROW_BYTES = PICK_BRICK_K * 2,
};

/* WN column warps, each NT * 8 rows of x wide; 4 warps along N, each with two 16-output blocks. */
template <int BITS, int NT, int WN> struct tile_shape {
    static constexpr int COLUMNS = 8 * NT * WN, THREADS = 128 * WN;
    static constexpr int BRICK = dequant_brick_bytes(BITS);
    static constexpr int X_BYTES = COLUMNS * TILE_X_ROW_BYTES;
    static constexpr int CODE_BYTES = TILE_BLOCKS * BRICK;
    static constexpr int SCALE_BYTES = BITS == DEQUANT_BF16 ? 0 : TILE_BLOCKS * TILE_SCALE_STRIDE;
    static constexpr int STAGE = X_BYTES + CODE_BYTES + SCALE_BYTES;
    /* Enough bytes under way to cover memory latency with a few blocks a processor. */
    static constexpr int STAGES = STAGE <= 8192 ? 6 : 4;
    static constexpr int SHARED = STAGE * STAGES;
    static constexpr int X_UNITS = (COLUMNS * 8 + THREADS - 1) / THREADS;
    static constexpr int CODE_UNITS = CODE_BYTES / 16;
    static constexpr int CODE_TURNS = (CODE_UNITS + THREADS - 1) / THREADS;
};

/* What a thread copies for every brick: fixed pointers that advance along K. */
template <class S> struct tile_loader {
    const bf16 *x[S::X_UNITS];              /* NULL: a row that is not there, zeros */
    const uint8_t *codes[S::CODE_TURNS];    /* NULL: outputs beyond N, zeros */
    const uint8_t *scales;                  /* this thread's 16 bytes at group 0, or NULL */
};

/* Of a part's tile: which 16-output block is block b (0..7), and of which half. */
__device__ static inline int tile_half(const tile_part &p, int b)
{
    return p.codes[1] && b >= TILE_BLOCKS / 2;
}
__device__ static inline int64_t tile_block(const tile_part &p, int group, int b)
{
    return p.codes[1] ? int64_t(group) * (TILE_BLOCKS / 2) + (b & (TILE_BLOCKS / 2 - 1))
                      : int64_t(group) * TILE_BLOCKS + b;
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
        l.x[j] = nullptr;
        if (row < rows.count) {
            int64_t from = rows.begin + row;
            if (a.x_row) from = a.x_row[from];
            l.x[j] = a.x + from * a.ldx + (tid & 7) * 8;
        }
    }
#pragma unroll
    for (int j = 0; j < S::CODE_TURNS; j++) {
        int unit = tid + j * S::THREADS, b = unit / (S::BRICK / 16);
        int64_t block = tile_block(p, group, b & (TILE_BLOCKS - 1));
        l.codes[j] = nullptr;
        if (unit < S::CODE_UNITS && block < n_blocks) {
            l.codes[j] = p.codes[tile_half(p, b)] + rows.expert * p.expert_codes +
                         block * a.n_bricks * S::BRICK + unit % (S::BRICK / 16) * 16;
        }
    }
    l.scales = nullptr;
    if constexpr (BITS != DEQUANT_BF16) {
        /* 8 blocks x 8 pieces; the last 4 of a block are its second group, for groups of 32. */
        int b = tid >> 3, piece = tid & 7;
        if (tid < 8 * TILE_BLOCKS && (piece < 4 || a.scale_shift < 6)) {
            int64_t block = tile_block(p, group, b);
            if (block < n_blocks) {
                l.scales = p.scales[tile_half(p, b)] + rows.expert * p.expert_scales +
                           block * a.n_scale_groups * DEQUANT_SCALE_BYTES + piece * 16;
            }
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
__device__ static inline void tile_load(const tile_loader<S> &l, const tile_args &a, uint8_t *stage,
                                        int kb)
{
    int tid = threadIdx.x;
    int64_t k = int64_t(kb) * PICK_BRICK_K + (tid & 7) * 8;
#pragma unroll
    for (int j = 0; j < S::X_UNITS; j++) {
        int row = (tid + j * S::THREADS) >> 3;
        if (S::COLUMNS * 8 < S::THREADS && row >= S::COLUMNS) break;
        uint8_t *to = stage + row * TILE_X_ROW_BYTES + (((tid & 7) ^ (row & 7)) << 4);
        bool on = l.x[j] && k < a.K;
        const bf16 *from = on ? l.x[j] + int64_t(kb) * PICK_BRICK_K : a.x;
        if (!a.is_x_odd) {
            copy_async_16(to, from, on);
        } else {
            int64_t left = a.K - k;
            *reinterpret_cast<uint4 *>(to) =
                tile_load_odd(from, on ? static_cast<int>(left < 8 ? left : 8) : 0);
        }
    }
#pragma unroll
    for (int j = 0; j < S::CODE_TURNS; j++) {
        int unit = tid + j * S::THREADS;
        if (S::CODE_UNITS % S::THREADS && unit >= S::CODE_UNITS) break;
        bool on = l.codes[j] != nullptr;
        copy_async_16(stage + S::X_BYTES + unit * 16,
                      on ? l.codes[j] + int64_t(kb) * S::BRICK : reinterpret_cast<const uint8_t *>(a.x),
                      on);
    }
    if constexpr (BITS != DEQUANT_BF16) {
        if (tid < 8 * TILE_BLOCKS) {
            int64_t group = (int64_t(kb) * PICK_BRICK_K) >> a.scale_shift;
            bool on = l.scales != nullptr;
            copy_async_16(stage + S::X_BYTES + S::CODE_BYTES + tid * 16,
                          on ? l.scales + group * DEQUANT_SCALE_BYTES
                             : reinterpret_cast<const uint8_t *>(a.x),
                          on);
        }
    }
}

/* acc += the brick in `stage`: per half brick two k16 steps, ascending. */
template <int BITS, int NT, int WN>
__device__ static inline void tile_step(float (&acc)[2][NT][4], const uint8_t *stage,
                                        bool has_two_groups)
{
    using S = tile_shape<BITS, NT, WN>;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, wn = warp & 3, wc = warp >> 2;
    const uint8_t *codes_at = stage + S::X_BYTES, *scales_at = codes_at + S::CODE_BYTES;
    lane_codes<BITS == DEQUANT_BF16 ? 4 : BITS> codes[2];
    __nv_bfloat162 scale[2][2], bias[2][2];
    if constexpr (BITS != DEQUANT_BF16) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            codes[i] = dequant_load<BITS>(codes_at + (i * 4 + wn) * S::BRICK, lane);
        }
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
                    const uint8_t *at = scales_at + (i * 4 + wn) * TILE_SCALE_STRIDE +
                                        h * DEQUANT_SCALE_BYTES + (lane >> 2) * 8;
                    uint2 v = *reinterpret_cast<const uint2 *>(at);
                    scale[i][0] = as_pair(__byte_perm(v.x, 0, 0x1010));
                    bias[i][0] = as_pair(__byte_perm(v.x, 0, 0x3232));
                    scale[i][1] = as_pair(__byte_perm(v.y, 0, 0x1010));
                    bias[i][1] = as_pair(__byte_perm(v.y, 0, 0x3232));
                }
            }
#pragma unroll
            for (int s = 0; s < 2; s++) {
                uint32_t frag[4];
                if constexpr (BITS == DEQUANT_BF16) {
                    load_words<4>(frag, codes_at + (i * 4 + wn) * S::BRICK + (h * 2 + s) * 512 +
                                            lane * 16);
                } else {
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        frag[j] = dequant_pair<BITS>(codes[i], (h * 2 + s) * 4 + j,
                                                     scale[i][j & 1], bias[i][j & 1]);
                    }
                }
#pragma unroll
                for (int n = 0; n < NT; n++) mma_bf16(acc[i][n], frag, b[n][2 * s], b[n][2 * s + 1]);
            }
        }
    }
}

/* Write a tile's finished sums. */
template <int NT>
__device__ static inline void tile_store(const float (&sum)[2][NT][4], const tile_args &a,
                                         const tile_part &p, int group, tile_rows rows)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, wn = warp & 3, wc = warp >> 2;
#pragma unroll
    for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int c = 0; c < 4; c++) {
            int column = (wc * NT + n) * 8 + (lane & 3) * 2 + (c & 1);
            if (column >= rows.count) continue;
            int64_t row = rows.begin + column;
            if (a.y_row) row = a.y_row[row];
            if (p.out == TILE_OUT_SWIGLU) {
                int64_t at = tile_block(p, group, wn) * 16 + (lane >> 2) + (c >> 1) * 8;
                if (at < p.N) {
                    static_cast<bf16 *>(p.y)[row * p.N + at] =
                        __float2bfloat16_rn(act_silu(sum[0][n][c]) * sum[1][n][c]);
                }
                continue;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int64_t at = tile_block(p, group, i * 4 + wn) * 16 + (lane >> 2) + (c >> 1) * 8;
                if (at >= p.N) continue;
                int64_t to = row * p.N + at;
                if (p.out == LINEAR_ACT) {
                    static_cast<bf16 *>(p.y)[to] = __float2bfloat16_rn(sum[i][n][c]);
                } else if (p.out == LINEAR_F32) {
                    static_cast<float *>(p.y)[to] = sum[i][n][c];
                } else {
                    static_cast<float *>(p.y)[to] += sum[i][n][c];
                }
            }
        }
    }
}

/* Split: leave this slice's sums in memory; the block that arrives last at the tile's counter
 * adds all slices in order. True for that block. */
template <int NT, int WN>
__device__ static inline bool tile_merge(float (&sum)[2][NT][4], const tile_args &a,
                                         const tile_part &p, int tile, int slice)
{
    constexpr int THREADS = 128 * WN;
    constexpr int64_t SLICE_FLOATS = int64_t(THREADS) * 2 * NT * 4;
    __shared__ int is_last;
    float *base = a.partial + p.partial_begin + tile * p.slices * SLICE_FLOATS + threadIdx.x * 4;
    float *mine = base + slice * SLICE_FLOATS;
#pragma unroll
    for (int v = 0; v < 2 * NT; v++) {
        const float *s = sum[v / NT][v % NT];
        *reinterpret_cast<float4 *>(mine + v * THREADS * 4) = make_float4(s[0], s[1], s[2], s[3]);
    }
    __threadfence(); /* the sums are visible before the count says so */
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t *counter = a.counters + p.counter_begin + tile;
        is_last = atomicAdd(counter, 1u) == static_cast<uint32_t>(p.slices - 1);
        if (is_last) *counter = 0; /* all have counted: zero for the next op */
    }
    __syncthreads();
    if (!is_last) return false;
    __threadfence();
#pragma unroll
    for (int v = 0; v < 2 * NT; v++) {
        float4 t = __ldcg(reinterpret_cast<const float4 *>(base + v * THREADS * 4));
#pragma unroll 4
        for (int s = 1; s < p.slices; s++) {
            float4 u = __ldcg(
                reinterpret_cast<const float4 *>(base + s * SLICE_FLOATS + v * THREADS * 4));
            t.x += u.x, t.y += u.y, t.z += u.z, t.w += u.w;
        }
        float *s = sum[v / NT][v % NT];
        s[0] = t.x, s[1] = t.y, s[2] = t.z, s[3] = t.w;
    }
    return true;
}

/* linear_tile_kernel: one slice, or all slices, of one tile.
 *
 * Does     ops.h:linear_args, linear_swiglu_args and the experts of moe_ffn_args
 * Grid     (tiles along N x slices where split, of all parts; tiles of rows); block 128 WN
 * Shared   STAGES bricks of 8 output blocks, their scales, and the same K of x
 * Needs    weights in bricks (dequant.cuh); rows of x in 16-byte pieces unless is_x_odd
 * Moves    each weight byte once per tile of rows, x once per 128 outputs
 * Numbers  bf16 x bf16 products, f32 sums in the order of linear_tile_priv.h
 * Chosen   cuda_pick_columns (NT, WN), cuda_pick_is_split
 * Why      The weight is A: a lane's 16-byte load then is a whole brick's share in registers, and
 *          8 rows of x cost no more than one. Every tile width runs the same chain per output. */
template <int BITS, int NT, int WN>
__global__ void __launch_bounds__(128 * WN) linear_tile_kernel(const __grid_constant__ tile_args a)
{
    using S = tile_shape<BITS, NT, WN>;
    extern __shared__ __align__(128) uint8_t shared[];
    tile_rows rows = {0, static_cast<int>(blockIdx.y) * S::COLUMNS, 0};
    if (a.tiles) {
        if (static_cast<int>(blockIdx.y) >= *a.n_tiles) return;
        rows = a.tiles[blockIdx.y];
    } else {
        rows.count = min(S::COLUMNS, a.T - rows.begin);
    }
    int part = 0, block = blockIdx.x;
    while (part + 1 < a.n_parts && block >= a.part[part + 1].block_begin) part++;
    const tile_part &p = a.part[part];
    block -= p.block_begin;
    int group = p.is_split ? block / p.slices : block;
    int slice = p.is_split ? block % p.slices : 0;
    int first = slice * p.slice_bricks;
    int end = p.is_split ? min(a.n_bricks, first + p.slice_bricks) : a.n_bricks;

    tile_loader<S> loader;
    tile_loader_init<BITS, S>(loader, a, p, group, rows);
    float acc[2][NT][4] = {}, total[2][NT][4];
#pragma unroll
    for (int s = 0; s < S::STAGES - 1; s++) {
        if (first + s < end) tile_load<BITS, S>(loader, a, shared + s * S::STAGE, first + s);
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
            tile_load<BITS, S>(loader, a, shared + to * S::STAGE, ahead);
        }
        copy_async_commit();
        tile_step<BITS, NT, WN>(acc, shared + at * S::STAGE, a.scale_shift < 6);
        at = at + 1 == S::STAGES ? 0 : at + 1;
        if (--left == 0 || kb + 1 == end) {
            left = p.slice_bricks;
#pragma unroll
            for (int v = 0; v < 2 * NT * 4; v++) {
                float &t = total[v / (NT * 4)][v / 4 % NT][v % 4];
                float &s = acc[v / (NT * 4)][v / 4 % NT][v % 4];
                t = is_first ? s : t + s;
                s = 0.0f;
            }
            is_first = false;
        }
    }
    if (p.is_split) {
        int tile = group + p.n_groups * blockIdx.y;
        if (!tile_merge<NT, WN>(total, a, p, tile, slice)) return;
    }
    tile_store<NT>(total, a, p, group, rows);
}

template <int BITS, int NT, int WN>
static cudaError_t tile_launch(dim3 grid, const tile_args *a, cudaStream_t stream)
{
    using S = tile_shape<BITS, NT, WN>;
    linear_tile_kernel<BITS, NT, WN><<<grid, S::THREADS, S::SHARED, stream>>>(*a);
    return cudaPeekAtLastError();
}

template <int BITS>
cudaError_t linear_tile_launch(int columns, dim3 grid, const tile_args *a, cudaStream_t stream)
{
    switch (columns) {
    case 8: return tile_launch<BITS, 1, 1>(grid, a, stream);
    case 16: return tile_launch<BITS, 2, 1>(grid, a, stream);
    case 32: return tile_launch<BITS, 4, 1>(grid, a, stream);
    case 64: return tile_launch<BITS, 8, 1>(grid, a, stream);
    default: return tile_launch<BITS, 8, 2>(grid, a, stream);
    }
}

template <int BITS, int NT, int WN> static cudaError_t tile_open(void)
{
    return cudaFuncSetAttribute(linear_tile_kernel<BITS, NT, WN>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                tile_shape<BITS, NT, WN>::SHARED);
}

template <int BITS> cudaError_t linear_tile_open(void)
{
    cudaError_t r = tile_open<BITS, 1, 1>();
    if (r == cudaSuccess) r = tile_open<BITS, 2, 1>();
    if (r == cudaSuccess) r = tile_open<BITS, 4, 1>();
    if (r == cudaSuccess) r = tile_open<BITS, 8, 1>();
    if (r == cudaSuccess) r = tile_open<BITS, 8, 2>();
    return r;
}

#endif
