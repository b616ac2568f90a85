/* topk: the k largest logits of a row, exact: chunks first, then the chunks' winners. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/cuda_pick_priv.h"
#include "backend/cuda/reduce.cuh"

enum {
    TOPK_THREADS = 256,
    TOPK_VALUES = PICK_TOPK_CHUNK / TOPK_THREADS, /* of a chunk, in a thread's registers */
};

/* The best of the block's `r`; all threads get it. */
__device__ static inline ranked topk_block_best(ranked r, ranked *shared)
{
    r = warp_best(r);
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = r;
    __syncthreads();
    ranked best = shared[0];
#pragma unroll
    for (int i = 1; i < TOPK_THREADS / 32; i++) {
        if (ranked_better(shared[i], best)) best = shared[i];
    }
    __syncthreads(); /* all have read before the next round writes */
    return best;
}

__device__ static inline float topk_value(float x, float scale, float softcap)
{
    float y = x * scale;
    if (softcap > 0.0f) y = softcap * tanhf(y / softcap);
    return y == y ? y : -INFINITY; /* NaN is the least */
}

/* The k best of the block's candidates, found one after another. Candidates are distinct ids; a
 * place without one has id INT32_MAX. */
__device__ static inline void topk_rounds(ranked (&v)[TOPK_VALUES], int k, ranked *out,
                                          ranked *shared)
{
    for (int round = 0; round < k; round++) {
        ranked mine = v[0];
#pragma unroll
        for (int i = 1; i < TOPK_VALUES; i++) {
            if (ranked_better(v[i], mine)) mine = v[i];
        }
        ranked best = topk_block_best(mine, shared);
        if (threadIdx.x == 0) out[round] = best;
        if (best.id != mine.id) continue;
#pragma unroll
        for (int i = 0; i < TOPK_VALUES; i++) {
            if (v[i].id == best.id) v[i] = {-INFINITY, INT32_MAX};
        }
    }
}

/* topk_chunk_kernel: the k best of a chunk of 4096 logits.
 *
 * Does     the first pass of ops.h:topk_args
 * Grid     (chunks, M); block 256, 16 logits a thread in registers
 * Moves    reads each logit once */
__global__ void __launch_bounds__(TOPK_THREADS)
    topk_chunk_kernel(const float *logits, int V, int k, float scale, float softcap, ranked *found)
{
    __shared__ ranked shared[TOPK_THREADS / 32];
    const float *row = logits + int64_t(blockIdx.y) * V;
    int first = blockIdx.x * PICK_TOPK_CHUNK;
    ranked v[TOPK_VALUES];
#pragma unroll
    for (int i = 0; i < TOPK_VALUES; i++) {
        int id = first + i * TOPK_THREADS + threadIdx.x;
        v[i] = {-INFINITY, INT32_MAX};
        if (id < V) v[i] = {topk_value(row[id], scale, softcap), id};
    }
    topk_rounds(v, k, found + (int64_t(blockIdx.y) * gridDim.x + blockIdx.x) * k, shared);
}

/* topk_merge_kernel: the k best of a row's n candidates.
 *
 * Does     the second pass of ops.h:topk_args
 * Grid     (M); block 256, each pass over 4096 candidates beside the best so far
 * Needs    k <= OPS_TOPK_MAX */
__global__ void __launch_bounds__(TOPK_THREADS)
    topk_merge_kernel(const ranked *found, int n, int k, int32_t *ids, float *vals)
{
    __shared__ ranked shared[TOPK_THREADS / 32], best[OPS_TOPK_MAX];
    const ranked *row = found + int64_t(blockIdx.x) * n;
    /* Places 0..k-1 of every pass are the winners so far, the rest fresh candidates. */
    int fresh = 0;
    bool is_first = true;
    do {
        ranked v[TOPK_VALUES];
        int kept = is_first ? 0 : k;
#pragma unroll
        for (int i = 0; i < TOPK_VALUES; i++) {
            int place = i * TOPK_THREADS + threadIdx.x;
            v[i] = {-INFINITY, INT32_MAX};
            if (place < kept) {
                v[i] = best[place];
            } else if (fresh + place - kept < n) {
                v[i] = row[fresh + place - kept];
            }
        }
        __syncthreads(); /* the winners have been read before they are written anew */
        topk_rounds(v, k, best, shared);
        __syncthreads();
        fresh += PICK_TOPK_CHUNK - kept;
        is_first = false;
    } while (fresh < n);
    if (threadIdx.x < k) {
        ranked r = best[threadIdx.x];
        ids[int64_t(blockIdx.x) * k + threadIdx.x] = r.id == INT32_MAX ? -1 : r.id;
        vals[int64_t(blockIdx.x) * k + threadIdx.x] = r.v;
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
    topk_chunk_kernel<<<dim3(chunks, a->M), TOPK_THREADS, 0, cb->stream>>>(
        buf_of<float>(a->logits), a->V, a->k, a->scale, a->softcap, found);
    TRY(CUDA_LAUNCHED(cb));
    topk_merge_kernel<<<a->M, TOPK_THREADS, 0, cb->stream>>>(
        found, chunks * a->k, a->k, buf_of<int32_t>(a->ids), buf_of<float>(a->vals));
    return CUDA_LAUNCHED(cb);
}
