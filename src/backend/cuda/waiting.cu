/* Work that waits, done without the op it waited for. */
#include "backend/cuda/waiting.cuh"

#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/moe_route.cuh"

enum { ADD_THREADS = 128 };

/* waiting_add_kernel: h += the sums that wait, four values a thread.
 *
 * Grid     (N / 4 / ADD_THREADS, T); block ADD_THREADS
 * Moves    the sums once, h twice */
__global__ void __launch_bounds__(ADD_THREADS) waiting_add_kernel(waiting_sums s)
{
    launch_join();
    int64_t t = blockIdx.y, i = (int64_t(blockIdx.x) * ADD_THREADS + threadIdx.x) * 4;
    if (i >= s.N) return;
    *reinterpret_cast<float4 *>(s.h + t * s.N + i) = waiting_add(s, t, i);
}

static status settle_sums(cuda_backend *cb)
{
    waiting_sums s = cb->waiting.sums;
    cb->waiting.sums.h = nullptr;
    dim3 grid(static_cast<unsigned>(div_up<int64_t>(s.N, 4 * ADD_THREADS)), s.T);
    launch_early(cb->sm == 90, waiting_add_kernel, grid, ADD_THREADS, 0, cb->stream, s);
    return CUDA_LAUNCHED(cb);
}

status cuda_settle(cuda_backend *cb)
{
    cuda_waiting *w = &cb->waiting;
    if (w->has_norm) {
        w->has_norm = false;
        TRY(norm_run(cb, &w->norm));
    } else if (w->sums.h) {
        TRY(settle_sums(cb));
    }
    if (w->has_prep) {
        w->has_prep = false;
        TRY(gdn_prep_run(cb, &w->prep));
    }
    bool has_route = w->has_route; /* behind the router, which settles too */
    w->has_route = false;
    if (w->has_router) {
        w->has_router = false;
        w->router.part[0].w = &w->router_w;
        TRY(cuda_linear(&cb->base, &w->router));
    }
    return has_route ? moe_route_run(cb, &w->route) : ERR_OK;
}
