/* attn_priv: the kernels of paged attention, shared with their trial in bench/workshop.
 *
 * attn.cu launches them; attn_tile.cuh holds the arithmetic. */
#ifndef RIPTIDE_BACKEND_CUDA_ATTN_PRIV_CUH
#define RIPTIDE_BACKEND_CUDA_ATTN_PRIV_CUH

#include "backend/cuda/attn_pick_priv.h"
#include "backend/cuda/attn_tile.cuh"
#include "backend/cuda/launch_early.cuh"

typedef struct {
    const bf16 *q, *qg;
    const uint8_t *k, *v;
    const float *k_scale, *v_scale;
    const int32_t *row_lane, *row_pos, *lane_row, *lane_slot, *table;
    bf16 *out;
    /* Split: sums [T, H, n_segments, D] and (max, sum) [T, H, n_segments]. Of a part only its own
     * rows are there, at the place that they have among all. */
    float *part;
    float2 *part_ms;
    float c;    /* scale * log2 e */
    float unit; /* what 1 / sum must be scaled by: 1 / ATTN_INT8_UNIT for int8 */
    int T, L, H, G, table_stride, n_segments;
    int R;           /* H / G */
    uint32_t over_R; /* 2^32 / R, rounded up: pair / R is its high product with pair. R > 1 */
    /* A part of a split run: the tile of block 0 of attn_few.cuh's kernels, and the (row, head) of
     * block 0 of their merge. Else 0. */
    int first_tile, first_head;
    bool has_gate;
} attn_params;

/* R and over_R from H and G. */
static inline void attn_params_set_R(attn_params *p)
{
    p->R = p->H / p->G;
    p->over_R = static_cast<uint32_t>(((uint64_t(1) << 32) + p->R - 1) / p->R);
}

/* Bytes in shared memory and in the cache. */
template <kv_format F> constexpr int attn_shared_bytes = F == KV_INT8 ? 1 : 2;
template <kv_format F> constexpr int attn_cache_bytes = F == KV_INT8 ? 1 : F == KV_BF16 ? 2 : 4;

/* Shared memory of a block, in order: Q, weights, maxima, sums, then STAGES of K, V and scales. */
template <int D, kv_format F, int MT, int MG, int NW> struct attn_layout {
    using shape = attn_shape<D, attn_shared_bytes<F>, NW>;
    static constexpr int ROWS = 16 * MT * MG;
    static constexpr int P = ROWS * shape::Q_STRIDE;
    static constexpr int MAX = P + ROWS * shape::P_STRIDE;
    static constexpr int SUM = MAX + ROWS * ATTN_MEET_ROW;
    static constexpr int STAGE = SUM + ROWS * ATTN_MEET_ROW;
    static constexpr int STAGE_BYTES = 2 * shape::TILE + (F == KV_INT8 ? 2 * OPS_BLOCK * 4 : 0);
    /* Three tiles hide the latency of memory where they cost no second block on the processor. */
    static constexpr int STAGES = F == KV_F32                                ? 2
                                  : MT * MG == 1 || (F == KV_INT8 && MG > 1) ? 3
                                                                             : 2;
    static constexpr int BYTES = STAGE + STAGES * STAGE_BYTES;
};

/* ---- which pairs a block owns ------------------------------------------------------------- */

typedef struct {
    int lane;     /* -1: none */
    int first, n; /* the lane's rows */
    int pair;     /* first (row, head) pair of the tile among the lane's n R */
} attn_place;

/* The lane and tile of block `index` when every lane is cut into tiles of `pairs` pairs. All
 * lanes of a warp take part and get the same answer. */
__device__ static inline attn_place attn_find(const int32_t *lane_row, int L, int R, int pairs,
                                              int index)
{
    attn_place at = {-1, 0, 0, 0};
    int lane = threadIdx.x & 31, before = 0;
    for (int from = 0; from < L; from += 32) {
        int l = from + lane, first = 0, n = 0;
        if (l < L) {
            first = lane_row[l];
            n = lane_row[l + 1] - first;
        }
        int tiles = div_up(n * R, pairs), sum = tiles;
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            int x = __shfl_up_sync(WARP_ALL, sum, d);
            if (lane >= d) sum += x;
        }
        unsigned past = __ballot_sync(WARP_ALL, index < before + sum);
        if (past) {
            int src = __ffs(past) - 1;
            at.lane = from + src;
            at.first = __shfl_sync(WARP_ALL, first, src);
            at.n = __shfl_sync(WARP_ALL, n, src);
            at.pair = (index - before - __shfl_sync(WARP_ALL, sum - tiles, src)) * pairs;
            return at;
        }
        before += __shfl_sync(WARP_ALL, sum, 31);
    }
    return at;
}

/* ---- filling shared memory ---------------------------------------------------------------- */

/* Eight bf16 values as eight f16. */
__device__ static inline uint4 attn_to_f16(uint4 v)
{
    return make_uint4(
        pack_f16(bf16_low(v.x), bf16_high(v.x)), pack_f16(bf16_low(v.y), bf16_high(v.y)),
        pack_f16(bf16_low(v.z), bf16_high(v.z)), pack_f16(bf16_low(v.w), bf16_high(v.w)));
}

/* Queries of pairs at.pair .. + ROWS of KV head g; zeros behind the lane's last. */
template <int D, int EB, int ROWS, int THREADS>
__device__ static inline void attn_load_q(char *q, const attn_params &p, const attn_place &at,
                                          int g, int R)
{
    constexpr int PIECES = D / 8;
    for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
        int m = i / PIECES, piece = i % PIECES, pair = at.pair + m;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (pair < at.n * R) {
            int64_t t = at.first + pair / R;
            int h = g * R + pair % R;
            v = *reinterpret_cast<const uint4 *>(p.q + (t * p.H + h) * D + piece * 8);
        }
        *reinterpret_cast<uint4 *>(q + m * attn_shape<D, EB, 4>::Q_STRIDE +
                                   piece * 16) = EB == 1 ? attn_to_f16(v) : v;
    }
}

/* 16 bytes of a tile: copied, or rounded from f32; zeros when off, whatever the cache holds. */
template <kv_format F>
__device__ static inline void attn_load_piece(char *to, const uint8_t *from, bool on)
{
    if constexpr (F == KV_F32) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (on) {
            float4 x = reinterpret_cast<const float4 *>(from)[0];
            float4 y = reinterpret_cast<const float4 *>(from)[1];
            v = make_uint4(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w), pack_bf16(y.x, y.y),
                           pack_bf16(y.z, y.w));
        }
        *reinterpret_cast<uint4 *>(to) = v;
    } else {
        copy_async_16(to, from, on);
    }
}

/* Start copying one block of the cache; positions behind `last` become zeros. Pieces lie in the
 * cache in the order in which threads take them. */
template <int D, kv_format F, int THREADS>
__device__ static inline void attn_load_tile(char *stage, const attn_params &p, int64_t cell,
                                             int last)
{
    using shape = attn_shape<D, attn_shared_bytes<F>, 4>;
    constexpr int CHUNKS = shape::CHUNKS, EACH = OPS_BLOCK * CHUNKS / THREADS;
    constexpr int PIECE = attn_cache_bytes<F> * 16 / attn_shared_bytes<F>;
    static_assert(OPS_BLOCK * CHUNKS % THREADS == 0, "every thread copies as many pieces");
    int64_t from = cell * CHUNKS * PIECE + threadIdx.x * PIECE;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int i = threadIdx.x + k * THREADS, row = i / CHUNKS, chunk = i % CHUNKS;
        bool on = row <= last;
        attn_load_piece<F>(stage + attn_k_at<CHUNKS>(row, chunk), p.k + from + k * THREADS * PIECE,
                           on);
        attn_load_piece<F>(stage + shape::TILE + attn_v_at<CHUNKS>(row, chunk),
                           p.v + from + k * THREADS * PIECE, on);
    }
    if (F == KV_INT8 && threadIdx.x < 32) {
        int i = threadIdx.x & 15;
        const float *scale = (threadIdx.x < 16 ? p.k_scale : p.v_scale) + cell + i * 4;
        copy_async_16(stage + 2 * shape::TILE + threadIdx.x * 16, scale, true);
    }
}

/* ---- results ------------------------------------------------------------------------------ */

/* Partial results of segment `segment`; nothing reads those of a pair that ends before it. */
template <int D, int MT, int NW>
__device__ static inline void attn_store_part(const attn_params &p, const attn_place &at, int g,
                                              int R, int segment,
                                              const float (&acc)[MT][D / NW / 8][4],
                                              const attn_pairs<MT> &pairs, int warp, int lane)
{
    constexpr int N = D / NW / 4;
    int c = lane & 3;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int pair = at.pair + mt * 16 + h * 8 + (lane >> 2);
            if (pair >= at.n * R) continue;
            int64_t t = at.first + pair / R;
            int64_t cell = (t * p.H + g * R + pair % R) * p.n_segments + segment;
            float x[N];
            attn_columns(x, acc, mt, h);
            attn_store_floats<N>(p.part + cell * D + warp * (D / NW) + N * c, x);
            if (warp == 0 && c == 0)
                p.part_ms[cell] = make_float2(pairs.max[mt][h], pairs.sum[mt][h]);
        }
}

/* Finished rows of a folded run. */
template <int D, int MT, int NW>
__device__ static inline void attn_store_rows(const attn_params &p, const attn_place &at, int g,
                                              int R, int first,
                                              const float (&acc)[MT][D / NW / 8][4],
                                              const attn_pairs<MT> &total, int warp, int lane)
{
    constexpr int N = D / NW / 4;
    int column = warp * (D / NW) + N * (lane & 3);
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int pair = at.pair + first + mt * 16 + h * 8 + (lane >> 2);
            if (pair >= at.n * R) continue;
            int64_t head = (int64_t)(at.first + pair / R) * p.H + g * R + pair % R;
            float x[N], inv = __fmul_rn(__frcp_rn(total.sum[mt][h]), p.unit);
            attn_columns(x, acc, mt, h);
            const uint32_t *gate = reinterpret_cast<const uint32_t *>(p.qg + head * 2 * D + D +
                                                                      column);
            uint32_t *to = reinterpret_cast<uint32_t *>(p.out + head * D + column);
#pragma unroll
            for (int i = 0; i < N / 2; i++) {
                if (p.has_gate) {
                    uint32_t w = gate[i];
                    to[i] = pack_bf16(attn_finish_gated(x[2 * i], inv, bf16_low(w)),
                                      attn_finish_gated(x[2 * i + 1], inv, bf16_high(w)));
                } else {
                    to[i] = pack_bf16(attn_finish(x[2 * i], inv), attn_finish(x[2 * i + 1], inv));
                }
            }
        }
}

/* Merge the segment in hand into the totals. */
template <int MT, int NT>
__device__ static inline void attn_fold(float (&total)[MT][NT][4], attn_pairs<MT> &t,
                                        const float (&acc)[MT][NT][4], const attn_pairs<MT> &p)
{
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            attn_merge m = attn_merge_of(t.max[mt][h], p.max[mt][h]);
            t.max[mt][h] = m.max;
            t.sum[mt][h] = attn_merge_add(t.sum[mt][h], p.sum[mt][h], m.alpha, m.beta);
#pragma unroll
            for (int i = 0; i < NT; i++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    total[mt][i][h * 2 + e] = attn_merge_add(
                        total[mt][i][h * 2 + e], acc[mt][i][h * 2 + e], m.alpha, m.beta);
        }
}

/* ---- kernels ------------------------------------------------------------------------------ */

/* What both kernels know about their pairs: the position each sees last, -1 for none. */
template <int MT>
__device__ static inline void attn_positions(int (&pos)[MT][2], const attn_params &p,
                                             const attn_place &at, int R, int first, int lane)
{
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int pair = at.pair + first + mt * 16 + h * 8 + (lane >> 2);
            pos[mt][h] = pair < at.n * R ? p.row_pos[at.first + pair / R] : -1;
        }
}

/* The last position that any pair of the tile sees. */
__device__ static inline int attn_last_pos(const attn_params &p, const attn_place &at, int R,
                                           int rows)
{
    int last = min(at.pair + rows, at.n * R) - 1;
    return p.row_pos[at.first + last / R];
}

template <int MT>
__device__ static inline void attn_see(attn_pairs<MT> &pairs, const int (&pos)[MT][2], int begin)
{
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            pairs.first[mt][h] = 0;
            pairs.last[mt][h] = pos[mt][h] - begin;
        }
}

/* attn_kernel: attention of (row, head) pairs of one KV head over the lane's cached positions.
 *
 * Does     the op of ops.h:attn_args. Split (MG 1): one segment, its (max, sum, acc) to scratch
 *          for attn_merge_kernel. Folded (MG 2): all segments, merged in registers in order.
 * Grid     (tiles, G, segments or 1); block 32 NW MG, a group of NW warps owns 16 MT pairs
 * Shared   Q of all pairs, weights of one tile, STAGES tiles of K and V (attn_layout)
 * Needs    D a multiple of 32 (int8: of 64); 16-byte aligned rows; table entries below n_blocks
 *          for all positions up to the last row's; a lane's rows at ascending positions
 * Moves    K and V of every visible position once for each tile of pairs
 * Numbers  see attn_tile.cuh; segments by attn_pick_priv.h
 * Chosen   by attn_pick()
 * Why      a tile of the cache is one block of the table (64 positions): no index arithmetic
 *          inside a tile. Late segments are the largest, so they start first. */
template <int D, kv_format F, int MT, int MG, int NW, bool Q_IN_REGS>
__global__ void __launch_bounds__(32 * NW * MG, NW == 8 && F == KV_INT8 ? 2 : 1)
    attn_kernel(attn_params p)
{
    launch_wait();
    launch_next(); /* behind it: attn_merge_kernel reads some of what this kernel reads at once */
    constexpr bool FOLDS = MG > 1;
    constexpr int EB = attn_shared_bytes<F>, THREADS = 32 * NW * MG;
    using layout = attn_layout<D, F, MT, MG, NW>;
    using shape = attn_shape<D, EB, NW>;
    extern __shared__ __align__(16) char shared[];
    int lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) % NW, group = threadIdx.x / (32 * NW);
    int g = blockIdx.y, R = p.H / p.G;
    int segment = FOLDS ? 0 : p.n_segments - 1 - static_cast<int>(blockIdx.z);

    attn_place at = attn_find(p.lane_row, p.L, R, layout::ROWS, blockIdx.x);
    if (at.lane < 0) return;
    int last_pos = attn_last_pos(p, at, R, layout::ROWS);
    int begin = attn_segment_begin(segment);
    int end = FOLDS ? last_pos + 1 : min(last_pos + 1, attn_segment_begin(segment + 1));
    if (begin >= end) return;
    int tile = begin / OPS_BLOCK, n_tiles = div_up(end, static_cast<int>(OPS_BLOCK)) - tile;
    const int32_t *table = p.table + (int64_t)p.lane_slot[at.lane] * p.table_stride + tile;

    attn_load_q<D, EB, layout::ROWS, THREADS>(shared, p, at, g, R);
    int64_t block = table[0]; /* of the tile to start next: known before it is needed */
    auto fill = [&](int i) {  /* start tile i; every call closes one group of copies */
                             if (i < n_tiles) {
                                 int64_t cell = (block * p.G + g) * OPS_BLOCK;
                                 char *stage = shared + layout::STAGE +
                                               i % layout::STAGES * layout::STAGE_BYTES;
                                 attn_load_tile<D, F, THREADS>(stage, p, cell,
                                                               last_pos - (tile + i) * OPS_BLOCK);
                                 if (i + 1 < n_tiles) block = table[i + 1];
                             }
                             copy_async_commit();
    };
    for (int i = 0; i < layout::STAGES - 1; i++) fill(i);

    int first = group * 16 * MT, pos[MT][2];
    attn_positions<MT>(pos, p, at, R, first, lane);
    attn_meet meet = {reinterpret_cast<float *>(shared + layout::MAX) + first * 8,
                      reinterpret_cast<float *>(shared + layout::SUM) + first * 8,
                      shared + layout::P + first * shape::P_STRIDE};
    float acc[MT][shape::NT][4], total[FOLDS ? MT : 1][shape::NT][4];
    attn_pairs<MT> pairs;
    attn_pairs<FOLDS ? MT : 1> totals;
    attn_clear(acc);
    attn_pairs_reset(pairs);
    attn_clear(total);
    attn_pairs_reset(totals);

    attn_queries<D, EB, MT, Q_IN_REGS> queries;
    if (Q_IN_REGS) __syncthreads(); /* the queries are there for all */
    attn_q_open(queries, shared + first * shape::Q_STRIDE, lane);

    for (int i = 0; i < n_tiles; i++) {
        copy_async_wait<layout::STAGES - 2>();
        __syncthreads(); /* tile i (and Q) is there for all; all are done with tile i - 1 */
        fill(i + layout::STAGES - 1);
        char *stage = shared + layout::STAGE + i % layout::STAGES * layout::STAGE_BYTES;
        const float *scales = reinterpret_cast<const float *>(stage + 2 * shape::TILE);
        attn_see<MT>(pairs, pos, (tile + i) * OPS_BLOCK);
        attn_tile<D, EB, MT, NW>(acc, pairs, queries, stage, stage + shape::TILE, p.c,
                                 F == KV_INT8 ? scales : nullptr,
                                 F == KV_INT8 ? scales + OPS_BLOCK : nullptr, meet, warp, lane);
        if constexpr (FOLDS) {
            int next = (tile + i + 1) * OPS_BLOCK;
            if (next == attn_segment_begin(segment + 1) || i + 1 == n_tiles) {
                attn_fold(total, totals, acc, pairs);
                attn_clear(acc);
                attn_pairs_reset(pairs);
                segment++;
            }
        }
    }
    if constexpr (FOLDS)
        attn_store_rows<D, MT, NW>(p, at, g, R, first, total, totals, warp, lane);
    else
        attn_store_part<D, MT, NW>(p, at, g, R, segment, acc, pairs, warp, lane);
}

/* Columns of a block of the merge. */
template <int D> constexpr int attn_merge_columns = D % 64 ? 32 : 64;
enum { ATTN_MERGE_THREADS = 128 };

/* attn_merge_factors: what each of a pair's n segments is merged with, by all threads of a block:
 * factors[s] is (alpha, beta, sum). */
__device__ static inline void attn_merge_factors(float4 *factors, const float2 *ms, int n)
{
    constexpr int ROUNDS = (ATTN_SPLIT_MAX + ATTN_MERGE_THREADS - 1) / ATTN_MERGE_THREADS;
    __shared__ __align__(16) float chunk_max[ROUNDS * 4]; /* of 32 segments */
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float2 own[ROUNDS];
    float upto[ROUNDS]; /* largest of the chunk's segments up to this one */
#pragma unroll
    for (int k = 0; k < ROUNDS; k++) {
        int s = k * ATTN_MERGE_THREADS + threadIdx.x;
        own[k] = s < n ? ms[s] : make_float2(-INFINITY, 0.0f);
    }
#pragma unroll
    for (int k = 0; k < ROUNDS; k++) {
        upto[k] = own[k].x;
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            float y = __shfl_up_sync(WARP_ALL, upto[k], d);
            if (lane >= d) upto[k] = fmaxf(upto[k], y);
        }
        if (lane == 31) chunk_max[k * 4 + warp] = upto[k];
    }
    __syncthreads(); /* maxima of all chunks are there */
    float before = -INFINITY;
#pragma unroll
    for (int k = 0; k < ROUNDS; k++) {
        if (k * ATTN_MERGE_THREADS >= n) break;
        float4 x = *reinterpret_cast<const float4 *>(&chunk_max[k * 4]);
        float left = __shfl_up_sync(WARP_ALL, upto[k], 1);
        float max = lane ? fmaxf(before, left) : before;
        if (warp > 0) max = fmaxf(max, x.x);
        if (warp > 1) max = fmaxf(max, x.y);
        if (warp > 2) max = fmaxf(max, x.z);
        attn_merge m = attn_merge_of(max, own[k].x);
        int s = k * ATTN_MERGE_THREADS + threadIdx.x;
        if (s < n) factors[s] = make_float4(m.alpha, m.beta, own[k].y, 0.0f);
        before = fmaxf(before, fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)));
    }
}

/* attn_merge_kernel: merge a pair's segments and finish its row.
 *
 * Does     the fold of attn_fold() over partial results, then gate and rounding
 * Grid     (rows H, D / columns) blocks of 128 threads: of all T rows, or a part's
 * Shared   partial sums of the block's columns, all segments
 * Needs    at most ATTN_SPLIT_MAX segments
 * Moves    reads 4 D bytes a segment, writes 2 D
 * Numbers  the factors of all segments are made at once (maxima are exact in any order), the sums
 *          then follow in ascending order: the bits of a folded run
 * Why      what takes time is latency, so all partial sums are asked for at once; what the kernel
 *          before did not write is read before it is over (it calls launch_next behind its own
 *          launch_wait) */
template <int D> __global__ void __launch_bounds__(128) attn_merge_kernel(attn_params p)
{
    constexpr int COLUMNS = attn_merge_columns<D>, PIECES = COLUMNS / 4;
    extern __shared__ __align__(16) float parts[];
    __shared__ float4 factors[ATTN_SPLIT_MAX];
    launch_next();
    int64_t head = p.first_head + blockIdx.x, t = head / p.H;
    int column = blockIdx.y * COLUMNS, d = column + threadIdx.x;
    bool is_on = p.row_lane[t] >= 0;
    int n = is_on ? attn_segment_of(p.row_pos[t]) + 1 : 0;
    /* Before launch_wait: the attention kernel in front lets this one begin behind its own wait
     * only, so that what was there for it is there. */
    float gate = 0.0f;
    if (p.has_gate && threadIdx.x < COLUMNS) gate = __bfloat162float(p.qg[head * 2 * D + D + d]);
    launch_wait();
    if (!is_on) return;
    const float *from = p.part + head * p.n_segments * D + column;
    unsigned row = threadIdx.x / PIECES, piece = threadIdx.x % PIECES;
    for (unsigned s = row; s < static_cast<unsigned>(n); s += ATTN_MERGE_THREADS / PIECES)
        copy_async_16(parts + s * COLUMNS + piece * 4, from + s * D + piece * 4);
    copy_async_commit();
    attn_merge_factors(factors, p.part_ms + head * p.n_segments, n);
    copy_async_wait<0>();
    __syncthreads(); /* factors and partial sums are there for all */
    if (threadIdx.x >= COLUMNS) return;
    float acc = 0.0f, sum = 0.0f;
#pragma unroll 8
    for (int s = 0; s < n; s++) {
        float4 f = factors[s];
        sum = attn_merge_add(sum, f.z, f.x, f.y);
        acc = attn_merge_add(acc, parts[s * COLUMNS + threadIdx.x], f.x, f.y);
    }
    float inv = __fmul_rn(__frcp_rn(sum), p.unit);
    float y = p.has_gate ? attn_finish_gated(acc, inv, gate) : attn_finish(acc, inv);
    p.out[head * D + d] = __float2bfloat16_rn(y);
}

#endif
