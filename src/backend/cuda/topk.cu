/* topk: the k largest logits of a row, exact: chunks first, then the chunks' winners. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/cuda_pick_priv.h"
#include "backend/cuda/launch_early.cuh"
#include "backend/cuda/reduce.cuh"

enum {
    TOPK_THREADS = 256,
    TOPK_WARPS = TOPK_THREADS / 32,
    TOPK_VALUES = PICK_TOPK_CHUNK / TOPK_THREADS, /* of a chunk, in a thread's registers */
    TOPK_FEW = TOPK_THREADS, /* candidates above the bound that are ranked at once */
    TOPK_MERGE_SMALL = 4,
    TOPK_MERGE_LARGE = 16, /* candidates a thread in the second pass */
};

/* x as values to be ranked. The branch stands around them all: within, each would wait for its own
 * load from memory. */
template <int N>
__device__ static inline void topk_values(float (&x)[N], float scale, float softcap)
{
#pragma unroll
    for (int i = 0; i < N; i++) x[i] *= scale;
    if (softcap > 0.0f) {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = softcap * tanhf(x[i] / softcap);
    }
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = x[i] == x[i] ? x[i] : -INFINITY; /* NaN is the least */
}

constexpr ranked TOPK_NONE = {-INFINITY, INT32_MAX};

/* The k best of a warp's candidates: lane r gets the r-th. Candidates are distinct ids; a place
 * without one is TOPK_NONE. */
template <int N> __device__ static inline ranked topk_warp(ranked (&v)[N], int k)
{
    ranked kept = TOPK_NONE;
    int lane = threadIdx.x & 31;
    for (int r = 0; r < k; r++) {
        ranked mine = v[0];
#pragma unroll
        for (int i = 1; i < N; i++) {
            if (ranked_better(v[i], mine)) mine = v[i];
        }
        ranked best = warp_best(mine);
        if (lane == r) kept = best;
        if (best.id != mine.id) continue;
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (v[i].id == best.id) v[i] = TOPK_NONE;
        }
    }
    return kept;
}

/* The k best of all warps' `kept`, in warp 0. */
__device__ static inline ranked topk_of_warps(ranked kept, int k, ranked *shared)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane < k) shared[warp * k + lane] = kept;
    __syncthreads();
    if (warp > 0) return TOPK_NONE;
    ranked v[OPS_TOPK_MAX * TOPK_WARPS / 32];
#pragma unroll
    for (int i = 0; i < OPS_TOPK_MAX * TOPK_WARPS / 32; i++) {
        v[i] = i * 32 + lane < TOPK_WARPS * k ? shared[i * 32 + lane] : TOPK_NONE;
    }
    return topk_warp(v, k);
}

/* The OPS_TOPK_MAX-th largest of a warp's 32 values: a bitonic sort, descending. */
__device__ static inline float topk_warp_bound(float v)
{
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int size = 2; size <= 32; size <<= 1) {
#pragma unroll
        for (int d = size >> 1; d > 0; d >>= 1) {
            float o = __shfl_xor_sync(WARP_ALL, v, d);
            bool wants_larger = ((lane & d) == 0) == ((lane & size) == 0 || size == 32);
            v = wants_larger ? fmaxf(v, o) : fminf(v, o);
        }
    }
    return __shfl_sync(WARP_ALL, v, OPS_TOPK_MAX - 1);
}

/* The k best of a block's candidates, N a thread; thread r gets the r-th.
 *
 * A warp in which 16 lanes hold something not below t bounds the 16th best from below by t; with
 * the highest such bound of all warps few candidates are left, and each counts those before it.
 * Where too many are (ties, -inf) all warps rank their own. */
template <int N> __device__ static inline ranked topk_block(ranked (&v)[N], int k)
{
    __shared__ ranked few[TOPK_FEW], best[OPS_TOPK_MAX];
    __shared__ float bounds[TOPK_WARPS];
    __shared__ int n_few;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float most = v[0].v;
#pragma unroll
    for (int i = 1; i < N; i++) most = fmaxf(most, v[i].v);
    float bound = topk_warp_bound(most);
    if (lane == 0) bounds[warp] = bound;
    if (threadIdx.x == 0) n_few = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TOPK_WARPS; i++) bound = fmaxf(bound, bounds[i]);
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (!(v[i].v >= bound) || v[i].id == INT32_MAX) continue;
        int at = atomicAdd(&n_few, 1); /* any order: the ranking is of (value, id) */
        if (at < TOPK_FEW) few[at] = v[i];
    }
    __syncthreads();
    if (n_few > TOPK_FEW) return topk_of_warps(topk_warp(v, k), k, few);
    /* Each one's place is the number of those that are better. */
    if (threadIdx.x < n_few) {
        ranked mine = few[threadIdx.x];
        int place = 0;
#pragma unroll 8
        for (int i = 0; i < n_few; i++) place += ranked_better(few[i], mine);
        if (place < k) best[place] = mine;
    }
    __syncthreads();
    if (threadIdx.x >= k || threadIdx.x >= n_few) return TOPK_NONE;
    return best[threadIdx.x];
}

/* topk_chunk_kernel: the k best of a chunk of 4096 logits.
 *
 * Does     the first pass of ops.h:topk_args
 * Grid     (chunks, M); block 256, 16 logits a thread in registers
 * Moves    reads each logit once */
__global__ void __launch_bounds__(TOPK_THREADS)
    topk_chunk_kernel(const float *logits, int V, int k, float scale, float softcap, ranked *found)
{
    launch_join();
    const float *row = logits + int64_t(blockIdx.y) * V;
    int first = blockIdx.x * PICK_TOPK_CHUNK;
    float x[TOPK_VALUES];
#pragma unroll
    for (int i = 0; i < TOPK_VALUES; i++) {
        int id = first + i * TOPK_THREADS + threadIdx.x;
        x[i] = id < V ? row[id] : 0.0f;
    }
    topk_values(x, scale, softcap);
    ranked v[TOPK_VALUES];
#pragma unroll
    for (int i = 0; i < TOPK_VALUES; i++) {
        int id = first + i * TOPK_THREADS + threadIdx.x;
        v[i] = id < V ? ranked{x[i], id} : TOPK_NONE;
    }
    ranked best = topk_block(v, k);
    if (threadIdx.x < k) {
        found[(int64_t(blockIdx.y) * gridDim.x + blockIdx.x) * k + threadIdx.x] = best;
    }
}

/* topk_merge_kernel: the k best of a row's n candidates.
 *
 * Does     the second pass of ops.h:topk_args
 * Grid     (M); block 256, N candidates a thread
 * Needs    n <= 256 N */
template <int N>
__global__ void __launch_bounds__(TOPK_THREADS)
    topk_merge_kernel(const ranked *found, int n, int k, int32_t *ids, float *vals)
{
    launch_join();
    const ranked *row = found + int64_t(blockIdx.x) * n;
    ranked v[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        int at = i * TOPK_THREADS + threadIdx.x;
        v[i] = at < n ? row[at] : TOPK_NONE;
    }
    ranked best = topk_block(v, k);
    if (threadIdx.x < k) {
        ids[int64_t(blockIdx.x) * k + threadIdx.x] = best.id == INT32_MAX ? -1 : best.id;
        vals[int64_t(blockIdx.x) * k + threadIdx.x] = best.v;
    }
}

static int64_t topk_bytes(int64_t M, int64_t V, int k)
{
    return M * cuda_pick_topk_chunks(V) * k * static_cast<int64_t>(sizeof(ranked));
}

int64_t cuda_topk_scratch(const backend_limits *l)
{
    int64_t M = l->M > l->T ? l->M : l->T;
    return topk_bytes(M, l->V, OPS_TOPK_MAX);
}

status cuda_topk(backend *b, const topk_args *a)
{
    cuda_backend *cb = cuda_of(b);
    if (a->M == 0) return cb->broken;
    ASSERT(a->k >= 1 && a->k <= OPS_TOPK_MAX && a->M <= 65535);
    TRY(cuda_need(cb, "topk", topk_bytes(a->M, a->V, a->k)));
    int chunks = cuda_pick_topk_chunks(a->V);
    ranked *found = scratch_at<ranked>(cb, 0);
    bool is_early = cb->sm == 90;
    CUDA_TRY(cb, launch_early(is_early, topk_chunk_kernel, dim3(chunks, a->M), TOPK_THREADS, 0,
                              cb->stream, buf_of<float>(a->logits), a->V, a->k, a->scale,
                              a->softcap, found));
    int n = chunks * a->k;
    ASSERT(n <= TOPK_MERGE_LARGE * TOPK_THREADS);
    auto merge = n <= TOPK_MERGE_SMALL * TOPK_THREADS ? topk_merge_kernel<TOPK_MERGE_SMALL>
                                                      : topk_merge_kernel<TOPK_MERGE_LARGE>;
    CUDA_TRY(cb, launch_early(is_early, merge, dim3(a->M), TOPK_THREADS, 0, cb->stream, found, n,
                              a->k, buf_of<int32_t>(a->ids), buf_of<float>(a->vals)));
    return cb->broken;
}
