/* moe_route: which experts a row goes to, and with what weight. */
#ifndef RIPTIDE_BACKEND_CUDA_MOE_ROUTE_CUH
#define RIPTIDE_BACKEND_CUDA_MOE_ROUTE_CUH

#include "backend/cuda/reduce.cuh"

/* The expert that lane k < K has for place k, and its weight; before there are weights its logit.
 */
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

/* The experts of one row by a warp; a lane holds every 32nd logit. ops.h:moe_route_args; ordering
 * by logit is ordering by softmax. X <= 32 VALUES, K <= 32. */
template <int VALUES>
__device__ static inline moe_routed moe_route_pick(const float *logits, int X, int K)
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
        uint32_t best[VALUES];
        int at[VALUES];
#pragma unroll
        for (int i = 0; i < VALUES; i++) {
            best[i] = order[i];
            at[i] = i;
        }
        /* Neighbours meet, so that of equals the first is kept. */
#pragma unroll
        for (int step = 1; step < VALUES; step <<= 1) {
#pragma unroll
            for (int i = 0; i < VALUES; i += 2 * step) {
                if (best[i + step] > best[i]) best[i] = best[i + step], at[i] = at[i + step];
            }
        }
        /* The largest, then the lowest id that has it. */
        uint32_t top = __reduce_max_sync(WARP_ALL, best[0]);
        int taken = __reduce_min_sync(WARP_ALL, best[0] == top ? at[0] * 32 + lane : INT32_MAX);
#pragma unroll
        for (int i = 0; i < VALUES; i++) {
            if (taken == i * 32 + lane) order[i] = 0;
        }
        if (lane == k) mine = top, id = taken;
    }
    return {id, moe_ordered(mine)};
}

/* Their weights.
 * Numbers: w = exp(l - l_max) over their sum, a butterfly sum of K terms. */
__device__ static inline float moe_route_weight(float logit, int K)
{
    int lane = threadIdx.x & 31;
    float top = __shfl_sync(WARP_ALL, logit, 0), e = lane < K ? expf(logit - top) : 0.0f;
    return e / warp_sum(e);
}

template <int VALUES>
__device__ static inline moe_routed moe_route_row(const float *logits, int X, int K)
{
    moe_routed r = moe_route_pick<VALUES>(logits, X, K);
    return {r.id, moe_route_weight(r.w, K)};
}

/* moe_route.cu: the op itself, as a launch of its own. */
status moe_route_run(cuda_backend *cb, const moe_route_args *a);

#endif
