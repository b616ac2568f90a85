/* waiting: work that an op leaves for the op behind it.
 *
 * A call of few rows is bound by the number of its launches. Three pairs of ops follow one another
 * in layers and are one launch when they meet: a linear that adds to the residual stream and is
 * split over K, with the norm of the same rows; gdn_prep with gdn_scan; and moe_route with the sort
 * in moe_ffn, which of up to 8 rows takes over the norm and the router too. The first of a pair
 * leaves a note here (and a linear its slices' sums in the scratch), the second takes it. Every
 * other op, copy and graph call settles first, so nobody sees the difference. The bits are the same
 * either way. What moe_ffn adds up in the end waits for the norm likewise, whatever the rows: the
 * norm need not read what the sum wrote.
 */
#ifndef RIPTIDE_BACKEND_CUDA_WAITING_CUH
#define RIPTIDE_BACKEND_CUDA_WAITING_CUH

#include "backend/cuda/act.cuh"
#include "backend/cuda/cuda_priv.h"

enum {
    WAITING_ROWS = 32,   /* rows that may wait; of the experts' sums any number */
    WAITING_SLICES = 8,  /* slices of their sums */
    WAITING_EXPERTS = 8, /* products of a row that are loaded before the first is added */
    WAITING_STRETCH = 4, /* blocks that share one of those rows in the norm behind */
};

__device__ static inline float4 waiting_four(const float *at)
{
    return *reinterpret_cast<const float4 *>(at);
}

/* Four values from column i of row t of the experts' sum (moe_sum_kernel). */
__device__ static inline float4 waiting_experts(const waiting_sums &s, int64_t t, int64_t i)
{
    float4 sum = {}, shared = {};
    float gate = 0.0f;
    if (s.shared) {
        shared = waiting_four(s.shared + t * s.N + i);
        gate = act_sigmoid(s.gate[t]);
    }
    for (int from = 0; from < s.K; from += WAITING_EXPERTS) {
        float4 part[WAITING_EXPERTS];
        float w[WAITING_EXPERTS];
#pragma unroll
        for (int k = 0; k < WAITING_EXPERTS; k++) {
            if (from + k >= s.K) break;
            w[k] = s.w[t * s.K + from + k];
            part[k] = waiting_four(s.product + (t * s.K + from + k) * s.N + i);
        }
#pragma unroll
        for (int k = 0; k < WAITING_EXPERTS; k++) {
            if (from + k >= s.K) break;
            sum.x = fmaf(w[k], part[k].x, sum.x), sum.y = fmaf(w[k], part[k].y, sum.y);
            sum.z = fmaf(w[k], part[k].z, sum.z), sum.w = fmaf(w[k], part[k].w, sum.w);
        }
    }
    if (s.shared) {
        sum.x = fmaf(gate, shared.x, sum.x), sum.y = fmaf(gate, shared.y, sum.y);
        sum.z = fmaf(gate, shared.z, sum.z), sum.w = fmaf(gate, shared.w, sum.w);
    }
    return sum;
}

/* Four values from column i of row t of h with what waits, added in order. */
__device__ static inline float4 waiting_add(const waiting_sums &s, int64_t t, int64_t i)
{
    float4 h = waiting_four(s.h + t * s.N + i), sum;
    if (s.slices == 0) {
        sum = waiting_experts(s, t, i);
    } else {
        const float *at = s.sums + t * s.N + i;
        float4 part[WAITING_SLICES];
#pragma unroll
        for (int j = 0; j < WAITING_SLICES; j++) {
            if (j < s.slices) part[j] = waiting_four(at + j * s.T * s.N);
        }
        sum = part[0];
#pragma unroll
        for (int j = 1; j < WAITING_SLICES; j++) {
            if (j >= s.slices) break;
            sum.x += part[j].x, sum.y += part[j].y, sum.z += part[j].z, sum.w += part[j].w;
        }
        sum.x *= s.times, sum.y *= s.times, sum.z *= s.times, sum.w *= s.times;
    }
    h.x += sum.x, h.y += sum.y, h.z += sum.z, h.w += sum.w;
    return h;
}

/* waiting.cu */
extern "C" {
/* Do what waits. */
status cuda_settle(cuda_backend *cb);
}
/* gdn_prep.cu, norm.cu: the op itself, as a launch of its own. */
status gdn_prep_run(cuda_backend *cb, const gdn_prep_args *a);
status norm_run(cuda_backend *cb, const rmsnorm_args *a);

#endif
