/* Convolution, activation, normalisation and gates of the delta rule (ops.h:gdn_prep_args). */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/gdn_conv.cuh"
#include "backend/cuda/gdn_few.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/waiting.cuh"

enum { GDN_PREP_WARPS = 4 };

/* gdn_prep_kernel: one head's channels, or the gates of 32 value heads, of `rows` rows.
 *
 * Does     the op of ops.h:gdn_prep_args; unit u of a row: q heads, k heads, v heads, gates
 * Grid     a warp a (`rows` rows, at most 32, unit), GDN_PREP_WARPS a block; a lane owns 4 channels
 *          of every 128
 * Needs    dk, dv multiples of 4, at most 128 EACH
 * Moves    the rows of a warp once and the three before them, with one row each p value four times;
 *          weights once a warp
 * Numbers  f32, rounded once; a row's sum of squares in one order */
template <int EACH>
__global__ void __launch_bounds__(32 * GDN_PREP_WARPS) gdn_prep_kernel(gdn_prep_params p, int rows)
{
    launch_join();
    int units = 2 * p.Hk + p.Hv + div_up(p.Hv, 32), lane = threadIdx.x & 31;
    int unit = blockIdx.x * GDN_PREP_WARPS + (threadIdx.x >> 5);
    int64_t first_row = static_cast<int64_t>(unit / units) * rows;
    if (first_row >= p.T) return;
    int u = unit % units, n_rows = min(p.T - static_cast<int>(first_row), rows);
    if (u >= 2 * p.Hk + p.Hv) {
        int h = (u - 2 * p.Hk - p.Hv) * 32 + lane;
        if (h >= p.Hv) return;
        float neg_A = p.neg_A[h], dt_bias = p.dt_bias[h];
        for (int64_t t = first_row; t < first_row + n_rows; t++) {
            int64_t at = t * p.Hv + h;
            if (p.row_lane[t] < 0) continue;
            p.beta[at] = act_sigmoid(__bfloat162float(p.b[at]));
            p.g[at] = neg_A * gdn_softplus(__bfloat162float(p.a[at]) + dt_bias);
        }
        return;
    }
    /* Lane i knows where row i stands: its slot, -1 for none, and its index in its lane. */
    int slot_of = -1, index_of = 3;
    if (lane < n_rows) {
        int l = p.row_lane[first_row + lane];
        if (l >= 0) {
            slot_of = p.lane_slot[l];
            index_of = static_cast<int>(first_row) + lane - p.lane_row[l];
        }
    }
    bool is_value = u >= 2 * p.Hk;
    int n = is_value ? p.dv : p.dk;
    int64_t first = is_value ? 2 * static_cast<int64_t>(p.Hk) * p.dk + (u - 2 * p.Hk) * p.dv
                             : static_cast<int64_t>(u) * p.dk;
    float4 w[EACH][4];
    uint2 x[EACH][4], next[EACH]; /* the row's window; the row behind */
    const bf16 *at = p.p + first_row * p.C + first + lane * 4;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        int d = k * 128 + lane * 4;
        if (d >= n) continue;
        next[k] = *reinterpret_cast<const uint2 *>(at + k * 128);
#pragma unroll
        for (int j = 1; j < 4; j++) {
            x[k][j] = make_uint2(0, 0);
            if (first_row + j >= 4)
                x[k][j] = *reinterpret_cast<const uint2 *>(at + k * 128 + (j - 4) * p.C);
        }
        gdn_conv_weights(p, first + d, w[k]);
    }
#pragma unroll 1
    for (int i = 0; i < n_rows; i++) {
        int64_t t = first_row + i, slot = __shfl_sync(WARP_ALL, slot_of, i);
        int index = __shfl_sync(WARP_ALL, index_of, i);
        at += p.C;
        float y[EACH][4], sum = 0.0f, scale = 1.0f;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int d = k * 128 + lane * 4;
            if (d >= n) continue;
#pragma unroll
            for (int j = 0; j < 3; j++) x[k][j] = x[k][j + 1];
            x[k][3] = next[k];
            if (i + 1 < n_rows) next[k] = *reinterpret_cast<const uint2 *>(at + k * 128);
            uint2 own[4] = {x[k][0], x[k][1], x[k][2], x[k][3]};
            if (index < 3)
                gdn_window_begin(own, p.conv_state + (slot * p.C + first + d) * 3, index);
            gdn_conv(own, w[k], y[k]);
#pragma unroll
            for (int j = 0; j < 4; j++) sum = __fmaf_rn(y[k][j], y[k][j], sum);
        }
        if (slot < 0) continue;
        if (!is_value) {
            scale = __frsqrt_rn(warp_sum(sum) + 1e-6f);
            if (u < p.Hk) scale *= __frsqrt_rn(static_cast<float>(p.dk));
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            int d = k * 128 + lane * 4;
            if (d < n) gdn_store(p.qkv + t * p.C + first + d, y[k], scale);
        }
    }
}

enum {
    GDN_PREP_ROWS = 8, /* of a warp, from so many rows on: */
    GDN_PREP_LONG = 128,
};

status gdn_prep_run(cuda_backend *cb, const gdn_prep_args *a)
{
    gdn_prep_params p = gdn_prep_params_of(a);
    int rows = p.T >= GDN_PREP_LONG ? GDN_PREP_ROWS : 1;
    int64_t warps = div_up<int64_t>(p.T, rows) * (2 * a->Hk + a->Hv + div_up(a->Hv, 32));
    if (warps == 0) return cb->broken;
    auto kernel = a->dk <= 128 && a->dv <= 128 ? gdn_prep_kernel<1>
                                               : gdn_prep_kernel<GDN_HEAD_MAX / 128>;
    launch_early(cb->sm == 90, kernel, dim3(div_up<int64_t>(warps, GDN_PREP_WARPS)),
                 32 * GDN_PREP_WARPS, 0, cb->stream, p, rows);
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
