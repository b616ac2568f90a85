/* reduce: sums and maxima over a warp or a block in one fixed order.
 *
 * The order depends on the number of threads alone, so a result's bits repeat; every thread gets
 * the same value. */
#ifndef RIPTIDE_BACKEND_CUDA_REDUCE_CUH
#define RIPTIDE_BACKEND_CUDA_REDUCE_CUH

#include "backend/cuda/cuda_priv.h"

constexpr unsigned WARP_ALL = 0xffffffffu;

/* Butterfly: each step adds the two halves of a pair, so all lanes hold equal bits. */
template <int WIDTH = 32> __device__ static inline float warp_sum(float v)
{
#pragma unroll
    for (int d = WIDTH / 2; d > 0; d >>= 1) v += __shfl_xor_sync(WARP_ALL, v, d);
    return v;
}

template <int WIDTH = 32> __device__ static inline float warp_max(float v)
{
#pragma unroll
    for (int d = WIDTH / 2; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(WARP_ALL, v, d));
    return v;
}

/* Sum over a block of WARPS warps. `shared` holds WARPS floats and may be used again after the
 * call; all threads take part. */
template <int WARPS> __device__ static inline float block_sum(float v, float *shared)
{
    static_assert(WARPS >= 1 && WARPS <= 32, "a block has at most 32 warps");
    v = warp_sum(v);
    if (WARPS == 1) return v;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    float s = shared[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++) s += shared[i];
    __syncthreads(); /* all have read before `shared` is written again */
    return s;
}

template <int WARPS> __device__ static inline float block_max(float v, float *shared)
{
    v = warp_max(v);
    if (WARPS == 1) return v;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    float s = shared[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++) s = fmaxf(s, shared[i]);
    __syncthreads(); /* all have read before `shared` is written again */
    return s;
}

/* The squares of four values of a row, added. All kernels that norm rows by fours take this: what
 * is fused is said here, so that they have the same bits (NVFLAGS lets the compiler fuse nothing).
 */
__device__ static inline float row_squares(float4 v)
{
    float a = __fmaf_rn(v.x, v.x, __fmul_rn(v.y, v.y));
    float b = __fmaf_rn(v.z, v.z, __fmul_rn(v.w, v.w));
    return __fadd_rn(a, b);
}

/* A value and its id; `better` orders by value, then by the lower id. Ids are distinct. */
typedef struct {
    float v;
    int id;
} ranked;

__device__ static inline bool ranked_better(ranked a, ranked b)
{
    return a.v > b.v || (a.v == b.v && a.id < b.id);
}

__device__ static inline ranked warp_best(ranked r)
{
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
        ranked o = {__shfl_xor_sync(WARP_ALL, r.v, d), __shfl_xor_sync(WARP_ALL, r.id, d)};
        if (ranked_better(o, r)) r = o;
    }
    return r;
}

/* Sum of v over the threads of the block before this one. `shared` holds a word a warp and may be
 * used again after the call; all threads take part. */
__device__ static inline unsigned long long block_sum_before(unsigned long long v,
                                                             unsigned long long *shared)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned long long upto = v;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        unsigned long long x = __shfl_up_sync(WARP_ALL, upto, d);
        if (lane >= d) upto += x;
    }
    if (lane == 31) shared[warp] = upto;
    __syncthreads();
    unsigned long long before = upto - v;
    for (int i = 0; i < warp; i++) before += shared[i];
    __syncthreads(); /* all have read before `shared` is written again */
    return before;
}

#endif
