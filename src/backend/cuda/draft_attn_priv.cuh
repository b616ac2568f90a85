/* draft_attn_priv: the kernels of the draft's attention, shared with their trial in
 * bench/workshop. draft_attn.cu launches them. */
#ifndef RIPTIDE_BACKEND_CUDA_DRAFT_ATTN_PRIV_CUH
#define RIPTIDE_BACKEND_CUDA_DRAFT_ATTN_PRIV_CUH

#include "backend/cuda/attn_tile.cuh"
#include "backend/cuda/launch_early.cuh"

enum {
    DRAFT_THREADS = 128,
    DRAFT_REDUCE_WARPS = 4,
    DRAFT_SPLITS_MAX = 63, /* with the block's own rows 64 parts: two a lane of a warp */
};

typedef struct {
    const bf16 *q, *k, *v, *ring_k, *ring_v;
    const int32_t *lane_slot, *anchor_pos, *ctx_begin;
    float *part;     /* [L B, H, n_splits + 1, D] */
    float2 *part_ms; /* (max, sum) [L B, H, n_splits + 1] */
    bf16 *out;
    float c; /* scale * log2 e */
    int L, B, H, G, R, window, n_splits;
    bool is_causal;
} draft_attn_params;

/* draft_attn.cu: spans of a lane's context (below 1: the scratch is too small), and the params of a
 * call, without scratch. */
int draft_splits(const cuda_backend *cb, const draft_attn_args *a);
draft_attn_params draft_attn_params_of(const draft_attn_args *a);

/* Shared memory of a block, in order. */
template <int D, int MT> struct draft_layout {
    using shape = attn_shape<D, 2, 4>;
    static constexpr int P = 16 * MT * shape::Q_STRIDE;
    static constexpr int MAX = P + 16 * MT * shape::P_STRIDE;
    static constexpr int SUM = MAX + 16 * MT * ATTN_MEET_ROW;
    static constexpr int STAGE = SUM + 16 * MT * ATTN_MEET_ROW;
    static constexpr int BYTES = STAGE + 4 * shape::TILE;
};

/* The first context position that any row of the block sees: row 0 sees farthest back. */
__device__ static inline int draft_context_from(const draft_attn_params &a, int p, int ctx_begin)
{
    int from = max(ctx_begin, max(p - a.R, 0));
    if (a.window > 0) from = max(from, p - a.window + 1);
    return min(from, p);
}
__device__ static inline int draft_context_begin(const draft_attn_params &a, int l, int p)
{
    return draft_context_from(a, p, a.ctx_begin[l]);
}

/* Positions of a split when n are cut into at most n_splits: whole tiles. */
__device__ static inline int draft_split_len(int n, int n_splits)
{
    return div_up(div_up(n, n_splits), static_cast<int>(OPS_BLOCK)) * OPS_BLOCK;
}

/* ---- one span ---------------------------------------------------------------------------- */

/* What a block reads in one lane: positions [begin, end) of the ring, or the block rows. */
typedef struct {
    int p, begin, end; /* begin == end: nothing */
    bool is_block;
} draft_span;

__device__ static inline draft_span draft_span_of(const draft_attn_params &a, int l, int split)
{
    draft_span s;
    s.p = a.anchor_pos[l];
    s.is_block = split == a.n_splits;
    if (s.is_block) {
        s.begin = 0;
        s.end = a.B;
        return s;
    }
    int from = draft_context_begin(a, l, s.p), each = draft_split_len(s.p - from, a.n_splits);
    s.begin = min(from + split * each, s.p);
    s.end = min(s.begin + each, s.p);
    return s;
}

/* Start copying rows [at, at + 64) of a span; rows from its end on become zeros, so that nothing
 * in an unused ring slot, not even NaN, reaches a product. */
template <int D>
__device__ static inline void draft_load_tile(char *stage, const draft_attn_params &a,
                                              const draft_span &s, int l, int64_t slot, int g,
                                              int at)
{
    using shape = attn_shape<D, 2, 4>;
    constexpr int CHUNKS = shape::CHUNKS;
    for (int i = threadIdx.x; i < OPS_BLOCK * CHUNKS; i += DRAFT_THREADS) {
        int row = i / CHUNKS, chunk = i % CHUNKS, pos = at + row;
        bool on = pos < s.end;
        int64_t cell = 0;
        if (on)
            cell = s.is_block ? (static_cast<int64_t>(l) * a.B + pos) * a.G + g
                              : (slot * a.G + g) * a.R + pos % a.R;
        cell = cell * D + chunk * 8;
        copy_async_16(stage + attn_k_at<CHUNKS>(row, chunk), (s.is_block ? a.k : a.ring_k) + cell,
                      on);
        copy_async_16(stage + shape::TILE + attn_v_at<CHUNKS>(row, chunk),
                      (s.is_block ? a.v : a.ring_v) + cell, on);
    }
}

template <int D, int MT>
__device__ static inline void draft_load_q(char *q, const draft_attn_params &a, int l, int g,
                                           int first)
{
    using shape = attn_shape<D, 2, 4>;
    constexpr int PIECES = D / 8;
    int n_heads = a.H / a.G;
    for (int i = threadIdx.x; i < 16 * MT * PIECES; i += DRAFT_THREADS) {
        int m = i / PIECES, piece = i % PIECES, pair = first + m;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (pair < a.B * n_heads) {
            int64_t row = static_cast<int64_t>(l) * a.B + pair / n_heads;
            int h = g * n_heads + pair % n_heads;
            v = *reinterpret_cast<const uint4 *>(a.q + (row * a.H + h) * D + piece * 8);
        }
        *reinterpret_cast<uint4 *>(q + m * shape::Q_STRIDE + piece * 16) = v;
    }
}

/* The columns of the tile at `at` that each pair sees. */
template <int MT>
__device__ static inline void draft_see(attn_pairs<MT> &pairs, const draft_attn_params &a,
                                        const draft_span &s, int first, int at, int lane)
{
    int n_heads = a.H / a.G;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int pair = first + mt * 16 + h * 8 + (lane >> 2), i = pair / n_heads;
            int from = s.begin, last = s.end - 1;
            if (s.is_block) {
                if (a.is_causal) last = min(last, i);
            } else if (a.window > 0) {
                from = max(from, s.p + i - a.window + 1);
            }
            pairs.first[mt][h] = from - at;
            pairs.last[mt][h] = pair < a.B * n_heads ? last - at : -1;
        }
}

template <int D, int MT>
__device__ static inline void draft_store(const draft_attn_params &a, int l, int g, int first,
                                          int split, const float (&acc)[MT][D / 32][4],
                                          const attn_pairs<MT> &pairs, int warp, int lane)
{
    constexpr int N = D / 16;
    int n_heads = a.H / a.G, c = lane & 3;
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int pair = first + mt * 16 + h * 8 + (lane >> 2);
            if (pair >= a.B * n_heads) continue;
            int64_t row = static_cast<int64_t>(l) * a.B + pair / n_heads;
            int64_t cell = (row * a.H + g * n_heads + pair % n_heads) * (a.n_splits + 1) + split;
            float x[N];
            attn_columns(x, acc, mt, h);
            attn_store_floats<N>(a.part + cell * D + warp * (D / 4) + N * c, x);
            if (warp == 0 && c == 0)
                a.part_ms[cell] = make_float2(pairs.max[mt][h], pairs.sum[mt][h]);
        }
}

/* draft_attn_kernel: a block's rows of one lane and KV head against one stretch of its context.
 *
 * Does     scores and sums of ops.h:draft_attn_args for one span; partial results to scratch, for
 *          draft_reduce_kernel
 * Grid     (splits + 1, G * tiles of pairs, L); the last split is the block's own rows
 * Shared   Q, weights, two tiles of K and V (attn_tile.cuh)
 * Needs    D a multiple of 32; B <= 64
 * Moves    each visible ring row once for each tile of 16 MT (row, head) pairs
 * Numbers  attn_tile.cuh; the cut into spans follows the lane's own length, and is exempt from
 *          Identity like all of the draft
 * Why      spans start at the first visible position, not on a grid: all are equally long */
template <int D, int MT>
__global__ void __launch_bounds__(DRAFT_THREADS) draft_attn_kernel(draft_attn_params a)
{
    launch_join();
    using shape = attn_shape<D, 2, 4>;
    using layout = draft_layout<D, MT>;
    extern __shared__ __align__(16) char shared[];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int split = blockIdx.x, g = blockIdx.y % a.G, first = blockIdx.y / a.G * 16 * MT,
        l = blockIdx.z;
    draft_span s = draft_span_of(a, l, split);
    int n_tiles = div_up(s.end - s.begin, static_cast<int>(OPS_BLOCK));
    if (n_tiles == 0) return;
    int64_t slot = a.lane_slot[l];

    draft_load_q<D, MT>(shared, a, l, g, first);
    draft_load_tile<D>(shared + layout::STAGE, a, s, l, slot, g, s.begin);
    copy_async_commit();
    attn_meet meet = {reinterpret_cast<float *>(shared + layout::MAX),
                      reinterpret_cast<float *>(shared + layout::SUM), shared + layout::P};
    float acc[MT][shape::NT][4];
    attn_pairs<MT> pairs;
    attn_clear(acc);
    attn_pairs_reset(pairs);
    attn_queries<D, 2, MT, false> queries;
    attn_q_open(queries, shared, lane);
    for (int i = 0; i < n_tiles; i++) {
        int at = s.begin + i * OPS_BLOCK;
        char *stage = shared + layout::STAGE + (i & 1) * 2 * shape::TILE;
        copy_async_wait<0>();
        __syncthreads(); /* tile i is there for all; all are done with tile i - 1 */
        if (i + 1 < n_tiles)
            draft_load_tile<D>(shared + layout::STAGE + (~i & 1) * 2 * shape::TILE, a, s, l, slot,
                               g, at + OPS_BLOCK);
        copy_async_commit();
        draft_see<MT>(pairs, a, s, first, at, lane);
        attn_tile<D, 2, MT, 4>(acc, pairs, queries, stage, stage + shape::TILE, a.c, nullptr,
                               nullptr, meet, warp, lane);
    }
    draft_store<D, MT>(a, l, g, first, split, acc, pairs, warp, lane);
}

/* ---- the reduction ------------------------------------------------------------------------- */

/* Weights of a head's parts, by lane: part lane of the context and part lane + 32; the block's
 * part last. */
typedef struct {
    float w[2], block; /* 2^(max - common max) */
    float inv_sum;
} draft_weights;

/* From (max, sum) of context parts lane and lane + 32 (none: (-inf, 0)) and of the block's. */
__device__ static inline draft_weights draft_weights_from(const float2 (&part)[2], float2 own)
{
    draft_weights r;
    float most = own.x;
#pragma unroll
    for (int i = 0; i < 2; i++) most = fmaxf(most, part[i].x);
    most = warp_max(most); /* finite: every row sees itself */
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.w[i] = attn_exp2(part[i].x - most);
        sum = __fmaf_rn(part[i].y, r.w[i], sum);
    }
    r.block = attn_exp2(own.x - most);
    r.inv_sum = __frcp_rn(__fmaf_rn(own.y, r.block, warp_sum(sum)));
    return r;
}

/* Parts of a lane's context. */
__device__ static inline int draft_n_parts(const draft_attn_params &a, int l)
{
    int p = a.anchor_pos[l], n_ctx = p - draft_context_begin(a, l, p);
    return n_ctx > 0 ? div_up(n_ctx, draft_split_len(n_ctx, a.n_splits)) : 0;
}

__device__ static inline draft_weights draft_weights_of(const draft_attn_params &a, int n,
                                                        const float2 *ms)
{
    int lane = threadIdx.x & 31;
    float2 own = ms[a.n_splits], part[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        part[i] = lane + 32 * i < n ? ms[lane + 32 * i] : make_float2(-INFINITY, 0.0f);
    return draft_weights_from(part, own);
}

/* Sum of a head's parts for the lane's D / 32 columns, normalised. */
template <int D>
__device__ static inline void draft_reduce_head(const draft_attn_params &a, int64_t head,
                                                float (&y)[D / 32])
{
    constexpr int N = D / 32;
    int64_t first = head * (a.n_splits + 1);
    int l = static_cast<int>(head / (static_cast<int64_t>(a.B) * a.H));
    int n = draft_n_parts(a, l);
    draft_weights w = draft_weights_of(a, n, a.part_ms + first);
    const float *part = a.part + first * D + (threadIdx.x & 31) * N;
#pragma unroll
    for (int i = 0; i < N; i++) y[i] = 0.0f;
#pragma unroll 8
    for (int s = 0; s < n; s++) {
        float weight = __shfl_sync(WARP_ALL, s < 32 ? w.w[0] : w.w[1], s & 31);
#pragma unroll
        for (int i = 0; i < N; i++) y[i] = __fmaf_rn(part[s * D + i], weight, y[i]);
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        y[i] = __fmaf_rn(part[a.n_splits * D + i], w.block, y[i]) * w.inv_sum;
}

/* draft_reduce_kernel: merge a head's parts into the finished row.
 *
 * Does     the reduction of draft_attn_kernel's parts; out [L B, H, D] is the layout that the
 *          output projection reads
 * Grid     a warp a (row, head), DRAFT_REDUCE_WARPS a block; a lane owns D / 32 columns
 * Moves    reads 4 D bytes a part, writes 2 D; q, k, v are consumed: out may reuse their memory
 * Numbers  parts in ascending order, the block last; rounded once */
template <int D>
__global__ void __launch_bounds__(32 * DRAFT_REDUCE_WARPS) draft_reduce_kernel(draft_attn_params a)
{
    launch_join();
    constexpr int N = D / 32;
    int64_t head = static_cast<int64_t>(blockIdx.x) * DRAFT_REDUCE_WARPS + (threadIdx.x >> 5);
    if (head >= static_cast<int64_t>(a.L) * a.B * a.H) return;
    float y[N];
    draft_reduce_head<D>(a, head, y);
    bf16 *to = a.out + head * D + (threadIdx.x & 31) * N;
    if constexpr (N == 1) *to = __float2bfloat16_rn(y[0]);
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        reinterpret_cast<uint32_t *>(to)[i] = pack_bf16(y[2 * i], y[2 * i + 1]);
}

#endif
