/* moe_route: the op. Few rows wait for the experts behind, which route them (moe_few.cu). */
#include "backend/cuda/moe_route.cuh"

#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/moe_router.cuh"
#include "backend/cuda/waiting.cuh"

enum { ROUTE_THREADS = 128 };

/* moe_route_kernel: a warp a row.
 *
 * Does     moe_route_row
 * Grid     (T / 4); block 128 */
template <int VALUES>
__global__ void __launch_bounds__(ROUTE_THREADS)
    moe_route_kernel(const float *logits, int32_t *ids, float *w, int T, int X, int K)
{
    launch_join();
    int t = blockIdx.x * (ROUTE_THREADS / 32) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (t >= T) return;
    moe_routed r = moe_route_row<VALUES>(logits + int64_t(t) * X, X, K);
    if (lane < K) {
        ids[int64_t(t) * K + lane] = r.id;
        w[int64_t(t) * K + lane] = r.w;
    }
}

status moe_route_run(cuda_backend *cb, const moe_route_args *a)
{
    const float *logits = buf_of<float>(a->logits);
    int32_t *ids = buf_of<int32_t>(a->ids);
    float *w = buf_of<float>(a->w);
    int grid = div_up<int>(a->T, ROUTE_THREADS / 32);
    auto kernel = a->X <= 256 ? moe_route_kernel<8> : moe_route_kernel<32>;
    launch_early(cb->sm == 90, kernel, grid, ROUTE_THREADS, 0, cb->stream, logits, ids, w, a->T,
                 a->X, a->K);
    return CUDA_LAUNCHED(cb);
}

extern "C" status cuda_moe_route(backend *b, const moe_route_args *a)
{
    cuda_backend *cb = cuda_of(b);
    ASSERT(a->X <= 1024 && a->K <= 32 && a->K <= a->X);
    if (!moe_router_wants_route(cb, a)) TRY(cuda_settle(cb));
    if (a->T == 0) return cb->broken;
    if (!moe_few_serves(cb, a)) return moe_route_run(cb, a);
    cb->waiting.route = *a;
    cb->waiting.has_route = true;
    return cb->broken;
}
