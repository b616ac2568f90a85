/* moe_route: which experts a row goes to, and with what weight. */
#ifndef RIPTIDE_BACKEND_CUDA_MOE_ROUTE_CUH
#define RIPTIDE_BACKEND_CUDA_MOE_ROUTE_CUH

#include "backend/cuda/reduce.cuh"

/* The expert that lane k < K has for place k, and its weight. */
typedef struct {
    int id;
    float w;
} moe_routed;

/* Grows with x, which is no NaN; zeros of both signs are one. Never 0. */
__device__ static inline uint32_t moe_order(float x)
{
    uint32_t u = __float_as_uint(x + 0.0f);
    return u >> 31 ? ~u : u | 0x80000000u;
}
/* The x of moe_order. */
__device__ static inline float moe_ordered(uint32_t order)
{
    return __uint_as_float(order >> 31 ? order & 0x7fffffffu : ~order);
}

/* One row by a warp; a lane holds every 32nd logit. ops.h:moe_route_args; ordering by logit is
 * ordering by softmax. X <= 32 VALUES, K <= 32.
 * Numbers: w = exp(l - l_max) over their sum, a butterfly sum of K terms. */
template <int VALUES>
__device__ static inline moe_routed moe_route_row(const float *logits, int X, int K)
{
    int lane = threadIdx.x & 31, id = 0;
    uint32_t order[VALUES], mine = 0; /* 0: taken, or not there */
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
        int x = i * 32 + lane;
        float v = x < X ? logits[x] : 0.0f;
        if (!(v == v)) v = -INFINITY; /* NaN is the least, so that ids stay ids */
        order[i] = x < X ? moe_order(v) : 0;
    }
    for (int k = 0; k < K; k++) {
        uint32_t best = order[0];
        int at = 0;
#pragma unroll
        for (int i = 1; i < VALUES; i++) {
            if (order[i] > best) best = order[i], at = i;
        }
        /* The largest, then the lowest id that has it. */
        uint32_t top = __reduce_max_sync(WARP_ALL, best);
        int taken = __reduce_min_sync(WARP_ALL, best == top ? at * 32 + lane : INT32_MAX);
#pragma unroll
        for (int i = 0; i < VALUES; i++) {
            if (taken == i * 32 + lane) order[i] = 0;
        }
        if (lane == k) mine = top, id = taken;
    }
    float v = moe_ordered(mine), top = __shfl_sync(WARP_ALL, v, 0);
    float e = lane < K ? expf(v - top) : 0.0f;
    return {id, e / warp_sum(e)};
}

/* moe_route.cu: the op itself, as a launch of its own. */
status moe_route_run(cuda_backend *cb, const moe_route_args *a);

#endif
