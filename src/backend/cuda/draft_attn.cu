/* The draft's block attention (ops.h:draft_attn_args): ring of context positions and block rows in
 * one pass, split over the context, reduced straight into the output projection's input. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/draft_attn_priv.cuh"

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
    bool is_early = cb->sm == 90;
    CUDA_TRY(cb, launch_early(is_early, draft_attn_kernel<D, MT>, grid, DRAFT_THREADS, BYTES,
                              cb->stream, a));
    int blocks = div_up<int>(a.L * a.B * a.H, DRAFT_REDUCE_WARPS);
    CUDA_TRY(cb, launch_early(is_early, draft_reduce_kernel<D>, dim3(blocks),
                              32 * DRAFT_REDUCE_WARPS, 0, cb->stream, a));
    return cb->broken;
}

template <int D> static status draft_launch_rows(cuda_backend *cb, const draft_attn_params &a)
{
    int pairs = a.B * (a.H / a.G);
    if (pairs <= 16) return draft_launch<D, 1>(cb, a);
    if (pairs <= 32) return draft_launch<D, 2>(cb, a);
    return draft_launch<D, 4>(cb, a);
}

/* Spans of a lane's context: enough blocks to fill a large GPU twice, within the scratch. */
int draft_splits(const cuda_backend *cb, const draft_attn_args *a)
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

draft_attn_params draft_attn_params_of(const draft_attn_args *a)
{
    draft_attn_params p = {};
    p.q = buf_of<bf16>(a->q);
    p.k = buf_of<bf16>(a->k);
    p.v = buf_of<bf16>(a->v);
    p.ring_k = buf_of<bf16>(a->ring.k);
    p.ring_v = buf_of<bf16>(a->ring.v);
    p.lane_slot = buf_of<int32_t>(a->lane_slot);
    p.anchor_pos = buf_of<int32_t>(a->anchor_pos);
    p.ctx_begin = buf_of<int32_t>(a->ctx_begin);
    p.out = buf_of<bf16>(a->out);
    p.c = a->scale * ATTN_LOG2E;
    p.L = a->L, p.B = a->B, p.H = a->H, p.G = a->G, p.R = a->ring.R;
    p.window = a->window;
    p.is_causal = a->is_causal;
    return p;
}

extern "C" status cuda_draft_attn(backend *b, const draft_attn_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->L < 1 || a->B < 1) return cb->broken;
    draft_attn_params p = draft_attn_params_of(a);
    p.n_splits = draft_splits(cb, a);
    if (p.n_splits < 1)
        return err_set(&cb->base.last, ERR_LIMIT, "draft_attn", -1,
                       "scratch of %lld bytes is too small for %d lanes",
                       static_cast<long long>(cb->scratch.n_bytes), a->L);
    int64_t n_cells = static_cast<int64_t>(a->L) * a->B * a->H * (p.n_splits + 1);
    p.part = scratch_at<float>(cb, 0);
    p.part_ms = scratch_at<float2>(cb, scratch_round(n_cells * a->D * 4));
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
