/* Convolution, activation, normalisation and gates of the delta rule (ops.h:gdn_prep_args). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/gdn_conv.cuh"
#include "backend/cuda/gdn_few.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/waiting.cuh"

enum { GDN_PREP_WARPS = 4 };

/* gdn_prep_kernel: one head's channels, or the gates of 32 value heads, of one row.
 *
 * Does     the op of ops.h:gdn_prep_args; unit u of a row: q heads, k heads, v heads, gates
 * Grid     a warp a (row, unit), GDN_PREP_WARPS a block; a lane owns 4 channels of every 128
 * Needs    dk, dv multiples of 4, at most GDN_HEAD_MAX
 * Moves    each p value four times (its row and the three behind it; caches serve the last three)
 * Numbers  f32, rounded once; a row's sum of squares in one order */
__global__ void __launch_bounds__(32 * GDN_PREP_WARPS) gdn_prep_kernel(gdn_prep_params p)
{
    launch_join();
    int units = 2 * p.Hk + p.Hv + div_up(p.Hv, 32), lane = threadIdx.x & 31;
    int64_t unit = static_cast<int64_t>(blockIdx.x) * GDN_PREP_WARPS + (threadIdx.x >> 5);
    int64_t t = unit / units;
    if (t >= p.T) return;
    int u = static_cast<int>(unit % units), l = p.row_lane[t];
    if (l < 0) return;
    if (u >= 2 * p.Hk + p.Hv) {
        int h = (u - 2 * p.Hk - p.Hv) * 32 + lane;
        if (h >= p.Hv) return;
        int64_t at = t * p.Hv + h;
        p.beta[at] = act_sigmoid(__bfloat162float(p.b[at]));
        p.g[at] = p.neg_A[h] * gdn_softplus(__bfloat162float(p.a[at]) + p.dt_bias[h]);
        return;
    }
    int64_t slot = p.lane_slot[l];
    int index = static_cast<int>(t) - p.lane_row[l];
    bool is_value = u >= 2 * p.Hk;
    int n = is_value ? p.dv : p.dk;
    int64_t first = is_value ? 2 * static_cast<int64_t>(p.Hk) * p.dk + (u - 2 * p.Hk) * p.dv
                             : static_cast<int64_t>(u) * p.dk;
    float y[GDN_HEAD_MAX / 128][4], sum = 0.0f;
#pragma unroll
    for (int k = 0; k < GDN_HEAD_MAX / 128; k++) {
        int d = k * 128 + lane * 4;
        if (d >= n) continue;
        float4 w[4];
        gdn_conv_weights(p, first + d, w);
        gdn_conv(p, t, index, slot, first + d, w, y[k]);
#pragma unroll
        for (int i = 0; i < 4; i++) sum = __fmaf_rn(y[k][i], y[k][i], sum);
    }
    float scale = 1.0f;
    if (!is_value) {
        scale = __frsqrt_rn(warp_sum(sum) + 1e-6f);
        if (u < p.Hk) scale *= __frsqrt_rn(static_cast<float>(p.dk));
    }
#pragma unroll
    for (int k = 0; k < GDN_HEAD_MAX / 128; k++) {
        int d = k * 128 + lane * 4;
        if (d < n) gdn_store(p.qkv + t * p.C + first + d, y[k], scale);
    }
}

status gdn_prep_run(cuda_backend *cb, const gdn_prep_args *a)
{
    gdn_prep_params p = gdn_prep_params_of(a);
    int64_t warps = static_cast<int64_t>(p.T) * (2 * a->Hk + a->Hv + div_up(a->Hv, 32));
    if (warps == 0) return cb->broken;
    launch_early(cb->sm == 90, gdn_prep_kernel, dim3(div_up<int64_t>(warps, GDN_PREP_WARPS)),
                 32 * GDN_PREP_WARPS, 0, cb->stream, p);
    return CUDA_LAUNCHED(cb);
}

/* Few rows wait for gdn_scan, which does both in one launch (gdn_few.cu). */
extern "C" status cuda_gdn_prep(backend *b, const gdn_prep_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->dk > GDN_HEAD_MAX || a->dv > GDN_HEAD_MAX || a->dk % 4 || a->dv % 4)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "gdn_prep", -1, "head sizes %d and %d",
                       a->dk, a->dv);
    if (!gdn_few_serves(cb, a)) return gdn_prep_run(cb, a);
    cb->waiting.prep = *a;
    cb->waiting.has_prep = true;
    return cb->broken;
}
