/* The draft's block attention (ops.h:draft_attn_args): ring of context positions and block rows in
 * one pass, split over the context, reduced straight into the output projection's input. */
#include "backend/cuda/attn_tile.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/draft_attn_priv.cuh"

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
    using shape = attn_shape<D, 2>;
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
    using shape = attn_shape<D, 2>;
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
            int64_t cell =
                (row * a.H + g * n_heads + pair % n_heads) * (a.n_splits + 1) + split;
            float x[N];
            attn_columns<D, MT>(x, acc, mt, h);
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
 * Why      spans start at the first visible position, not on a grid, so that all are equally long */
template <int D, int MT>
__global__ void __launch_bounds__(DRAFT_THREADS) draft_attn_kernel(draft_attn_params a)
{
    using shape = attn_shape<D, 2>;
    using layout = draft_layout<D, MT>;
    extern __shared__ __align__(16) char shared[];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int split = blockIdx.x, g = blockIdx.y % a.G, first = blockIdx.y / a.G * 16 * MT, l = blockIdx.z;
    draft_span s = draft_span_of(a, l, split);
    int n_tiles = div_up(s.end - s.begin, static_cast<int>(OPS_BLOCK));
    if (n_tiles == 0) return;
    int64_t slot = a.lane_slot[l];

    draft_load_q<D, MT>(shared, a, l, g, first);
    draft_load_tile<D>(shared + layout::STAGE, a, s, l, slot, g, s.begin);
    copy_async_commit();
    attn_meet meet = {reinterpret_cast<float4 *>(shared + layout::MAX),
                      reinterpret_cast<float4 *>(shared + layout::SUM), shared + layout::P};
    float acc[MT][shape::NT][4];
    attn_pairs<MT> pairs;
    attn_clear<D, MT>(acc);
    attn_pairs_reset(pairs);
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
        attn_tile<D, 2, MT>(acc, pairs, shared, stage, stage + shape::TILE, a.c, nullptr, nullptr,
                            meet, warp, lane);
    }
    draft_store<D, MT>(a, l, g, first, split, acc, pairs, warp, lane);
}

/* ---- launch ------------------------------------------------------------------------------- */

template <int D, int MT> static status draft_launch(cuda_backend *cb, const draft_attn_params &a)
{
    constexpr int BYTES = draft_layout<D, MT>::BYTES;
    if (BYTES > cb->smem_block_max)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "draft_attn", -1,
                       "needs %d bytes of shared memory a block, this device has %d", BYTES,
                       cb->smem_block_max);
    CUDA_TRY(cb, cudaFuncSetAttribute(draft_attn_kernel<D, MT>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    dim3 grid(a.n_splits + 1, a.G * div_up(a.B * (a.H / a.G), 16 * MT), a.L);
    draft_attn_kernel<D, MT><<<grid, DRAFT_THREADS, BYTES, cb->stream>>>(a);
    TRY(CUDA_LAUNCHED(cb));
    int blocks = div_up<int>(a.L * a.B * a.H, DRAFT_REDUCE_WARPS);
    draft_reduce_kernel<D><<<blocks, 32 * DRAFT_REDUCE_WARPS, 0, cb->stream>>>(a);
    return CUDA_LAUNCHED(cb);
}

template <int D> static status draft_launch_rows(cuda_backend *cb, const draft_attn_params &a)
{
    int pairs = a.B * (a.H / a.G);
    if (pairs <= 16) return draft_launch<D, 1>(cb, a);
    if (pairs <= 32) return draft_launch<D, 2>(cb, a);
    return draft_launch<D, 4>(cb, a);
}

/* Spans of a lane's context: enough blocks to fill a large GPU twice, within the scratch. */
static int draft_splits(const cuda_backend *cb, const draft_attn_args *a)
{
    const int blocks_wanted = 264;
    int context = a->window > 0 && a->window < a->ring.R ? a->window : a->ring.R;
    int n = div_up(context, static_cast<int>(OPS_BLOCK));
    int wanted = div_up(blocks_wanted, a->L * a->G);
    if (n > wanted) n = wanted;
    if (n > DRAFT_SPLITS_MAX) n = DRAFT_SPLITS_MAX;
    int64_t a_split = static_cast<int64_t>(a->L) * a->B * a->H * (a->D * 4 + 8);
    int64_t room = (cb->scratch.n_bytes - 512) / a_split - 1;
    return n < room ? n : static_cast<int>(room);
}

extern "C" status cuda_draft_attn(backend *b, const draft_attn_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->L < 1 || a->B < 1) return cb->broken;
    draft_attn_params p = {};
    p.n_splits = draft_splits(cb, a);
    if (p.n_splits < 1)
        return err_set(&cb->base.last, ERR_LIMIT, "draft_attn", -1,
                       "scratch of %lld bytes is too small for %d lanes",
                       static_cast<long long>(cb->scratch.n_bytes), a->L);
    p.q = buf_of<bf16>(a->q);
    p.k = buf_of<bf16>(a->k);
    p.v = buf_of<bf16>(a->v);
    p.ring_k = buf_of<bf16>(a->ring.k);
    p.ring_v = buf_of<bf16>(a->ring.v);
    p.lane_slot = buf_of<int32_t>(a->lane_slot);
    p.anchor_pos = buf_of<int32_t>(a->anchor_pos);
    p.ctx_begin = buf_of<int32_t>(a->ctx_begin);
    p.out = buf_of<bf16>(a->out);
    int64_t n_cells = static_cast<int64_t>(a->L) * a->B * a->H * (p.n_splits + 1);
    p.part = scratch_at<float>(cb, 0);
    p.part_ms = scratch_at<float2>(cb, scratch_round(n_cells * a->D * 4));
    p.c = a->scale * ATTN_LOG2E;
    p.L = a->L, p.B = a->B, p.H = a->H, p.G = a->G, p.R = a->ring.R;
    p.window = a->window;
    p.is_causal = a->is_causal;
    switch (a->D) {
    case 32: return draft_launch_rows<32>(cb, p);
    case 64: return draft_launch_rows<64>(cb, p);
    case 128: return draft_launch_rows<128>(cb, p);
    case 256: return draft_launch_rows<256>(cb, p);
    default:
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "draft_attn", -1,
                       "head size %d, this build has 32, 64, 128 and 256", a->D);
    }
}

/* One span and the block rows for every lane of the widest call, and enough for a few lanes to
 * spread over the chip. */
extern "C" int64_t cuda_draft_scratch(const backend_limits *l)
{
    if (l->H < 1 || l->D < 1) return 0;
    int64_t lanes = l->L > 0 ? l->L : 1;
    int64_t cells = (2 * lanes * OPS_ROWS_MAX + 2 * DRAFT_SPLITS_MAX * OPS_ROWS_MAX) * l->H;
    return cells * (static_cast<int64_t>(l->D) * 4 + 8) + 1024;
}
