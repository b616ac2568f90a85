/* Paged attention (ops.h:attn_args): one arithmetic for 1 row and for a prompt. */
#include "backend/cuda/attn_pick_priv.h"
#include "backend/cuda/attn_tile.cuh"
#include "backend/cuda/cuda_check.cuh"

typedef struct {
    const bf16 *q, *qg;
    const uint8_t *k, *v;
    const float *k_scale, *v_scale;
    const int32_t *row_lane, *row_pos, *lane_row, *lane_slot, *table;
    bf16 *out;
    float *part;     /* split: [T, H, n_segments, D] */
    float2 *part_ms; /* split: (max, sum) [T, H, n_segments] */
    float c;         /* scale * log2 e */
    int T, L, H, G, table_stride, n_segments;
    bool has_gate;
} attn_params;

/* Bytes in shared memory and in the cache. */
template <kv_format F> constexpr int attn_shared_bytes = F == KV_INT8 ? 1 : 2;
template <kv_format F> constexpr int attn_cache_bytes = F == KV_INT8 ? 1 : F == KV_BF16 ? 2 : 4;

/* Shared memory of a block, in order: Q, weights, maxima, sums, then STAGES of K, V and scales. */
template <int D, kv_format F, int MT, int MG> struct attn_layout {
    using shape = attn_shape<D, attn_shared_bytes<F>>;
    static constexpr int ROWS = 16 * MT * MG;
    static constexpr int P = ROWS * shape::Q_STRIDE;
    static constexpr int MAX = P + ROWS * shape::P_STRIDE;
    static constexpr int SUM = MAX + ROWS * 16;
    static constexpr int STAGE = SUM + ROWS * 16;
    static constexpr int STAGE_BYTES = 2 * shape::TILE + (F == KV_INT8 ? 2 * OPS_BLOCK * 4 : 0);
    /* Three tiles hide the latency of memory where they cost no second block on the processor. */
    static constexpr int STAGES = F == KV_F32 ? 2 : MT * MG == 1 ? 3 : F == KV_INT8 && MG > 1 ? 3 : 2;
    static constexpr int BYTES = STAGE + STAGES * STAGE_BYTES;
};

/* ---- which pairs a block owns ------------------------------------------------------------- */

typedef struct {
    int lane;        /* -1: none */
    int first, n;    /* the lane's rows */
    int pair;        /* first (row, head) pair of the tile among the lane's n R */
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

/* Queries of pairs at.pair .. + ROWS of KV head g; zeros behind the lane's last. */
template <int D, int EB, int ROWS>
__device__ static inline void attn_load_q(char *q, const attn_params &p, const attn_place &at,
                                          int g, int R, int n_threads)
{
    using shape = attn_shape<D, EB>;
    constexpr int PIECES = D / 8;
    for (int i = threadIdx.x; i < ROWS * PIECES; i += n_threads) {
        int m = i / PIECES, piece = i % PIECES, pair = at.pair + m;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (pair < at.n * R) {
            int64_t t = at.first + pair / R;
            int h = g * R + pair % R;
            v = *reinterpret_cast<const uint4 *>(p.q + (t * p.H + h) * D + piece * 8);
        }
        *reinterpret_cast<uint4 *>(q + m * shape::Q_STRIDE + piece * 16) = v;
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

/* Start copying one block of the cache; positions behind `last` become zeros. */
template <int D, kv_format F>
__device__ static inline void attn_load_tile(char *stage, const attn_params &p, int64_t cell,
                                             int last, int n_threads)
{
    using shape = attn_shape<D, attn_shared_bytes<F>>;
    constexpr int CHUNKS = shape::CHUNKS, SCALE = attn_cache_bytes<F> * 16 / attn_shared_bytes<F>;
    for (int i = threadIdx.x; i < OPS_BLOCK * CHUNKS; i += n_threads) {
        int row = i / CHUNKS, chunk = i % CHUNKS;
        int64_t at = ((cell + row) * CHUNKS + chunk) * SCALE;
        bool on = row <= last;
        attn_load_piece<F>(stage + attn_k_at<CHUNKS>(row, chunk), p.k + at, on);
        attn_load_piece<F>(stage + shape::TILE + attn_v_at<CHUNKS>(row, chunk), p.v + at, on);
    }
    if (F == KV_INT8 && threadIdx.x < 32) {
        int i = threadIdx.x & 15;
        const float *from = (threadIdx.x < 16 ? p.k_scale : p.v_scale) + cell + i * 4;
        copy_async_16(stage + 2 * shape::TILE + threadIdx.x * 16, from, true);
    }
}

/* ---- results ------------------------------------------------------------------------------ */

/* Partial results of segment `segment`; nothing reads those of a pair that ends before it. */
template <int D, int MT>
__device__ static inline void attn_store_part(const attn_params &p, const attn_place &at, int g,
                                              int R, int segment, const float (&acc)[MT][D / 32][4],
                                              const attn_pairs<MT> &pairs, int warp, int lane)
{
    constexpr int N = D / 16;
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
            attn_columns<D, MT>(x, acc, mt, h);
            attn_store_floats<N>(p.part + cell * D + warp * (D / 4) + N * c, x);
            if (warp == 0 && c == 0)
                p.part_ms[cell] = make_float2(pairs.max[mt][h], pairs.sum[mt][h]);
        }
}

/* Finished rows of a folded run. */
template <int D, int MT>
__device__ static inline void attn_store_rows(const attn_params &p, const attn_place &at, int g,
                                              int R, int first, const float (&acc)[MT][D / 32][4],
                                              const attn_pairs<MT> &total, int warp, int lane)
{
    constexpr int N = D / 16;
    int column = warp * (D / 4) + N * (lane & 3);
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int pair = at.pair + first + mt * 16 + h * 8 + (lane >> 2);
            if (pair >= at.n * R) continue;
            int64_t head = (int64_t)(at.first + pair / R) * p.H + g * R + pair % R;
            float x[N], inv = __frcp_rn(total.sum[mt][h]);
            attn_columns<D, MT>(x, acc, mt, h);
            const uint32_t *gate =
                reinterpret_cast<const uint32_t *>(p.qg + head * 2 * D + D + column);
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
template <int D, int MT>
__device__ static inline void attn_fold(float (&total)[MT][D / 32][4], attn_pairs<MT> &t,
                                        const float (&acc)[MT][D / 32][4],
                                        const attn_pairs<MT> &p)
{
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            attn_merge m = attn_merge_of(t.max[mt][h], p.max[mt][h]);
            t.max[mt][h] = m.max;
            t.sum[mt][h] = attn_merge_add(t.sum[mt][h], p.sum[mt][h], m.alpha, m.beta);
#pragma unroll
            for (int i = 0; i < D / 32; i++)
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
 * Grid     (tiles, G, segments or 1); block 128 MG, a group of 4 warps owns 16 MT pairs
 * Shared   Q of all pairs, weights of one tile, STAGES tiles of K and V (attn_layout)
 * Needs    D a multiple of 32 (int8: of 64); 16-byte aligned rows; table entries below n_blocks for all
 *          positions up to the last row's; a lane's rows at ascending positions
 * Moves    K and V of every visible position once for each tile of pairs
 * Numbers  see attn_tile.cuh; segments by attn_pick_priv.h
 * Chosen   by attn_pick()
 * Why      a tile of the cache is one block of the table (64 positions): no index arithmetic
 *          inside a tile. Late segments are the largest, so they start first. */
template <int D, kv_format F, int MT, int MG>
__global__ void __launch_bounds__(128 * MG) attn_kernel(attn_params p)
{
    constexpr bool FOLDS = MG > 1;
    constexpr int EB = attn_shared_bytes<F>, THREADS = 128 * MG;
    using layout = attn_layout<D, F, MT, MG>;
    using shape = attn_shape<D, EB>;
    extern __shared__ __align__(16) char shared[];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, group = threadIdx.x >> 7;
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

    attn_load_q<D, EB, layout::ROWS>(shared, p, at, g, R, THREADS);
    int64_t block = table[0]; /* of the tile to start next: known before it is needed */
    auto fill = [&](int i) {  /* start tile i; every call closes one group of copies */
        if (i < n_tiles) {
            int64_t cell = (block * p.G + g) * OPS_BLOCK;
            char *stage = shared + layout::STAGE + i % layout::STAGES * layout::STAGE_BYTES;
            attn_load_tile<D, F>(stage, p, cell, last_pos - (tile + i) * OPS_BLOCK, THREADS);
            if (i + 1 < n_tiles) block = table[i + 1];
        }
        copy_async_commit();
    };
    for (int i = 0; i < layout::STAGES - 1; i++) fill(i);

    int first = group * 16 * MT, pos[MT][2];
    attn_positions<MT>(pos, p, at, R, first, lane);
    attn_meet meet = {reinterpret_cast<float4 *>(shared + layout::MAX) + first,
                      reinterpret_cast<float4 *>(shared + layout::SUM) + first,
                      shared + layout::P + first * shape::P_STRIDE};
    float acc[MT][shape::NT][4], total[FOLDS ? MT : 1][shape::NT][4];
    attn_pairs<MT> pairs;
    attn_pairs<FOLDS ? MT : 1> totals;
    attn_clear<D, MT>(acc);
    attn_pairs_reset(pairs);
    attn_clear<D, FOLDS ? MT : 1>(total);
    attn_pairs_reset(totals);

    for (int i = 0; i < n_tiles; i++) {
        copy_async_wait<layout::STAGES - 2>();
        __syncthreads(); /* tile i is there for all; all are done with tile i - 1 */
        fill(i + layout::STAGES - 1);
        char *stage = shared + layout::STAGE + i % layout::STAGES * layout::STAGE_BYTES;
        const float *scales = reinterpret_cast<const float *>(stage + 2 * shape::TILE);
        attn_see<MT>(pairs, pos, (tile + i) * OPS_BLOCK);
        attn_tile<D, EB, MT>(acc, pairs, shared + first * shape::Q_STRIDE, stage,
                             stage + shape::TILE, p.c, F == KV_INT8 ? scales : nullptr,
                             F == KV_INT8 ? scales + OPS_BLOCK : nullptr, meet, warp, lane);
        if constexpr (FOLDS) {
            int next = (tile + i + 1) * OPS_BLOCK;
            if (next == attn_segment_begin(segment + 1) || i + 1 == n_tiles) {
                attn_fold<D, MT>(total, totals, acc, pairs);
                attn_clear<D, MT>(acc);
                attn_pairs_reset(pairs);
                segment++;
            }
        }
    }
    if constexpr (FOLDS)
        attn_store_rows<D, MT>(p, at, g, R, first, total, totals, warp, lane);
    else
        attn_store_part<D, MT>(p, at, g, R, segment, acc, pairs, warp, lane);
}

/* attn_merge_kernel: merge a pair's segments and finish its row.
 *
 * Does     the fold of attn_fold() over partial results, then gate and rounding
 * Grid     T H blocks of 64 threads, every 64th column each
 * Needs    at most ATTN_SPLIT_MAX segments
 * Moves    reads 4 D bytes a segment, writes 2 D
 * Numbers  the factors of all segments are made at once (maxima are exact in any order), the sums
 *          then follow in ascending order: the bits of a folded run */
template <int D> __global__ void __launch_bounds__(64) attn_merge_kernel(attn_params p)
{
    __shared__ float alpha[ATTN_SPLIT_MAX], beta[ATTN_SPLIT_MAX], part_sum[ATTN_SPLIT_MAX];
    constexpr int N = (D + 63) / 64;
    int64_t head = blockIdx.x, t = head / p.H;
    if (p.row_lane[t] < 0) return;
    int n = attn_segment_of(p.row_pos[t]) + 1;
    const float2 *ms = p.part_ms + head * p.n_segments;
    if (threadIdx.x < 32) {
        float before = -INFINITY; /* maximum of all segments of earlier rounds */
        for (int from = 0; from < n; from += 32) {
            int s = from + threadIdx.x, lane = threadIdx.x;
            float2 own = s < n ? ms[s] : make_float2(-INFINITY, 0.0f);
            float upto = own.x;
#pragma unroll
            for (int d = 1; d < 32; d <<= 1) {
                float x = __shfl_up_sync(WARP_ALL, upto, d);
                if (lane >= d) upto = fmaxf(upto, x);
            }
            float left = __shfl_up_sync(WARP_ALL, upto, 1);
            attn_merge m = attn_merge_of(lane ? fmaxf(before, left) : before, own.x);
            if (s < n) {
                alpha[s] = m.alpha;
                beta[s] = m.beta;
                part_sum[s] = own.y;
            }
            before = fmaxf(before, __shfl_sync(WARP_ALL, upto, 31));
        }
    }
    __syncthreads(); /* factors are there for all */
    const float *part = p.part + head * p.n_segments * D + threadIdx.x;
    float acc[N] = {}, sum = 0.0f;
    bool on[N];
#pragma unroll
    for (int i = 0; i < N; i++) on[i] = threadIdx.x + 64 * i < D;
#pragma unroll 8
    for (int s = 0; s < n; s++) {
        sum = attn_merge_add(sum, part_sum[s], alpha[s], beta[s]);
#pragma unroll
        for (int i = 0; i < N; i++)
            acc[i] = attn_merge_add(acc[i], on[i] ? part[(int64_t)s * D + 64 * i] : 0.0f, alpha[s],
                                    beta[s]);
    }
    float inv = __frcp_rn(sum);
#pragma unroll
    for (int i = 0; i < N; i++) {
        int d = threadIdx.x + 64 * i;
        if (!on[i]) continue;
        float gate = p.has_gate ? __bfloat162float(p.qg[head * 2 * D + D + d]) : 0.0f;
        float y = p.has_gate ? attn_finish_gated(acc[i], inv, gate) : attn_finish(acc[i], inv);
        p.out[head * D + d] = __float2bfloat16_rn(y);
    }
}

/* ---- launch ------------------------------------------------------------------------------- */

template <int D, kv_format F, int MT, int MG>
static status attn_launch(cuda_backend *cb, const attn_params &p, const attn_plan &plan)
{
    constexpr int BYTES = attn_layout<D, F, MT, MG>::BYTES;
    if (BYTES > cb->smem_block_max)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "attn", -1,
                       "needs %d bytes of shared memory a block, this device has %d", BYTES,
                       cb->smem_block_max);
    CUDA_TRY(cb, cudaFuncSetAttribute(attn_kernel<D, F, MT, MG>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    dim3 grid(plan.n_tiles, p.G, plan.is_folded ? 1 : plan.n_segments);
    attn_kernel<D, F, MT, MG><<<grid, 128 * MG, BYTES, cb->stream>>>(p);
    TRY(CUDA_LAUNCHED(cb));
    if (plan.is_folded) return ERR_OK;
    attn_merge_kernel<D><<<p.T * p.H, 64, 0, cb->stream>>>(p);
    return CUDA_LAUNCHED(cb);
}

/* Narrow tiles only where the models need them: D 256 with a cache that decode uses. */
template <int D, kv_format F>
static status attn_launch_tile(cuda_backend *cb, const attn_params &p, const attn_plan &plan)
{
    if (plan.is_folded) return attn_launch<D, F, 2, 2>(cb, p, plan);
    if constexpr (D == 256 && F != KV_F32) {
        if (plan.m_tiles == 1) return attn_launch<D, F, 1, 1>(cb, p, plan);
        if (plan.m_tiles == 2) return attn_launch<D, F, 2, 1>(cb, p, plan);
        if (plan.m_tiles == 3) return attn_launch<D, F, 3, 1>(cb, p, plan);
    }
    return attn_launch<D, F, 4, 1>(cb, p, plan);
}

template <int D>
static status attn_launch_format(cuda_backend *cb, const attn_params &p, const attn_plan &plan,
                                 kv_format f)
{
    switch (f) {
    case KV_INT8:
        if constexpr (D % 64 == 0) return attn_launch_tile<D, KV_INT8>(cb, p, plan);
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "attn", -1, "int8 with head size %d", D);
    case KV_BF16: return attn_launch_tile<D, KV_BF16>(cb, p, plan);
    default: return attn_launch_tile<D, KV_F32>(cb, p, plan);
    }
}

extern "C" status cuda_attn(backend *b, const attn_args *a)
{
    cuda_backend *cb = cuda_of(b);
    const ops_rows *r = &a->rows;
    if (r->T < 1 || r->L < 1) return cb->broken;
    attn_plan plan = attn_pick(r->T, r->L, r->max_rows, r->max_len, a->G, a->H / a->G, a->D,
                               cb->scratch.n_bytes - 256);
    attn_params p = {};
    p.q = buf_of<bf16>(a->q);
    p.qg = buf_of<bf16>(a->qg);
    p.k = buf_of<uint8_t>(a->kv.k);
    p.v = buf_of<uint8_t>(a->kv.v);
    p.k_scale = buf_of<float>(a->kv.k_scale);
    p.v_scale = buf_of<float>(a->kv.v_scale);
    p.row_lane = buf_of<int32_t>(r->row_lane);
    p.row_pos = buf_of<int32_t>(r->row_pos);
    p.lane_row = buf_of<int32_t>(r->lane_row);
    p.lane_slot = buf_of<int32_t>(r->lane_slot);
    p.table = buf_of<int32_t>(r->table);
    p.out = buf_of<bf16>(a->out);
    if (!plan.is_folded) {
        p.part = scratch_at<float>(cb, 0);
        int64_t n_cells = (int64_t)r->T * a->H * plan.n_segments;
        p.part_ms = scratch_at<float2>(cb, scratch_round(n_cells * a->D * 4));
    }
    p.c = a->scale * ATTN_LOG2E;
    p.T = r->T, p.L = r->L, p.H = a->H, p.G = a->G;
    p.table_stride = r->table_stride;
    p.n_segments = plan.n_segments;
    p.has_gate = a->has_gate;
    switch (a->D) {
    case 32: return attn_launch_format<32>(cb, p, plan, a->kv.format);
    case 64: return attn_launch_format<64>(cb, p, plan, a->kv.format);
    case 96: return attn_launch_format<96>(cb, p, plan, a->kv.format);
    case 128: return attn_launch_format<128>(cb, p, plan, a->kv.format);
    case 256: return attn_launch_format<256>(cb, p, plan, a->kv.format);
    default:
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "attn", -1,
                       "head size %d, this build has 32, 64, 96, 128 and 256", a->D);
    }
}

/* Room to split every verify call, within bounds; longer calls fold. */
extern "C" int64_t cuda_attn_scratch(const backend_limits *l)
{
    const int64_t most = 192ll << 20;
    if (l->H < 1 || l->max_position < 1) return 0;
    int64_t rows = (int64_t)l->L * (l->rows_per_lane > 0 ? l->rows_per_lane : 1);
    if (rows > l->T && l->T > 0) rows = l->T;
    int64_t n_bytes = attn_split_bytes(rows * l->H, attn_segment_of((int)l->max_position - 1) + 1,
                                       l->D) + 512;
    return n_bytes < most ? n_bytes : most;
}
