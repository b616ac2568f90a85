/* gdn_norm: norm and gate behind the delta rule, one value head of one row by one warp. */
#ifndef RIPTIDE_BACKEND_CUDA_GDN_NORM_CUH
#define RIPTIDE_BACKEND_CUDA_GDN_NORM_CUH

#include "backend/cuda/act.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vec_load.cuh"

enum { GDN_NORM_EACH = 8 }; /* values of a lane at most: dv up to 256 */
/* EACH: values of a lane, 8 or, for dv up to 128, 4. */

typedef struct {
    const float *o, *norm_w;
    const bf16 *z;
    const int32_t *row_lane;
    bf16 *out;
    float eps;
    int64_t n_heads; /* T Hv */
    int Hv, dv;
} gdn_norm_params;

static inline gdn_norm_params gdn_norm_params_of(const gdn_scan_args *a, const float *o)
{
    gdn_norm_params n = {};
    n.o = o;
    n.norm_w = buf_of<float>(a->norm_w);
    n.z = buf_of<bf16>(a->z);
    n.row_lane = buf_of<int32_t>(a->rows.row_lane);
    n.out = buf_of<bf16>(a->out);
    n.eps = a->eps;
    n.n_heads = static_cast<int64_t>(a->rows.T) * a->Hv;
    n.Hv = a->Hv, n.dv = a->dv;
    return n;
}

/* What a lane needs beside the outputs: values d and d + 1 of every 64. */
template <int EACH> struct gdn_norm_lane {
    float2 w[EACH / 2];
    uint32_t z[EACH / 2];
};
template <int EACH>
__device__ static inline void gdn_norm_weights(gdn_norm_lane<EACH> &in, const gdn_norm_params &p)
{
#pragma unroll
    for (int i = 0; i < EACH / 2; i++) {
        int d = 2 * ((threadIdx.x & 31) + 32 * i);
        if (d < p.dv) in.w[i] = *reinterpret_cast<const float2 *>(p.norm_w + d);
    }
}
template <int EACH>
__device__ static inline void gdn_norm_gates(gdn_norm_lane<EACH> &in, const gdn_norm_params &p,
                                             int64_t head)
{
#pragma unroll
    for (int i = 0; i < EACH / 2; i++) {
        int d = 2 * ((threadIdx.x & 31) + 32 * i);
        if (d < p.dv) in.z[i] = *reinterpret_cast<const uint32_t *>(p.z + head * p.dv + d);
    }
}

/* out = rmsnorm(o; norm_w, eps) * silu(z) for head `head` of all rows' heads; o holds its dv. */
template <int EACH>
__device__ static inline void gdn_norm_head(const gdn_norm_params &p, const gdn_norm_lane<EACH> &in,
                                            const float *o, int64_t head)
{
    int lane = threadIdx.x & 31;
    float x[EACH], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH / 2; i++) {
        int d = 2 * (lane + 32 * i);
        float2 v = d < p.dv ? *reinterpret_cast<const float2 *>(o + d) : make_float2(0.0f, 0.0f);
        x[2 * i] = v.x;
        x[2 * i + 1] = v.y;
        sum = __fmaf_rn(v.x, v.x, sum);
        sum = __fmaf_rn(v.y, v.y, sum);
    }
    float scale = __frsqrt_rn(warp_sum(sum) / static_cast<float>(p.dv) + p.eps);
#pragma unroll
    for (int i = 0; i < EACH / 2; i++) {
        int d = 2 * (lane + 32 * i);
        if (d >= p.dv) continue;
        *reinterpret_cast<uint32_t *>(p.out + head * p.dv + d) = pack_bf16(
            x[2 * i] * scale * in.w[i].x * act_silu(bf16_low(in.z[i])),
            x[2 * i + 1] * scale * in.w[i].y * act_silu(bf16_high(in.z[i])));
    }
}

#endif
