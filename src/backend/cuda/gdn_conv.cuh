/* gdn_conv: convolution, activation and gates of the delta rule, for whoever prepares its rows. */
#ifndef RIPTIDE_BACKEND_CUDA_GDN_CONV_CUH
#define RIPTIDE_BACKEND_CUDA_GDN_CONV_CUH

#include "backend/cuda/act.cuh"
#include "backend/cuda/vec_load.cuh"

enum { GDN_HEAD_MAX = 256 }; /* largest dk and dv */

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

/* The four weights of channels ch .. ch+3. */
__device__ static inline void gdn_conv_weights(const gdn_prep_params &p, int64_t ch, float4 *w)
{
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = *reinterpret_cast<const float4 *>(p.conv_w + (ch + i) * 4);
}

/* silu of the convolution of channels ch .. ch+3:  c = sum_j w[ch, j] p_{t-3+j}[ch]. */
__device__ static inline void gdn_conv(const gdn_prep_params &p, int64_t t, int index, int64_t slot,
                                       int64_t ch, const float4 *weights, float *y)
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
        float4 w = weights[i];
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

static inline gdn_prep_params gdn_prep_params_of(const gdn_prep_args *a)
{
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
    return p;
}

#endif
