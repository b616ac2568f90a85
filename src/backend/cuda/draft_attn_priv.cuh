/* draft_attn_priv: what the draft's attention shares with its trial in bench/workshop. */
#ifndef RIPTIDE_BACKEND_CUDA_DRAFT_ATTN_PRIV_CUH
#define RIPTIDE_BACKEND_CUDA_DRAFT_ATTN_PRIV_CUH

#include "backend/cuda/attn_tile.cuh"

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

/* Shared memory of a block, in order. */
template <int D, int MT> struct draft_layout {
    using shape = attn_shape<D, 2>;
    static constexpr int P = 16 * MT * shape::Q_STRIDE;
    static constexpr int MAX = P + 16 * MT * shape::P_STRIDE;
    static constexpr int SUM = MAX + 16 * MT * 16;
    static constexpr int STAGE = SUM + 16 * MT * 16;
    static constexpr int BYTES = STAGE + 4 * shape::TILE;
};

/* The first context position that any row of the block sees: row 0 sees farthest back. */
__device__ static inline int draft_context_begin(const draft_attn_params &a, int l, int p)
{
    int from = max(a.ctx_begin[l], max(p - a.R, 0));
    if (a.window > 0) from = max(from, p - a.window + 1);
    return min(from, p);
}

/* Positions of a split when n are cut into at most n_splits: whole tiles. */
__device__ static inline int draft_split_len(int n, int n_splits)
{
    return div_up(div_up(n, n_splits), static_cast<int>(OPS_BLOCK)) * OPS_BLOCK;
}

/* Weights of a head's parts, by lane: part lane of the context and part lane + 32; the block's
 * part last. Returns how many context parts there are. */
typedef struct {
    int n;             /* context parts */
    float w[2], block; /* 2^(max - common max) */
    float inv_sum;
} draft_weights;

__device__ static inline draft_weights draft_weights_of(const draft_attn_params &a, int l,
                                                        const float2 *ms)
{
    draft_weights r;
    int lane = threadIdx.x & 31, p = a.anchor_pos[l];
    int n_ctx = p - draft_context_begin(a, l, p);
    r.n = n_ctx > 0 ? div_up(n_ctx, draft_split_len(n_ctx, a.n_splits)) : 0;
    float2 own = ms[a.n_splits], part[2];
    float most = own.x;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        part[i] = lane + 32 * i < r.n ? ms[lane + 32 * i] : make_float2(-INFINITY, 0.0f);
        most = fmaxf(most, part[i].x);
    }
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

/* Sum of a head's parts for the lane's D / 32 columns, normalised. */
template <int D>
__device__ static inline void draft_reduce_head(const draft_attn_params &a, int64_t head,
                                                float (&y)[D / 32])
{
    constexpr int N = D / 32;
    int64_t first = head * (a.n_splits + 1);
    int l = static_cast<int>(head / (static_cast<int64_t>(a.B) * a.H));
    draft_weights w = draft_weights_of(a, l, a.part_ms + first);
    const float *part = a.part + first * D + (threadIdx.x & 31) * N;
#pragma unroll
    for (int i = 0; i < N; i++) y[i] = 0.0f;
#pragma unroll 4
    for (int s = 0; s < w.n; s++) {
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
