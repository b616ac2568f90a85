/* head_norm: one head's vector, normed and rotated by one warp.
 *
 * Shared by attn_prep, draft_attn_prep and draft_kv_write. The order of the sum depends on D
 * alone. */
#ifndef RIPTIDE_BACKEND_CUDA_HEAD_NORM_CUH
#define RIPTIDE_BACKEND_CUDA_HEAD_NORM_CUH

#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vec_load.cuh"

enum {
    HEAD_MAX = 256, /* largest head size */
    HEAD_WARPS = 4, /* warps of a block, a vector each */
};

/* y[d] = x[d], bf16 to f32. D is even, x on 4 bytes. */
__device__ static inline void head_load(const bf16 *x, int D, float *y)
{
    for (int d = 2 * (threadIdx.x & 31); d < D; d += 64) {
        uint32_t v = *reinterpret_cast<const uint32_t *>(x + d);
        y[d] = bf16_low(v);
        y[d + 1] = bf16_high(v);
    }
    __syncwarp();
}

/* What a lane needs beside the vector: weights d = lane, lane + 32, .. and (cos, sin) of pairs
 * lane, lane + 32, .. They are asked for beside the vector, or before it, so that nobody waits
 * twice. */
typedef struct {
    float w[HEAD_MAX / 32];
    float2 cs[HEAD_MAX / 64];
} head_lane;

__device__ static inline void head_weights(head_lane &h, const float *w, int D)
{
#pragma unroll
    for (int i = 0; i < HEAD_MAX / 32; i++) {
        int d = (threadIdx.x & 31) + 32 * i;
        if (d < D) h.w[i] = w[d];
    }
}
/* cs [n_pairs, 2], on 8 bytes */
__device__ static inline void head_angles(head_lane &h, const float *cs, int n_pairs)
{
#pragma unroll
    for (int i = 0; i < HEAD_MAX / 64; i++) {
        int j = (threadIdx.x & 31) + 32 * i;
        if (j < n_pairs) h.cs[i] = *reinterpret_cast<const float2 *>(cs + 2 * j);
    }
}

/* y <- rope(y * rsqrt(mean(y^2) + eps) * w); pair j of the first 2 n_pairs dims is
 * (j, j + n_pairs). y is the warp's own shared memory. */
__device__ static inline void head_norm_rotate(float *y, const head_lane &h, float eps, int D,
                                               int n_pairs)
{
    int lane = threadIdx.x & 31;
    float sum = 0.0f;
    for (int d = lane; d < D; d += 32) sum = __fmaf_rn(y[d], y[d], sum);
    float scale = __frsqrt_rn(warp_sum(sum) / static_cast<float>(D) + eps);
#pragma unroll
    for (int i = 0; i < HEAD_MAX / 32; i++) {
        int d = lane + 32 * i;
        if (d < D) y[d] = y[d] * scale * h.w[i];
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < HEAD_MAX / 64; i++) {
        int j = lane + 32 * i;
        if (j >= n_pairs) break;
        float c = h.cs[i].x, s = h.cs[i].y, lo = y[j], hi = y[j + n_pairs];
        /* One product fused, in all kernels that call this. */
        y[j] = __fmaf_rn(lo, c, -__fmul_rn(hi, s));
        y[j + n_pairs] = __fmaf_rn(lo, s, __fmul_rn(hi, c));
    }
    __syncwarp();
}

/* out[d] = y[d] rounded to bf16; out on 4 bytes. */
__device__ static inline void head_store(const float *y, int D, bf16 *out)
{
    for (int d = 2 * (threadIdx.x & 31); d < D; d += 64)
        *reinterpret_cast<uint32_t *>(out + d) = pack_bf16(y[d], y[d + 1]);
}

#endif
