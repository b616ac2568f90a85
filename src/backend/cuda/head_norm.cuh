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

/* y <- rope(y * rsqrt(mean(y^2) + eps) * w); pair j of the first 2 n_pairs dims is
 * (j, j + n_pairs), cs [n_pairs, 2] its (cos, sin). y is the warp's own shared memory. */
__device__ static inline void head_norm_rotate(float *y, const float *w, const float *cs, float eps,
                                               int D, int n_pairs)
{
    int lane = threadIdx.x & 31;
    float sum = 0.0f;
    for (int d = lane; d < D; d += 32) sum = __fmaf_rn(y[d], y[d], sum);
    float scale = __frsqrt_rn(warp_sum(sum) / static_cast<float>(D) + eps);
    for (int d = lane; d < D; d += 32) y[d] = y[d] * scale * w[d];
    __syncwarp();
    for (int j = lane; j < n_pairs; j += 32) {
        float c = cs[2 * j], s = cs[2 * j + 1], lo = y[j], hi = y[j + n_pairs];
        y[j] = lo * c - hi * s;
        y[j + n_pairs] = hi * c + lo * s;
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
