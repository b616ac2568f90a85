/* The recurrent rule over a call's rows, then norm and gate (ops.h:gdn_scan_args). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/gdn_few.cuh"
#include "backend/cuda/gdn_long.cuh"
#include "backend/cuda/gdn_norm.cuh"
#include "backend/cuda/gdn_rule.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/waiting.cuh"

enum { GDN_NORM_WARPS = 4 };

/* gdn_norm_kernel: one value head of one row.
 *
 * Does     out = rmsnorm(o; norm_w, eps) * silu(z) over the head's dv values
 * Grid     a warp a head, GDN_NORM_WARPS a block
 * Needs    dv even, at most 256
 * Moves    6 bytes read and 2 written a value
 * Numbers  o stays f32 from the rule to the one rounding here */
__global__ void __launch_bounds__(32 * GDN_NORM_WARPS) gdn_norm_kernel(gdn_norm_params p)
{
    launch_join();
    int head = blockIdx.x * GDN_NORM_WARPS + (threadIdx.x >> 5); /* T Hv has room in an int */
    if (head >= p.n_heads || p.row_lane[head / p.Hv] < 0) return;
    gdn_norm_lane<GDN_NORM_EACH> in;
    gdn_norm_weights(in, p);
    gdn_norm_gates(in, p, head);
    gdn_norm_head(p, in, p.o + static_cast<int64_t>(head) * p.dv, head);
}

static gdn_params gdn_params_of(const gdn_scan_args *a)
{
    gdn_params p = {};
    p.qkv = buf_of<bf16>(a->qkv);
    p.p = buf_of<bf16>(a->p);
    p.g = buf_of<float>(a->g);
    p.beta = buf_of<float>(a->beta);
    p.state = buf_of<float>(a->state);
    p.conv_state = buf_of<bf16>(a->conv_state);
    p.lane_row = buf_of<int32_t>(a->rows.lane_row);
    p.lane_slot = buf_of<int32_t>(a->rows.lane_slot);
    p.C = 2 * static_cast<int64_t>(a->Hk) * a->dk + static_cast<int64_t>(a->Hv) * a->dv;
    p.Hk = a->Hk, p.Hv = a->Hv, p.dk = a->dk, p.dv = a->dv;
    p.advance = a->advance;
    return p;
}

extern "C" status cuda_gdn_scan(backend *b, const gdn_scan_args *a)
{
    cuda_backend *cb = cuda_of(b);
    int64_t n_heads = static_cast<int64_t>(a->rows.T) * a->Hv;
    if (a->dv > 32 * GDN_NORM_EACH)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "gdn_scan", -1, "value head size %d",
                       a->dv);
    TRY(cuda_need(cb, "gdn_scan", n_heads * a->dv * 4));
    if (n_heads == 0) return cb->broken;
    if (gdn_few_takes(cb, a)) return gdn_few_run(cb, a);
    TRY(cuda_settle(cb));
    gdn_params p = gdn_params_of(a);
    p.o = scratch_at<float>(cb, 0);
    TRY(gdn_long_serves(cb, p, a->rows.T, a->rows.L)
            ? gdn_long_run(cb, p, a->rows.L)
            : gdn_launch<true>(cb, p, a->rows.L, "gdn_scan"));
    gdn_norm_params n = gdn_norm_params_of(a, p.o);
    launch_early(cb->sm == 90, gdn_norm_kernel, dim3(div_up<int64_t>(n_heads, GDN_NORM_WARPS)),
                 32 * GDN_NORM_WARPS, 0, cb->stream, n);
    return CUDA_LAUNCHED(cb);
}

extern "C" int64_t cuda_gdn_scratch(const backend_limits *l)
{
    return static_cast<int64_t>(l->T) * l->gdn_Hv * l->gdn_dv * 4;
}
