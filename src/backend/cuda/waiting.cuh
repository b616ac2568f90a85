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
    WAITING_ROWS = 32,  /* rows whose routing waits. Slices' sums: what linear_can_leave allows;
                           experts' sums: any number, from here on by a norm of many rows */
    WAITING_SLICES = 8, /* slices of the sums; products of a row that are loaded at once */
};

__device__ static inline float4 waiting_four(const float *at)
{
    return *reinterpret_cast<const float4 *>(at);
}

/* Four values of a row and what waits for them, on the way: all of it is asked for before any of
 * it is added. */
typedef struct {
    float4 h, part[WAITING_SLICES], shared;
    float w[WAITING_SLICES], gate;
} waiting_parts;

/* Products from .. from + WAITING_SLICES - 1 of row t. */
__device__ static inline void waiting_ask_products(waiting_parts &p, const waiting_sums &s,
                                                   int64_t t, int64_t i, int from)
{
    const float *at = s.product + (t * s.K + from) * s.N + i, *w = s.w + t * s.K + from;
#pragma unroll
    for (int k = 0; k < WAITING_SLICES; k++) {
        if (from + k < s.K) p.part[k] = waiting_four(at + k * s.N), p.w[k] = w[k];
    }
}

/* Ask for the four values from column i of row t. */
__device__ static inline void waiting_ask(waiting_parts &p, const waiting_sums &s, int64_t t,
                                          int64_t i)
{
    p.h = waiting_four(s.h + t * s.N + i);
    if (s.slices > 0) {
        const float *at = s.sums + t * s.N + i;
#pragma unroll
        for (int j = 0; j < WAITING_SLICES; j++) {
            if (j < s.slices) p.part[j] = waiting_four(at + j * s.T * s.N);
        }
        return;
    }
    waiting_ask_products(p, s, t, i, 0);
    if (s.shared) p.shared = waiting_four(s.shared + t * s.N + i), p.gate = s.gate[t];
}

__device__ static inline float4 waiting_fma(float w, float4 v, float4 sum)
{
    return make_float4(fmaf(w, v.x, sum.x), fmaf(w, v.y, sum.y), fmaf(w, v.z, sum.z),
                       fmaf(w, v.w, sum.w));
}

/* Four values of some slices, added in order. */
__device__ static inline float4 waiting_add_slices(const float4 (&part)[WAITING_SLICES], int slices)
{
    float4 sum = part[0];
#pragma unroll
    for (int j = 1; j < WAITING_SLICES; j++) {
        float4 v = part[j];
        if (j < slices) sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    return sum;
}

/* The experts' sum (moe_sum_kernel). */
__device__ static inline float4 waiting_products(waiting_parts &p, const waiting_sums &s, int64_t t,
                                                 int64_t i)
{
    float4 sum = {};
    float gate = s.shared ? act_sigmoid(p.gate) : 0.0f;
    for (int from = 0; from < s.K; from += WAITING_SLICES) {
        if (from > 0) waiting_ask_products(p, s, t, i, from);
#pragma unroll
        for (int k = 0; k < WAITING_SLICES; k++) {
            if (from + k < s.K) sum = waiting_fma(p.w[k], p.part[k], sum);
        }
    }
    return s.shared ? waiting_fma(gate, p.shared, sum) : sum;
}

/* The four values with what was asked for, added in order. */
__device__ static inline float4 waiting_take(waiting_parts &p, const waiting_sums &s, int64_t t,
                                             int64_t i)
{
    float4 h = p.h, sum;
    if (s.slices == 0) {
        sum = waiting_products(p, s, t, i);
    } else {
        sum = p.part[0];
#pragma unroll
        for (int j = 1; j < WAITING_SLICES; j++) {
            float4 v = p.part[j];
            if (j < s.slices) sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        sum.x *= s.times, sum.y *= s.times, sum.z *= s.times, sum.w *= s.times;
    }
    h.x += sum.x, h.y += sum.y, h.z += sum.z, h.w += sum.w;
    return h;
}

/* Four values from column i of row t of h with what waits. */
__device__ static inline float4 waiting_add(const waiting_sums &s, int64_t t, int64_t i)
{
    waiting_parts p;
    waiting_ask(p, s, t, i);
    return waiting_take(p, s, t, i);
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
