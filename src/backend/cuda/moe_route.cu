/* moe_route: which experts a row goes to, and with what weight. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/reduce.cuh"

enum { ROUTE_THREADS = 128 };

/* moe_route_kernel: a warp a row; a lane holds every 32nd logit.
 *
 * Does     ops.h:moe_route_args; ordering by logit is ordering by softmax
 * Grid     (T / 4); block 128
 * Needs    X <= 32 VALUES, K <= 32
 * Numbers  w = exp(l - l_max) over their sum, a butterfly sum of K terms */
template <int VALUES>
__global__ void __launch_bounds__(ROUTE_THREADS)
    moe_route_kernel(const float *logits, int32_t *ids, float *w, int T, int X, int K)
{
    launch_join();
    int t = blockIdx.x * (ROUTE_THREADS / 32) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (t >= T) return;
    float v[VALUES];
#pragma unroll
    for (int i = 0; i < VALUES; i++) {
        int x = i * 32 + lane;
        v[i] = x < X ? logits[int64_t(t) * X + x] : -INFINITY;
        if (!(v[i] == v[i])) v[i] = -INFINITY; /* NaN is the least, so that ids stay ids */
    }
    uint32_t taken = 0;
    ranked mine = {-INFINITY, INT32_MAX}; /* lane k keeps the k-th */
    for (int k = 0; k < K; k++) {
        ranked best = {-INFINITY, INT32_MAX};
#pragma unroll
        for (int i = 0; i < VALUES; i++) {
            ranked r = {v[i], i * 32 + lane};
            if (r.id < X && !(taken >> i & 1) && ranked_better(r, best)) best = r;
        }
        best = warp_best(best);
        if ((best.id & 31) == lane) taken |= 1u << (best.id >> 5);
        if (lane == k) mine = best;
    }
    float top = __shfl_sync(WARP_ALL, mine.v, 0);
    float e = lane < K ? expf(mine.v - top) : 0.0f;
    float sum = warp_sum(e);
    if (lane < K) {
        ids[int64_t(t) * K + lane] = mine.id;
        w[int64_t(t) * K + lane] = e / sum;
    }
}

status cuda_moe_route(backend *b, const moe_route_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->T == 0) return cb->broken;
    ASSERT(a->X <= 1024 && a->K <= 32 && a->K <= a->X);
    const float *logits = buf_of<float>(a->logits);
    int32_t *ids = buf_of<int32_t>(a->ids);
    float *w = buf_of<float>(a->w);
    int grid = div_up<int>(a->T, ROUTE_THREADS / 32);
    if (a->X <= 256) {
        launch_early(cb->sm == 90, moe_route_kernel<8>, grid, ROUTE_THREADS, 0, cb->stream, logits,
                     ids, w, a->T, a->X, a->K);
    } else {
        launch_early(cb->sm == 90, moe_route_kernel<32>, grid, ROUTE_THREADS, 0, cb->stream, logits,
                     ids, w, a->T, a->X, a->K);
    }
    return CUDA_LAUNCHED(cb);
}
