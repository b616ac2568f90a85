/* norm: RMS norm of the residual stream's rows. */
#include "backend/cuda/cluster.cuh"
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/cuda_pick_priv.h"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/moe_router.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vec_load.cuh"
#include "backend/cuda/waiting.cuh"

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
            sum += row_squares(v);
        } else {
            sum = __fmaf_rn(row[i], row[i], sum);
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

enum { NORM_EACH = 4 }; /* fours that a thread of rmsnorm_kernel has of a row that waits */

/* The blocks of a row, which share the threads of rmsnorm_kernel's. */
template <int THREADS> struct norm_shape {
    static constexpr int WARPS = THREADS / 32, BLOCKS = WARPS < 8 ? WARPS : 8;
    static constexpr int OWN = THREADS / BLOCKS; /* of those threads */
};

/* rmsnorm_waiting_kernel: the sums that wait for a row, and its norm (waiting.cuh).
 *
 * Does     h += the sums of all slices, then ops.h:rmsnorm_args of h
 * Grid     (BLOCKS, T) in clusters of BLOCKS, which stand for one block of THREADS of
 *          rmsnorm_kernel; OWN threads for each four that a thread of its has
 * Needs    whole rows of 16 bytes, E <= THREADS * 4 * NORM_EACH
 * Moves    the sums once, h twice, w once, writes y
 * Numbers  rmsnorm_kernel's, bit for bit
 * Why      All of it is waiting: for one trip to the sums, one to the other blocks, and the end. */
template <int THREADS>
__global__ void __launch_bounds__(norm_shape<THREADS>::OWN *NORM_EACH)
    rmsnorm_waiting_kernel(waiting_sums s, const float *w, bf16 *y, float eps, int E)
{
    constexpr int WARPS = norm_shape<THREADS>::WARPS, OWN = norm_shape<THREADS>::OWN;
    __shared__ __align__(16) float sums[WARPS];
    __shared__ float squares[NORM_EACH - 1][OWN];
    __shared__ uint64_t barrier;
    launch_next();
    if (threadIdx.x == 0) cluster_expect(&barrier, WARPS * 4);
    cluster_arrive();
    int turn = threadIdx.x / OWN, own = threadIdx.x % OWN, lane = threadIdx.x & 31;
    int thread = blockIdx.x * OWN + own, i = thread * 4 + turn * THREADS * 4;
    int64_t t = blockIdx.y;
    bool on = i < E;
    float4 u = {}, v = {};
    if (on) u = *reinterpret_cast<const float4 *>(w + i); /* a weight: it is there already */
    cluster_wait(); /* all blocks have begun, and their barriers stand */
    launch_wait();
    float square = 0.0f;
    if (on) {
        v = waiting_add(s, t, i);
        square = row_squares(v);
        *reinterpret_cast<float4 *>(s.h + t * E + i) = v;
    }
    if (turn > 0) squares[turn - 1][own] = square;
    __syncthreads(); /* squares of all turns */
    if (turn == 0) {
        float sum = 0.0f;
        sum += square;
        for (int j = 0; (j + 1) * THREADS * 4 < E; j++) sum += squares[j][own];
        sum = warp_sum(sum);
        if (lane < norm_shape<THREADS>::BLOCKS)
            cluster_post(&sums[thread >> 5], &barrier, lane, sum);
    }
    cluster_received(&barrier); /* the sums of all warps */
    float all = sums[0];
#pragma unroll
    for (int j = 1; j < WARPS; j++) all += sums[j];
    float scale = __frsqrt_rn(all / static_cast<float>(E) + eps);
    if (!on) return;
    uint2 r = {pack_bf16(v.x * scale * u.x, v.y * scale * u.y),
               pack_bf16(v.z * scale * u.z, v.w * scale * u.w)};
    *reinterpret_cast<uint2 *>(y + t * E + i) = r;
}

/* rmsnorm_experts_kernel: the same for many rows, a block a row as there are enough of them.
 *
 * Does     h += the experts' sum, then ops.h:rmsnorm_args of h
 * Grid     (T); block THREADS of rmsnorm_kernel
 * Needs    as rmsnorm_waiting_kernel; slices 0
 * Moves    each product once, h twice, w once, writes y
 * Numbers  rmsnorm_kernel's, bit for bit */
template <int THREADS>
__global__ void __launch_bounds__(THREADS)
    rmsnorm_experts_kernel(waiting_sums s, const float *w, bf16 *y, float eps, int E)
{
    __shared__ float shared[THREADS / 32];
    launch_join();
    int64_t t = blockIdx.x;
    float4 v[NORM_EACH];
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < NORM_EACH; j++) {
        int i = threadIdx.x * 4 + j * THREADS * 4;
        if (i >= E) break;
        v[j] = waiting_add(s, t, i);
        *reinterpret_cast<float4 *>(s.h + t * E + i) = v[j];
        sum += row_squares(v[j]);
    }
    sum = block_sum<THREADS / 32>(sum, shared);
    float scale = __frsqrt_rn(sum / static_cast<float>(E) + eps);
#pragma unroll
    for (int j = 0; j < NORM_EACH; j++) {
        int i = threadIdx.x * 4 + j * THREADS * 4;
        if (i >= E) break;
        float4 u = waiting_four(w + i);
        uint2 r = {pack_bf16(v[j].x * scale * u.x, v[j].y * scale * u.y),
                   pack_bf16(v[j].z * scale * u.z, v[j].w * scale * u.w)};
        *reinterpret_cast<uint2 *>(y + t * E + i) = r;
    }
}

template <int THREADS>
static cudaError_t norm_launch_waiting(cuda_backend *cb, const rmsnorm_args *a)
{
    constexpr int BLOCKS = norm_shape<THREADS>::BLOCKS, OWN = norm_shape<THREADS>::OWN;
    waiting_sums s = cb->waiting.sums;
    cb->waiting.sums.h = nullptr;
    const float *w = buf_of<float>(a->w);
    if (s.slices == 0 && s.T > WAITING_ROWS) {
        return launch_early(true, rmsnorm_experts_kernel<THREADS>, dim3(a->T), THREADS, 0,
                            cb->stream, s, w, buf_of<bf16>(a->y), a->eps, static_cast<int>(a->E));
    }
    return launch_clusters(rmsnorm_waiting_kernel<THREADS>, dim3(BLOCKS, a->T), BLOCKS,
                           OWN * div_up<int>(a->E, 4 * THREADS), cb->stream, s, w,
                           buf_of<bf16>(a->y), a->eps, static_cast<int>(a->E));
}

/* Whether what waits is this call's x. */
static bool norm_is_awaited(const cuda_backend *cb, const rmsnorm_args *a, int threads)
{
    const waiting_sums *s = &cb->waiting.sums;
    return s->h && s->h == buf_of<float>(a->x) && s->T == a->T && s->N == a->E &&
           a->E <= threads * 4 * NORM_EACH && reinterpret_cast<uintptr_t>(a->w.ptr) % 16 == 0 &&
           reinterpret_cast<uintptr_t>(s->h) % 16 == 0 &&
           reinterpret_cast<uintptr_t>(a->y.ptr) % 8 == 0;
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

status norm_run(cuda_backend *cb, const rmsnorm_args *a)
{
    int threads = cuda_pick_norm_threads(a->E);
    if (norm_is_awaited(cb, a, threads)) {
        cudaError_t r = threads == 128   ? norm_launch_waiting<128>(cb, a)
                        : threads == 256 ? norm_launch_waiting<256>(cb, a)
                                         : norm_launch_waiting<512>(cb, a);
        return cuda_status(cb, r, "rmsnorm", __FILE__, __LINE__);
    }
    TRY(cuda_settle(cb));
    cudaError_t r = threads == 128   ? norm_launch<128>(cb, a)
                    : threads == 256 ? norm_launch<256>(cb, a)
                                     : norm_launch<512>(cb, a);
    return cuda_status(cb, r, "rmsnorm", __FILE__, __LINE__);
}

status cuda_rmsnorm(backend *b, const rmsnorm_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->T == 0) return cb->broken;
    if (cb->waiting.has_norm) TRY(cuda_settle(cb));
    if (!norm_is_awaited(cb, a, cuda_pick_norm_threads(a->E)) || !moe_router_wants_norm(cb, a))
        return norm_run(cb, a);
    cb->waiting.norm = *a;
    cb->waiting.has_norm = true;
    return cb->broken;
}
