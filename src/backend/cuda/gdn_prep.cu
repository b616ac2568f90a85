/* Convolution, activation, normalisation and gates of the delta rule (ops.h:gdn_prep_args). */
#include "backend/cuda/act.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vec_load.cuh"

enum {
    GDN_PREP_WARPS = 4,
    GDN_HEAD_MAX = 256, /* largest dk and dv */
};

typedef struct {
    const bf16 *p, *a, *b, *conv_state;
    const float *conv_w, *neg_A, *dt_bias;
    const int32_t *row_lane, *lane_row, *lane_slot;
    bf16 *qkv;
    float *g, *beta;
    int64_t C;
    int T, Hk, Hv, dk, dv;
} gdn_prep_params;

/* Four channels of column `back` (-3..0) behind row t, the lane's row `index`. */
__device__ static inline void gdn_column(const gdn_prep_params &p, int64_t t, int index,
                                         const uint2 *old, int back, int64_t ch, float *x)
{
    if (index + back >= 0) {
        uint2 v = *reinterpret_cast<const uint2 *>(p.p + (t + back) * p.C + ch);
        x[0] = bf16_low(v.x), x[1] = bf16_high(v.x), x[2] = bf16_low(v.y), x[3] = bf16_high(v.y);
        return;
    }
    /* conv_state holds [channel][3]; four channels are twelve values in three words of four */
    uint32_t words[6] = {old[0].x, old[0].y, old[1].x, old[1].y, old[2].x, old[2].y};
    int column = 3 + index + back;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < 3; c++) {
            int at = 3 * i + c;
            float v = at & 1 ? bf16_high(words[at >> 1]) : bf16_low(words[at >> 1]);
            if (c == column) x[i] = v;
        }
    }
}

/* silu of the convolution of channels ch .. ch+3:  c = sum_j w[ch, j] p_{t-3+j}[ch]. */
__device__ static inline void gdn_conv(const gdn_prep_params &p, int64_t t, int index, int64_t slot,
                                       int64_t ch, float *y)
{
    uint2 old[3] = {};
    if (index < 3) {
        const uint2 *from = reinterpret_cast<const uint2 *>(p.conv_state + (slot * p.C + ch) * 3);
        for (int i = 0; i < 3; i++) old[i] = from[i];
    }
    float x[4][4];
#pragma unroll
    for (int j = 0; j < 4; j++) gdn_column(p, t, index, old, j - 3, ch, x[j]);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float4 w = *reinterpret_cast<const float4 *>(p.conv_w + (ch + i) * 4);
        float c = __fmul_rn(w.x, x[0][i]);
        c = __fmaf_rn(w.y, x[1][i], c);
        c = __fmaf_rn(w.z, x[2][i], c);
        c = __fmaf_rn(w.w, x[3][i], c);
        y[i] = act_silu(c);
    }
}

__device__ static inline void gdn_store(bf16 *to, const float *y, float scale)
{
    *reinterpret_cast<uint2 *>(to) = make_uint2(pack_bf16(y[0] * scale, y[1] * scale),
                                                pack_bf16(y[2] * scale, y[3] * scale));
}

/* softplus, the identity above 20 (model-spec G4). */
__device__ static inline float gdn_softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

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
        gdn_conv(p, t, index, slot, first + d, y[k]);
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

extern "C" status cuda_gdn_prep(backend *b, const gdn_prep_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->dk > GDN_HEAD_MAX || a->dv > GDN_HEAD_MAX || a->dk % 4 || a->dv % 4)
        return err_set(&cb->base.last, ERR_UNSUPPORTED, "gdn_prep", -1, "head sizes %d and %d",
                       a->dk, a->dv);
    gdn_prep_params p = {};
    p.p = buf_of<bf16>(a->p);
    p.a = buf_of<bf16>(a->a);
    p.b = buf_of<bf16>(a->b);
    p.conv_state = buf_of<bf16>(a->conv_state);
    p.conv_w = buf_of<float>(a->conv_w);
    p.neg_A = buf_of<float>(a->neg_A);
    p.dt_bias = buf_of<float>(a->dt_bias);
    p.row_lane = buf_of<int32_t>(a->rows.row_lane);
    p.lane_row = buf_of<int32_t>(a->rows.lane_row);
    p.lane_slot = buf_of<int32_t>(a->rows.lane_slot);
    p.qkv = buf_of<bf16>(a->qkv);
    p.g = buf_of<float>(a->g);
    p.beta = buf_of<float>(a->beta);
    p.T = a->rows.T, p.Hk = a->Hk, p.Hv = a->Hv, p.dk = a->dk, p.dv = a->dv;
    p.C = 2 * static_cast<int64_t>(a->Hk) * a->dk + static_cast<int64_t>(a->Hv) * a->dv;
    int64_t warps = static_cast<int64_t>(p.T) * (2 * a->Hk + a->Hv + div_up(a->Hv, 32));
    if (warps == 0) return cb->broken;
    launch_early(cb->sm == 90, gdn_prep_kernel, dim3(div_up<int64_t>(warps, GDN_PREP_WARPS)),
                 32 * GDN_PREP_WARPS, 0, cb->stream, p);
    return CUDA_LAUNCHED(cb);
}
