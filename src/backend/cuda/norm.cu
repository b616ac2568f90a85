/* norm: RMS norm of the residual stream's rows. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/cuda_pick_priv.h"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vec_load.cuh"

/* rmsnorm_kernel: one row a block.
 *
 * Does     ops.h:rmsnorm_args
 * Grid     (T); block THREADS, chosen from E alone, which fixes the order of the sum
 * Needs    rows on 16 bytes for VEC 4
 * Moves    reads x once (the second pass meets the cache) and w, writes y */
template <int THREADS, int VEC>
__global__ void __launch_bounds__(THREADS)
    rmsnorm_kernel(const float *x, const float *w, bf16 *y, float eps, int E)
{
    __shared__ float shared[THREADS / 32];
    launch_next(); /* the linear behind may fetch its first weights */
    launch_wait();
    const float *row = x + int64_t(blockIdx.x) * E;
    bf16 *out = y + int64_t(blockIdx.x) * E;
    float sum = 0.0f;
    for (int i = threadIdx.x * VEC; i < E; i += THREADS * VEC) {
        if constexpr (VEC == 4) {
            float4 v = *reinterpret_cast<const float4 *>(row + i);
            sum += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
        } else {
            sum += row[i] * row[i];
        }
    }
    sum = block_sum<THREADS / 32>(sum, shared);
    float scale = __frsqrt_rn(sum / static_cast<float>(E) + eps);
    for (int i = threadIdx.x * VEC; i < E; i += THREADS * VEC) {
        if constexpr (VEC == 4) {
            float4 v = *reinterpret_cast<const float4 *>(row + i);
            float4 u = *reinterpret_cast<const float4 *>(w + i);
            uint2 r = {pack_bf16(v.x * scale * u.x, v.y * scale * u.y),
                       pack_bf16(v.z * scale * u.z, v.w * scale * u.w)};
            *reinterpret_cast<uint2 *>(out + i) = r;
        } else {
            out[i] = __float2bfloat16_rn(row[i] * scale * w[i]);
        }
    }
}

template <int THREADS> static cudaError_t norm_launch(cuda_backend *cb, const rmsnorm_args *a)
{
    const float *x = buf_of<float>(a->x), *w = buf_of<float>(a->w);
    bf16 *y = buf_of<bf16>(a->y);
    bool is_whole = a->E % 4 == 0 && reinterpret_cast<uintptr_t>(w) % 16 == 0 &&
                    reinterpret_cast<uintptr_t>(x) % 16 == 0 &&
                    reinterpret_cast<uintptr_t>(y) % 8 == 0;
    auto kernel = is_whole ? rmsnorm_kernel<THREADS, 4> : rmsnorm_kernel<THREADS, 1>;
    return launch_early(cb->sm == 90, kernel, dim3(a->T), THREADS, 0, cb->stream, x, w, y, a->eps,
                        a->E);
}

status cuda_rmsnorm(backend *b, const rmsnorm_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->T == 0) return cb->broken;
    int threads = cuda_pick_norm_threads(a->E);
    cudaError_t r = threads == 128   ? norm_launch<128>(cb, a)
                    : threads == 256 ? norm_launch<256>(cb, a)
                                     : norm_launch<512>(cb, a);
    return cuda_status(cb, r, "rmsnorm", __FILE__, __LINE__);
}
