/* Query and key norms and rotation of the draft's block rows (ops.h:draft_attn_prep_args). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/head_norm.cuh"
#include "backend/cuda/launch_early.cuh"

typedef struct {
    bf16 *q, *k;
    const float *q_norm, *k_norm, *cs;
    float eps;
    int M, H, G, D;
} draft_prep_params;

/* draft_attn_prep_kernel: one head's vector of one row, in place.
 *
 * Does     the op of ops.h:draft_attn_prep_args; unit u of a row: q head u, then k
 * Grid     a warp a (row, unit), HEAD_WARPS a block
 * Shared   a vector in f32 a warp
 * Needs    D even, at most HEAD_MAX
 * Moves    reads and writes each vector once */
__global__ void __launch_bounds__(32 * HEAD_WARPS) draft_attn_prep_kernel(draft_prep_params p)
{
    launch_join();
    __shared__ float vectors[HEAD_WARPS][HEAD_MAX];
    int warp = threadIdx.x >> 5, units = p.H + p.G;
    int64_t unit = static_cast<int64_t>(blockIdx.x) * HEAD_WARPS + warp, m = unit / units;
    if (m >= p.M) return;
    int u = static_cast<int>(unit % units);
    bool is_query = u < p.H;
    bf16 *x = is_query ? p.q + (m * p.H + u) * p.D : p.k + (m * p.G + u - p.H) * p.D;
    float *y = vectors[warp];
    head_lane h;
    head_weights(h, is_query ? p.q_norm : p.k_norm, p.D);
    head_angles(h, p.cs + m * p.D, p.D / 2);
    head_load(x, p.D, y);
    head_norm_rotate(y, h, p.eps, p.D, p.D / 2);
    head_store(y, p.D, x);
}

extern "C" status cuda_draft_attn_prep(backend *b, const draft_attn_prep_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->D > HEAD_MAX || a->D % 2)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "draft_attn_prep", -1, "head size %d",
                       a->D);
    draft_prep_params p = {};
    p.q = buf_of<bf16>(a->q);
    p.k = buf_of<bf16>(a->k);
    p.q_norm = buf_of<float>(a->q_norm);
    p.k_norm = buf_of<float>(a->k_norm);
    p.cs = buf_of<float>(a->cs);
    p.eps = a->eps;
    p.M = a->M, p.H = a->H, p.G = a->G, p.D = a->D;
    int64_t warps = static_cast<int64_t>(p.M) * (p.H + p.G);
    if (warps == 0) return cb->broken;
    dim3 grid(static_cast<unsigned>(div_up<int64_t>(warps, HEAD_WARPS)));
    CUDA_TRY(cb, launch_early(cb->sm == 90, draft_attn_prep_kernel, grid, 32 * HEAD_WARPS, 0,
                              cb->stream, p));
    return cb->broken;
}
