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

/* A window: four channels of a row and of the three rows before it, as bf16 pairs, oldest first. */

/* The columns of conv_state in the window of the lane's row `index` < 3. conv_state holds
 * [channel][3], so four channels are twelve values in six words at `state`. */
__device__ static inline void gdn_window_begin(uint2 (&x)[4], const bf16 *state, int index)
{
    uint2 words[3];
#pragma unroll
    for (int i = 0; i < 3; i++) words[i] = reinterpret_cast<const uint2 *>(state)[i];
    uint2 a = words[0], b = words[1], c = words[2];
    uint2 first = make_uint2(__byte_perm(a.x, a.y, 0x7610), __byte_perm(b.y, c.x, 0x7610));
    uint2 second = make_uint2(__byte_perm(a.x, b.x, 0x5432), __byte_perm(b.y, c.y, 0x5432));
    uint2 third = make_uint2(__byte_perm(a.y, b.x, 0x7610), __byte_perm(c.x, c.y, 0x7610));
    x[0] = index == 0 ? first : index == 1 ? second : third;
    x[1] = index == 0 ? second : index == 1 ? third : x[1];
    x[2] = index == 0 ? third : x[2];
}
/* And back: the last three columns of a window as the lane's new conv_state. */
__device__ static inline void gdn_window_end(const uint2 (&x)[4], bf16 *state)
{
    uint2 a = x[1], b = x[2], c = x[3], *to = reinterpret_cast<uint2 *>(state);
    to[0] = make_uint2(__byte_perm(a.x, b.x, 0x5410), __byte_perm(c.x, a.x, 0x7610));
    to[1] = make_uint2(__byte_perm(b.x, c.x, 0x7632), __byte_perm(a.y, b.y, 0x5410));
    to[2] = make_uint2(__byte_perm(c.y, a.y, 0x7610), __byte_perm(b.y, c.y, 0x7632));
}

/* The four weights of channels ch .. ch+3. */
__device__ static inline void gdn_conv_weights(const gdn_prep_params &p, int64_t ch, float4 *w)
{
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = *reinterpret_cast<const float4 *>(p.conv_w + (ch + i) * 4);
}

/* A thread's four channels of the lane's rows index - 3 .. index, of which `at` is the last, `old`
 * the lane's conv_state of the channels. */
__device__ static inline void gdn_window(uint2 (&x)[4], const bf16 *at, const bf16 *old, int64_t C,
                                         int index)
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (index >= 3 - j) x[j] = *reinterpret_cast<const uint2 *>(at - (3 - j) * C);
    if (index < 3) gdn_window_begin(x, old, index);
}

/* silu of the convolution of a window:  c = sum_j w[ch, j] p_{t-3+j}[ch]. */
__device__ static inline void gdn_conv(const uint2 (&x)[4], const float4 *weights, float *y)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float in[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t pair = i < 2 ? x[j].x : x[j].y;
            in[j] = i & 1 ? bf16_high(pair) : bf16_low(pair);
        }
        float4 w = weights[i];
        float c = __fmul_rn(w.x, in[0]);
        c = __fmaf_rn(w.y, in[1], c);
        c = __fmaf_rn(w.z, in[2], c);
        c = __fmaf_rn(w.w, in[3], c);
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
